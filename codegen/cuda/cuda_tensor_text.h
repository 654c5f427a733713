// The text of calls that are statements, and the tensor maps of TMA copies.
#pragma once

#include <string>
#include <utility>
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

/// The tensor maps of a kernel's copies, which are parameters.
class TensorMaps {
 public:
  /// `buffers` are those that the kernel may be given, in order.
  explicit TensorMaps(std::vector<Buffer> buffers) : buffers_(std::move(buffers)) {}

  /// The name of a copy's map: one for all copies with the same map. Throws LoweringError where rows
  /// of the box do not lie in shared memory as a map says.
  const std::string& of(const TensorTransfer& copy, CudaExpr& expr);

  const std::vector<Buffer>& buffers() const { return buffers_; }
  const std::vector<std::string>& names() const { return names_; }
  const std::vector<TensorMap>& maps() const { return maps_; }

 private:
  std::vector<Buffer> buffers_;
  std::vector<std::string> names_;
  std::vector<TensorMap> maps_;  // by name
};

}  // namespace tilewright
