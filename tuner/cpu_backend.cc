// The backend for CPUs: kernels are C, run on this machine's processors.
#include <fmt/format.h>

#include <algorithm>

#include "codegen/codegen.h"
#include "kernel/cpu_features.h"
#include "tuner/backend.h"
#include "tuner/cpu/cpu_model.h"
#include "tuner/features/features.h"
#include "tuner/measure/measurer.h"
#include "tuner/search/pretrained.h"

namespace tilewright {
namespace {

Machine& this_machine() {
  static Machine machine = probe_machine();
  return machine;
}

class CpuBackend : public Backend {
 public:
  const std::vector<Sketch>& sketches() const override { return cpu_sketches(); }
  const Sketch& untuned() const override { return default_sketch(); }

  int feature_version() const override { return kFeatureVersion; }
  Estimate estimate(const Program& scheduled, const Target& target, int threads) const override {
    Program nest;
    const CpuFacts facts = CpuFacts::of(this_machine(), target, threads);
    const CpuEstimate e = estimate_cpu(scheduled, target, threads, facts, &nest);
    if (!nest.body.defined()) return {extract_features(scheduled, target, threads), 0, e.refusal};
    return {features_of_nest(nest, e, facts.core, target, threads), e.seconds, e.refusal};
  }
  bool only_predicts() const override { return false; }
  std::vector<std::byte> pretrained(const Target&) const override { return pretrained_model(); }
  MachineRates rates(const Target&, int threads) const override {
    return this_machine().rates(threads);
  }
  Roofline roofline(const RooflineWork& work, const Target&, int threads) const override {
    const Machine& machine = this_machine();
    const double compute = machine.roofline_seconds(work.flops, 0, threads, work.factors);
    const double memory = machine.roofline_seconds(0, work.bytes, threads);
    return {std::max(compute, memory), work.bytes,
            memory > compute ? machine.home_of(work.bytes, threads) : "compute"};
  }
  std::string above_roofline(int threads) const override {
    const Machine& machine = this_machine();
    if (!machine.disturbed.empty()) {
      return "the machine's peaks were measured while something disturbed them: " +
             machine.disturbed;
    }
    return fmt::format("{}, or the peaks are too low, whose rounds were {:.0f}% apart", kLeavesOut,
                       100 * machine.rates(threads).spread);
  }
  void measure_peaks_again() const override {
    static const bool again = (this_machine() = probe_machine(/*fresh=*/true), true);
    static_cast<void>(again);
  }

  void generate(const Module& module, const Target& target, Measurement& m) const override {
    m.source = generate_c(module, target);
  }
  void complete(BuildJob&, const Measurement&, const Target&) const override {}
  void take(BuildResult, const Target&, Measurement&) const override {}
  void describe(const std::string& description, Measurement& m) const override {
    m.source.description = KernelDescription::from_json(description);
  }

  MeasureOptions measure_options() const override { return {}; }
  bool is_confined() const override { return true; }
  int64_t memory_limit(const MeasureOptions& options) const override {
    return options.memory_limit;
  }
  double measured_roof(const Workload& workload, const Target& target, int threads) const override {
    return roofline_of(workload, target, threads).seconds;
  }
  std::optional<std::set<std::string>> processor() const override { return cpu_features(); }
};

}  // namespace

const Backend& cpu_backend() {
  static const CpuBackend backend;
  return backend;
}

}  // namespace tilewright
