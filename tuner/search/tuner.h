// The tuner: searches, verifies and stores.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "database/store.h"
#include "tuner/measure/measurer.h"
#include "tuner/search/dispatch.h"
#include "tuner/search/search.h"

namespace tilewright {

struct TuneOptions {
  static constexpr int kNoLimit = 10'000'000;  // trials, if only the time counts
  int trials = 64;                             // per workload, including the default
  double seconds = 0;                          // for all workloads; 0: no limit
  uint64_t seed = 0;
  int threads = 1;
  // Trials per training of the model; trials before the first one.
  int batch = 8, first_batch = 16;
  SearchOptions search;
  MeasureOptions measure;
  // Uses of each workload in one model: trials go where they save the model most. Empty: the
  // workloads are independent.
  std::vector<double> uses = {};
  // Of each workload, configs that are measured before all others but the default, and fit it. Empty:
  // none of any.
  std::vector<std::vector<Draft>> wanted = {};
  // Asked for each batch; with dynamic dimensions, for those of the largest sizes. Null: nobody.
  Proposer proposer = {};
  bool measures_default = true;  // as the first candidate
  int finalists = 8;             // measured again at the end, in turns with the default
  // Share by which TaskScheduler::kWatchedTrials have to make a workload faster; else its search ends. 0: none.
  double least_gain = 0;
  bool resume = false;            // count and reuse the database's records
  bool warm_start = true;         // start from similar workloads' winners and the stored model
  bool pretrained = true;         // without a stored model, start from the shipped one
  DispatchOptions dispatch = {};  // for workloads with a dynamic dimension
  std::string run_args;           // the command line as JSON, stored with the run
  std::string tool_version;
  std::string driver_version = {};  // of the measuring GPU
};

struct TuneProgress {
  const Workload* workload;
  int index = 0, count = 1;  // the workload's index among `count`
  int64_t trials = 0, budget = 0;
  int64_t valid = 0;
  std::map<TrialVerdict, int64_t> invalid;
  double best_seconds = 0, default_seconds = 0;
  double elapsed = 0;
  // Over all workloads: trials of this run, further trials possible, and the time limit in seconds
  // (0: none).
  int64_t done = 0, remaining = 0;
  double limit = 0;
  bool predicted = false;  // by a model; nothing was measured
};

struct TuneResult {
  const Workload* workload = nullptr;
  int64_t trials = 0, valid = 0;
  std::map<TrialVerdict, int64_t> invalid;
  double best_seconds = 0, default_seconds = 0;
  double behind = -1;  // Comparison::behind of the best
  std::string config, sketch;
  double elapsed = 0;
  SecondsSpent spent = {};  // of it
  bool interrupted = false;
  bool settled = false;        // TuneOptions::least_gain ended it
  std::string disturbed = {};  // what else had the processors at the confirmation; empty: nothing
  bool predicted = false;      // by a model: `valid` were compiled and kept
  std::vector<std::string> order;  // configs in measuring order
  DispatchOutcome dispatch = {};   // for a workload with a dynamic dimension
  // With `resume`: earlier trials whose configs give no program here, by reason.
  std::map<std::string, int64_t> not_resumed = {};
  ProposalCounts proposals = {};

  // Keeps a valid trial as the best if it is faster.
  void note_best(double seconds, const std::string& of_config, const std::string& of_sketch) {
    if (best_seconds > 0 && seconds >= best_seconds) return;
    best_seconds = seconds;
    config = of_config;
    sketch = of_sketch;
  }
  // Whether a candidate other than the untuned default is valid.
  bool found() const { return valid > (default_seconds > 0 ? 1 : 0); }
};

using ProgressFn = std::function<void(const TuneProgress&)>;

// Tunes all workloads; the store gets each batch as soon as it is measured. A signal handler may
// set `cancelled`: finished measurements are kept, and the results say `interrupted`.
std::vector<TuneResult> tune(const std::vector<Workload>& workloads, const Target& target,
                             const database::TargetIdentity& identity, database::Store& store,
                             Measurer& measurer, const TuneOptions& options,
                             const std::atomic<bool>& cancelled, const ProgressFn& progress = {});

}  // namespace tilewright
