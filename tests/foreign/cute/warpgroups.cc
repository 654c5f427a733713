// CuTe's fragments and sparse metadata of `wgmma` and `wgmma.sp`, by the names of wgmma_rows.h.
#include <cute/atom/mma_traits_sm90_gmma.hpp>
#include <cute/atom/mma_traits_sm90_gmma_sparse.hpp>

#include "cute_print.h"

using namespace cute;
constexpr auto K = SM90::GMMA::Major::K;

template <class Op>
void print_operand(const std::string& name) {
  tables::print_layout(name + ".A", typename MMA_Traits<Op>::ALayout{});
}

template <class Op>
void print_sparse(const std::string& name) {
  print_operand<Op>(name);
  tables::print_layout(name + ".E", typename MMA_Traits<Op>::ELayout{});
}

template <int... eighths>
void print_sums(std::integer_sequence<int, eighths...>) {
  (tables::print_layout("wgmma." + std::to_string(8 * (eighths + 1)) + ".C",
                        SM90::GMMA::CLayout_64xN<8 * (eighths + 1)>{}),
   ...);
}

int main() {
  print_sums(std::make_integer_sequence<int, 32>{});
  print_operand<SM90::GMMA::MMA_64x128x16_F32F16F16_RS<K, K>>("m64n128k16_f32_f16");
  print_operand<SM90::GMMA::MMA_64x128x16_F16F16F16_RS<K, K>>("m64n128k16_f16_f16");
  print_operand<SM90::GMMA::MMA_64x128x16_F32BF16BF16_RS<K, K>>("m64n128k16_f32_bf16");
  print_operand<SM90::GMMA::MMA_64x128x8_F32TF32TF32_RS_TN<>>("m64n128k8_f32_tf32");
  print_operand<SM90::GMMA::MMA_64x128x32_S32S8S8_RS_TN>("m64n128k32_s32_s8");
  print_operand<SM90::GMMA::MMA_64x128x32_S32U8U8_RS_TN>("m64n128k32_s32_u8");
  print_operand<SM90::GMMA::MMA_64x128x32_F32E4M3E4M3_RS_TN<>>("m64n128k32_f32_e4m3");
  print_operand<SM90::GMMA::MMA_64x128x32_F32E5M2E5M2_RS_TN<>>("m64n128k32_f32_e5m2");
  using namespace SM90::GMMA::SPARSE;
  print_sparse<GMMA_64x128x32_F32F16F16_RS<K, K>>("sp_m64n128k32_f32_f16");
  print_sparse<GMMA_64x128x32_F32BF16BF16_RS<K, K>>("sp_m64n128k32_f32_bf16");
  print_sparse<GMMA_64x128x16_F32TF32TF32_RS_TN<>>("sp_m64n128k16_f32_tf32");
  print_sparse<GMMA_64x128x64_S32S8S8_RS_TN<>>("sp_m64n128k64_s32_s8");
  print_sparse<GMMA_64x128x64_F32E4M3E4M3_RS_TN<>>("sp_m64n128k64_f32_e4m3");
  print_sparse<GMMA_64x128x64_F32E5M2E5M2_RS_TN<>>("sp_m64n128k64_f32_e5m2");
}
