// A kernel of a lowered program with its instructions: the marked nests, each matched once. The
// printer and the cost model only read them.
#pragma once

#include <map>
#include <variant>
#include <vector>

#include "codegen/cuda/instructions/cuda_dot.h"
#include "codegen/cuda/instructions/cuda_mma.h"
#include "codegen/cuda/instructions/cuda_shuffle.h"
#include "codegen/cuda/instructions/cuda_stmatrix.h"
#include "codegen/cuda/instructions/cuda_wgmma_nest.h"
#include "codegen/statements.h"
#include "ir/stmt.h"
#include "kernel/target.h"

namespace tilewright {

using InstructionNest = std::variant<MmaNest, WgmmaNest, StmatrixNest, ShuffleNest, DotNest>;

struct CudaKernel {
  Stmt body;
  std::map<const ForNode*, InstructionNest> instructions = {};  ///< by the outermost loop of a nest
  /// Buffers by their use. A buffer that only TMA copies move is passed by maps and in neither.
  BufferSet read = {}, stored = {};
  bool loads_boxes = false, stores_boxes = false;  ///< by TMA

  /// The instruction that the loop is; null for other loops.
  const InstructionNest* instruction(const ForNode& loop) const;
  /// Whether it has asynchronous matrix instructions.
  bool has_wgmma() const;
  /// Whether threads store what these read from shared memory. A fence to the asynchronous proxy
  /// then stands before barriers.
  bool stores_wgmma_operands() const;
};

/// The kernel `body` of a program that lower_for_cuda() has lowered, with these dimensions. Throws
/// LoweringError that names a loop whose nest is not the instruction it is marked with, and the
/// requirement that it misses, or an instruction that the target does not have.
CudaKernel match_kernel(const Stmt& body, const std::vector<DimVar>& dims, const Target& target);

}  // namespace tilewright
