#include "kernel/instructions/mma_rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernel/prelude/cuda_prelude.h"
#include "tests/kernel/instructions/fragments.h"

namespace tilewright {
namespace {

using testing::HasSubstr;

TEST(MmaRows, EveryElementLiesInOnePlace) {
  for (const Instruction& row : mma_rows()) {
    SCOPED_TRACE(row.name);
    test::expect_fragment(row.a(), row.m, row.k, kWarp, row.a_registers() * row.packed());
    test::expect_fragment(row.b(), row.k, row.n, kWarp, row.b_registers() * row.packed());
    test::expect_fragment(row.d(), row.m, row.n, kWarp, row.acc_registers());
  }
}

TEST(MmaRows, LieAsThePtxManualDrawsThem) {
  const Instruction& f16 = *find_instruction("m16n8k16_f32_f16");
  // A: a2,a3 of lane 5 (group 1, place 1) are row 9, columns 2 and 3; a4 is row 1, column 10.
  EXPECT_EQ(f16.a().at(5, 1 * f16.packed() + 0), (MatrixPlace{9, 2}));
  EXPECT_EQ(f16.a().at(5, 1 * f16.packed() + 1), (MatrixPlace{9, 3}));
  EXPECT_EQ(f16.a().at(5, 2 * f16.packed() + 0), (MatrixPlace{1, 10}));
  EXPECT_EQ(f16.b().at(5, 1 * f16.packed() + 1), (MatrixPlace{11, 1}));
  EXPECT_EQ(f16.d().at(5, 3), (MatrixPlace{9, 3}));
  const Instruction& s8 = *find_instruction("m16n8k32_s32_s8");
  EXPECT_EQ(s8.a().at(5, 3 * s8.packed() + 2), (MatrixPlace{9, 22}));
  EXPECT_EQ(s8.b().at(5, 1 * s8.packed() + 0), (MatrixPlace{20, 1}));
  const Instruction& tf32 = *find_instruction("m16n8k8_f32_tf32");
  EXPECT_EQ(tf32.a().at(5, 2 * tf32.packed() + 0), (MatrixPlace{1, 5}));
  EXPECT_EQ(tf32.b().at(5, 1 * tf32.packed() + 0), (MatrixPlace{5, 1}));
  // Elements that share a byte: a8 to a15 of m16n8k64 are row 9, from column 8 on. a16 is row 1
  // again.
  const Instruction& s4 = *find_instruction("m16n8k64_s32_s4");
  EXPECT_EQ(s4.a().at(5, 1 * s4.packed() + 3), (MatrixPlace{9, 11}));
  EXPECT_EQ(s4.a().at(5, 2 * s4.packed() + 0), (MatrixPlace{1, 40}));
  EXPECT_EQ(s4.b().at(5, 1 * s4.packed() + 7), (MatrixPlace{47, 1}));
  const Instruction& b1 = *find_instruction("m16n8k256_s32_b1_and");
  EXPECT_EQ(b1.a().at(5, 3 * b1.packed() + 31), (MatrixPlace{9, 191}));
  EXPECT_EQ(b1.b().at(5, 0 * b1.packed() + 2), (MatrixPlace{34, 1}));
  EXPECT_EQ(find_instruction("m16n8k64_s32_s3"), nullptr);
}

TEST(MmaRows, LdmatrixGivesTheFragmentsOfMma) {
  const Instruction& row = *find_instruction("m16n8k16_f32_f16");
  for (int lane = 0; lane < 32; ++lane) {
    for (int part = 0; part < 2; ++part) {
      EXPECT_EQ(ldmatrix_fragment(false).at(lane, part), row.a().at(lane, part));
      // B stored as [k, n] comes by the transposing load.
      EXPECT_EQ(ldmatrix_fragment(true).at(lane, part), row.b().at(lane, part));
    }
  }
}

TEST(SparseMmaRows, EveryKeptElementHasOnePlaceInMetadata) {
  for (const Instruction& row : sparse_mma_rows()) {
    SCOPED_TRACE(row.name);
    test::expect_fragment(row.metadata(), 16, row.kept() * row.selectors(), kWarp,
                          row.indices_in_word());
  }
}

// The lanes that supply metadata with one selector follow those of the selector before.
TEST(SparseMmaRows, SelectorsNameEveryLaneOnce) {
  for (const Instruction& row : sparse_mma_rows()) {
    for (int lane = 0; lane < kWarp; ++lane) {
      for (int i = 0; i < row.indices_in_word(); ++i) {
        EXPECT_EQ(row.metadata().at(lane, i).column / row.kept(), lane % 4 / row.metadata_lanes())
            << row.name;
      }
    }
  }
}

// The PTX manual's figures of m16n8k32 with f16 and m16n8k64 with s8.
TEST(SparseMmaRows, MetadataLieAsThePtxManualDrawsThem) {
  const Instruction& f16 = *find_instruction("sp_m16n8k32_f32_f16");
  EXPECT_EQ(f16.selectors(), 2);
  // Lane 4 has columns 0 to 15 of row 1 in its low half, of row 9 in the high one. Lane 5 has the
  // others.
  EXPECT_EQ(f16.metadata().at(4, 3), (MatrixPlace{1, 3}));
  EXPECT_EQ(f16.metadata().at(4, 8), (MatrixPlace{9, 0}));
  EXPECT_EQ(f16.metadata().at(5, 15), (MatrixPlace{9, 15}));
  EXPECT_EQ(f16.metadata().at(7, 0), (MatrixPlace{1, 16 + 8}));
  const Instruction& s8 = *find_instruction("sp_m16n8k64_s32_s8");
  EXPECT_EQ(s8.selectors(), 1);
  EXPECT_EQ(s8.metadata().at(4, 15), (MatrixPlace{1, 15}));
  EXPECT_EQ(s8.metadata().at(5, 0), (MatrixPlace{9, 0}));
  EXPECT_EQ(s8.metadata().at(6, 0), (MatrixPlace{1, 16}));
  EXPECT_EQ(s8.metadata().at(7, 15), (MatrixPlace{9, 31}));
  const Instruction& tf32 = *find_instruction("sp_m16n8k16_f32_tf32");
  EXPECT_EQ(tf32.metadata().at(5, 5), (MatrixPlace{9, 5}));
  EXPECT_EQ(tf32.place_of_index(0b1110), 1);
  EXPECT_EQ(tf32.place_of_index(0b0100), 0);
  EXPECT_EQ(tf32.place_of_index(0b1000), std::nullopt);
}

// The manual's rule for the elements of A. Lane 5 (group 1, place 1) of m16n8k32 has kept elements
// of columns 4 to 7. From the third register on it has those of columns 20 to 23.
TEST(SparseMmaRows, KeptElementsLieAsThoseOfTheRowOfHalfTheLength) {
  const Instruction& row = *find_instruction("sp_m16n8k32_f32_f16");
  EXPECT_EQ(row.a_registers(), 4);
  EXPECT_EQ(row.stored().k, 16);
  EXPECT_FALSE(row.stored().is_sparse());
  EXPECT_EQ(&row.a(), &row.stored().a());
  EXPECT_EQ(row.a().at(5, 0 * 2 + 0), (MatrixPlace{1, 2}));
  EXPECT_EQ(row.a().at(5, 3 * 2 + 1), (MatrixPlace{9, 11}));
}

TEST(SparseMmaRows, FunctionsTakeTheSelectorAsAConstant) {
  std::string text = cuda_prelude("tw_mma_sp_m16n8k64_s32_s8<0>(d, a, b, d, e);");
  EXPECT_THAT(text, HasSubstr("TW_MMA_SP \".m16n8k64.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, "
                              "{%4, %5, %6, %7}, {%8, %9, %10, %11}, {%12, %13, %14, %15}, %16, "
                              "%17;\""));
  EXPECT_THAT(text, HasSubstr("\"n\"(SELECTOR)"));
  EXPECT_THAT(text, HasSubstr("static_assert(SELECTOR >= 0 && SELECTOR < 1"));
  EXPECT_THAT(text, HasSubstr("mma.sp::ordered_metadata.sync.aligned"));
  EXPECT_LT(text.find("#define TW_MMA_SP"), text.find("tw_mma_sp_m16n8k64_s32_s8("));
}

}  // namespace
}  // namespace tilewright
