// The roles of operands and iterators of a sum of products for an intrinsic.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "schedule/schedule.h"

namespace tilewright {

// A spatial iterator that can run along the accumulator's lanes. If `group` is not 0, the first
// operand depends on floordiv(iterator, group), a batch dimension; the remainder runs along the
// lanes.
struct LaneRole {
  int iter;
  int64_t group;
};

// Reads per element of an operand that make copying its windows (im2col) worth it.
inline constexpr int64_t kWorthAGather = 16;

// One reading of C[…] += A[…] * B[…]. Points into the schedule's program.
struct TensorRoles {
  const StoreNode* sum = nullptr;
  const LoadNode *a = nullptr, *b = nullptr;
  bool weight = false;          // b is a weight
  std::vector<LaneRole> lanes;  // the result's last index first
  std::vector<int> terms;       // reduction iterators of both operands
  std::map<int, int> dims;  // iterators that are the last digit of an index of a: that dimension
  std::vector<int> row;     // iterators of the last two dimensions of a, if they cover these
  int64_t reuse_of_a = 1;   // reads per element of a
  std::string refusal;      // why there are no lanes or no terms

  int dimension_of(int iter) const {
    auto it = dims.find(iter);
    return it == dims.end() ? -1 : it->second;
  }
  const std::vector<int>& window_row() const { return row; }
};

// The readings of a block in its lowered form: one if an operand is a weight, else two. None, with
// a reason, if it does not sum products of two operands.
std::vector<TensorRoles> tensor_roles(const Schedule& s, const Block& block, std::string* refusal);

// The name without its prefix, as loops have it: "ci" for iterator "vci".
std::string iterator_name(const BlockNode& block, int iter);

}  // namespace tilewright
