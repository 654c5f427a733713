// The content of a report, gathered from the database.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/command.h"
#include "cli/lookup.h"
#include "cli/report/report_analysis.h"
#include "cli/report/report_baselines.h"
#include "runtime/machine/machine.h"
#include "tuner/measure/measurer.h"
#include "tuner/measure/roofline.h"

namespace tilewright::cli {

struct ReportTrial {
  int number = 0;  // 1, 2, … in the order of measuring; the untuned default has none
  database::Verdict verdict = database::Verdict::Valid;
  double seconds = 0;  // 0: it failed
  std::string sketch, config;
  std::string reason;  // the first line
  bool is_default = false;
};

struct ReportConfig {
  double seconds = 0;
  std::string sketch, config;
  bool is_default = false, confirmed = false;
};

struct ReportFailure {
  std::string cause;
  int64_t count = 0;
  std::vector<std::string> reasons;  // a few that differ, in the order of meeting them
};

// One of the kernels among which the winner was chosen.
struct ReportFinalist {
  std::string sketch, config;
  MedianInterval time;
  bool winner = false, is_default = false;
};

struct ReportFinalists {
  std::vector<ReportFinalist> list;  // the winner first, then by time
  bool in_turns = false;             // the closing comparison; else each trial by itself
};

// Time that the runs spent on a workload, by activity.
struct ReportTime {
  double elapsed = 0;  // seconds; 0: not recorded
  SecondsSpent spent = {};
};

// A workload on one number of threads.
struct ReportWorkload {
  std::string spec, label, expr, hash;
  int threads = 1;
  double flops = 0;
  Roofline roof;
  std::string above_roof = {};  // how the winner can be faster than the roof; empty: it is not
  MachineRates rates;           // of this machine on as many threads, or of a GPU by its data sheet
  std::vector<ReportTrial> trials;
  std::vector<ReportConfig> top;  // fastest first, one a config; those measured again come first
  // Of a GPU kernel that nobody has measured: what the model ranked first, with its times.
  std::vector<ReportConfig> predicted;
  std::vector<ReportFailure> failures;
  double default_seconds = 0;  // 0: not measured
  ReportFinalists finalists;
  ReportTime time;
  std::optional<ReportBench> bench;
  KnobImportance knobs;
  Predictions predictions;

  int64_t valid() const;
  // The winner's; null when nothing is valid.
  const ReportConfig* best() const { return top.empty() ? nullptr : &top.front(); }
};

struct Report {
  std::string date;  // UTC
  std::string database, tool_version;
  std::string target;
  database::TargetIdentity identity;
  std::vector<std::string> compilers;
  std::vector<database::TuningRun> runs;  // that the trials came from, latest first
  std::vector<std::pair<std::string, std::string>> baselines;  // names with versions
  bool searching = false;                                      // a run goes on
  std::vector<ReportWorkload> workloads;
};

// Everything that `store` holds of the workloads that were asked for (or all of them) for the
// target. Requests of zero threads are for every number of threads. While a run goes on, what takes
// processors from it is left out: models, and measurements of the machine's peaks. Throws MissError
// when there is nothing, or nothing of a workload that was named.
Report gather_report(const CommonOptions& options, const ReportBenches& benches,
                     const database::Store& store);

}  // namespace tilewright::cli
