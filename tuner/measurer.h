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
#include "runtime/jobs.h"
#include "runtime/timer.h"
#include "tuner/candidate.h"

namespace tilewright {

using TrialVerdict = database::Verdict;

struct Measurement {
  TrialVerdict verdict = TrialVerdict::Illegal;
  std::string reason;           // why it failed, one line or a few
  std::vector<double> samples;  // seconds a run
  double median = 0;
  // Medians at the points of measure(), in their order; empty when it failed.
  std::vector<double> at_points = {};
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

// The values of the dynamic dimensions at each of several sizes.
using SizeList = std::vector<std::map<std::string, int64_t>>;

// Kernels' times at several sizes, and which of them add up alike.
struct SizeComparison {
  std::vector<std::vector<double>> seconds;  // of each kernel, then of each size; 0: not measured
  std::vector<std::string> rows;             // of each kernel: MeasureResult::rows_identity
};

// What ends measuring early.
struct MeasureLimits {
  const std::atomic<bool>& cancelled;
  // No candidate is taken up after this moment of steady_seconds().
  double deadline = std::numeric_limits<double>::infinity();
  // There will be another round: a default that may take longer than until then is left to it.
  bool another_round = false;

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
  // `points` are further sizes at which candidates are timed, each with the time of the
  // fastest so far as the cut-off's measure.
  std::vector<Measurement> measure(const Workload& workload, const std::vector<Candidate>& batch,
                                   const MeasureLimits& limits, double best_seconds,
                                   const MeasuredFn& measured = {},
                                   const std::vector<SizePoint>& points = {});
  // Times kernels that are known to be right, in turns: one round at least, and no new one beyond the
  // deadline; the slower ones leave after the first few, and those that are nearly the fastest stay
  // for more, as far as there is time. Medians in seconds; 0 for one that failed, and for all when
  // cancelled. Turns in which something else had the processors count only where a kernel has no
  // others: `disturbed` then says what it was.
  std::vector<double> compare(const Workload& workload, const std::vector<Measurement>& kernels,
                              const MeasureLimits& limits, std::string* disturbed = nullptr);
  // Times kernels that are known to be right at each of the sizes, in turns: the kernels
  // one after the other at all sizes, `rounds` times unless a limit is reached after the first;
  // those that are far behind everywhere leave after it. The least median of a kernel's rounds
  // counts: what disturbs a measurement only ever slows it. A kernel that is much slower than
  // another (by their medians) is not timed at sizes where one run takes half a second and more.
  // Nothing when cancelled.
  std::optional<SizeComparison> compare_at(const Workload& workload,
                                           const std::vector<Measurement>& kernels,
                                           const SizeList& sizes, int rounds,
                                           const MeasureLimits& limits);
  // About how long compare_at() takes for as many finalists as there may be.
  static double compare_at_seconds(size_t sizes);
  // About how long compare() takes at least on kernels of these medians.
  static double compare_seconds(const std::vector<double>& medians);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tilewright
