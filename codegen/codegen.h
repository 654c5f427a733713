// Code generation: a scheduled module becomes the source of a kernel.
#pragma once

#include <vector>

#include "codegen/lowering.h"
#include "ir/stmt.h"
#include "kernel/cuda_source.h"
#include "kernel/kernel_source.h"
#include "kernel/target.h"

namespace tilewright {

// The annotation of a CPU's loop. A number: its iterations fetch what they read of weights so many bytes ahead.
// kNextPanel: they fetch it for the next panel. A panel is what the loops around read of a weight again and again
// before they go on; each of these rounds fetches an equal share.
inline constexpr const char* kFetchAhead = "fetch_ahead";
inline constexpr const char* kNextPanel = "next_panel";

// Describes the parameters that a caller of the kernel must pass. Throws LoweringError for a size
// that the caller cannot compute. A size known only at launch must be a sum of dynamic dimensions
// times constants, or its quotient by a constant.
std::vector<KernelParam> describe_params(const Program& program);

// C for a CPU target: one exported function for the main program and one for each pack program.
// Throws LoweringError where the program cannot be lowered as scheduled.
KernelSource generate_c(const Module& module, const Target& target,
                        const LoweringOptions& options = {});

// C for any CPU: a function for each pack program, and a main function that does nothing.
KernelSource generate_packing(const std::vector<Program>& packs);

// CUDA C++ for a CUDA target: one kernel for each nest of the main program. The result also has C
// for a CPU that lays out weights at load time. Throws LoweringError where the program cannot be
// lowered as scheduled, or is not printed for GPUs yet.
CudaSource generate_cuda(const Module& module, const Target& target,
                         const LoweringOptions& options = {});

}  // namespace tilewright
