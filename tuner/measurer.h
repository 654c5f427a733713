// Builds, checks and times candidates.
#pragma once

#include <atomic>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "codegen/kernel_source.h"
#include "codegen/target.h"
#include "database/record.h"
#include "ir/tensor_expr.h"
#include "runtime/timer.h"
#include "tuner/candidate.h"

namespace tilewright {

using TrialVerdict = database::Verdict;

struct Measurement {
  TrialVerdict verdict = TrialVerdict::Illegal;
  std::string reason;           // why it failed, one line or a few
  std::vector<double> samples;  // seconds a run
  double median = 0;
  double max_rel_error = 0;  // of the checked elements
  KernelSource source;
  std::string cuda;    // of a GPU kernel its CudaDescription, in the place of the source's
  std::string object;  // bytes of the compiled kernel; empty when it failed earlier
  std::string compiler;
};

struct MeasureOptions {
  int threads = 1;
  uint64_t seed = 0;            // of the operands' values
  double timeout_seconds = 10;  // of one candidate's job: operands, check and timing
  // Of the untuned default's, which may be slow and is what all others are held against. Where time
  // is limited, half of what is left, if that is less.
  double default_timeout_seconds = 60;
  bool cold = false;  // sweep the caches before each run
  int64_t memory_limit = int64_t{4} << 30;
  int builders = 2;  // compilers side by side
};

// What ends measuring early.
struct MeasureLimits {
  const std::atomic<bool>& cancelled;
  // No candidate is taken up after this moment of steady_seconds().
  double deadline = std::numeric_limits<double>::infinity();

  bool reached() const { return cancelled || steady_seconds() >= deadline; }
};

using MeasuredFn = std::function<void(size_t index, const Measurement&)>;

// Owner of the worker processes. Not thread-safe.
class Measurer {
 public:
  // `worker_command` starts a worker: {"/path/tune-cli", "worker"}.
  Measurer(std::vector<std::string> worker_command, Target target, MeasureOptions options);
  ~Measurer();

  // One measurement a candidate, in order. Builds run side by side, measurements one at a time with
  // nothing else running. When a limit is reached, the rest comes back Illegal with an empty reason
  // and must not be recorded; a candidate that is running is ended only by `cancelled`.
  // `measured` hears of each as soon as it is done (with its place in the batch), but not of the rest.
  std::vector<Measurement> measure(const Workload& workload, const std::vector<Candidate>& batch,
                                   const MeasureLimits& limits, double best_seconds,
                                   const MeasuredFn& measured = {});
  // Times kernels that are known to be right, in turns: one round at least, and no new one beyond the
  // deadline; the slower ones leave after the first few, and those that are nearly the fastest stay
  // for more, as far as there is time. Medians in seconds; 0 for one that failed, and for all when
  // cancelled.
  std::vector<double> compare(const Workload& workload, const std::vector<Measurement>& kernels,
                              const MeasureLimits& limits);
  // About how long compare() takes at least on kernels of these medians.
  static double compare_seconds(const std::vector<double>& medians);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tilewright
