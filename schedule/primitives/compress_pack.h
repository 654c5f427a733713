// The programs that take a sparse weight apart when it is loaded.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "ir/stmt.h"

namespace tilewright {

struct NmPattern {
  int64_t keep, of, vector;
  int k_dim, column_dim;  // of the weight
  // Where an element is worth nothing: at 0, or at its zero point, the element of `zero` at the
  // indices that belong to those of the weight.
  Buffer zero = {};
  std::function<std::vector<Expr>(const std::vector<Expr>& at)> zero_index = {};
  // The weight's rows and columns with zeros behind them; as many as there are where 0.
  int64_t rows = 0, columns = 0;
};

struct Compressed {
  Buffer values, rows;
  Program pack_values, pack_rows;
  std::vector<Expr> index;  // of `rows`, in the block that reads it
};

// `values` has ceil(k / of) * keep elements along k; `rows` as many, one for `vector` columns. The
// rows of a group ascend. Where fewer than `keep` of them are worth anything, the first others of the
// group are kept, too; a group with fewer rows than that ends with values that are worth nothing.
// Both programs take the weight, and its zero points where it has some.
Compressed compress_weight(const Buffer& weight, const NmPattern& pattern,
                           const std::string& values_name, const std::string& rows_name);

}  // namespace tilewright
