// Other libraries that compute a workload on the GPU, to be timed beside its kernels. They are opened
// at run time where they are found; their headers are not needed to build.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/cuda/device.h"
#include "runtime/cuda/peers/product.h"

namespace tilewright::cuda {

/// A product that a library prepared. Must go before the library and the device do.
class GpuPeerProblem {
 public:
  virtual ~GpuPeerProblem() = default;
  /// Starts it on the device's stream; returns at once. Throws DeviceError when the library fails.
  virtual void launch() = 0;
  /// How it was chosen: "the best of 8 algorithms".
  virtual std::string choice() const = 0;
};

class GpuPeer {
 public:
  virtual ~GpuPeer() = default;
  virtual std::string name() const = 0;     ///< "cublaslt"
  virtual std::string version() const = 0;  ///< "13.0.0"
  /// The product on these operands, or nothing with the reason.
  virtual std::unique_ptr<GpuPeerProblem> prepare(Device& device, PeerOperands& operands,
                                                  std::string& reason) = 0;
};

/// The libraries that are found: in the folders of the knob TILEWRIGHT_PEERS, then where toolkits are
/// installed. The device's context is current.
std::vector<std::unique_ptr<GpuPeer>> find_gpu_peers();

/// Paths of a library to try, those of the knob first.
std::vector<std::string> peer_paths(const std::vector<std::string>& file_names);

/// An address on the device as C interfaces take it.
void* device_pointer(DeviceAddress address);

/// The best of a few runs, in milliseconds on the device, with nothing in L2 before: how libraries
/// choose among their algorithms.
double best_milliseconds(Device& device, const std::function<void()>& launch);

std::unique_ptr<GpuPeer> open_cublas_lt();    ///< null where it is not found
std::unique_ptr<GpuPeer> open_cusparse_lt();  ///< likewise

}  // namespace tilewright::cuda
