// Judges the stored trials of CPU kernels without running them:
//   cpu_predictions THREADS TARGET DATABASE...
// Prints a JSON object per valid trial: its spec, trial, config, measured "seconds", whether it is a
// first answer of its sketch, the analytical model's "predicted" seconds with what they consist of,
// and the shipped model's "score". tests/tuner/judge_predictions.py compares these judges.
#include <iostream>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "database/store.h"
#include "ir/ops/spec.h"
#include "runtime/machine/machine.h"
#include "runtime/machine/timer.h"
#include "tuner/candidate.h"
#include "tuner/cpu/cpu_model.h"
#include "tuner/features/cost_model.h"

using namespace tilewright;

namespace {

using Json = nlohmann::json;

// Cycles of a run: pipes by their throughput, and what no pipe accounts for.
Json cycles_of(const CpuCycles& c, const CpuCore& core) {
  const CpuPasses& p = c.passes;
  return {{"total", c.total},
          {"multiply", p.multiply / core.multiply},
          {"floats", p.floats / core.floats},
          {"shuffle", p.shuffle / core.shuffle},
          {"vector", p.vector / core.vector},
          {"load", p.load / core.load},
          {"store", p.store / core.store},
          {"issue", p.instructions / core.issue},
          {"waiting", c.waiting},
          {"control", c.control}};
}

void judge(const database::WorkloadSummary& summary, const database::Store& store,
           const Target& target, const CpuFacts& facts, int threads) {
  const Workload workload = parse_workload(summary.canonical);
  CandidateMaker maker(workload, target, threads);
  CostModel model;
  model.load(Backend::of(target).pretrained(target));
  std::set<std::string> first;
  for (const Sketch& sketch : maker.sketches()) {
    if (auto c = maker.make(sketch, Trial::first())) first.insert(c->fingerprint);
  }
  database::RecordFilter filter;
  filter.workload_hash = workload.hash();
  for (const database::Record& r : store.records(filter).records) {
    if (r.confirmed || r.offline || r.is_default || r.verdict != database::Verdict::Valid) continue;
    const Sketch* sketch = find_sketch(r.sketch);
    const double begin = steady_seconds();
    auto c = maker.make(*sketch, Trial::mutate(r.config, 0, 0));
    if (!c || c->config != r.config) continue;
    const double made = steady_seconds();
    const CpuEstimate e = estimate_cpu(c->module.main, target, threads, facts);
    const double estimated = steady_seconds();
    std::cout << Json{{"spec", summary.canonical},
                      {"trial", r.trial},
                      {"config", r.config},
                      {"seconds", r.median_seconds},
                      {"first", first.count(c->fingerprint) != 0},
                      {"predicted", e.seconds},
                      {"compute", e.compute},
                      {"memory", e.memory},
                      {"cycles", cycles_of(e.cycles, facts.core)},
                      {"score", model.predict({c->features})[0]},
                      {"features", c->features},
                      {"making_s", made - begin},
                      {"estimating_s", estimated - made}}
              << "\n";
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) {
    std::cerr << "usage: cpu_predictions THREADS TARGET DATABASE...\n";
    return 2;
  }
  const int threads = std::stoi(argv[1]);
  const Target target = Target::parse(argv[2]);
  const CpuFacts facts = CpuFacts::of(probe_machine(), target, threads);
  std::cerr << facts.clock * 1e-9 << " GHz, GB/s " << facts.bandwidth[0] * 1e-9 << " "
            << facts.bandwidth[1] * 1e-9 << " " << facts.bandwidth[2] * 1e-9 << "\n";
  for (int i = 3; i < argc; ++i) {
    const auto store = database::Store::open(argv[i], database::Mode::ReadOnly);
    for (const auto& summary : store.workloads()) judge(summary, store, target, facts, threads);
  }
  return 0;
}
