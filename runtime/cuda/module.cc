// Kernels that a device has loaded. By itself: what says why one does not load knows the compiler, which
// serving processes do without.
#include <fmt/format.h>

#include <utility>

#include "runtime/cuda/device.h"
#include "runtime/cuda/nvrtc.h"

namespace tilewright::cuda {
namespace {

// A reason why a kernel may not load: drivers take machine code of their own major version of CUDA
// and of older ones ("CUDA Compatibility").
std::string newer_compiler(const Device& device) {
  const int major = device.facts().driver_version / 1000;
  if (!nvrtc_problem().empty() || major == 0 || nvrtc_major() <= major) return "";
  return fmt::format(
      " ({} makes code that a driver of {} need not take: name the folder of an older toolkit in "
      "TILEWRIGHT_CUDA, or take a newer driver)",
      nvrtc_identity(), device.facts().driver());
}

}  // namespace

DeviceModule::DeviceModule(Device& device, std::string_view cubin, std::string name)
    : device_(device), name_(std::move(name)) {
  std::string image(cubin);  // the driver reads it as an ELF file that ends where it says
  const int status = device.driver().module_load(&module_, image.data());
  if (status == 0) return;
  device.driver().check(status, fmt::format("loading kernel '{}' on {}{}", name_,
                                            device.facts().name, newer_compiler(device)));
}

DeviceModule::~DeviceModule() { device_.driver().module_unload(module_); }

Handle DeviceModule::kernel(const std::string& entry) const {
  Handle kernel = nullptr;
  device_.driver().check(device_.driver().module_function(&kernel, module_, entry.c_str()),
                         fmt::format("finding '{}' in kernel '{}'", entry, name_));
  return kernel;
}

}  // namespace tilewright::cuda
