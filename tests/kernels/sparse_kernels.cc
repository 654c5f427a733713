#include "tests/kernels/sparse_kernels.h"

#include <bit>
#include <random>

#include "runtime/tensor/element.h"
#include "tests/kernels/cuda_kernels.h"

namespace tilewright::test {
namespace {

const char* const kSparse = R"(
extern "C" __global__ void __launch_bounds__(32) sparse(TW_IN(unsigned) A, TW_IN(unsigned) B,
                                                        TW_IN(unsigned) E, TW_OUT({ACC}) C) {
  const int lane = threadIdx.x;
  unsigned a[{NA}], b[{NB}];
  for (int i = 0; i < {NA}; ++i) a[i] = A[lane * {NA} + i];
  for (int i = 0; i < {NB}; ++i) b[i] = B[lane * {NB} + i];
  {ACC} d[4] = {0, 0, 0, 0};
  tw_mma_{ROW}<{S}>(d, a, b, d, E[lane]);
  const int row = lane / 4, column = lane % 4 * 2;
  C[row * 8 + column] = d[0];
  C[row * 8 + column + 1] = d[1];
  C[(row + 8) * 8 + column] = d[2];
  C[(row + 8) * 8 + column + 1] = d[3];
}
)";

uint32_t bits_of_value(const Instruction& row, ElemType elem, double value) {
  if (row.tf32) return std::bit_cast<uint32_t>(static_cast<float>(value));
  return static_cast<uint32_t>(encode_element(elem, value));
}

}  // namespace

std::string sparse_kernel(const Instruction& row, int selector) {
  std::string text = kSparse;
  replace_all(text, "{ACC}", cuda_type(row.acc));
  replace_all(text, "{NA}", std::to_string(row.a_registers()));
  replace_all(text, "{NB}", std::to_string(row.b_registers()));
  replace_all(text, "{ROW}", std::string(row.name));
  replace_all(text, "{S}", std::to_string(selector));
  return text;
}

SparseOperands sparse_operands(const Instruction& row, int selector, uint32_t seed) {
  std::mt19937 random(seed);
  auto below = [&](uint32_t n) { return static_cast<int>(random() % n); };
  SparseOperands o;
  o.a.assign(static_cast<size_t>(row.m * row.k), 0);
  o.b.assign(static_cast<size_t>(row.k * row.n), 0);
  for (double& x : o.b) x = below(7) - (row.b_operand() == ElemType::u8 ? 0 : 3);
  std::vector<double> kept(static_cast<size_t>(row.m * row.kept()));
  std::vector<int> places(kept.size());
  for (int i = 0; i < row.m; ++i) {
    for (int g = 0; g < row.k / row.of; ++g) {
      int least = 0;
      for (int s = 0; s < row.keep; ++s) {
        // Somewhere behind the one before, with room for those that follow.
        const int place = least + below(static_cast<uint32_t>(row.of - row.keep + s + 1 - least));
        const auto at = static_cast<size_t>(i * row.kept() + g * row.keep + s);
        kept[at] = 1 + below(5);
        places[at] = place;
        o.a[static_cast<size_t>(i * row.k + g * row.of + place)] = kept[at];
        least = place + 1;
      }
    }
  }
  for (int lane = 0; lane < 32; ++lane) {
    for (int r = 0; r < row.a_registers(); ++r) {
      uint32_t word = 0;
      for (int part = 0; part < row.packed(); ++part) {
        MatrixPlace at = row.a().at(lane, r * row.packed() + part);
        const double value = kept[static_cast<size_t>(at.row * row.kept() + at.column)];
        word |= bits_of_value(row, row.operand, value) << (part * row.operand_bits() % 32);
      }
      o.a_registers.push_back(word);
    }
    for (int r = 0; r < row.b_registers(); ++r) {
      uint32_t word = 0;
      for (int part = 0; part < row.packed(); ++part) {
        MatrixPlace at = row.b().at(lane, r * row.packed() + part);
        const double value = o.b[static_cast<size_t>(at.row * row.n + at.column)];
        word |= bits_of_value(row, row.b_operand(), value) << (part * row.operand_bits() % 32);
      }
      o.b_registers.push_back(word);
    }
    auto is_named = [&](MatrixPlace at) { return at.column / row.kept() == selector; };
    uint32_t word = is_named(row.metadata().at(lane, 0)) ? 0 : ~0u;
    for (int i = 0; i < row.indices_in_word(); ++i) {
      const MatrixPlace at = row.metadata().at(lane, i);
      if (!is_named(at)) continue;
      const int place = places[static_cast<size_t>(at.row * row.kept() + at.column % row.kept())];
      const uint32_t bits = row.index_bits == 2 ? static_cast<uint32_t>(place) : place ? 14 : 4;
      word |= bits << (i * row.index_bits);
    }
    o.metadata.push_back(word);
  }
  return o;
}

}  // namespace tilewright::test
