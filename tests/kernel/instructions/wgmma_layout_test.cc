#include "kernel/instructions/wgmma_layout.h"

#include <gtest/gtest.h>

namespace tilewright {
namespace {

// The layout that an array's offsets, a function of row and k, give.
template <class F>
std::optional<WgmmaLayout> derived(int bits, WgmmaSwizzle swizzle, int rows, F place) {
  std::vector<int64_t> across, along;
  for (int x = 0; x < rows; ++x) across.push_back(place(x, 0) * bits / 8);
  for (int k = 0; k < 256 / bits; ++k) along.push_back(place(0, k) * bits / 8);
  return derive_wgmma_layout(bits, swizzle, across, along);
}

TEST(WgmmaLayout, DescriptorsComeFromLayouts) {
  using enum WgmmaSwizzle;
  // Rows of 64 elements of 16 bits, side by side.
  auto rows = [](int x, int k) { return x * 64 + k; };
  EXPECT_EQ(derived(16, Bytes128, 128, rows), (WgmmaLayout{Bytes128, true, 16, 1024}));
  EXPECT_EQ(derived(16, Bytes64, 128, rows), std::nullopt) << "a span is a row";
  EXPECT_EQ(derived(16, None, 128, rows), std::nullopt);
  // Rows of bytes.
  EXPECT_EQ(derived(8, Bytes64, 64, [](int x, int k) { return x * 64 + k; }),
            (WgmmaLayout{Bytes64, true, 16, 512}));
  // MN-major: k outside, spans of 64 rows apart.
  auto across = [](int x, int k) { return x / 64 * 4096 + k * 64 + x % 64; };
  EXPECT_EQ(derived(16, Bytes128, 256, across), (WgmmaLayout{Bytes128, false, 8192, 1024}));
  EXPECT_EQ(derived(16, Bytes128, 256, [](int x, int k) { return k * 256 + x; }), std::nullopt)
      << "rows longer than a span";
  EXPECT_EQ(derived(8, Bytes128, 128, [](int x, int k) { return k * 128 + x; }), std::nullopt)
      << "bytes run along their terms";
  // Core matrices.
  EXPECT_EQ(derived(16, None, 64,
                    [](int x, int k) { return (x / 8 * 4 + k / 8) * 64 + x % 8 * 8 + k % 8; }),
            (WgmmaLayout{None, true, 128, 512}));
  EXPECT_EQ(derived(16, None, 64,
                    [](int x, int k) { return (k / 8 * 8 + x / 8) * 64 + k % 8 * 8 + x % 8; }),
            (WgmmaLayout{None, false, 1024, 128}));
  EXPECT_EQ(derived(32, Bytes32, 8, [](int x, int k) { return x * 8 + k; }),
            (WgmmaLayout{Bytes32, true, 16, 16}))
      << "of one group of rows the stride does not matter";
}

// PTX ISA, "Matrix descriptor format" and "Swizzling modes".
TEST(WgmmaLayout, DescriptorsAndSwizzlesAreThoseOfTheIsa) {
  const uint64_t d = wgmma_descriptor(0x4420, {WgmmaSwizzle::Bytes128, true, 16, 1024});
  EXPECT_EQ(d, uint64_t{0x442} | uint64_t{1} << 16 | uint64_t{64} << 32 | uint64_t{1} << 62);
  EXPECT_EQ(wgmma_descriptor(0, {WgmmaSwizzle::Bytes32, true, 0, 0}), uint64_t{3} << 62);
  EXPECT_FALSE(fits_descriptor(8));
  EXPECT_FALSE(fits_descriptor(int64_t{1} << 18));
  EXPECT_TRUE(fits_descriptor((int64_t{1} << 18) - 16));
  // Row r of the 128-byte swizzle has its 16-byte vectors exchanged by r % 8.
  EXPECT_EQ(swizzled(WgmmaSwizzle::Bytes128, 3 * 128 + 5 * 16 + 2), 3 * 128 + (5 ^ 3) * 16 + 2);
  EXPECT_EQ(swizzled(WgmmaSwizzle::Bytes128, 8 * 128 + 16), 8 * 128 + 16);
  EXPECT_EQ(swizzled(WgmmaSwizzle::Bytes64, 128 + 16), 128);
  EXPECT_EQ(swizzled(WgmmaSwizzle::Bytes64, 512 + 16), 512 + 16);
  EXPECT_EQ(swizzled(WgmmaSwizzle::Bytes32, 128 + 16), 128);
  EXPECT_EQ(swizzled(WgmmaSwizzle::Bytes32, 256 + 16), 256 + 16);
  EXPECT_EQ(swizzled(WgmmaSwizzle::None, 777), 777);
  for (WgmmaSwizzle s : {WgmmaSwizzle::Bytes128, WgmmaSwizzle::Bytes64, WgmmaSwizzle::Bytes32}) {
    EXPECT_EQ(swizzle_of_span(span_of(s)), s);
    EXPECT_EQ(swizzled(s, period_of(s)), period_of(s)) << "the pattern begins anew";
  }
}

}  // namespace
}  // namespace tilewright
