// The tuner: searches, verifies and stores.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "database/store.h"
#include "tuner/dispatch.h"
#include "tuner/measurer.h"
#include "tuner/search.h"

namespace tilewright {

struct TuneOptions {
  static constexpr int kNoLimit = 10'000'000;  // trials, where the time alone counts
  int trials = 64;                             // of each workload, the default's included
  double seconds = 0;                          // for all workloads; 0: no limit
  uint64_t seed = 0;
  int threads = 1;
  // Trials between two looks at the model, and before the first.
  int batch = 8, first_batch = 16;
  SearchOptions search;
  MeasureOptions measure;
  // How often a model uses each workload: the next trials go where they save the model most. Empty:
  // the workloads have nothing to do with each other.
  std::vector<double> uses = {};
  int finalists = 8;              // measured again at the end, in turns with the default
  bool resume = false;            // count and reuse what the database holds of these workloads
  bool warm_start = true;         // start from similar workloads' winners and the stored model
  bool pretrained = true;         // where no model is stored, start from the one that is shipped
  DispatchOptions dispatch = {};  // of workloads with a dynamic dimension
  std::string run_args;           // the command line, JSON, kept with the run
  std::string tool_version;
  std::string driver_version = {};  // of the GPU that measures
};

struct TuneProgress {
  const Workload* workload;
  int index = 0, count = 1;  // of the workload
  int64_t trials = 0, budget = 0;
  int64_t valid = 0;
  std::map<TrialVerdict, int64_t> invalid;
  double best_seconds = 0, default_seconds = 0;
  double elapsed = 0;
  // Over all workloads together: trials of this run, trials that may follow, and the time limit in
  // seconds (0: none).
  int64_t done = 0, remaining = 0;
  double limit = 0;
  bool predicted = false;  // nothing was measured: the times are a model's
};

struct TuneResult {
  const Workload* workload = nullptr;
  int64_t trials = 0, valid = 0;
  std::map<TrialVerdict, int64_t> invalid;
  double best_seconds = 0, default_seconds = 0;
  std::string config, sketch;
  double elapsed = 0;
  bool interrupted = false;
  std::string disturbed = {};  // what else had the processors at the confirmation; empty: nothing
  bool predicted = false;      // by a model: nothing was measured, `valid` were compiled and kept
  std::vector<std::string> order;  // configs in the order of measuring
  DispatchOutcome dispatch = {};   // of a workload with a dynamic dimension
};

using ProgressFn = std::function<void(const TuneProgress&)>;

// Tunes all workloads; the store gets each batch as soon as it is measured. `cancelled` may be set
// from a signal handler: what was measured is kept, and the results say `interrupted`.
std::vector<TuneResult> tune(const std::vector<Workload>& workloads, const Target& target,
                             const database::TargetIdentity& identity, database::Store& store,
                             Measurer& measurer, const TuneOptions& options,
                             const std::atomic<bool>& cancelled, const ProgressFn& progress = {});

}  // namespace tilewright
