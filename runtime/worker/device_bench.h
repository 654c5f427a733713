// Checks and times CUDA programs on the GPU, in a worker process that may lose it.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ir/tensor_expr.h"
#include "runtime/check/reference.h"
#include "runtime/cuda/device.h"
#include "runtime/cuda/device_operands.h"
#include "runtime/cuda/peers/gpu_peer.h"
#include "runtime/cuda/program.h"
#include "runtime/tensor/operands.h"
#include "runtime/worker/jobs.h"

namespace tilewright::cuda {

/// Keeps the device, and what the candidates of one workload share.
///
/// A kernel is checked on two sets of operands, every element of its outputs where computing them is
/// affordable: ordinary values before it is timed, and once more in the program that was timed; hard
/// values afterwards, and at every third of the other sizes.
class DeviceBench {
 public:
  /// Throws ToolchainError where there is no GPU. A fault of the kernel is a verdict; it costs the
  /// process its device, so that the worker retires.
  MeasureResult measure(const MeasureJob& job, const WorkloadParser& parse);
  /// Makes what measure() would make first for such a job, of which `object` and `cuda` are not
  /// looked at.
  void prepare(const MeasureJob& job, const WorkloadParser& parse);

 private:
  using Dims = std::map<std::string, int64_t>;
  struct Point {
    std::unique_ptr<OperandSet> host;
    std::unique_ptr<DeviceOperands> operands;
    std::optional<Reference> reference;  // once something was checked there
  };
  // Of one kind of values, by sizes; all sizes share the weights.
  using Points = std::map<Dims, Point>;

  Device& device();
  ThreadPool& pool();
  void use(const MeasureJob& job, const WorkloadParser& parse);
  Point& at(const Dims& dims, const MeasureJob& job, ValueKind kind = ValueKind::Ordinary);
  const Reference& reference_at(const Dims& dims, const MeasureJob& job, ValueKind kind);
  DeviceProgram load(const MeasureJob& job, const CudaDescription& description, const Dims& dims,
                     MeasureResult& result, ValueKind kind = ValueKind::Ordinary);
  void check(const MeasureJob& job, const CudaDescription& description, const Dims& dims,
             ValueKind kind, MeasureResult& result);
  void check_program(const MeasureJob& job, DeviceProgram& program, const Dims& dims,
                     ValueKind kind, MeasureResult& result);
  void check_elsewhere(const MeasureJob& job, const CudaDescription& description,
                       MeasureResult& result);
  Timing time(const MeasureJob& job, const CudaDescription& description, const Dims& dims,
              const TimingOptions& options, MeasureResult& result);
  void time_elsewhere(const MeasureJob& job, const CudaDescription& description,
                      MeasureResult& result);
  void run_at(const MeasureJob& job, const CudaDescription& description, const Dims& dims,
              MeasureResult& result);
  void take_turns(const MeasureJob& job, const CudaDescription& description, MeasureResult& result);

  std::unique_ptr<Device> device_;
  std::unique_ptr<ThreadPool> pool_;  // packs weights
  std::unique_ptr<Workload> workload_;
  std::string key_;
  Points ordinary_, hard_;
  // Opened when first asked for; they go before the device does.
  std::optional<std::vector<std::unique_ptr<GpuPeer>>> peers_;
};

}  // namespace tilewright::cuda
