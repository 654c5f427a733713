// The programs that take a sparse weight apart when it is loaded.
#pragma once

#include <string>
#include <vector>

#include "ir/stmt.h"

namespace tilewright {

struct NmPattern {
  int64_t keep, of, vector;
  int k_dim, column_dim;  // of the weight
};

struct Compressed {
  Buffer values, rows;
  Program pack_values, pack_rows;
  std::vector<Expr> index;  // of `rows`, in the block that reads it
};

// `values` has ceil(k / of) * keep elements along k; `rows` as many, one for `vector` columns. Where
// a group has fewer than `keep` rows that are not zero, the values are 0 and the rows within it.
Compressed compress_weight(const Buffer& weight, const NmPattern& pattern,
                           const std::string& values_name, const std::string& rows_name);

}  // namespace tilewright
