// Compression of N:M sparse weights.
#pragma once

#include <string>
#include <vector>

#include "schedule/primitive.h"

namespace tilewright {

// Compresses an N:M sparse weight into its kept elements and their rows (the sparse metadata). The
// contraction runs over the kept elements and gathers its other operands at their rows:
//
//   main(B: f32[k, n] weight)  for k { C[i, j] += A[i, k] * B[k, j] }
//   ->  pack_B(B, B_values: f32[k/of*keep, n])            the kept elements, 0 where there are fewer
//       pack_B(B, B_rows: u8[k/of*keep, n/vector])        their rows within the group
//       main(B_values weight, B_rows weight)
//         for r { C[i, j] += A[i, r/keep*of + B_rows[r, j/vector]] * B_values[r, j] }
//
// Where rows take a byte and `of` is a power of two, they are read as B_rows[…] % of. This does not
// change them, and it bounds the distance between the elements of A.
//
// The caller guarantees that the weight obeys the pattern. In each group of `of` rows by `vector`
// columns, all elements except those of `keep` rows are 0. They are at their zero points instead
// where the product has the factor (B[k, j] - zero[…]). The zero points are then an operand of the
// pack programs too.
//
// Requires:
//  - A weight as it is stored, read by `block` alone, at iterators. The last spatial one counts the
//    columns.
//  - Of several reduce iterators, the last one is compressed and runs over whole groups.
//  - A sum of products with the weight as a factor, so that omitted elements contribute nothing.
//  - The compressed iterator's loop is as lowering makes it.
//  - A last group of fewer than `keep` rows needs zero points of the weight's type.
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
