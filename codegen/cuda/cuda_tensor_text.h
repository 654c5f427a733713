// The text of calls that are statements, and the tensor maps of TMA copies.
#pragma once

#include <string>
#include <vector>

#include "codegen/cuda/cuda_async_op.h"
#include "codegen/cuda/cuda_expr.h"
#include "kernel/tensor_map.h"

namespace tilewright {

/// The lines of a call that is a statement, and no TMA copy by a map. Throws LoweringError where GPUs
/// have no such statement.
std::vector<std::string> call_lines(const CallNode& call, CudaExpr& expr);
/// The lines of a TMA copy by the map of this name.
std::vector<std::string> transfer_lines(const TensorTransfer& copy, const std::string& map,
                                        CudaExpr& expr);

/// The tensor map of a copy. `buffer` is the operand's position among what the kernel may be given.
/// Throws LoweringError where rows of the box do not lie in shared memory as a map says.
TensorMap tensor_map_of(const TensorTransfer& op, int buffer);
bool same_map(const TensorMap& a, const TensorMap& b);

}  // namespace tilewright
