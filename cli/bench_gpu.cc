#include "cli/bench_gpu.h"

#include <algorithm>

#include "cli/gpu.h"

namespace tilewright::cli {
namespace {

// The untuned default's time when it was tuned, by the newest record; 0 where there is none.
double default_seconds(const Workload& w, const Lookup& lookup, const database::Store& store) {
  double seconds = 0;
  for (const database::Record& r : lookup.defaults(store, w)) {
    if (!r.offline) seconds = r.median_seconds;
  }
  return seconds;
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
                      const Lookup& lookup, const database::Store& store, int rounds,
                      uint64_t seed) {
  BenchReport report;
  GpuWorker worker;
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
    MeasureJob job = gpu_measure_job(w, *best.artifact);
    job.dims = row.sizes;
    job.seed = seed;
    job.rounds = rounds;
    job.timing.max_seconds = 0.2;
    job.timing.min_seconds = 0.01;
    MeasureResult result = worker.measure(job);
    if (result.verdict == Verdict::Ok) {
      row.seconds = result.timing.median;
      row.default_seconds = default_seconds(w, lookup, store) * row.sized.flops / w.flops;
      add_peers(result, report, row);
    } else {
      row.fault = result.message;
    }
    report.rows.push_back(row);
  }
  return report;
}

}  // namespace tilewright::cli
