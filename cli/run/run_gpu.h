// tune-cli run for CUDA targets: on the GPU, or in the emulator.
#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "cli/gpu_kernel.h"
#include "runtime/tensor/operands.h"

namespace tilewright::cli {

// The outcome of a kernel's run on the caller's data.
struct GpuRunReport {
  std::string fault;  // empty: the output is written
  // The work of warps, where it ran in the emulator: counters by name.
  std::map<std::string, int64_t> counters;
};

// Runs the kernel on the operands at these dimensions, on this machine's GPU. Throws DeviceError where
// there is none.
GpuRunReport run_on_gpu(const Workload& workload, GpuKernel& kernel, const Target& target,
                        OperandSet& operands, const std::map<std::string, int64_t>& dims);
// The same in the emulator, with no GPU. Throws ToolchainError without a C++ compiler.
GpuRunReport run_in_emulator(const Workload& workload, const GpuKernel& kernel,
                             OperandSet& operands, const std::map<std::string, int64_t>& dims);

}  // namespace tilewright::cli
