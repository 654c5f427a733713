#include "kernel/prelude/cuda_prelude.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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

}  // namespace
}  // namespace tilewright
