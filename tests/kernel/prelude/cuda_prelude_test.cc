#include "kernel/prelude/cuda_prelude.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "kernel/instructions/mma_rows.h"

namespace tilewright {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(CudaPrelude, HoldsWhatAKernelUsesAndNoMore) {
  EXPECT_EQ(cuda_prelude("float x = notw_ld(1);"), "");
  std::string text = cuda_prelude("tw_st(C, tw_ld<4>(A));");
  EXPECT_THAT(text, HasSubstr("tw_ld(const T* p)"));
  EXPECT_THAT(text, HasSubstr("struct tw_word<16>"));
  EXPECT_THAT(text, HasSubstr("struct alignas(sizeof(T) * N) tw_vec"));
  EXPECT_THAT(text, Not(HasSubstr("cp.async")));
  EXPECT_THAT(text, Not(HasSubstr("mma.sync")));
  EXPECT_THAT(text, Not(HasSubstr("tw_smem")));
  EXPECT_THAT(text, Not(HasSubstr("#include")));
}

TEST(CudaPrelude, WhatAPartUsesStandsBeforeIt) {
  std::string text = cuda_prelude("tw_ldmatrix_x4_trans(r, As);");
  size_t address = text.find("TW_FN unsigned tw_shared_address");
  size_t user = text.find("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];");
  ASSERT_NE(address, std::string::npos);
  ASSERT_NE(user, std::string::npos);
  EXPECT_LT(address, user);
  EXPECT_LT(text.find("#define TW_FN"), address);
}

TEST(CudaPrelude, MatrixFunctionsNumberTheirOperandsThrough) {
  EXPECT_THAT(cuda_prelude("tw_mma_m16n8k32_s32_s8(d, a, b, c);"),
              HasSubstr("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, "
                        "{%4, %5, %6, %7}, {%8, %9}, {%10, %11, %12, %13};"));
}

TEST(CudaPrelude, TensorCopiesNameTheirPlaceBetweenMapAndBarrier) {
  std::string text = cuda_prelude("f(TW_TENSOR_MAP A) { tw_tensor_load_3d(s, A, x, y, z, full); }");
  EXPECT_THAT(text, HasSubstr("#define TW_TENSOR_MAP const __grid_constant__ tw_tensor_map"));
  EXPECT_THAT(text, HasSubstr("[%0], [%1, {%2, %3, %4}], [%5];"));
  EXPECT_THAT(text, Not(HasSubstr("cp.async.bulk.tensor.2d")));
  EXPECT_THAT(text, Not(HasSubstr("mbarrier.init")));
}

TEST(CudaPrelude, LinesOfTheKernelCountFromOne) {
  EXPECT_THAT(cuda_translation_unit("first\nsecond", "k.cu"),
              testing::EndsWith("\n#line 1 \"k.cu\"\nfirst\nsecond"));
}

TEST(MmaRows, EveryElementLiesInOnePlace) {
  for (const MmaRow& row : mma_rows()) {
    std::set<std::pair<int, int>> a, b, acc;
    auto add = [](std::set<std::pair<int, int>>& seen, MatrixPlace p) {
      EXPECT_TRUE(seen.insert({p.row, p.column}).second) << p.row << ", " << p.column;
    };
    for (int lane = 0; lane < 32; ++lane) {
      for (int part = 0; part < row.packed(); ++part) {
        for (int r = 0; r < row.a_registers(); ++r) add(a, a_place(row, lane, r, part));
        for (int r = 0; r < row.b_registers(); ++r) add(b, b_place(row, lane, r, part));
      }
      for (int r = 0; r < row.acc_registers(); ++r) add(acc, acc_place(lane, r));
    }
    for (auto [seen, rows, columns] : {std::tuple{a, row.m, row.k}, std::tuple{b, row.k, row.n},
                                       std::tuple{acc, row.m, row.n}}) {
      EXPECT_EQ(seen.size(), static_cast<size_t>(rows * columns)) << row.name;
      EXPECT_EQ(*seen.rbegin(), std::pair(rows - 1, columns - 1)) << row.name;
    }
  }
}

TEST(MmaRows, LieAsThePtxManualDrawsThem) {
  const MmaRow& f16 = *find_mma("m16n8k16_f32_f16");
  // A: a2,a3 of lane 5 (group 1, place 1) are row 9, columns 2 and 3; a4 is row 1, column 10.
  EXPECT_EQ(a_place(f16, 5, 1, 0), (MatrixPlace{9, 2}));
  EXPECT_EQ(a_place(f16, 5, 1, 1), (MatrixPlace{9, 3}));
  EXPECT_EQ(a_place(f16, 5, 2, 0), (MatrixPlace{1, 10}));
  EXPECT_EQ(b_place(f16, 5, 1, 1), (MatrixPlace{11, 1}));
  EXPECT_EQ(acc_place(5, 3), (MatrixPlace{9, 3}));
  const MmaRow& s8 = *find_mma("m16n8k32_s32_s8");
  EXPECT_EQ(a_place(s8, 5, 3, 2), (MatrixPlace{9, 22}));
  EXPECT_EQ(b_place(s8, 5, 1, 0), (MatrixPlace{20, 1}));
  const MmaRow& tf32 = *find_mma("m16n8k8_f32_tf32");
  EXPECT_EQ(a_place(tf32, 5, 2, 0), (MatrixPlace{1, 5}));
  EXPECT_EQ(b_place(tf32, 5, 1, 0), (MatrixPlace{5, 1}));
  // Elements that share a byte: a8 to a15 of m16n8k64 are row 9, from column 8 on. a16 is row 1
  // again.
  const MmaRow& s4 = *find_mma("m16n8k64_s32_s4");
  EXPECT_EQ(a_place(s4, 5, 1, 3), (MatrixPlace{9, 11}));
  EXPECT_EQ(a_place(s4, 5, 2, 0), (MatrixPlace{1, 40}));
  EXPECT_EQ(b_place(s4, 5, 1, 7), (MatrixPlace{47, 1}));
  const MmaRow& b1 = *find_mma("m16n8k256_s32_b1_and");
  EXPECT_EQ(a_place(b1, 5, 3, 31), (MatrixPlace{9, 191}));
  EXPECT_EQ(b_place(b1, 5, 0, 2), (MatrixPlace{34, 1}));
  EXPECT_EQ(find_mma("m16n8k64_s32_s3"), nullptr);
}

TEST(MmaRows, LdmatrixGivesTheFragmentsOfMma) {
  const MmaRow& row = *find_mma("m16n8k16_f32_f16");
  for (int lane = 0; lane < 32; ++lane) {
    for (int part = 0; part < 2; ++part) {
      EXPECT_EQ(ldmatrix_place(lane, part, false), a_place(row, lane, 0, part));
      // B stored as [k, n] comes by the transposing load.
      EXPECT_EQ(ldmatrix_place(lane, part, true), b_place(row, lane, 0, part));
    }
  }
}

}  // namespace
}  // namespace tilewright
