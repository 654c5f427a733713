// Backends: everything in which tuning for one kind of target differs from tuning for another.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "ir/stmt.h"
#include "kernel/target.h"
#include "runtime/machine/machine.h"
#include "tuner/measure/roofline.h"
#include "tuner/sketch.h"

namespace tilewright {

struct BuildJob;
struct BuildResult;
struct MeasureOptions;
struct Measurement;

// A candidate as models see it.
struct Estimate {
  std::vector<float> features;
  // Predicted by the target's analytical model at the largest sizes; 0: the candidate does not run.
  double seconds = 0;
  std::string refusal = {};  // why it does not run
};

// One instance for CPUs, one for CUDA GPUs. They have no state. Thread-safe.
class Backend {
 public:
  static const Backend& of(const Target& target);

  Backend() = default;
  virtual ~Backend() = default;
  Backend(const Backend&) = delete;
  Backend& operator=(const Backend&) = delete;

  // Sketches ------------------------------------------------------------------------------------
  // Sketches that a search explores for any workload.
  virtual const std::vector<Sketch>& sketches() const = 0;
  // The untuned schedule, which has no knobs.
  virtual const Sketch& untuned() const = 0;

  // Estimates -----------------------------------------------------------------------------------
  // Changes whenever the meaning of a feature changes.
  virtual int feature_version() const = 0;
  virtual Estimate estimate(const Program& scheduled, const Target& target, int threads) const = 0;
  // Whether the analytical model alone ranks candidates before any measurement, and stands for
  // measurements where the device is not there.
  virtual bool only_predicts() const = 0;
  // The cost model that a search starts from; empty if none was trained for the target.
  virtual std::vector<std::byte> pretrained(const Target& target) const = 0;
  virtual MachineRates rates(const Target& target, int threads) const = 0;
  virtual Roofline roofline(const RooflineWork& work, const Target& target, int threads) const = 0;
  // Causes for a run that is faster than the roofline.
  virtual std::string above_roofline(int threads) const = 0;
  // Measures the peaks behind the roofline again, once a process, if they are measured at all.
  virtual void measure_peaks_again() const = 0;

  // Generating and building ---------------------------------------------------------------------
  // Fills in the source of a candidate. Throws LoweringError.
  virtual void generate(const Module& module, const Target& target, Measurement& m) const = 0;
  // Completes the job that builds a generated source.
  virtual void complete(BuildJob& job, const Measurement& m, const Target& target) const = 0;
  // Takes what was built without an error. A kernel that would not run becomes a CompileError.
  virtual void take(BuildResult built, const Target& target, Measurement& m) const = 0;
  // Fills in the description of a kernel that a database keeps.
  virtual void describe(const std::string& description, Measurement& m) const = 0;

  // Measuring -----------------------------------------------------------------------------------
  virtual MeasureOptions measure_options() const = 0;
  // Whether workers that run kernels are confined (docs/sandbox.md).
  virtual bool is_confined() const = 0;
  // The limit of such a worker's memory in bytes; 0: none.
  virtual int64_t memory_limit(const MeasureOptions& options) const = 0;
  // The roofline from measured peaks, which a time must not beat; 0 where there are none.
  virtual double measured_roof(const Workload& workload, const Target& target,
                               int threads) const = 0;
  // The instruction sets that stored code may use; nothing where a driver decides.
  virtual std::optional<std::set<std::string>> processor() const = 0;
};

// The two instances.
const Backend& cpu_backend();
const Backend& cuda_backend();

}  // namespace tilewright
