// The operands of a workload on a GPU, between guards, and its weights as kernels want them packed.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kernel/cuda_description.h"
#include "runtime/cuda/device.h"
#include "runtime/cuda/program.h"
#include "runtime/load/kernel.h"
#include "runtime/tensor/operands.h"
#include "runtime/thread_pool.h"

namespace tilewright::cuda {

/// Bytes in the memory of a device, with guards before and behind them that tell of writes beside them.
/// Must go before its device does.
class GuardedArray {
 public:
  GuardedArray(Device& device, int64_t bytes);

  DeviceAddress address() const;
  int64_t bytes() const { return bytes_; }
  /// Copies all bytes to the device, and makes the guards whole.
  void upload(const void* from);
  /// Copies them back; whether the guards are whole.
  bool download(void* to) const;

 private:
  DeviceArray array_;
  int64_t bytes_;
};

/// The operands at one value of the workload's dimensions, on the host and on the device. Must go
/// before its device does.
class DeviceOperands {
 public:
  /// `host` must outlive it. Inputs are copied to the device.
  DeviceOperands(Device& device, OperandSet& host);
  /// The same at other sizes of dynamic dimensions; it shares what `weights` has of the arrays that
  /// `host` shares with it, on the device, too, and so what is packed of them.
  DeviceOperands(Device& device, OperandSet& host, const DeviceOperands& weights);

  /// Lays weights out on the host as `program` takes them, and copies them to the device; returns the
  /// seconds that took. They stay for all programs that pack alike, until one packs in another way.
  /// Throws as pack_weights().
  double pack(const CudaDescription& program, ThreadPool& pool);
  /// Where the operand lies.
  DeviceAddress address(const std::string& operand) const;
  /// Addresses in the order of the program's parameters. Throws KernelError for one that is neither
  /// packed nor an operand of the same type and shape.
  std::vector<DeviceAddress> addresses(const CudaSource& program,
                                       const std::vector<int64_t>& dims) const;
  /// Poisons the output, runs what `launch` starts, and fetches what it wrote. Throws DeviceError.
  void run_once(const std::function<void()>& launch, HostArray::Poison poison);
  void run_once(DeviceProgram& program, HostArray::Poison poison) {
    run_once([&] { program.launch(); }, poison);
  }
  /// Whether something was written beside the output in the last run.
  bool wrote_beside() const { return wrote_beside_; }
  /// The input or packed weight that is not as it was copied to the device, or whose guards are not;
  /// all of them are as they were afterwards.
  std::optional<std::string> restore_inputs();

 private:
  // Weights as the last program wanted them.
  struct PackedWeights {
    std::map<std::string, Workspace> on_host;
    std::map<std::string, std::unique_ptr<GuardedArray>> arrays;
    std::string packing;  // the code that packed them
  };

  void add(const OperandInfo& info);

  Device& device_;
  OperandSet& host_;
  std::map<std::string, std::shared_ptr<GuardedArray>> arrays_;
  std::shared_ptr<PackedWeights> packed_;
  bool wrote_beside_ = false;
};

}  // namespace tilewright::cuda
