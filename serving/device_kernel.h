// A kernel that is loaded on a device, whatever device that is.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "database/record.h"
#include "kernel/kernel_abi.h"
#include "kernel/kernel_source.h"
#include "runtime/load/kernel.h"
#include "serving/operand.h"

namespace tilewright::serving {

// Resources of a launch besides its operands.
struct Resources {
  tw_context context;  // of a CPU kernel; its workspace is that of the launch on every device
  void* stream = nullptr;
};

// Memory that a launch needs besides its operands, in bytes.
struct WorkspaceNeed {
  int64_t shared = 0;
  int64_t per_thread = 0;

  int64_t bytes(int threads) const { return shared + threads * per_thread; }
};

// A buffer of packed weights on a kernel's device.
struct PackedBuffer {
  std::string name;  // of the parameter that takes it
  std::shared_ptr<void> data;
  int64_t bytes = 0;
};

// Never changes after it was loaded: many threads may launch it at once.
class DeviceKernel {
 public:
  virtual ~DeviceKernel() = default;
  DeviceKernel(const DeviceKernel&) = delete;
  DeviceKernel& operator=(const DeviceKernel&) = delete;

  // Parameters of the main function, in the order of `args` of launch().
  const std::vector<KernelParam>& params() const { return params_; }
  const std::vector<std::string>& dims() const { return dims_; }
  // Functions that lay weights out; each fills its last parameter.
  const std::vector<KernelFunction>& packs() const { return packs_; }

  // Where the dynamic dimensions are at most `largest`.
  virtual WorkspaceNeed workspace(const std::vector<int64_t>& largest) const = 0;
  // Runs all packing functions; `weights` by the names of their parameters, in the host's memory.
  virtual std::vector<PackedBuffer> pack(const std::map<std::string, const void*>& weights,
                                         const tw_executor& executor) const = 0;
  // Allocates nothing and takes no lock. Throws KernelError or DeviceError.
  virtual void launch(void* const* args, const int64_t* dims, const Resources& resources) const = 0;

 protected:
  DeviceKernel() = default;

  std::vector<KernelParam> params_;
  std::vector<std::string> dims_;
  std::vector<KernelFunction> packs_;
};

// The context of a launch on these threads.
tw_context context_of(const tw_executor& executor, void* workspace);
// Runs everything on the calling thread.
const tw_executor& serial_executor();

// Runs the packing functions of a kernel's object on the host.
std::vector<PackedBuffer> pack_on_host(const Kernel& kernel,
                                       const std::map<std::string, const void*>& weights,
                                       const tw_executor& executor);

// Loads a CPU kernel, which runs when the memory is sealed. Throws KernelError or Error for what does not load
// here. Profilers show the name.
std::shared_ptr<const DeviceKernel> load_cpu_kernel(const database::Artifact& artifact,
                                                    std::shared_ptr<CodeMemory> memory,
                                                    std::string_view name);

}  // namespace tilewright::serving
