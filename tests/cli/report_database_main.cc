// report_database FILE WORKLOADS TRIALS: a database as tuning leaves it on this machine, without any
// tuning, for pages that a browser looks at. Texts are long and hostile, and shapes lie close together.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <vector>

#include "cli/lookup.h"
#include "database/store.h"
#include "tuner/search/run_findings.h"
#include "tuner/search/trial_record.h"

namespace tilewright::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kHostile =
    "</title></bdi></td><img src=x onerror=\"document.title='taken'\">"
    "<script>document.title='taken'</script>";

Workload workload(int number) {
  // Shapes of nearly one intensity, which a roofline draws at nearly one place.
  return make_workload(parse_spec(fmt::format("matmul:m={},n={},k={}", 256 + 8 * number,
                                              256 << (number % 3), 256 << (number % 2))));
}

std::string label(int number) {
  if (number == 1) return kHostile;
  return fmt::format(
      "model.encoder.layers.{}.self_attention.output_projection.dense_to_hidden/"
      "MatMul_with_a_long_name_{}",
      number, number);
}

std::string config(int trial) {
  return Json{{"C.vi.rows", 1 + trial % 7},
              {"C.vj", Json::array({8 << (trial % 4), 2, 1 + trial % 5})},
              {"C.order", trial % 2 ? "spatial" : "reversed"},
              {kHostile, 1 + trial % 3}}
      .dump();
}

// Depends on two knobs alone, and falls slowly over the run.
double seconds(const Workload& w, int trial) {
  const double slowness = 1 + trial % 7 + 0.3 * (trial % 4) + 2.0 / (1 + trial);
  return w.flops / 40e9 * slowness;
}

class Writer {
 public:
  explicit Writer(const std::string& file)
      : store_(database::Store::open(file, database::Mode::Create)) {}

  void write(int workloads, int trials) {
    database::Transaction all = store_.begin();
    run_ = store_.begin_run({.seed = 7,
                             .args = Json{{"specs", Json::array({kHostile})}}.dump(),
                             .target_hash = identity_.hash,
                             .tool_version = kHostile});
    for (int i = 0; i < workloads; ++i) write_workload(i, trials);
    store_.set_run_args(run_, with_findings("{}", findings_));
    store_.set_run_state(run_, database::RunState::Finished);
    all.commit();
  }

 private:
  database::Record record(const Workload& w, int number, int trial) const {
    database::Record r;
    r.workload_hash = w.hash();
    r.workload_canonical = w.canonical;
    r.op = w.op;
    r.label = label(number);
    r.target = identity_;
    r.sketch = trial == 0 ? "default" : "cpu_tiles";
    r.sketch_version = 1;
    r.config = trial == 0 ? "{}" : config(trial);
    r.is_default = trial == 0;
    r.run_id = run_;
    r.trial = trial;
    r.tool_version = "test";
    r.compiler_version = kHostile;
    const double s = trial == 0 ? 90 * seconds(w, 1) : seconds(w, trial);
    r.samples = {1.02 * s, s, 0.99 * s, 1.01 * s, s, 0.98 * s};
    if (trial > 0 && trial % 9 == 5) {
      r.verdict = database::Verdict::Wrong;
      r.reason = kHostile;
      r.samples.clear();
    }
    return r;
  }

  void write_workload(int number, int trials) {
    const Workload w = workload(number);
    for (int t = 0; t <= trials; ++t) store_.insert(record(w, number, t));
    if (trials < 14) return;  // as if interrupted before the closing comparison
    std::vector<int> fastest;
    for (int t = 1; t <= trials; ++t) {
      if (record(w, number, t).verdict == database::Verdict::Valid) fastest.push_back(t);
    }
    std::sort(fastest.begin(), fastest.end(),
              [&](int a, int b) { return seconds(w, a) < seconds(w, b); });
    const database::Record winner = record(w, number, fastest[0]);
    Comparison comparison;
    comparison.medians = {seconds(w, fastest[0])};
    comparison.behind = {0.004};
    store_.insert(confirmation_of(winner, comparison, 0, run_));
    WorkloadFindings& f = findings_[w.hash()];
    f.elapsed = 20;
    f.spent = {.proposing = 2, .building = 9, .reference = 1, .checks = 3, .timing = 4};
    for (int rank = 0; rank < 3; ++rank) {
      const int trial = fastest[static_cast<size_t>(rank)];
      const double s = seconds(w, trial);
      f.finalists.push_back(
          {winner.sketch, config(trial), {s, 1.01 * s, 0.99 * s, s, s}, rank == 0});
    }
  }

  database::Store store_;
  database::TargetIdentity identity_ = target_identity(Target::parse("native"));
  std::string run_;
  RunFindings findings_;
};

}  // namespace
}  // namespace tilewright::cli

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  tilewright::cli::Writer(argv[1]).write(std::atoi(argv[2]), std::atoi(argv[3]));
  return 0;
}
