#include "runtime/cuda/driver_functions.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include "runtime/error.h"

namespace tilewright::cuda {
namespace {

// CUDA 12.3: its major version times 1000 and its minor version times 10.
constexpr int kFirstOverlaps = 12030;

template <class F>
void require_function(void* handle, const char* name, F& function) {
  function = reinterpret_cast<F>(dlsym(handle, name));
  if (function == nullptr) {
    throw DeviceError(fmt::format("the CUDA driver has no '{}'; it is too old", name));
  }
}

void resolve_memory(void* handle, DriverFunctions& f) {
  require_function(handle, "cuMemAlloc_v2", f.allocate);
  require_function(handle, "cuMemFree_v2", f.free);
  require_function(handle, "cuMemcpyHtoDAsync_v2", f.upload);
  require_function(handle, "cuMemcpyDtoHAsync_v2", f.download);
  require_function(handle, "cuMemcpyDtoDAsync_v2", f.copy);
  require_function(handle, "cuMemsetD8Async", f.fill);
}

void resolve_order(void* handle, DriverFunctions& f) {
  require_function(handle, "cuStreamCreate", f.stream_create);
  require_function(handle, "cuStreamSynchronize", f.stream_wait);
  require_function(handle, "cuStreamDestroy_v2", f.stream_destroy);
  require_function(handle, "cuStreamBeginCapture_v2", f.capture_begin);
  require_function(handle, "cuStreamEndCapture", f.capture_end);
  require_function(handle, "cuGraphInstantiateWithFlags", f.graph_instantiate);
  require_function(handle, "cuGraphLaunch", f.graph_launch);
  require_function(handle, "cuGraphExecDestroy", f.graph_executable_destroy);
  require_function(handle, "cuGraphDestroy", f.graph_destroy);
  require_function(handle, "cuEventCreate", f.event_create);
  require_function(handle, "cuEventRecord", f.event_record);
  require_function(handle, "cuEventSynchronize", f.event_wait);
  require_function(handle, "cuEventElapsedTime", f.event_elapsed);
  require_function(handle, "cuEventDestroy_v2", f.event_destroy);
}

void resolve_device(void* handle, DriverFunctions& f) {
  require_function(handle, "cuInit", f.init);
  require_function(handle, "cuDriverGetVersion", f.version);
  require_function(handle, "cuDeviceGetCount", f.device_count);
  require_function(handle, "cuDeviceGet", f.device);
  require_function(handle, "cuDeviceGetName", f.device_name);
  require_function(handle, "cuDeviceGetAttribute", f.device_attribute);
  require_function(handle, "cuDeviceTotalMem_v2", f.device_memory);
  require_function(handle, "cuDevicePrimaryCtxRetain", f.context_retain);
  require_function(handle, "cuDevicePrimaryCtxRelease_v2", f.context_release);
  require_function(handle, "cuCtxSetCurrent", f.context_use);
  require_function(handle, "cuGetErrorName", f.error_name);
  require_function(handle, "cuGetErrorString", f.error_text);
}

void resolve_kernels(void* handle, DriverFunctions& f) {
  require_function(handle, "cuModuleLoadData", f.module_load);
  require_function(handle, "cuModuleUnload", f.module_unload);
  require_function(handle, "cuModuleGetFunction", f.module_function);
  require_function(handle, "cuFuncSetAttribute", f.function_attribute);
  require_function(handle, "cuLaunchKernel", f.launch);
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

double DriverFunctions::milliseconds(Handle stream, std::string_view doing,
                                     const std::function<void()>& work) const {
  // Events that go with the scope, also when the work fails.
  struct Event {
    const DriverFunctions& driver;
    Handle handle = nullptr;
    explicit Event(const DriverFunctions& d) : driver(d) {
      driver.check(driver.event_create(&handle, 0), "making an event");
    }
    Event(const Event&) = delete;
    Event& operator=(const Event&) = delete;
    ~Event() { driver.event_destroy(handle); }
  };
  const Event begin(*this), end(*this);
  check(event_record(begin.handle, stream), doing);
  work();
  check(event_record(end.handle, stream), doing);
  check(event_wait(end.handle), doing);
  float elapsed = 0;
  check(event_elapsed(&elapsed, begin.handle, end.handle), doing);
  return static_cast<double>(elapsed);
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
