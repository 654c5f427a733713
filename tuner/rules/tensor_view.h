// A contraction brought into the form C[…, j] += A[…, k] * B[…, j, …, k, …].
#pragma once

#include <string>

#include "tuner/rules/rules.h"
#include "tuner/rules/tensor_mapping.h"

namespace tilewright {

// What stands where in it.
struct TensorView {
  std::string a, b;  // buffers
  int j = -1, k = -1;
  bool weight = true;
  bool own = false;  // a is an intermediate, laid out for the block alone
};

// Rewrites the block so that the mapping's iterators are single ones, j the last index of the result
// and k that of the first operand, and each index of the second operand one iterator. Does nothing
// where that is so already. A second operand that is no weight becomes an intermediate.
TensorView view_as_intrinsic(RuleContext& c, const Block& block, const TensorMapping& mapping);

// The block that writes a buffer.
Block writer_of(const Schedule& s, const std::string& buffer);

}  // namespace tilewright
