// The backend for CUDA GPUs: an analytical model predicts times from the chip's data sheet.
#include <algorithm>

#include "codegen/codegen.h"
#include "kernel/cuda_description.h"
#include "runtime/machine/cpus.h"
#include "runtime/worker/jobs.h"
#include "tuner/backend.h"
#include "tuner/features/features.h"
#include "tuner/features/gpu_features.h"
#include "tuner/measure/gpu_offline_kernel.h"
#include "tuner/measure/measurer.h"

namespace tilewright {
namespace {

// A GPU's operations per second on products of this type, by its data sheet.
double operations(const GpuFacts& gpu, ElemType factors) {
  double rate = 0;
  if (factors == ElemType::f16 || factors == ElemType::bf16) rate = gpu.tensor_f16;
  if (bits_of(factors) <= 8) rate = is_float(factors) ? gpu.tensor_f8 : gpu.tensor_i8;
  return rate > 0 ? rate : gpu.f32;
}

class CudaBackend : public Backend {
 public:
  const std::vector<Sketch>& sketches() const override { return cuda_sketches(); }
  const Sketch& untuned() const override { return cuda_default_sketch(); }

  int feature_version() const override { return kGpuFeatureVersion; }
  Estimate estimate(const Program& scheduled, const Target& target, int) const override {
    GpuFeatures features = gpu_features(scheduled, target);
    return {std::move(features.values), features.seconds, std::move(features.refusal)};
  }
  bool only_predicts() const override { return true; }
  std::vector<std::byte> pretrained(const Target&) const override { return {}; }
  MachineRates rates(const Target& target, int) const override {
    MachineRates rates;
    rates.f32_flops = target.gpu.f32;
    rates.read_bytes = rates.l3_bytes = rates.l2_bytes = target.gpu.bandwidth;
    rates.i8_ops = target.gpu.tensor_i8;
    rates.bf16_flops = target.gpu.tensor_f16;
    return rates;
  }
  Roofline roofline(const RooflineWork& work, const Target& target, int) const override {
    const double compute = work.flops / operations(target.gpu, work.factors);
    const double memory = work.bytes / target.gpu.bandwidth;
    return {std::max(compute, memory), work.bytes, memory > compute ? "memory" : "compute"};
  }
  std::string above_roofline(int) const override {
    return std::string(kLeavesOut) + ", or the GPU exceeds its data sheet";
  }
  void measure_peaks_again() const override {}

  void generate(const Module& module, const Target& target, Measurement& m) const override {
    CudaSource cuda = generate_cuda(module, target);
    m.source.code = cuda.text;
    m.cuda = CudaDescription{std::move(cuda), {}}.to_json();
  }
  void complete(BuildJob& job, const Measurement& m, const Target& target) const override {
    job.cuda_architecture = architecture_of(target);
    job.packing = CudaDescription::from_json(m.cuda).source.packing;
  }
  // Adds the compilers' facts to the description. A kernel that would hang as compiled is refused.
  void take(BuildResult built, const Target& target, Measurement& m) const override {
    CudaDescription d = CudaDescription::from_json(m.cuda);
    d.facts = facts_of_cubin(d.source, built.object);
    if (!built.packing_object.empty()) d.packing = {built.packing_object, host_processor()};
    m.cuda = d.to_json();
    m.object = std::move(built.object);
    m.reason = budget_problem(d.source, d.facts, target.gpu);
    if (!m.reason.empty()) m.verdict = TrialVerdict::CompileError;
  }
  void describe(const std::string& description, Measurement& m) const override {
    m.cuda = description;
  }

  MeasureOptions measure_options() const override {
    MeasureOptions options;
    options.timeout_seconds = 30;                                // large operands have to get there
    options.builders = std::clamp(available_cores() / 2, 2, 8);  // the GPU does not wait for them
    return options;
  }
  bool is_confined() const override { return false; }
  // GPU drivers reserve far more memory than they use.
  int64_t memory_limit(const MeasureOptions&) const override { return 0; }
  double measured_roof(const Workload&, const Target&, int) const override { return 0; }
  std::optional<std::set<std::string>> processor() const override { return std::nullopt; }
};

}  // namespace

const Backend& cuda_backend() {
  static const CudaBackend backend;
  return backend;
}

}  // namespace tilewright
