// Compression of sparse weights in contractions whose operands are already padded and copied.
#pragma once

#include <string>
#include <vector>

#include "schedule/primitive.h"

namespace tilewright {

// compress_nm for an operand that a block makes of the weight. The operand may have zero padding,
// and elements of another type. With 2:4, k = 62 and n = 30:
//
//   V[k, j] = select(k < 62 && j < 30, value of B[k, j], 0)   over 64 x 32
//   C[i, j] += A[i, k] * V[k, j]
// ->
//   pack_B(B, B_values: f32[32, 32])   the kept elements, 0 around them
//   pack_B(B, B_rows: u2[32, 32])      their rows within the group, which ascend
//   V[r, j] = select(r < 31 && j < 30, value of B_values[r, j], 0)
//   C[i, j] += A[i, r/2*4 + B_rows[r, j]] * V[r, j]
//
// `vector` neighbouring columns share their rows: B_rows[r, j/vector]. Where rows take a byte and
// `of` is a power of two, they are read as B_rows[…] % of. The caller guarantees the pattern, as
// for compress_nm.
//
// Results: the names of the kept elements and of their rows.
//
// Requires:
//  - A block as it was lowered: a sum of products with `operand` as a factor, which it reads at a
//    reduce and a spatial iterator.
//  - An intermediate that one block of one store makes of the weight, element by element. Nobody
//    else reads it, and nobody else reads the weight.
//  - Whole groups in the reduction, in the weight, and in whatever else the value looks up along k.
struct CompressOperand {
  static constexpr std::string_view kName = "compress_operand";
  std::string block, operand, weight;
  int64_t keep = 0, of = 0, vector = 1;
  template <class F>
  void visit_fields(F&& f) {
    f("block", block);
    f("operand", operand);
    f("weight", weight);
    f("keep", keep);
    f("of", of);
    f("vector", vector);
  }
  Applied apply(const Module& module) const;
};

std::vector<PrimitiveEntry> compress_operand_primitives();

}  // namespace tilewright
