// Builds, checks and times candidates.
#pragma once

#include <atomic>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "database/record.h"
#include "ir/tensor_expr.h"
#include "kernel/kernel_source.h"
#include "kernel/target.h"
#include "runtime/machine/timer.h"
#include "runtime/worker/jobs.h"
#include "tuner/candidate.h"
#include "tuner/measure/race.h"

namespace tilewright {

using TrialVerdict = database::Verdict;

struct Measurement {
  TrialVerdict verdict = TrialVerdict::Illegal;
  std::string reason;           // why it failed, in one or a few lines
  std::vector<double> samples;  // seconds per run
  double median = 0;
  // Medians at the `points` of measure(), in order; empty if it failed.
  std::vector<double> at_points = {};
  double max_rel_error = 0;  // over the checked elements
  bool in_full = false;      // it passed all checks, and not the first alone
  KernelSource source;
  std::string cuda;    // GPU: the CudaDescription, instead of `source`
  std::string object;  // bytes of the compiled kernel; empty if it failed earlier
  std::string compiler;
};

struct MeasureOptions {
  int threads = 1;
  uint64_t seed = 0;            // for the operands' values
  double timeout_seconds = 10;  // of one candidate's job: operands, check, timing
  // Timeout of the untuned default, which may be slow and is the baseline of all others. Under a
  // deadline, at most half of the remaining time.
  double default_timeout_seconds = 60;
  bool cold = false;  // flush the caches before each run
  // By workload, by its hash: what a model reads of its constants. Timed runs read copies of them in turn.
  std::map<std::string, SpreadOperands> spread = {};
  int64_t memory_limit = int64_t{4} << 30;
  int builders = 2;  // parallel compilers
  double compile_seconds =
      20;  // timeout of one of their jobs; the compiler's own limit is half of it
};

// The least sample, by which candidates are compared: other work only slows a run, and a slow minute may spoil a
// median. The median where there are no samples, as for a prediction.
double least_sample(const Measurement& m);

// Values of the dynamic dimensions at several sizes.
using SizeList = std::vector<std::map<std::string, int64_t>>;

// Kernels' times at several sizes, and which kernels share a reduction order.
struct SizeComparison {
  std::vector<std::vector<double>> seconds;  // by kernel, then by size; 0: not measured
  std::vector<std::string> rows;             // by kernel: MeasureResult::rows_identity
};

// Seconds on the clock that tuning took.
struct SecondsSpent {
  double proposing = 0;  // the search itself: its model, candidates' schedules and texts
  double building = 0;   // compilers, side by side
  double reference = 0;  // operands and right values that candidates share
  double checks = 0;     // of candidates, in one worker
  double timing = 0;     // of candidates, in one worker, at all sizes; once, of the machine's peaks

  SecondsSpent& operator+=(const SecondsSpent& other);
  SecondsSpent operator-(const SecondsSpent& other) const;
};
// Its parts by the names that JSON has for them.
inline constexpr std::pair<const char*, double SecondsSpent::*> kSpentParts[] = {
    {"proposing", &SecondsSpent::proposing}, {"building", &SecondsSpent::building},
    {"reference", &SecondsSpent::reference}, {"checks", &SecondsSpent::checks},
    {"timing", &SecondsSpent::timing},
};

// Limits that end measuring early.
struct MeasureLimits {
  const std::atomic<bool>& cancelled;
  // No candidate starts after this time of steady_seconds().
  double deadline = std::numeric_limits<double>::infinity();
  // Another round follows: a default that may run past the deadline is left to that round.
  bool another_round = false;
  // A deadline of its own until a first candidate other than the default was found valid; 0: there is
  // none. Without it compilers that take longer than a round would be ended in each, and a round whose
  // first candidates fail would end with nothing.
  double first_deadline = 0;

  bool reached() const { return cancelled || steady_seconds() >= deadline; }
};

using MeasuredFn = std::function<void(size_t index, const Measurement&)>;

// Checks and times candidates of one target, on this machine or on others. Not thread-safe.
class Measurer {
 public:
  Measurer() = default;
  virtual ~Measurer() = default;
  Measurer(const Measurer&) = delete;
  Measurer& operator=(const Measurer&) = delete;

  // Returns one measurement per candidate, in order. Each is timed with nothing else running on its
  // processors. At a limit, the rest is Illegal with an empty reason and
  // must not be recorded. Only `cancelled` stops a candidate that is running.
  //
  // `measured` is called for each finished candidate with its index in the batch, but not for the
  // rest. `points` are further sizes at which candidates are timed; each has the fastest time so
  // far, which sets the cutoff.
  //
  // A candidate's first check compares all elements on ordinary values. The others (hard values, values
  // that change after the timing) follow where it takes at most kKept times `best_seconds` or the fastest
  // of the batch so far, where it is the untuned default, and wherever sizes vary: only such a kernel
  // may be kept.
  static constexpr double kKept = 1.1;
  virtual std::vector<Measurement> measure(const Workload& workload,
                                           const std::vector<Candidate>& batch,
                                           const MeasureLimits& limits, double best_seconds,
                                           const MeasuredFn& measured = {},
                                           const std::vector<SizePoint>& points = {}) = 0;
  // Times correct kernels in turns until the race is decided: at least one round, and no new round after the
  // deadline. All medians are 0 when cancelled. A round in which something else had the processors counts only
  // where a kernel has no other: `disturbed` then has the reason.
  virtual Comparison compare(const Workload& workload, const std::vector<Measurement>& kernels,
                             const MeasureLimits& limits) = 0;
  // Times correct kernels in turns: one kernel after the other at all sizes. There are `rounds`
  // rounds, unless a limit is reached after the first. Kernels that are far behind everywhere leave
  // after the first round. The least median of a kernel's rounds counts, since disturbances only
  // slow a measurement. A kernel with a much slower median than another is not timed at sizes where
  // one run takes half a second or more. Returns nothing when cancelled.
  virtual std::optional<SizeComparison> compare_at(const Workload& workload,
                                                   const std::vector<Measurement>& kernels,
                                                   const SizeList& sizes, int rounds,
                                                   const MeasureLimits& limits) = 0;
  // Approximate duration of compare_at() with the largest number of finalists.
  static double compare_at_seconds(size_t sizes);
  // Approximate least duration of compare() on kernels with these medians.
  static double compare_seconds(const std::vector<double>& medians);
  // Of all calls so far.
  virtual const SecondsSpent& spent() const = 0;
};

// Measures on this machine. Owns the worker processes.
class LocalMeasurer : public Measurer {
 public:
  // `worker_command` starts a worker: {"/path/tune-cli", "job-worker"}.
  LocalMeasurer(std::vector<std::string> worker_command, Target target, MeasureOptions options);
  ~LocalMeasurer() override;

  // Compiles candidates side by side in worker processes: a compiler that crashes costs its candidate.
  // Returns one measurement per candidate, in order, Valid where it has an object. At a limit, the rest
  // is Illegal with an empty reason.
  std::vector<Measurement> build(const std::vector<Candidate>& batch, const MeasureLimits& limits);
  // Builds run in parallel; measurements run one at a time.
  std::vector<Measurement> measure(const Workload& workload, const std::vector<Candidate>& batch,
                                   const MeasureLimits& limits, double best_seconds,
                                   const MeasuredFn& measured = {},
                                   const std::vector<SizePoint>& points = {}) override;
  Comparison compare(const Workload& workload, const std::vector<Measurement>& kernels,
                     const MeasureLimits& limits) override;
  std::optional<SizeComparison> compare_at(const Workload& workload,
                                           const std::vector<Measurement>& kernels,
                                           const SizeList& sizes, int rounds,
                                           const MeasureLimits& limits) override;
  const SecondsSpent& spent() const override;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Adds the seconds of its scope, and what the measurer spends of them.
class SpendingClock {
 public:
  SpendingClock(const Measurer& measurer, double& elapsed, SecondsSpent& spent)
      : measurer_(measurer), watch_(elapsed), spent_(spent), before_(measurer.spent()) {}
  ~SpendingClock() { spent_ += measurer_.spent() - before_; }
  SpendingClock(const SpendingClock&) = delete;
  SpendingClock& operator=(const SpendingClock&) = delete;

 private:
  const Measurer& measurer_;
  Stopwatch watch_;
  SecondsSpent& spent_;
  SecondsSpent before_;
};

}  // namespace tilewright
