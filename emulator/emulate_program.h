// A whole CUDA program in the emulator: its weights packed, its launches at the sizes of its operands.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "emulator/emulator.h"
#include "kernel/cuda_description.h"
#include "runtime/tensor/operands.h"

namespace tilewright {

/// Runs the launches of `program`, whose source is here with its text, on the operands at these values
/// of its dynamic dimensions; the output is written to its operand. Throws KernelError for a parameter
/// that is neither an operand nor packed, and CompileError or ToolchainError where the C++ compiler is
/// missing or refuses the text.
EmulatorResult emulate_program(const CudaDescription& program, OperandSet& operands,
                               const std::vector<int64_t>& dims,
                               const EmulatorOptions& options = {});

/// The same on buffers for the parameters, in their order, packed weights among them.
EmulatorResult emulate_program(const CudaDescription& program, std::vector<EmulatedBuffer> params,
                               const std::vector<int64_t>& dims,
                               const EmulatorOptions& options = {});

}  // namespace tilewright
