#include "tuner/search/history.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "ir/ops/spec.h"
#include "tuner/features/features.h"
#include "tuner/sketch.h"

namespace tilewright {
namespace {

namespace db = database;

constexpr size_t kMostGuesses = 8;
constexpr int64_t kWinnersEach = 2;  // per workload

// The distance to another workload's size, in doublings of its operations.
double distance(const db::WorkloadSummary& other, const Workload& workload) {
  try {
    double flops = parse_workload(other.canonical).flops;
    return std::abs(std::log2(std::max(flops, 1.0) / std::max(workload.flops, 1.0)));
  } catch (const Error&) {
    return INFINITY;  // from a version with another grammar
  }
}

// Adds the fastest configs of a workload on a target, those at this number of threads first.
void add_winners(const db::Store& store, db::RecordFilter filter, int threads, bool offline,
                 std::vector<std::string>& configs) {
  filter.verdict = db::Verdict::Valid;
  filter.by_time = true;
  filter.limit = 4 * kWinnersEach;
  std::vector<db::Record> winners = store.records(filter).records;
  std::stable_sort(winners.begin(), winners.end(), [&](const auto& a, const auto& b) {
    return (a.threads == threads) > (b.threads == threads);
  });
  int64_t taken = 0;
  for (const db::Record& r : winners) {
    const bool is_default = r.is_default || r.sketch == default_sketch().name;
    const bool known = std::count(configs.begin(), configs.end(), r.config) > 0;
    if (r.offline != offline || is_default || known || taken == kWinnersEach) continue;
    configs.push_back(r.config);
    ++taken;
  }
}

}  // namespace

std::vector<Sample> stored_samples(const db::Store& store, const std::string& target_hash,
                                   int feature_version, const std::set<std::string>& without,
                                   size_t limit) {
  std::map<std::tuple<std::string, std::string, int>, MeasuredRows> groups;
  for (const db::Record& r : store.records({.target_hash = target_hash}).records) {
    const bool tells = !r.offline && !r.confirmed && r.feature_version == feature_version;
    if (!tells || without.count(r.workload_hash)) continue;
    groups[{r.workload_hash, r.target.hash, r.threads}].emplace_back(r.features, r.median_seconds);
  }
  std::vector<Sample> samples;
  for (const auto& [group, rows] : groups) {
    for (Sample& s : samples_of_errors(rows)) samples.push_back(std::move(s));
  }
  if (samples.size() > limit) {
    samples.erase(samples.begin(), samples.end() - static_cast<long>(limit));
  }
  return samples;
}

std::vector<std::string> similar_winners(const db::Store& store, const db::TargetIdentity& target,
                                         const Workload& workload, int threads) {
  std::vector<std::string> configs;
  db::RecordFilter own;
  own.workload_hash = workload.hash();
  for (const db::Record& r : store.records(own).records) {
    const bool fits = r.target.hash == target.hash || r.target.features == target.features;
    if (r.offline && fits && configs.size() < kMostGuesses / 2) configs.push_back(r.config);
  }
  std::vector<std::pair<double, db::WorkloadSummary>> others;
  for (const db::WorkloadSummary& s : store.workloads(workload.op, target.hash)) {
    others.emplace_back(distance(s, workload),
                        s);  // the same workload at other threads is nearest
  }
  std::stable_sort(others.begin(), others.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  // Measured winners come before predicted ones.
  for (const bool offline : {false, true}) {
    for (const auto& [far, summary] : others) {
      if (configs.size() >= kMostGuesses) break;
      add_winners(store, {.workload_hash = summary.hash, .target_hash = target.hash}, threads,
                  offline, configs);
    }
  }
  return configs;
}

}  // namespace tilewright
