// Weights as a kernel's packing functions lay them out.
#pragma once

#include <map>
#include <string>

#include "codegen/kernel_source.h"
#include "runtime/kernel.h"
#include "runtime/operands.h"

namespace tilewright {

// Compiles the packing functions of `packing`, runs them on the operands, and returns what they
// fill, by name; nothing where there is no code. Throws ToolchainError and CompileError as `compile`
// does.
std::map<std::string, Workspace> pack_weights(const KernelSource& packing, OperandSet& operands);

}  // namespace tilewright
