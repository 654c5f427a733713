// Kernels for a GPU: its driver is opened at run time, and its primary context, which the frameworks
// of a process share, is used.
#pragma once

#include <memory>
#include <string>

#include "kernel/target.h"
#include "runtime/cuda/device.h"
#include "serving/device_kernel.h"

namespace tilewright::serving {

// A GPU whose primary context this process holds. May be used by many threads at once.
class Gpu {
 public:
  // Throws DeviceError that says why there is none.
  explicit Gpu(int index);
  ~Gpu();
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;

  int index() const { return index_; }
  const cuda::DeviceFacts& facts() const { return facts_; }
  const cuda::DriverFunctions& driver() const { return driver_; }
  // Makes its context the calling thread's, as every call of the driver needs it.
  void use() const { driver_.check(driver_.context_use(context_), "using the GPU"); }
  // The same before something is freed, where nothing can be done about a failure.
  void use_quietly() const noexcept { driver_.context_use(context_); }
  // Whether kernels of the target run on it.
  bool runs(const Target& target) const;

 private:
  int index_;
  cuda::DriverFunctions driver_;
  cuda::DeviceFacts facts_;
  int device_ = 0;
  cuda::Handle context_ = nullptr;
};

// Loads a kernel; it keeps the GPU. Throws DeviceError, KernelError or Error for what does not load
// there.
std::shared_ptr<const DeviceKernel> load_cuda_kernel(const database::Artifact& artifact,
                                                     std::shared_ptr<const Gpu> gpu);

}  // namespace tilewright::serving
