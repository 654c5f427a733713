// Weights as a CUDA program's packing functions lay them out, on a CPU.
#pragma once

#include <map>
#include <string>

#include "kernel/cuda_description.h"
#include "runtime/load/kernel.h"
#include "runtime/tensor/operands.h"
#include "runtime/thread_pool.h"

namespace tilewright {

// source.packing compiled for this machine; an empty object where nothing is laid out. Throws
// ToolchainError and CompileError as `compile` does.
CompiledPacking compile_packing(const KernelSource& packing);

// Runs the program's packing functions on the operands, and returns what they fill, by name. Compiles
// them only where no object came along for this kind of processor: throws as compile_packing() does.
// Throws KernelError for a function that takes what the operands are not.
std::map<std::string, Workspace> pack_weights(const CudaDescription& program, OperandSet& operands,
                                              ThreadPool& pool);

}  // namespace tilewright
