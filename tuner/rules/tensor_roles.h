// What the operands and iterators of a sum of products are to an intrinsic.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "schedule/schedule.h"

namespace tilewright {

// A spatial iterator that can run along the lanes of the accumulator. Where `group` is not 0, the
// first operand depends on floordiv(iterator, group): a batch dimension, and the rest are the lanes.
struct LaneRole {
  int iter;
  int64_t group;
};

// One reading of C[…] += A[…] * B[…]. Points into the schedule's program.
struct TensorRoles {
  const StoreNode* sum = nullptr;
  const LoadNode *a = nullptr, *b = nullptr;
  bool weight = false;          // b is one
  std::vector<LaneRole> lanes;  // the result's last index first
  std::vector<int> terms;       // reduction iterators of both operands
  std::map<int, int> dims;  // for iterators whose terms are the last digit of an index of a: which
  std::vector<int> row;     // the iterators of the last two dimensions of a, when they run whole
  int64_t reuse_of_a = 1;   // times that each element of a is read
  std::string refusal;      // why there are no lanes or no terms

  int dimension_of(int iter) const {
    auto it = dims.find(iter);
    return it == dims.end() ? -1 : it->second;
  }
  const std::vector<int>& window_row() const { return row; }
};

// The readings of a block that is as it was lowered: one where an operand is a weight, else two.
// None, and the reason, when it sums no product of two operands.
std::vector<TensorRoles> tensor_roles(const Schedule& s, const Block& block, std::string* refusal);

// As loops call it: "ci" for iterator "vci".
std::string iterator_name(const BlockNode& block, int iter);

}  // namespace tilewright
