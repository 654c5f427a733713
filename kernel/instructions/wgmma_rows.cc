#include "kernel/instructions/wgmma_rows.h"

#include <fmt/format.h>

#include <deque>
#include <string>
#include <utility>

namespace tilewright {
namespace {

constexpr int kFirstCapability = 90, kEndCapability = 100;

// The rows that differ only in n.
struct Family {
  int k;
  ElemType acc, a, b;
  bool tf32;
  const char* types;  // the types of D, A and B as PTX names them
  const char* name;   // the end of the row's name
};

const std::vector<Family>& families() {
  using enum ElemType;
  static const std::vector<Family> all = {
      {16, f32, f16, f16, false, "f32.f16.f16", "f32_f16"},
      {16, f32, bf16, bf16, false, "f32.bf16.bf16", "f32_bf16"},
      {16, f16, f16, f16, false, "f16.f16.f16", "f16_f16"},
      {8, f32, f32, f32, true, "f32.tf32.tf32", "f32_tf32"},
      {32, f32, f8e4m3, f8e4m3, false, "f32.e4m3.e4m3", "f32_e4m3"},
      {32, f32, f8e5m2, f8e5m2, false, "f32.e5m2.e5m2", "f32_e5m2"},
      {32, f32, f8e4m3, f8e5m2, false, "f32.e4m3.e5m2", "f32_e4m3_e5m2"},
      {32, f32, f8e5m2, f8e4m3, false, "f32.e5m2.e4m3", "f32_e5m2_e4m3"},
      {32, f16, f8e4m3, f8e4m3, false, "f16.e4m3.e4m3", "f16_e4m3"},
      {32, f16, f8e5m2, f8e5m2, false, "f16.e5m2.e5m2", "f16_e5m2"},
      {32, i32, i8, i8, false, "s32.s8.s8", "s32_s8"},
      {32, i32, u8, u8, false, "s32.u8.u8", "s32_u8"},
      {32, i32, i8, u8, false, "s32.s8.u8", "s32_s8_u8"},
      {32, i32, u8, i8, false, "s32.u8.s8", "s32_u8_s8"},
  };
  return all;
}

// PTX ISA, wgmma.mma_async: the shapes of each kind of operands.
bool has_columns(const Family& family, int n) {
  constexpr int kMostFine = 32;
  return is_float(family.a) || n <= kMostFine || n % (2 * kCoreRows) == 0;
}

// Rows refer to the texts that are kept here.
std::string_view kept(std::string text) {
  static std::deque<std::string> texts;
  return texts.emplace_back(std::move(text));
}

Instruction row_of(const Family& f, int n, bool is_sparse) {
  const std::string shape = fmt::format("m{}n{}k{}", kWarpgroupRows, n, is_sparse ? 2 * f.k : f.k);
  Instruction row{kept(fmt::format("{}{}_{}", is_sparse ? "sp_" : "", shape, f.name)),
                  kWarpgroupRows,
                  n,
                  is_sparse ? 2 * f.k : f.k,
                  f.acc,
                  f.a,
                  f.tf32,
                  kFirstCapability,
                  kept(fmt::format("wgmma.mma_async{}.sync.aligned.{}.{}", is_sparse ? ".sp" : "",
                                   shape, f.types))};
  if (f.b != f.a) row.other = f.b;
  row.end_sm = kEndCapability;
  row.lanes = kWarpgroup;
  if (is_sparse) {  // 1:2 of 32-bit elements, named by their two 16-bit halves; else 2:4
    const bool halves = row.operand_bits() == 32;
    row.keep = halves ? 1 : 2;
    row.of = halves ? 2 : 4;
    row.index_bits = halves ? 4 : 2;
  }
  return row;
}

std::vector<Instruction> make_rows(bool are_sparse) {
  constexpr int kMostColumns = 256;
  std::vector<Instruction> rows;
  for (const Family& f : families()) {
    for (int n = kCoreRows; n <= kMostColumns; n += kCoreRows) {
      if (has_columns(f, n)) rows.push_back(row_of(f, n, are_sparse));
    }
  }
  return rows;
}

}  // namespace

const std::vector<Instruction>& wgmma_rows() {
  static const std::vector<Instruction> rows = make_rows(false);
  return rows;
}

const std::vector<Instruction>& sparse_wgmma_rows() {
  static const std::vector<Instruction> rows = make_rows(true);
  return rows;
}

}  // namespace tilewright
