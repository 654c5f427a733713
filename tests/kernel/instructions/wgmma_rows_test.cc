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
    for (const Instruction& row : wgmma_rows()) {
      if (row.name.ends_with("_" + type)) columns.insert(row.n);
    }
    return columns;
  };
  EXPECT_EQ(columns_of("f32_f16").size(), 32u);
  EXPECT_EQ(columns_of("f32_e4m3").size(), 32u);
  EXPECT_TRUE(columns_of("s32_s8").count(24));
  EXPECT_FALSE(columns_of("s32_s8").count(40));
  EXPECT_TRUE(columns_of("s32_s8").count(48));
  std::set<std::string_view> names;
  for (const Instruction& row : wgmma_rows()) {
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
    EXPECT_EQ(find_instruction(row.name), &row);
    EXPECT_EQ(row.a_bytes(), 32) << row.name;
    EXPECT_EQ(row.a_registers(), 4) << row.name;
    EXPECT_TRUE(row.runs_on(90) && !row.runs_on(89) && !row.runs_on(100));
  }
  const Instruction& row = *find_instruction("m64n128k16_f32_f16");
  EXPECT_EQ(row.ptx, "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16");
  EXPECT_EQ(row.sum_registers(), 64);
  EXPECT_EQ(find_instruction("m64n128k16_f16_f16")->sum_registers(), 32);
  EXPECT_TRUE(row.may_be_transposed());
  EXPECT_FALSE(find_instruction("m64n64k8_f32_tf32")->may_be_transposed());
  EXPECT_EQ(find_instruction("m64n40k32_s32_u8"), nullptr);
}

// Figures "WGMMA .m64nNk16 register fragment layout" for matrices A and D.
TEST(WgmmaRows, PlaceElementsAmongTheLanesOfAWarpgroup) {
  const Fragment& d = find_instruction("m64n256k16_f32_f16")->d();
  test::expect_fragment(d, 64, 256, kWarpgroup, 128);
  EXPECT_EQ(d.at(0, 0), (MatrixPlace{0, 0}));
  EXPECT_EQ(d.at(0, 3), (MatrixPlace{8, 1}));
  EXPECT_EQ(d.at(1, 4), (MatrixPlace{0, 10}));
  EXPECT_EQ(d.at(37, 2), (MatrixPlace{25, 2}));
  EXPECT_EQ(d.at(127, 127), (MatrixPlace{63, 255}));
  const Fragment& a = find_instruction("m64n8k16_f32_f16")->a();
  test::expect_fragment(a, 64, 16, kWarpgroup, 8);
  EXPECT_EQ(a.at(0, 1 * 2 + 1), (MatrixPlace{8, 1}));
  EXPECT_EQ(a.at(33, 2 * 2), (MatrixPlace{16, 10}));
  EXPECT_EQ(find_instruction("m64n8k32_s32_s8")->a().at(127, 3 * 4 + 3), (MatrixPlace{63, 31}));
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
