// The programs that split a sparse weight into kept elements and metadata when it is loaded.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "ir/stmt.h"

namespace tilewright {

struct NmPattern {
  int64_t keep, of, vector;
  int k_dim, column_dim;  // dimensions of the weight
  // The value at which an element contributes nothing: 0, or its zero point. The zero point is the
  // element of `zero` at the indices that `zero_index` gives for those of the weight.
  Buffer zero = {};
  std::function<std::vector<Expr>(const std::vector<Expr>& at)> zero_index = {};
  // Extents of the weight with zero padding; 0 stands for the weight's own extent.
  int64_t rows = 0, columns = 0;
};

struct Compressed {
  Buffer values, rows;
  Program pack_values, pack_rows;
  std::vector<Expr> index;  // index into `rows` in the block that reads it
};

// `values` has ceil(k / of) * keep elements along k. `rows` has as many, one per `vector` columns.
// The rows of a group ascend. In a group with fewer than `keep` nonzero rows, its first other rows
// are kept too. A group with fewer than `keep` rows ends with values that contribute nothing.
//
// Both programs take the weight, and its zero points where it has some.
Compressed compress_weight(const Buffer& weight, const NmPattern& pattern,
                           const std::string& values_name, const std::string& rows_name);

}  // namespace tilewright
