// A convolution as a product of matrices.
#pragma once

#include <optional>
#include <vector>

#include "schedule/schedule.h"
#include "tuner/rules/cpu/tensor_roles.h"
#include "tuner/rules/rules.h"

namespace tilewright {

// The iterators of a product of an operand and a weight by the matrices' axes: rows are the operand's,
// the column is the weight's, and both have the terms of the sum. The operand's neighbours are terms of
// the last iterator.
struct MatrixAxes {
  std::vector<int> rows, terms;
  int column;
};

// Nothing if an iterator belongs to another axis (groups, a batch of weights), or its size is no constant.
std::optional<MatrixAxes> matrix_axes(const BlockNode& block, const TensorRoles& roles);

// Rewrites the block to C[i, j] += A[i, k] * B[j, k]. A is a copy of the operand (im2col) whose rows are
// windows; padding is computed in it, and the last iterator of the terms is padded to a multiple of
// `neighbours`. B is laid out at load.
void view_as_matrix(RuleContext& c, const Block& block, const MatrixAxes& axes, int64_t neighbours);

// Unrolls the positions of a window in the loops of a copy by vectors, if `neighbours` elements lie together at
// each (0: it is no window). Addresses and conditions of padding are told by the position.
void unroll_positions(Schedule& s, const Block& copy, int64_t neighbours);

}  // namespace tilewright
