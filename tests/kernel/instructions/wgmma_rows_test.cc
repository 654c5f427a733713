// Asynchronous matrix instructions as data, checked against the PTX ISA by values worked out by
// hand.
#include "kernel/instructions/wgmma_rows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "kernel/prelude/cuda_prelude.h"
#include "tests/kernel/instructions/fragments.h"

namespace tilewright {
namespace {

TEST(WgmmaRows, HaveTheShapesOfTheirTypes) {
  auto columns_of = [](const std::string& type) {
    std::set<int> columns;
    for (const WgmmaRow& row : wgmma_rows()) {
      if (row.warp.name.ends_with("_" + type)) columns.insert(row.n());
    }
    return columns;
  };
  EXPECT_EQ(columns_of("f32_f16").size(), 32u);
  EXPECT_EQ(columns_of("f32_e4m3").size(), 32u);
  EXPECT_TRUE(columns_of("s32_s8").count(24));
  EXPECT_FALSE(columns_of("s32_s8").count(40));
  EXPECT_TRUE(columns_of("s32_s8").count(48));
  std::set<std::string_view> names;
  for (const WgmmaRow& row : wgmma_rows()) {
    EXPECT_TRUE(names.insert(row.warp.name).second) << row.warp.name;
    EXPECT_EQ(find_wgmma(row.warp.name), &row);
    EXPECT_EQ(row.term_bytes(), 32) << row.warp.name;
    EXPECT_EQ(row.warp.a_registers(), 4) << row.warp.name;
    EXPECT_TRUE(row.warp.runs_on(90) && !row.warp.runs_on(89) && !row.warp.runs_on(100));
  }
  const WgmmaRow& row = *find_wgmma("m64n128k16_f32_f16");
  EXPECT_EQ(row.warp.ptx, "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16");
  EXPECT_EQ(row.sum_registers(), 64);
  EXPECT_EQ(find_wgmma("m64n128k16_f16_f16")->sum_registers(), 32);
  EXPECT_TRUE(row.may_be_transposed());
  EXPECT_FALSE(find_wgmma("m64n64k8_f32_tf32")->may_be_transposed());
  EXPECT_EQ(find_wgmma("m64n40k32_s32_u8"), nullptr);
}

// Figures "WGMMA .m64nNk16 register fragment layout" for matrices A and D.
TEST(WgmmaRows, PlaceElementsAmongTheLanesOfAWarpgroup) {
  const Fragment& d = find_wgmma("m64n256k16_f32_f16")->d();
  test::expect_fragment(d, 64, 256, kWarpgroup, 128);
  EXPECT_EQ(d.at(0, 0), (MatrixPlace{0, 0}));
  EXPECT_EQ(d.at(0, 3), (MatrixPlace{8, 1}));
  EXPECT_EQ(d.at(1, 4), (MatrixPlace{0, 10}));
  EXPECT_EQ(d.at(37, 2), (MatrixPlace{25, 2}));
  EXPECT_EQ(d.at(127, 127), (MatrixPlace{63, 255}));
  const Fragment& a = find_wgmma("m64n8k16_f32_f16")->a();
  test::expect_fragment(a, 64, 16, kWarpgroup, 8);
  EXPECT_EQ(a.at(0, 1 * 2 + 1), (MatrixPlace{8, 1}));
  EXPECT_EQ(a.at(33, 2 * 2), (MatrixPlace{16, 10}));
  EXPECT_EQ(find_wgmma("m64n8k32_s32_s8")->a().at(127, 3 * 4 + 3), (MatrixPlace{63, 31}));
}

// The layout that an array's offsets, a function of row and k, give.
template <class F>
std::optional<WgmmaLayout> derived(int bits, WgmmaSwizzle swizzle, int rows, F place) {
  std::vector<int64_t> across, along;
  for (int x = 0; x < rows; ++x) across.push_back(place(x, 0) * bits / 8);
  for (int k = 0; k < 256 / bits; ++k) along.push_back(place(0, k) * bits / 8);
  return derive_wgmma_layout(bits, swizzle, across, along);
}

TEST(WgmmaRows, DescriptorsComeFromLayouts) {
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
TEST(WgmmaRows, DescriptorsAndSwizzlesAreThoseOfTheIsa) {
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

TEST(WgmmaRows, ThePreludeHasTheFunctionsOfTheRowsThatAreNamed) {
  const std::string text = cuda_prelude("tw_wgmma_m64n24k16_f32_bf16<0, 1>(d, a, b, 1);");
  auto count = [&](const std::string& word) {
    size_t found = 0;
    for (size_t at = 0; (at = text.find(word, at)) != std::string::npos; ++at) ++found;
    return found;
  };
  EXPECT_EQ(count("TW_FN void tw_wgmma_m64"), 2u) << "A in shared memory, and in registers";
  EXPECT_EQ(count("wgmma.mma_async.sync.aligned.m64n24k16.f32.bf16.bf16 "), 2u);
  EXPECT_EQ(count("typedef unsigned long long tw_operand;"), 1u);
  EXPECT_EQ(cuda_prelude("x = y;").find("tw_wgmma"), std::string::npos);
}

}  // namespace
}  // namespace tilewright
