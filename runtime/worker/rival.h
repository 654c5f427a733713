// A library's product in a comparison, checked before it may be timed.
#pragma once

#include <functional>
#include <memory>

#include "runtime/check/reference.h"
#include "runtime/cuda/peers/gpu_peer.h"
#include "runtime/machine/timer.h"
#include "runtime/worker/jobs.h"

namespace tilewright::cuda {

/// Must go before the library and the device do.
struct GpuRival {
  std::unique_ptr<PeerOperands> operands;
  std::unique_ptr<GpuPeerProblem> problem;
};

/// Prepares the workload for the library and compares what it computes with the reference, unless its
/// weight stands for one that it does not know. Null where the library has no such product or computes
/// another, with the reason in `told`.
std::unique_ptr<GpuRival> make_rival(Device& device, GpuPeer& peer, const Workload& workload,
                                     OperandSet& host, const DeviceOperands& operands,
                                     const Reference& reference, PeerResult& told);

/// Each run by itself between two events of the device, with nothing of it in L2 before.
Timing time_on_device(Device& device, const std::function<void()>& launch,
                      const TimingOptions& options);

}  // namespace tilewright::cuda
