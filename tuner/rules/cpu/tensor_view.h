// A contraction in the form C[…, j] += A[…, k] * B[…, j, …, k, …].
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tuner/rules/cpu/tensor_mapping.h"
#include "tuner/rules/rules.h"

namespace tilewright {

// The buffers and iterators of that form.
struct TensorView {
  std::string a, b;  // buffers
  int j = -1, k = -1;
  bool weight = true;
  bool own = false;  // a is an intermediate, laid out for this block only
};

// Rewrites the block until the mapping's iterators are single ones. j becomes the last index of the
// result, k the last of the first operand, and each index of the second operand one iterator. Skips
// what fits already. A second operand that is not a weight becomes an intermediate.
TensorView view_as_intrinsic(RuleContext& c, const Block& block, const TensorMapping& mapping);

// The block that writes a buffer.
Block writer_of(const Schedule& s, const std::string& buffer);

// Whether the buffer is an intermediate with one reader: its layout is free, and it can be inlined.
bool has_one_reader(const Schedule& s, const std::string& buffer);

// Pads the iterators of a block (pad_einsum). Returns the operands that it reads now, by those before.
std::map<std::string, std::string> pad_iterators(Schedule& s, const Block& block,
                                                 const std::vector<int64_t>& multiples);

}  // namespace tilewright
