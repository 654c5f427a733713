// Sparse weights without the elements that are worth nothing.
#pragma once

#include <string>
#include <vector>

#include "schedule/primitive.h"

namespace tilewright {

// Keeps of an N:M sparse weight the elements that may be worth anything, and where they stood; the
// contraction runs over them and reads its other operands where they belong:
//
//   main(B: f32[k, n] weight)  for k { C[i, j] += A[i, k] * B[k, j] }
//   ->  pack_B(B, B_values: f32[k/of*keep, n])            the kept elements, 0 where there are fewer
//       pack_B(B, B_rows: u8[k/of*keep, n/vector])        their rows within the group
//       main(B_values weight, B_rows weight)
//         for r { C[i, j] += A[i, r/keep*of + B_rows[r, j/vector]] * B_values[r, j] }
//
// Where rows take a byte and `of` is a power of two, they are read as B_rows[…] % of, which is what
// they are and tells how far apart the elements of A lie.
// The caller vouches that the weight obeys the pattern: in each group of `of` rows by `vector`
// columns all elements but those of `keep` rows are 0, or at their zero points where the product has
// (B[k, j] - zero[…]) as a factor; these then are an operand of the pack programs, too.
// Requires: a weight as it is stored, read by `block` alone, at iterators, the last spatial one of
// which counts the columns; of several reduce iterators the last runs over whole groups, and is the
// one that is compressed; a sum of products of which the weight is a factor, so that what is left
// out is worth nothing; that iterator's loop as lowering makes it. A last group of fewer than `keep`
// rows needs zero points of the weight's type.
struct CompressNm {
  static constexpr std::string_view kName = "compress_nm";
  std::string block, buffer;
  int64_t keep = 0, of = 0, vector = 1;
  template <class F>
  void visit_fields(F&& f) {
    f("block", block);
    f("buffer", buffer);
    f("keep", keep);
    f("of", of);
    f("vector", vector);
  }
  Applied apply(const Module& module) const;
};

std::vector<PrimitiveEntry> compress_primitives();

}  // namespace tilewright
