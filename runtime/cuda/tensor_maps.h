// Tensor maps as the CUDA driver makes them for kernels' parameters.
#pragma once

#include <string>

#include "kernel/tensor_map.h"
#include "runtime/cuda/driver_functions.h"

namespace tilewright::cuda {

/// A tensor map as a kernel takes it, by value.
struct alignas(kTensorMapAlignment) EncodedTensorMap {
  unsigned char bytes[kTensorMapBytes];
};

/// Throws DeviceError where the driver makes none: it is older than CUDA 12.0. `entry` is the kernel's
/// name.
void require_tensor_maps(const DriverFunctions& driver, const std::string& entry);

/// Makes `encoded` the map of an operand at this address; elements beyond the operand are read as zeros. Works on the
/// host alone and allocates nothing, so that launches may call it. Requires require_tensor_maps().
/// Throws DeviceError that names the kernel and says what does not fit.
void encode_tensor_map(const DriverFunctions& driver, const TensorMapValues& map,
                       DeviceAddress address, const std::string& entry, EncodedTensorMap& encoded);

}  // namespace tilewright::cuda
