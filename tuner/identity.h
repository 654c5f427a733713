// Which machine a kernel was tuned for.
#pragma once

#include "codegen/target.h"
#include "database/record.h"

namespace tilewright {

// The identity of `target` on this machine: chip, the ISA features that generated code may use,
// cores, and cache sizes. Kernels are shared only between machines whose identities are equal.
database::TargetIdentity target_identity(const Target& target);

// "AMD EPYC 9B14", as the system names the processor.
std::string chip_name();

}  // namespace tilewright
