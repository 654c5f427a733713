#include "kernel/instructions/mma_rows.h"

#include <fmt/format.h>

#include <utility>

namespace tilewright {
namespace {

// From these compute capabilities on, ptxas replaces 4-bit and single-bit instructions by some 200
// and some 100 instructions on bytes (read off its cubins).
constexpr int kNoFourBits = 90, kNoSingleBits = 100;

Instruction dense(std::string_view name, int m, int k, ElemType acc, ElemType a, int min_sm,
                  std::string_view ptx, std::optional<ElemType> b = {}) {
  return {name, m, 8, k, acc, a, false, min_sm, ptx, b};
}

Instruction tf32(std::string_view name, int k, std::string_view ptx) {
  Instruction row = dense(name, 16, k, ElemType::f32, ElemType::f32, 80, ptx);
  row.tf32 = true;
  return row;
}

// 3xTF32 by this tf32 row.
Instruction split_by(std::string_view tf32_row, std::string_view name, int k) {
  Instruction row = dense(name, 16, k, ElemType::f32, ElemType::f32, 80, "");
  row.split = tf32_row;
  return row;
}

Instruction four_bits(std::string_view name, ElemType a, ElemType b, std::string_view ptx) {
  Instruction row = dense(name, 16, 64, ElemType::i32, a, 80, ptx);
  if (b != a) row.other = b;
  row.end_sm = kNoFourBits;
  return row;
}

Instruction single_bits(std::string_view name, std::string_view computes, std::string_view ptx) {
  Instruction row = dense(name, 16, 256, ElemType::i32, ElemType::u1, 80, ptx);
  row.end_sm = kNoSingleBits;
  row.computes = computes;
  return row;
}

// 2:4 sparsity of elements of 8 and 16 bits.
Instruction pairs(std::string_view name, int k, ElemType acc, ElemType a, int min_sm,
                  std::string_view ptx, std::optional<ElemType> b = {}) {
  Instruction row = dense(name, 16, k, acc, a, min_sm, ptx, b);
  row.keep = 2;
  row.of = 4;
  row.index_bits = 2;
  return row;
}

// 1:2 sparsity of 32-bit elements, whose metadata name two 16-bit halves.
Instruction halves(std::string_view name, int k, std::string_view ptx) {
  Instruction row = tf32(name, k, ptx);
  row.of = 2;
  row.index_bits = 4;
  return row;
}

}  // namespace

const std::vector<Instruction>& mma_rows() {
  using enum ElemType;
  static const std::vector<Instruction> rows = {
      dense("m16n8k16_f32_f16", 16, 16, f32, f16, 80, ".m16n8k16.row.col.f32.f16.f16.f32"),
      dense("m16n8k8_f32_f16", 16, 8, f32, f16, 75, ".m16n8k8.row.col.f32.f16.f16.f32"),
      dense("m16n8k16_f32_bf16", 16, 16, f32, bf16, 80, ".m16n8k16.row.col.f32.bf16.bf16.f32"),
      tf32("m16n8k8_f32_tf32", 8, ".m16n8k8.row.col.f32.tf32.tf32.f32"),
      tf32("m16n8k4_f32_tf32", 4, ".m16n8k4.row.col.f32.tf32.tf32.f32"),
      split_by("m16n8k8_f32_tf32", "m16n8k8_f32_tf32x3", 8),
      dense("m16n8k32_s32_s8", 16, 32, i32, i8, 80, ".m16n8k32.row.col.s32.s8.s8.s32"),
      dense("m16n8k32_s32_u8", 16, 32, i32, u8, 80, ".m16n8k32.row.col.s32.u8.u8.s32"),
      dense("m8n8k16_s32_s8", 8, 16, i32, i8, 75, ".m8n8k16.row.col.s32.s8.s8.s32"),
      dense("m8n8k16_s32_u8", 8, 16, i32, u8, 75, ".m8n8k16.row.col.s32.u8.u8.s32"),
      dense("m16n8k32_f32_e4m3", 16, 32, f32, f8e4m3, 89, ".m16n8k32.row.col.f32.e4m3.e4m3.f32"),
      dense("m16n8k32_f32_e5m2", 16, 32, f32, f8e5m2, 89, ".m16n8k32.row.col.f32.e5m2.e5m2.f32"),
      dense("m16n8k16_f16_f16", 16, 16, f16, f16, 80, ".m16n8k16.row.col.f16.f16.f16.f16"),
      dense("m16n8k8_f16_f16", 16, 8, f16, f16, 75, ".m16n8k8.row.col.f16.f16.f16.f16"),
      dense("m16n8k32_s32_u8_s8", 16, 32, i32, u8, 80, ".m16n8k32.row.col.s32.u8.s8.s32", i8),
      dense("m16n8k32_s32_s8_u8", 16, 32, i32, i8, 80, ".m16n8k32.row.col.s32.s8.u8.s32", u8),
      dense("m16n8k32_f32_e4m3_e5m2", 16, 32, f32, f8e4m3, 89,
            ".m16n8k32.row.col.f32.e4m3.e5m2.f32", f8e5m2),
      dense("m16n8k32_f32_e5m2_e4m3", 16, 32, f32, f8e5m2, 89,
            ".m16n8k32.row.col.f32.e5m2.e4m3.f32", f8e4m3),
      four_bits("m16n8k64_s32_s4", i4, i4, ".m16n8k64.row.col.s32.s4.s4.s32"),
      four_bits("m16n8k64_s32_u4", u4, u4, ".m16n8k64.row.col.s32.u4.u4.s32"),
      four_bits("m16n8k64_s32_u4_s4", u4, i4, ".m16n8k64.row.col.s32.u4.s4.s32"),
      four_bits("m16n8k64_s32_s4_u4", i4, u4, ".m16n8k64.row.col.s32.s4.u4.s32"),
      single_bits("m16n8k256_s32_b1_xor", kCountsXor, ".m16n8k256.row.col.s32.b1.b1.s32.xor.popc"),
      single_bits("m16n8k256_s32_b1_and", kCountsAnd, ".m16n8k256.row.col.s32.b1.b1.s32.and.popc"),
  };
  return rows;
}

const std::vector<Instruction>& sparse_mma_rows() {
  using enum ElemType;
  static const std::vector<Instruction> rows = {
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

std::string split_mma_text(const Instruction& row, std::string_view extra,
                           std::string_view argument) {
  const int d = row.acc_registers(), a = row.a_registers(), b = row.b_registers();
  const std::string more = extra.empty() ? "" : fmt::format(", {}", extra);
  const std::string with = argument.empty() ? "" : fmt::format(", {}", argument);
  std::string text = fmt::format(
      "\nTW_FN void tw_mma_{}(float (&d)[{}], const unsigned (&a)[{}], const unsigned (&b)[{}],\n"
      "    const float (&c)[{}]{}) {{\n"
      "  unsigned a_all[{}], a_high[{}], a_rest[{}], b_all[{}], b_high[{}], b_rest[{}];\n",
      row.name, d, a, b, d, more, a, a, a, b, b, b);
  for (auto [name, registers] : {std::pair{'a', a}, std::pair{'b', b}}) {
    text += fmt::format(
        "  for (int i = 0; i < {1}; ++i) {{\n"
        "    {0}_all[i] = {0}[i] & 0xffffe000u;\n"
        "    bool finite = ({0}[i] & 0x7f800000u) != 0x7f800000u;\n"
        "    {0}_high[i] = finite ? {0}_all[i] : 0;\n"
        "    {0}_rest[i] = finite ? tw_bits(tw_float({0}[i]) - tw_float({0}_high[i])) : 0;\n"
        "  }}\n",
        name, registers);
  }
  // The smallest products first. An infinity is in the last one alone: times a rest of zero it would be
  // no number.
  return text + fmt::format(
                    "  tw_mma_{0}(d, a_rest, b_high, c{1});\n"
                    "  tw_mma_{0}(d, a_high, b_rest, d{1});\n"
                    "  tw_mma_{0}(d, a_all, b_all, d{1});\n}}\n",
                    row.split, with);
}

}  // namespace tilewright
