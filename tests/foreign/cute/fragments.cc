// CuTe's fragments of `mma.sync`, of ldmatrix and stmatrix, by the names of mma_rows.h.
#include <cute/atom/copy_traits_sm75.hpp>
#include <cute/atom/copy_traits_sm90.hpp>
#include <cute/atom/mma_traits_sm120.hpp>
#include <cute/atom/mma_traits_sm75.hpp>
#include <cute/atom/mma_traits_sm80.hpp>
#include <cute/atom/mma_traits_sm89.hpp>

#include "cute_print.h"

using namespace cute;

// A is (lane, value) -> row + m * k index, B column + n * k index, C row + m * column.
template <class Op>
void print_fragments(const std::string& name) {
  using Traits = MMA_Traits<Op>;
  tables::print_layout(name + ".A", typename Traits::ALayout{});
  tables::print_layout(name + ".B", typename Traits::BLayout{});
  tables::print_layout(name + ".C", typename Traits::CLayout{});
}

int main() {
  print_fragments<SM75_16x8x8_F32F16F16F32_TN>("m16n8k8_f32_f16");
  print_fragments<SM75_8x8x16_S32S8S8S32_TN>("m8n8k16_s32_s8");
  print_fragments<SM80_8x8x16_S32U8U8S32_TN>("m8n8k16_s32_u8");
  print_fragments<SM80_16x8x16_F32F16F16F32_TN>("m16n8k16_f32_f16");
  print_fragments<SM80_16x8x16_F32BF16BF16F32_TN>("m16n8k16_f32_bf16");
  print_fragments<SM80_16x8x8_F32TF32TF32F32_TN>("m16n8k8_f32_tf32");
  print_fragments<SM80_16x8x4_F32TF32TF32F32_TN>("m16n8k4_f32_tf32");
  print_fragments<SM80_16x8x16_F16F16F16F16_TN>("m16n8k16_f16_f16");
  print_fragments<SM80_16x8x8_F16F16F16F16_TN>("m16n8k8_f16_f16");
  print_fragments<SM80_16x8x32_S32S8S8S32_TN>("m16n8k32_s32_s8");
  print_fragments<SM80_16x8x32_S32U8U8S32_TN>("m16n8k32_s32_u8");
  print_fragments<SM80_16x8x32_S32U8S8S32_TN>("m16n8k32_s32_u8_s8");
  print_fragments<SM80_16x8x32_S32S8U8S32_TN>("m16n8k32_s32_s8_u8");
  print_fragments<SM80_16x8x64_S32S4S4S32_TN>("m16n8k64_s32_s4");
  print_fragments<SM80_16x8x64_S32U4U4S32_TN>("m16n8k64_s32_u4");
  print_fragments<SM80_16x8x64_S32U4S4S32_TN>("m16n8k64_s32_u4_s4");
  print_fragments<SM80_16x8x64_S32S4U4S32_TN>("m16n8k64_s32_s4_u4");
  print_fragments<SM80_16x8x256_S32U1U1S32_TN_XORPOPC>("m16n8k256_s32_b1_xor");
  print_fragments<SM80_16x8x256_S32U1U1S32_TN_ANDPOPC>("m16n8k256_s32_b1_and");
  print_fragments<SM89_16x8x32_F32E4M3E4M3F32_TN>("m16n8k32_f32_e4m3");
  print_fragments<SM89_16x8x32_F32E5M2E5M2F32_TN>("m16n8k32_f32_e5m2");
  print_fragments<SM89_16x8x32_F32E4M3E5M2F32_TN>("m16n8k32_f32_e4m3_e5m2");
  print_fragments<SM89_16x8x32_F32E5M2E4M3F32_TN>("m16n8k32_f32_e5m2_e4m3");
  // The same instructions as Blackwell's own traits have them.
  print_fragments<SM120_16x8x32_TN<float_e4m3_t, float_e4m3_t, float>>("m16n8k32_f32_e4m3");
  print_fragments<SM120_16x8x32_TN<float_e5m2_t, float_e5m2_t, float>>("m16n8k32_f32_e5m2");

  // (lane, bit of its registers) -> bit of the matrices, row by row of 128 bits.
  tables::print_layout("ldmatrix.x4", Copy_Traits<SM75_U32x4_LDSM_N>::DstLayout{});
  tables::print_layout("ldmatrix.x4.trans", Copy_Traits<SM75_U16x8_LDSM_T>::DstLayout{});
  tables::print_layout("stmatrix.x4", Copy_Traits<SM90_U32x4_STSM_N>::SrcLayout{});
  tables::print_layout("stmatrix.x4.trans", Copy_Traits<SM90_U16x8_STSM_T>::SrcLayout{});
}
