// Starting kernels by the CUDA driver.
#pragma once

#include <array>

#include "runtime/cuda/driver_functions.h"

namespace tilewright::cuda {

struct LaunchShape {
  std::array<unsigned, 3> grid = {1, 1, 1}, block = {1, 1, 1};  ///< x, y, z: blocks, and threads
  unsigned shared_bytes = 0;  ///< dynamic shared memory of a block
  Handle stream = nullptr;
  /// It may start before the kernel ahead of it in the stream has ended, for which its threads wait
  /// themselves (CUDA driver API, CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION). A driver that
  /// has no such launches starts it afterwards.
  bool dependent = false;
};

/// The driver's status. Allocates nothing.
int launch_kernel(const DriverFunctions& driver, Handle function, const LaunchShape& shape,
                  void** arguments);

}  // namespace tilewright::cuda
