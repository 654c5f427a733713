#include "cli/tune/fleet_tuning.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>

#include "tilewright/version.h"
#include "tuner/fleet/fleet_measurer.h"

namespace tilewright::cli {
namespace {

constexpr int kEachWorker = 2;  // candidates in a batch: a worker that is done finds another

std::vector<Place> places_of(const std::vector<std::string>& values) {
  std::vector<Place> places;
  const std::string self = worker_command()[0];
  for (const std::string& value : values) {
    try {
      for (Place& place : parse_places(value, self)) places.push_back(std::move(place));
    } catch (const FleetError& e) {
      throw UsageError(e.what());
    }
  }
  return places;
}

void add_counts(const CrewCounts& counts, CrewCounts* sum) {
  sum->answers += counts.answers;
  sum->lost += counts.lost;
  sum->refused += counts.refused;
  sum->repeated += counts.repeated;
  sum->dropped.insert(sum->dropped.end(), counts.dropped.begin(), counts.dropped.end());
}

GroupResults tune_group(const FleetTuning& tuning, FleetGroup& group,
                        const std::vector<Workload>& workloads, const ProgressFn& progress,
                        const std::atomic<bool>& interrupted) {
  GroupResults found;
  found.machine = group.identity.chip;
  found.workers = group.crew->size();
  found.target = group.target;
  found.threads = group.threads;
  TuneOptions options = tuning.options(group.target, group.threads);
  const int batch = kEachWorker * static_cast<int>(group.crew->size());
  options.batch = std::max(options.batch, batch);
  options.first_batch = std::max(options.first_batch, batch);
  FleetMeasurer measurer(*group.crew, group.target, options.measure);
  for (const Workload& w : workloads) found.roofs[w.hash()] = measurer.roof_seconds(w);
  database::Store store = database::Store::open(tuning.common.db, database::Mode::Create);
  found.results = tune(workloads, group.target, group.identity, store, measurer, options,
                       interrupted, progress);
  group.crew->close();
  return found;
}

// One thread a group: the machines of one kind do not wait for those of another.
std::vector<GroupResults> tune_groups(const FleetTuning& tuning, Fleet& fleet,
                                      const std::vector<Workload>& workloads,
                                      const std::atomic<bool>& interrupted) {
  std::mutex showing;
  const ProgressFn progress = [&](const TuneProgress& p) {
    const std::lock_guard lock(showing);
    tuning.progress(p);
  };
  std::vector<GroupResults> found(fleet.groups.size());
  std::vector<std::exception_ptr> errors(fleet.groups.size());
  const auto tune_one = [&](size_t i) {
    try {
      found[i] = tune_group(tuning, fleet.groups[i], workloads, progress, interrupted);
    } catch (...) {
      errors[i] = std::current_exception();
    }
  };
  {
    std::vector<std::jthread> others;
    for (size_t i = 1; i < fleet.groups.size(); ++i) others.emplace_back(tune_one, i);
    tune_one(0);
  }
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
  return found;
}

}  // namespace

FleetResults tune_on_fleet(const FleetTuning& tuning, const std::vector<Workload>& workloads,
                           const std::atomic<bool>& interrupted) {
  FleetOptions options;
  options.opening = {TILEWRIGHT_VERSION, tuning.common.target};
  options.threads = tuning.common.threads;
  Fleet fleet = gather_fleet(places_of(tuning.workers), options, interrupted,
                             [&](const std::string& line) { note(tuning.common, line); });
  FleetResults results;
  results.workers = fleet.workers;
  if (fleet.groups.empty()) return results;  // interrupted
  for (const auto& [name, reason] : fleet.absent) {
    note(tuning.common, fmt::format("{} did not begin: {}", name, reason));
  }
  results.groups = tune_groups(tuning, fleet, workloads, interrupted);
  results.counts.dropped = fleet.absent;
  for (const FleetGroup& group : fleet.groups) add_counts(group.crew->counts(), &results.counts);
  return results;
}

nlohmann::ordered_json json_of(const FleetResults& fleet) {
  using Json = nlohmann::ordered_json;
  Json dropped = Json::array();
  for (const auto& [name, reason] : fleet.counts.dropped) {
    dropped.push_back({{"name", name}, {"reason", reason}});
  }
  return {{"workers", fleet.workers},
          {"groups", fleet.groups.size()},
          {"answers", fleet.counts.answers},
          {"lost", fleet.counts.lost},
          {"refused", fleet.counts.refused},
          {"repeated", fleet.counts.repeated},
          {"dropped", dropped}};
}

std::vector<std::string> fleet_lines(const FleetResults& fleet) {
  const CrewCounts& c = fleet.counts;
  std::vector<std::string> lines = {
      fmt::format("{} workers: {} answers, {} jobs of lost workers went to others, {} refusals, {} "
                  "answers measured again",
                  fleet.workers, c.answers, c.lost, c.refused, c.repeated)};
  for (const CrewCounts::Dropped& d : c.dropped) lines.push_back("dropped: " + d.text());
  return lines;
}

}  // namespace tilewright::cli
