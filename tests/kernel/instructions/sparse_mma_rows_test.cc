#include "kernel/instructions/sparse_mma_rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernel/prelude/cuda_prelude.h"
#include "tests/kernel/instructions/fragments.h"

namespace tilewright {
namespace {

using testing::HasSubstr;

TEST(SparseMmaRows, EveryKeptElementHasOnePlaceInMetadata) {
  for (const SparseMmaRow& row : sparse_mma_rows()) {
    SCOPED_TRACE(row.whole.name);
    test::expect_fragment(row.metadata(), 16, row.kept() * row.selectors(), kWarp,
                          row.indices_in_word());
  }
}

// The lanes that supply metadata with one selector follow those of the selector before.
TEST(SparseMmaRows, SelectorsNameEveryLaneOnce) {
  for (const SparseMmaRow& row : sparse_mma_rows()) {
    for (int lane = 0; lane < kWarp; ++lane) {
      for (int i = 0; i < row.indices_in_word(); ++i) {
        EXPECT_EQ(row.metadata().at(lane, i).column / row.kept(), lane % 4 / row.lanes())
            << row.whole.name;
      }
    }
  }
}

// The PTX manual's figures of m16n8k32 with f16 and m16n8k64 with s8.
TEST(SparseMmaRows, MetadataLieAsThePtxManualDrawsThem) {
  const SparseMmaRow& f16 = *find_sparse_mma("sp_m16n8k32_f32_f16");
  EXPECT_EQ(f16.selectors(), 2);
  // Lane 4 has columns 0 to 15 of row 1 in its low half, of row 9 in the high one. Lane 5 has the
  // others.
  EXPECT_EQ(f16.metadata().at(4, 3), (MatrixPlace{1, 3}));
  EXPECT_EQ(f16.metadata().at(4, 8), (MatrixPlace{9, 0}));
  EXPECT_EQ(f16.metadata().at(5, 15), (MatrixPlace{9, 15}));
  EXPECT_EQ(f16.metadata().at(7, 0), (MatrixPlace{1, 16 + 8}));
  const SparseMmaRow& s8 = *find_sparse_mma("sp_m16n8k64_s32_s8");
  EXPECT_EQ(s8.selectors(), 1);
  EXPECT_EQ(s8.metadata().at(4, 15), (MatrixPlace{1, 15}));
  EXPECT_EQ(s8.metadata().at(5, 0), (MatrixPlace{9, 0}));
  EXPECT_EQ(s8.metadata().at(6, 0), (MatrixPlace{1, 16}));
  EXPECT_EQ(s8.metadata().at(7, 15), (MatrixPlace{9, 31}));
  const SparseMmaRow& tf32 = *find_sparse_mma("sp_m16n8k16_f32_tf32");
  EXPECT_EQ(tf32.metadata().at(5, 5), (MatrixPlace{9, 5}));
  EXPECT_EQ(place_of_index(tf32, 0b1110), 1);
  EXPECT_EQ(place_of_index(tf32, 0b0100), 0);
  EXPECT_EQ(place_of_index(tf32, 0b1000), std::nullopt);
  EXPECT_EQ(find_sparse_mma("m16n8k16_f32_f16"), nullptr);
}

// The manual's rule for the elements of A. Lane 5 (group 1, place 1) of m16n8k32 has kept elements
// of columns 4 to 7. From the third register on it has those of columns 20 to 23.
TEST(SparseMmaRows, KeptElementsLieAsThoseOfTheRowOfHalfTheLength) {
  const MmaRow stored = find_sparse_mma("sp_m16n8k32_f32_f16")->stored();
  EXPECT_EQ(stored.a_registers(), 4);
  EXPECT_EQ(stored.a().at(5, 0 * 2 + 0), (MatrixPlace{1, 2}));
  EXPECT_EQ(stored.a().at(5, 3 * 2 + 1), (MatrixPlace{9, 11}));
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
