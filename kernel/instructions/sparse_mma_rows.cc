#include "kernel/instructions/sparse_mma_rows.h"

namespace tilewright {
namespace {

// 2:4 sparsity of elements of 8 and 16 bits.
SparseMmaRow pairs(std::string_view name, int k, ElemType acc, ElemType a, int min_sm,
                   std::string_view ptx, std::optional<ElemType> b = {}) {
  return {{name, 16, 8, k, acc, a, false, min_sm, ptx, b}, 2, 4, 2};
}

// 1:2 sparsity of 32-bit elements, whose metadata name two 16-bit halves.
SparseMmaRow halves(std::string_view name, int k, std::string_view ptx) {
  return {{name, 16, 8, k, ElemType::f32, ElemType::f32, true, 80, ptx}, 1, 2, 4};
}

}  // namespace

// The texts of the instructions follow `mma.sp`, or `mma.sp::ordered_metadata` where it is known.
const std::vector<SparseMmaRow>& sparse_mma_rows() {
  using enum ElemType;
  static const std::vector<SparseMmaRow> rows = {
      pairs("sp_m16n8k32_f32_f16", 32, f32, f16, 80, ".m16n8k32.row.col.f32.f16.f16.f32"),
      pairs("sp_m16n8k16_f32_f16", 16, f32, f16, 80, ".m16n8k16.row.col.f32.f16.f16.f32"),
      pairs("sp_m16n8k32_f32_bf16", 32, f32, bf16, 80, ".m16n8k32.row.col.f32.bf16.bf16.f32"),
      pairs("sp_m16n8k16_f32_bf16", 16, f32, bf16, 80, ".m16n8k16.row.col.f32.bf16.bf16.f32"),
      halves("sp_m16n8k16_f32_tf32", 16, ".m16n8k16.row.col.f32.tf32.tf32.f32"),
      halves("sp_m16n8k8_f32_tf32", 8, ".m16n8k8.row.col.f32.tf32.tf32.f32"),
      pairs("sp_m16n8k64_s32_s8", 64, i32, i8, 80, ".m16n8k64.row.col.s32.s8.s8.s32"),
      pairs("sp_m16n8k64_s32_u8", 64, i32, u8, 80, ".m16n8k64.row.col.s32.u8.u8.s32"),
      pairs("sp_m16n8k64_s32_s8_u8", 64, i32, i8, 80, ".m16n8k64.row.col.s32.s8.u8.s32", u8),
      pairs("sp_m16n8k64_s32_u8_s8", 64, i32, u8, 80, ".m16n8k64.row.col.s32.u8.s8.s32", i8),
      pairs("sp_m16n8k32_s32_s8", 32, i32, i8, 80, ".m16n8k32.row.col.s32.s8.s8.s32"),
      pairs("sp_m16n8k32_s32_u8", 32, i32, u8, 80, ".m16n8k32.row.col.s32.u8.u8.s32"),
      pairs("sp_m16n8k64_f32_e4m3", 64, f32, f8e4m3, 89, ".m16n8k64.row.col.f32.e4m3.e4m3.f32"),
      pairs("sp_m16n8k64_f32_e5m2", 64, f32, f8e5m2, 89, ".m16n8k64.row.col.f32.e5m2.e5m2.f32"),
  };
  return rows;
}

const SparseMmaRow* find_sparse_mma(std::string_view name) {
  for (const SparseMmaRow& row : sparse_mma_rows()) {
    if (row.whole.name == name) return &row;
  }
  return nullptr;
}

MmaRow SparseMmaRow::stored() const {
  MmaRow row = whole;
  row.k = kept();
  return row;
}

// A metadata word of 8-bit elements covers one row; the rows 8 apart stand in neighbouring lanes.
// Other words hold half a word for row lane / 4, and half for the row 8 further on.
const Fragment& SparseMmaRow::metadata() const {
  const int columns = kept() * selectors();
  if (whole.operand_bits() != 8) return fragment_of({whole.m, columns, indices_in_word() / 2});
  static const Fragment of_bytes = {
      16, 32,
      IndexMap::parse("(i, r) -> (floormod(i, 8) * 4 + floordiv(r, 16) * 2 + floordiv(i, 8), "
                      "floormod(r, 16))")};
  return of_bytes;
}

std::optional<int> place_of_index(const SparseMmaRow& row, uint32_t bits) {
  if (row.index_bits == 2) return static_cast<int>(bits);
  // The halves of the first element have indices 0 and 1, those of the second 2 and 3.
  if (bits == 0b0100) return 0;
  if (bits == 0b1110) return 1;
  return std::nullopt;
}

}  // namespace tilewright
