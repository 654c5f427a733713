#include "kernel/instructions/mma_rows.h"

#include <gtest/gtest.h>

#include "tests/kernel/instructions/fragments.h"

namespace tilewright {
namespace {

TEST(MmaRows, EveryElementLiesInOnePlace) {
  for (const MmaRow& row : mma_rows()) {
    SCOPED_TRACE(row.name);
    test::expect_fragment(row.a(), row.m, row.k, kWarp, row.a_registers() * row.packed());
    test::expect_fragment(row.b(), row.k, row.n, kWarp, row.b_registers() * row.packed());
    test::expect_fragment(row.d(), row.m, row.n, kWarp, row.acc_registers());
  }
}

TEST(MmaRows, LieAsThePtxManualDrawsThem) {
  const MmaRow& f16 = *find_mma("m16n8k16_f32_f16");
  // A: a2,a3 of lane 5 (group 1, place 1) are row 9, columns 2 and 3; a4 is row 1, column 10.
  EXPECT_EQ(f16.a().at(5, 1 * f16.packed() + 0), (MatrixPlace{9, 2}));
  EXPECT_EQ(f16.a().at(5, 1 * f16.packed() + 1), (MatrixPlace{9, 3}));
  EXPECT_EQ(f16.a().at(5, 2 * f16.packed() + 0), (MatrixPlace{1, 10}));
  EXPECT_EQ(f16.b().at(5, 1 * f16.packed() + 1), (MatrixPlace{11, 1}));
  EXPECT_EQ(f16.d().at(5, 3), (MatrixPlace{9, 3}));
  const MmaRow& s8 = *find_mma("m16n8k32_s32_s8");
  EXPECT_EQ(s8.a().at(5, 3 * s8.packed() + 2), (MatrixPlace{9, 22}));
  EXPECT_EQ(s8.b().at(5, 1 * s8.packed() + 0), (MatrixPlace{20, 1}));
  const MmaRow& tf32 = *find_mma("m16n8k8_f32_tf32");
  EXPECT_EQ(tf32.a().at(5, 2 * tf32.packed() + 0), (MatrixPlace{1, 5}));
  EXPECT_EQ(tf32.b().at(5, 1 * tf32.packed() + 0), (MatrixPlace{5, 1}));
  // Elements that share a byte: a8 to a15 of m16n8k64 are row 9, from column 8 on. a16 is row 1
  // again.
  const MmaRow& s4 = *find_mma("m16n8k64_s32_s4");
  EXPECT_EQ(s4.a().at(5, 1 * s4.packed() + 3), (MatrixPlace{9, 11}));
  EXPECT_EQ(s4.a().at(5, 2 * s4.packed() + 0), (MatrixPlace{1, 40}));
  EXPECT_EQ(s4.b().at(5, 1 * s4.packed() + 7), (MatrixPlace{47, 1}));
  const MmaRow& b1 = *find_mma("m16n8k256_s32_b1_and");
  EXPECT_EQ(b1.a().at(5, 3 * b1.packed() + 31), (MatrixPlace{9, 191}));
  EXPECT_EQ(b1.b().at(5, 0 * b1.packed() + 2), (MatrixPlace{34, 1}));
  EXPECT_EQ(find_mma("m16n8k64_s32_s3"), nullptr);
}

TEST(MmaRows, LdmatrixGivesTheFragmentsOfMma) {
  const MmaRow& row = *find_mma("m16n8k16_f32_f16");
  for (int lane = 0; lane < 32; ++lane) {
    for (int part = 0; part < 2; ++part) {
      EXPECT_EQ(ldmatrix_fragment(false).at(lane, part), row.a().at(lane, part));
      // B stored as [k, n] comes by the transposing load.
      EXPECT_EQ(ldmatrix_fragment(true).at(lane, part), row.b().at(lane, part));
    }
  }
}

}  // namespace
}  // namespace tilewright
