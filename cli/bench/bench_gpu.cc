#include "cli/bench/bench_gpu.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <map>
#include <optional>

#include "cli/gpu.h"
#include "cli/kernel_worker.h"
#include "kernel/cuda_source.h"

namespace tilewright::cli {
namespace {

MeasureJob job_at(const Workload& w, const database::Artifact& artifact, const Lookup& lookup,
                  const std::map<std::string, int64_t>& sizes, uint64_t seed) {
  MeasureJob job = measure_job(w, artifact, lookup);
  job.dims = sizes;
  job.seed = seed;
  job.timing.max_seconds = 0.2;
  job.timing.min_seconds = 0.01;
  return job;
}

// The untuned default's kernel as the database keeps it: the newest one that was right.
std::optional<database::Artifact> default_kernel(const Workload& w, const Lookup& lookup,
                                                 const database::Store& store) {
  std::optional<database::Artifact> found;
  for (const database::Record& r : lookup.defaults(store, w)) {
    if (auto artifact = store.artifact(r)) found = std::move(*artifact.value);
  }
  return found;
}

// Its time at the row's sizes; 0 where there is none, or it is not right there.
double default_seconds(const BenchRow& row, const std::optional<database::Artifact>& kernel,
                       const Lookup& lookup, KernelWorker& worker, uint64_t seed) {
  if (!kernel) return 0;
  const MeasureResult result =
      worker.measure(job_at(*row.workload, *kernel, lookup, row.sizes, seed));
  if (result.verdict == Verdict::Ok) return result.timing.median;
  spdlog::warn("{}: the untuned default has no time: {}", row.sized.canonical, result.message);
  return 0;
}

// The best stored kernel of each kind: of those that were measured here, then of those that a model
// chose.
std::map<std::string, BenchKind> seconds_of_kinds(const BenchRow& row, const Lookup& lookup,
                                                  const database::Store& store,
                                                  KernelWorker& worker, uint64_t seed) {
  std::map<std::string, BenchKind> kinds;
  for (const std::string& hash : {lookup.identity.hash, described_identity(lookup.target).hash}) {
    database::RecordFilter filter;
    filter.workload_hash = row.workload->hash();
    filter.target_hash = hash;
    filter.verdict = database::Verdict::Valid;
    filter.by_time = true;
    for (const database::Record& r : store.records(filter).records) {
      const auto artifact = store.artifact(r);
      if (!artifact || artifact.value->source.empty()) continue;
      const std::string kind(cuda_kind(artifact.value->source));
      if (kinds.count(kind) != 0) continue;
      const MeasureResult result =
          worker.measure(job_at(*row.workload, *artifact.value, lookup, row.sizes, seed));
      kinds[kind] = {result.timing.median, result.verdict == Verdict::Ok ? "" : result.message};
    }
  }
  return kinds;
}

void add_peers(const MeasureResult& result, BenchReport& report, BenchRow& row) {
  for (const auto& [name, peer] : result.peers) {
    std::pair<std::string, std::string> named(name, peer.version);
    if (std::find(report.peers.begin(), report.peers.end(), named) == report.peers.end()) {
      report.peers.push_back(named);
    }
    if (peer.seconds > 0) row.peers[name] = {peer.seconds, peer.note};
    if (peer.seconds == 0) row.absent[name] = peer.problem;
  }
}

}  // namespace

BenchReport bench_gpu(const std::vector<Workload>& workloads, const Sizes& sizes,
                      const Lookup& lookup, const database::Store& store, int rounds, uint64_t seed,
                      bool kinds) {
  BenchReport report;
  KernelWorker worker(lookup.target);
  for (const Workload& w : workloads) {
    BenchRow row{.workload = &w, .sizes = sizes.of(w), .sized = at_sizes(w, sizes.of(w))};
    database::BestResult best = lookup.best_or_predicted(store, w, row.sizes);
    if (!best.record || !best.artifact) {
      row.miss = best.miss;
      report.rows.push_back(row);
      continue;
    }
    row.predicted = best.record->offline;
    row.range = best.range;
    MeasureJob job = job_at(w, *best.artifact, lookup, row.sizes, seed);
    job.rounds = rounds;
    MeasureResult result = worker.measure(job);
    if (result.verdict == Verdict::Ok) {
      row.seconds = result.timing.median;
      row.default_seconds =
          default_seconds(row, default_kernel(w, lookup, store), lookup, worker, seed);
      add_peers(result, report, row);
    } else {
      row.fault = result.message;
    }
    if (kinds) row.kinds = seconds_of_kinds(row, lookup, store, worker, seed);
    report.rows.push_back(row);
  }
  return report;
}

}  // namespace tilewright::cli
