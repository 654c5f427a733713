#include "kernel/instructions/wgmma_layout.h"

#include <gtest/gtest.h>

namespace tilewright {
namespace {

// The layout that the places of elements in an array give.
std::optional<WgmmaLayout> derived(int bits, WgmmaSwizzle swizzle, int rows, const char* place) {
  const IndexMap bytes = IndexMap::make(
      1, [&](const std::vector<Var>& x) { return std::vector<Expr>{x[0] * (bits / 8)}; });
  return derive_wgmma_layout(bits, swizzle, compose(bytes, IndexMap::parse(place)), rows,
                             256 / bits);
}

TEST(WgmmaLayout, DescriptorsComeFromLayouts) {
  using enum WgmmaSwizzle;
  // Rows of 64 elements of 16 bits, side by side.
  const char* rows = "(x, k) -> (x * 64 + k)";
  EXPECT_EQ(derived(16, Bytes128, 128, rows), (WgmmaLayout{Bytes128, true, 16, 1024}));
  EXPECT_EQ(derived(16, Bytes64, 128, rows), std::nullopt) << "a span is a row";
  EXPECT_EQ(derived(16, None, 128, rows), std::nullopt);
  // Rows of bytes.
  EXPECT_EQ(derived(8, Bytes64, 64, rows), (WgmmaLayout{Bytes64, true, 16, 512}));
  // MN-major: k outside, spans of 64 rows apart.
  const char* across = "(x, k) -> (floordiv(x, 64) * 4096 + k * 64 + floormod(x, 64))";
  EXPECT_EQ(derived(16, Bytes128, 256, across), (WgmmaLayout{Bytes128, false, 8192, 1024}));
  EXPECT_EQ(derived(16, Bytes128, 256, "(x, k) -> (k * 256 + x)"), std::nullopt)
      << "rows longer than a span";
  EXPECT_EQ(derived(8, Bytes128, 128, "(x, k) -> (k * 128 + x)"), std::nullopt)
      << "bytes run along their terms";
  // Core matrices.
  EXPECT_EQ(derived(16, None, 64,
                    "(x, k) -> ((floordiv(x, 8) * 4 + floordiv(k, 8)) * 64 + floormod(x, 8) * 8 + "
                    "floormod(k, 8))"),
            (WgmmaLayout{None, true, 128, 512}));
  EXPECT_EQ(derived(16, None, 64,
                    "(x, k) -> ((floordiv(k, 8) * 8 + floordiv(x, 8)) * 64 + floormod(k, 8) * 8 + "
                    "floormod(x, 8))"),
            (WgmmaLayout{None, false, 1024, 128}));
  EXPECT_EQ(derived(32, Bytes32, 8, "(x, k) -> (x * 8 + k)"), (WgmmaLayout{Bytes32, true, 16, 16}))
      << "of one group of rows the stride does not matter";
}

// One text says where elements lie, as numbers and as a map.
TEST(WgmmaLayout, PlacesAreThoseOfTheirMaps) {
  using enum WgmmaSwizzle;
  for (const WgmmaLayout& layout :
       {WgmmaLayout{Bytes128, true, 16, 1024}, WgmmaLayout{None, true, 128, 512},
        WgmmaLayout{Bytes64, false, 4096, 512}, WgmmaLayout{None, false, 1024, 128}}) {
    const IndexMap map = layout.place(16);
    for (int64_t x : {0, 5, 8, 63}) {
      for (int64_t k : {0, 7, 8, 15}) {
        EXPECT_EQ(map.at({x, k})[0], layout.place(16, x, k)) << map.str();
      }
    }
  }
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
