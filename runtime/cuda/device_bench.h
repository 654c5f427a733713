// Proves and times CUDA programs on the GPU, in a worker process that may lose it.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "ir/tensor_expr.h"
#include "runtime/cuda/device.h"
#include "runtime/cuda/program.h"
#include "runtime/jobs.h"
#include "runtime/operands.h"
#include "runtime/reference.h"

namespace tilewright::cuda {

/// The operands of a workload, on the host and on the device, at one value of its dimensions.
class DeviceOperands {
 public:
  /// `host` must outlive it. Inputs are copied to the device.
  DeviceOperands(Device& device, OperandSet& host);

  /// Addresses in the order of the parameters. Throws KernelError for one that is no operand.
  std::vector<DeviceAddress> addresses(const std::vector<KernelParam>& params) const;
  /// Poisons the output, runs the program once, and fetches what it wrote. Throws DeviceError.
  void run_once(DeviceProgram& program, HostArray::Poison poison);
  /// Whether something was written beside the output in the last run.
  bool wrote_beside() const { return wrote_beside_; }

 private:
  Device& device_;
  OperandSet& host_;
  std::map<std::string, std::unique_ptr<DeviceArray>> arrays_;
  bool wrote_beside_ = false;
};

/// Keeps the device, and what the candidates of one workload share.
class DeviceBench {
 public:
  /// Throws ToolchainError where there is no GPU. A fault of the kernel is a verdict; it costs the
  /// process its device, so that the worker retires.
  MeasureResult measure(const MeasureJob& job, const WorkloadParser& parse);

 private:
  using Dims = std::map<std::string, int64_t>;
  struct Point {
    std::unique_ptr<OperandSet> host;
    std::unique_ptr<DeviceOperands> operands;
    Reference reference;
  };

  Device& device();
  void prepare(const MeasureJob& job, const WorkloadParser& parse);
  Point& at(const Dims& dims, const MeasureJob& job);
  void prove(const MeasureJob& job, const CudaDescription& description, const Dims& dims,
             MeasureResult& result);
  Timing time(const MeasureJob& job, const CudaDescription& description);

  std::unique_ptr<Device> device_;
  std::unique_ptr<Workload> workload_;
  std::string key_;
  std::map<Dims, Point> points_;
};

}  // namespace tilewright::cuda
