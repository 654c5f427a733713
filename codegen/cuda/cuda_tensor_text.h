// The text of operations on mbarriers and of TMA copies, and the tensor maps of these.
#pragma once

#include <string>
#include <vector>

#include "codegen/cuda/cuda_async_op.h"
#include "codegen/cuda/cuda_expr.h"
#include "kernel/tensor_map.h"

namespace tilewright {

/// The lines of a statement that is no TMA copy by a map.
std::vector<std::string> async_lines(const AsyncOp& op, CudaExpr& expr);
/// The lines of a TMA copy by the map of this name.
std::vector<std::string> box_lines(const AsyncOp& op, const std::string& map, CudaExpr& expr);

/// The tensor map of a copy. `buffer` is the operand's position among what the kernel may be given.
/// `swizzled_row` is the number of elements in a row of the swizzled array in shared memory, or 0.
/// Throws LoweringError where rows of the box do not lie in shared memory as a map says.
TensorMap tensor_map_of(const AsyncOp& op, int buffer, int64_t swizzled_row);
bool same_map(const TensorMap& a, const TensorMap& b);

}  // namespace tilewright
