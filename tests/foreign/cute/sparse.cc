// CUTLASS's operands of `mma.sp`, by the names of mma_rows.h.
//
// CUTLASS's kernels for sm_80 load sparse metadata by ldmatrix. Its reorder_meta() puts them in
// memory so that lanes get what the instruction takes, two instructions' rows at a time. Here it
// orders numbered metadata; CuTe's traits of ldmatrix say which lane gets which.
#include <cutlass/arch/mma_sparse_sm80.h>
#include <cutlass/layout/matrix.h>
#include <cutlass/util/host_reorder.h>
#include <cute/atom/copy_traits_sm75.hpp>
#include <cute/atom/mma_traits_sm120_sparse.hpp>

#include <vector>

#include "cute_print.h"

// "counts NAME A B C KEPT_OF INDEX_BITS": a lane's elements, and the forms of metadata.
template <class Mma>
void print_counts(const char* name) {
  std::printf("counts %s %d %d %d %d %d\n", name, int(Mma::FragmentA::kElements),
              int(Mma::FragmentB::kElements), int(Mma::FragmentC::kElements), Mma::kSparse,
              Mma::kMetaSizeInBits);
}

template <class Shape, class A, class B, class C, class Operator = cutlass::arch::OpMultiplyAdd>
using Mma = cutlass::arch::SparseMma<Shape, 32, A, cutlass::layout::RowMajor, B,
                                     cutlass::layout::ColumnMajor, C, cutlass::layout::RowMajor,
                                     Operator, cutlass::arch::SPFormatType::Thread>;

// "meta NAME LANE PART ROW COLUMN": 16 bits or 32 of a lane's word, from the lowest on, are those of
// this row, and of this many-th part of the row. Rows from 16 on are those of the next instruction.
template <class Element>
void print_metadata(const char* name) {
  constexpr int rows = sizeof(Element) == 2 ? 32 : 16, columns = 2;
  using Interleaved = cutlass::layout::ColumnMajorInterleaved<2>;
  std::vector<Element> source(rows * columns), ordered(rows * columns);
  for (int i = 0; i < rows * columns; ++i) source[i] = Element(i);
  cutlass::layout::RowMajor plain(columns);
  Interleaved interleaved = Interleaved::packed({rows, columns});
  cutlass::reorder_meta(
      cutlass::TensorRef<Element, Interleaved>(ordered.data(), interleaved),
      cutlass::TensorRef<Element, cutlass::layout::RowMajor>(source.data(), plain),
      {rows, 8, columns});
  constexpr int bits = 8 * sizeof(Element);
  cute::Copy_Traits<cute::SM75_U32x1_LDSM_N>::DstLayout loaded;
  for (int lane = 0; lane < 32; ++lane) {
    for (int part = 0; part < 32 / bits; ++part) {
      const int number = ordered[loaded(lane, part * bits) / bits];
      std::printf("meta %s %d %d %d %d\n", name, lane, part, number / columns, number % columns);
    }
  }
}

int main() {
  using cutlass::bfloat16_t, cutlass::half_t, cutlass::tfloat32_t;
  using cutlass::gemm::GemmShape;
  using Integers = cutlass::arch::OpMultiplyAddSaturate;
  print_counts<Mma<GemmShape<16, 8, 32>, half_t, half_t, float>>("sp_m16n8k32_f32_f16");
  print_counts<Mma<GemmShape<16, 8, 32>, bfloat16_t, bfloat16_t, float>>("sp_m16n8k32_f32_bf16");
  print_counts<Mma<GemmShape<16, 8, 16>, tfloat32_t, tfloat32_t, float>>("sp_m16n8k16_f32_tf32");
  print_counts<Mma<GemmShape<16, 8, 64>, int8_t, int8_t, int, Integers>>("sp_m16n8k64_s32_s8");
  print_counts<Mma<GemmShape<16, 8, 64>, int8_t, uint8_t, int, Integers>>("sp_m16n8k64_s32_s8_u8");
  print_counts<Mma<GemmShape<16, 8, 64>, uint8_t, int8_t, int, Integers>>("sp_m16n8k64_s32_u8_s8");
  print_counts<Mma<GemmShape<16, 8, 64>, uint8_t, uint8_t, int, Integers>>("sp_m16n8k64_s32_u8");
  print_metadata<uint16_t>("sp_m16n8k32_f32_f16");
  print_metadata<uint16_t>("sp_m16n8k32_f32_bf16");
  print_metadata<uint16_t>("sp_m16n8k16_f32_tf32");
  print_metadata<uint32_t>("sp_m16n8k64_s32_s8");
  print_metadata<uint32_t>("sp_m16n8k64_s32_u8");

  // (lane, value) over the elements as if A were dense.
  using Traits = cute::MMA_Traits<
      cute::SM120::SPARSE::SM120_SPARSE_16x8x64_TN<cute::float_e4m3_t, cute::float_e4m3_t, float>>;
  tables::print_layout("sp_m16n8k64_f32_e4m3.A", Traits::ALayout{});
  tables::print_layout("sp_m16n8k64_f32_e4m3.B", Traits::BLayout{});
  tables::print_layout("sp_m16n8k64_f32_e4m3.C", Traits::CLayout{});
  tables::print_layout("sp_m16n8k64_f32_e4m3.E", Traits::ELayout{});
}
