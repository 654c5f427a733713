// Kernels for GPUs as commands take them: stored ones with their machine code, and untuned ones.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "cli/lookup.h"
#include "kernel/cuda_description.h"

namespace tilewright::cli {

struct GpuKernel {
  CudaDescription description;                        // its source with its text
  std::string cubin;                                  // empty: not compiled
  std::string config;                                 // the sketch's choices, a JSON object
  std::string origin;                                 // where it comes from, a few words for people
  bool predicted = false;                             // ranked by a model, never measured
  std::optional<database::DispatchRange> range = {};  // of the dispatch table that has chosen it
};

// Throws DatabaseError that names the workload when what is stored is not sound.
GpuKernel stored_gpu_kernel(const Workload& workload, const database::Record& record,
                            const database::Artifact& artifact);
// The untuned default, not compiled.
GpuKernel default_gpu_kernel(const Workload& workload, const Target& target);
// The kernel that the options ask for: the best of the database, measured or predicted, or the
// default. A dispatch table gives the kernel for these sizes of the dynamic dimensions. Throws
// MissError with the advice `otherwise`.
GpuKernel gpu_kernel_for(const Workload& workload, const CommonOptions& options,
                         const Lookup& lookup, bool untuned, const std::string& otherwise,
                         const std::map<std::string, int64_t>& sizes = {});

// Makes the machine code where it is missing. Throws ToolchainError without NVRTC.
void compile_kernel(GpuKernel& kernel, const Target& target);

}  // namespace tilewright::cli
