#include "runtime/cuda/driver_functions.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include "runtime/error.h"

namespace tilewright::cuda {
namespace {

// CUDA 12.3: its major version times 1000 and its minor version times 10.
constexpr int kFirstOverlaps = 12030;

template <class F>
void resolve(void* handle, const char* name, F& function) {
  function = reinterpret_cast<F>(dlsym(handle, name));
  if (function == nullptr) {
    throw DeviceError(fmt::format("the CUDA driver has no '{}'; it is too old", name));
  }
}

void resolve_memory(void* handle, DriverFunctions& f) {
  resolve(handle, "cuMemAlloc_v2", f.allocate);
  resolve(handle, "cuMemFree_v2", f.free);
  resolve(handle, "cuMemcpyHtoDAsync_v2", f.upload);
  resolve(handle, "cuMemcpyDtoHAsync_v2", f.download);
  resolve(handle, "cuMemsetD8Async", f.fill);
}

void resolve_order(void* handle, DriverFunctions& f) {
  resolve(handle, "cuStreamCreate", f.stream_create);
  resolve(handle, "cuStreamSynchronize", f.stream_wait);
  resolve(handle, "cuStreamDestroy_v2", f.stream_destroy);
  resolve(handle, "cuStreamBeginCapture_v2", f.capture_begin);
  resolve(handle, "cuStreamEndCapture", f.capture_end);
  resolve(handle, "cuGraphInstantiateWithFlags", f.graph_instantiate);
  resolve(handle, "cuGraphLaunch", f.graph_launch);
  resolve(handle, "cuGraphExecDestroy", f.graph_executable_destroy);
  resolve(handle, "cuGraphDestroy", f.graph_destroy);
  resolve(handle, "cuEventCreate", f.event_create);
  resolve(handle, "cuEventRecord", f.event_record);
  resolve(handle, "cuEventSynchronize", f.event_wait);
  resolve(handle, "cuEventElapsedTime", f.event_elapsed);
  resolve(handle, "cuEventDestroy_v2", f.event_destroy);
}

void resolve_device(void* handle, DriverFunctions& f) {
  resolve(handle, "cuInit", f.init);
  resolve(handle, "cuDriverGetVersion", f.version);
  resolve(handle, "cuDeviceGetCount", f.device_count);
  resolve(handle, "cuDeviceGet", f.device);
  resolve(handle, "cuDeviceGetName", f.device_name);
  resolve(handle, "cuDeviceGetAttribute", f.device_attribute);
  resolve(handle, "cuDeviceTotalMem_v2", f.device_memory);
  resolve(handle, "cuDevicePrimaryCtxRetain", f.context_retain);
  resolve(handle, "cuDevicePrimaryCtxRelease_v2", f.context_release);
  resolve(handle, "cuCtxSetCurrent", f.context_use);
  resolve(handle, "cuGetErrorName", f.error_name);
  resolve(handle, "cuGetErrorString", f.error_text);
}

void resolve_kernels(void* handle, DriverFunctions& f) {
  resolve(handle, "cuModuleLoadData", f.module_load);
  resolve(handle, "cuModuleUnload", f.module_unload);
  resolve(handle, "cuModuleGetFunction", f.module_function);
  resolve(handle, "cuFuncSetAttribute", f.function_attribute);
  resolve(handle, "cuLaunchKernel", f.launch);
  int version = 0;
  if (f.version(&version) == 0 && version >= kFirstOverlaps) {
    f.launch_with = reinterpret_cast<decltype(f.launch_with)>(dlsym(handle, "cuLaunchKernelEx"));
  }
  f.tensor_map_encode =
      reinterpret_cast<decltype(f.tensor_map_encode)>(dlsym(handle, "cuTensorMapEncodeTiled"));
  f.tensor_map_encode_im2col = reinterpret_cast<decltype(f.tensor_map_encode_im2col)>(
      dlsym(handle, "cuTensorMapEncodeIm2col"));
}

}  // namespace

void DriverFunctions::check(int status, std::string_view doing) const {
  if (status == 0) return;
  const char *name = nullptr, *text = nullptr;
  error_name(status, &name);
  error_text(status, &text);
  throw DeviceError(fmt::format("{}: {}: {}", doing,
                                name ? name : "CUDA error " + std::to_string(status),
                                text ? text : "the driver does not say why"));
}

DriverFunctions open_driver(const std::string& path) {
  // Never closed: it keeps threads of its own.
  void* handle = dlopen(path.empty() ? "libcuda.so.1" : path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    throw DeviceError(fmt::format("no GPU: the CUDA driver does not load ({})", dlerror()));
  }
  DriverFunctions f = {};
  resolve_device(handle, f);
  resolve_kernels(handle, f);
  resolve_memory(handle, f);
  resolve_order(handle, f);
  return f;
}

}  // namespace tilewright::cuda
