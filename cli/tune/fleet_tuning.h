// tune --workers: the search here, the measurements on other machines.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "cli/command.h"
#include "tuner/fleet/fleet.h"
#include "tuner/search/tuner.h"

namespace tilewright::cli {

// The results of machines that are alike; without workers, those of this machine.
struct GroupResults {
  std::string machine;  // its chip
  size_t workers = 0;
  Target target;
  int threads = 1;
  std::map<std::string, double> roofs;  // seconds, by the workload's hash
  std::vector<TuneResult> results;
};

struct FleetResults {
  std::vector<GroupResults> groups;
  size_t workers = 0;
  CrewCounts counts;  // of all groups
};

struct FleetTuning {
  std::vector<std::string> workers;  // values of --workers
  const CommonOptions& common;
  // The options of a group's search.
  std::function<TuneOptions(const Target&, int threads)> options;
  ProgressFn progress;
};

// Gathers the workers and searches on each group of machines at once, each with the trials that the
// options say. Writes to the database from this process alone. Throws FleetError where no worker begins,
// or none of a group is left.
FleetResults tune_on_fleet(const FleetTuning& tuning, const std::vector<Workload>& workloads,
                           const std::atomic<bool>& interrupted);

nlohmann::ordered_json json_of(const FleetResults& fleet);
// Lines for people: lost workers, refusals, who was dropped and why.
std::vector<std::string> fleet_lines(const FleetResults& fleet);

}  // namespace tilewright::cli
