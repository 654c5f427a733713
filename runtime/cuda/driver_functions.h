// The part of the CUDA driver's interface that is used, as its manual gives it. libcuda is opened at
// run time, so its headers are not needed to build.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace tilewright::cuda {

using Handle = void*;  // contexts, modules, functions, streams, events
using DeviceAddress = uint64_t;

struct DriverFunctions {
  int (*init)(unsigned flags);
  int (*version)(int* version);
  int (*device_count)(int* count);
  int (*device)(int* device, int ordinal);
  int (*device_name)(char* name, int length, int device);
  int (*device_attribute)(int* value, int attribute, int device);
  int (*device_memory)(size_t* bytes, int device);
  int (*context_retain)(Handle* context, int device);
  int (*context_release)(int device);
  int (*context_use)(Handle context);
  int (*module_load)(Handle* module, const void* image);
  int (*module_unload)(Handle module);
  int (*module_function)(Handle* function, Handle module, const char* name);
  int (*function_attribute)(Handle function, int attribute, int value);
  int (*launch)(Handle function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                Handle stream, void** arguments, void** extra);
  // Null in drivers older than CUDA 12.3, whose graphs cannot hold launches that overlap
  // (launch.h).
  int (*launch_with)(const void* config, Handle function, void** arguments, void** extra);
  // Null in drivers older than CUDA 12.0, which have no tensor maps (tensor_maps.h).
  int (*tensor_map_encode)(void* map, int type, uint32_t rank, DeviceAddress address,
                           const uint64_t* dims, const uint64_t* strides, const uint32_t* box,
                           const uint32_t* steps, int interleave, int swizzle, int promotion,
                           int fill);
  int (*tensor_map_encode_im2col)(void* map, int type, uint32_t rank, DeviceAddress address,
                                  const uint64_t* dims, const uint64_t* strides, const int* lower,
                                  const int* upper, uint32_t channels, uint32_t pixels,
                                  const uint32_t* steps, int interleave, int swizzle, int promotion,
                                  int fill);
  int (*allocate)(DeviceAddress* address, size_t bytes);
  int (*free)(DeviceAddress address);
  int (*upload)(DeviceAddress to, const void* from, size_t bytes, Handle stream);
  int (*download)(void* to, DeviceAddress from, size_t bytes, Handle stream);
  int (*copy)(DeviceAddress to, DeviceAddress from, size_t bytes, Handle stream);
  int (*fill)(DeviceAddress to, unsigned char value, size_t bytes, Handle stream);
  int (*stream_create)(Handle* stream, unsigned flags);
  int (*stream_wait)(Handle stream);
  int (*stream_destroy)(Handle stream);
  int (*capture_begin)(Handle stream, int mode);
  int (*capture_end)(Handle stream, Handle* graph);
  int (*graph_instantiate)(Handle* executable, Handle graph, unsigned long long flags);
  int (*graph_launch)(Handle executable, Handle stream);
  int (*graph_executable_destroy)(Handle executable);
  int (*graph_destroy)(Handle graph);
  int (*event_create)(Handle* event, unsigned flags);
  int (*event_record)(Handle event, Handle stream);
  int (*event_wait)(Handle event);
  int (*event_elapsed)(float* milliseconds, Handle begin, Handle end);
  int (*event_destroy)(Handle event);
  int (*error_name)(int status, const char** name);
  int (*error_text)(int status, const char** text);

  /// Throws DeviceError unless `status` is success: "kernel 'add': CUDA_ERROR_…: what it means".
  void check(int status, std::string_view doing) const;

  /// Milliseconds from the start to the end of what `work` starts on the stream, by the GPU's clock. Waits for the
  /// end. Throws DeviceError with `doing`.
  double milliseconds(Handle stream, std::string_view doing,
                      const std::function<void()>& work) const;
};

/// Opens the library at `path` (empty: libcuda.so.1 where the loader looks) for the rest of the
/// process. Throws DeviceError when there is none, or it lacks a function.
DriverFunctions open_driver(const std::string& path);

}  // namespace tilewright::cuda
