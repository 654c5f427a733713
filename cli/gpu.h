// GPUs: which one is here, and what the model says of kernels for those that are not.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "cli/lookup.h"
#include "runtime/cuda/device.h"
#include "tuner/gpu/gpu_model.h"

namespace tilewright::cli {

// The GPU of this machine, or why there is none. Nothing is opened.
struct GpuHere {
  std::optional<cuda::DeviceFacts> facts;
  std::string problem;

  // Whether it runs machine code of the target.
  bool runs(const Target& target) const;
};
const GpuHere& gpu_here();
// Whether kernels of the target run on it. Looks for a GPU only where the target is one.
bool runs_on_gpu_here(const Target& target);

// The target by the data sheet of the GPU that runs it here, as the roofline of measured times wants
// it; itself where none does.
Target as_measured(Target target);

// Throws TargetError that says why kernels of the target do not run here, and what can be done
// without them.
void require_gpu(const Target& target);

// The model's estimate of a stored kernel, with its compiler's facts.
GpuEstimate stored_estimate(const Workload& workload, const Lookup& lookup,
                            const database::Record& record,
                            const std::optional<database::Artifact>& artifact);
nlohmann::ordered_json json_of(const GpuEstimate& estimate);
// Facts that a measurement needs to mean something: the device, its driver and its clocks.
nlohmann::ordered_json json_of(const cuda::DeviceFacts& facts);
// On standard output, indented.
void print_estimate(const nlohmann::ordered_json& estimate);

// PTX of a kernel: the assembly that the driver turns into machine code. Throws ToolchainError
// without NVRTC.
std::string gpu_assembly(const std::string& cuda_text, const Target& target);

}  // namespace tilewright::cli
