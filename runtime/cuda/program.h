// A compiled CUDA program on a device, with its arguments: what a cubin and its description make.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "kernel/cuda_description.h"
#include "runtime/cuda/device.h"
#include "runtime/cuda/tensor_maps.h"

namespace tilewright::cuda {

/// Must go before its device does; the buffers that it was given must outlive it.
class DeviceProgram {
 public:
  /// `params` are the addresses of the program's parameters in their order, `dims` the values of its
  /// dynamic dimensions. Allocates what passes from kernel to kernel. Throws DeviceError when the
  /// device does not take the cubin, KernelError when numbers do not fit the description.
  DeviceProgram(Device& device, std::string_view cubin, const CudaDescription& description,
                const std::vector<DeviceAddress>& params, std::vector<int64_t> dims);
  DeviceProgram(const DeviceProgram&) = delete;
  DeviceProgram& operator=(const DeviceProgram&) = delete;

  /// Starts all kernels, one after another; returns at once.
  void launch();

 private:
  void prepare(const CudaLaunch& launch, const CudaSource& source);

  Device& device_;
  DeviceModule module_;
  std::vector<int64_t> dims_;
  std::vector<std::unique_ptr<DeviceArray>> scratch_;
  std::vector<DeviceAddress> buffers_;
  std::deque<EncodedTensorMap> tensor_maps_;  // arguments point to them
  std::vector<DeviceLaunch> launches_;
};

}  // namespace tilewright::cuda
