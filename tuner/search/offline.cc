#include "tuner/search/offline.h"

#include <spdlog/spdlog.h>

#include <algorithm>

#include "codegen/codegen.h"
#include "runtime/compile/compile.h"
#include "runtime/cuda/nvrtc.h"
#include "runtime/error.h"
#include "runtime/machine/cpus.h"
#include "runtime/machine/timer.h"
#include "tuner/backend.h"
#include "tuner/features/cost_model.h"
#include "tuner/search/gpu_offline.h"
#include "tuner/search/history.h"
#include "tuner/search/patient_writer.h"
#include "tuner/search/trial_record.h"

namespace tilewright {
namespace {

namespace db = database;

constexpr double kPatientCompileSeconds = 300;  // of one kernel
constexpr int kKeptOffline = 3;  // kernels: where the best one fails its check, others are there

struct Ranked {
  Candidate candidate;
  double seconds;  // predicted
};

class OfflineRun {
 public:
  OfflineRun(const Target& target, const db::TargetIdentity& identity, db::Store& store,
             LocalMeasurer& compilers, const TuneOptions& options,
             const std::atomic<bool>& cancelled)
      : target_(target), identity_(identity), store_(store), writer_(store), compilers_(compilers),
        options_(options), cancelled_(cancelled), started_(steady_seconds()) {
    if (Backend::of(target).only_predicts()) {
      cuda::nvrtc_identity();  // throws if NVRTC is missing, before anything is stored
    } else {
      load_model();
    }
    db::TuningRun run;
    run.seed = options.seed;
    run.args = options.run_args.empty() ? "{}" : options.run_args;
    run.target_hash = identity.hash;
    run.tool_version = options.tool_version;
    run_id_ = store.begin_run(run);
  }

  TuneResult rank(const Workload& w, uint64_t seed);
  void finish() {
    const auto state = cancelled_ ? db::RunState::Interrupted : db::RunState::Finished;
    writer_.put([id = run_id_, state](db::Store& store) { store.set_run_state(id, state); });
    writer_.flush();
  }
  double elapsed() const { return steady_seconds() - started_; }

 private:
  // The target's own, else the one that is shipped for its kind.
  void load_model() {
    const Backend& backend = Backend::of(target_);
    auto stored = store_.model(identity_.hash, "xgboost", backend.feature_version());
    model_.load(stored ? stored.value->bytes : backend.pretrained(target_));
  }
  std::vector<Ranked> search(const Workload& w, uint64_t seed, TuneResult& result);
  bool keep(const Workload& w, const Ranked& r, int rank);
  bool stopped() const {
    return cancelled_ || (options_.seconds > 0 && elapsed() > options_.seconds);
  }

  const Target& target_;
  const db::TargetIdentity& identity_;
  db::Store& store_;
  PatientWriter writer_;
  LocalMeasurer& compilers_;
  const TuneOptions& options_;
  const std::atomic<bool>& cancelled_;
  CostModel model_;
  std::string run_id_;
  double started_;
};

// The candidates, best first, as the policy ranks them. It gets the predictions as if they were
// measurements. A stored time must not be less than that of a better candidate: who reads the database takes
// the least.
std::vector<Ranked> OfflineRun::search(const Workload& w, uint64_t seed, TuneResult& result) {
  CandidateMaker maker(w, target_, options_.threads, &cancelled_);
  SearchOptions search = options_.search;
  search.seed = seed;
  SearchPolicy policy(maker, search);
  std::vector<Ranked> ranked;
  while (!stopped() && result.trials < options_.trials) {
    int64_t left = options_.trials - result.trials;
    int count = static_cast<int>(std::min<int64_t>(options_.first_batch, left));
    std::vector<Candidate> batch = policy.propose(count, model_);
    if (batch.empty()) break;
    for (Candidate& c : batch) {
      policy.tell(outcome_of(c, c.predicted_seconds));
      result.order.push_back(c.config);
      const double seconds = c.predicted_seconds;
      if (seconds > 0) ranked.push_back({std::move(c), seconds});
    }
    result.trials += static_cast<int64_t>(batch.size());
  }
  result.invalid[TrialVerdict::Illegal] = maker.illegal().total;
  std::stable_sort(ranked.begin(), ranked.end(), [](const Ranked& a, const Ranked& b) {
    return a.candidate.score > b.candidate.score;
  });
  for (size_t i = 1; i < ranked.size(); ++i) {
    ranked[i].seconds = std::max(ranked[i].seconds, ranked[i - 1].seconds);
  }
  return ranked;
}

// Compiles and stores a candidate. Returns false if it does not compile.
bool OfflineRun::keep(const Workload& w, const Ranked& r, int rank) {
  KernelSource source;
  CompiledObject compiled;
  try {
    source = generate_c(r.candidate.module, target_);
    compiled = compile(source);
  } catch (const LoweringError& e) {
    spdlog::debug("{}: {}", r.candidate.config, e.what());
    return false;
  } catch (const CompileError& e) {
    spdlog::debug("{}: {}", r.candidate.config, e.what());
    return false;
  }
  db::Record record = record_of(w, identity_, r.candidate, options_, run_id_);
  record.median_seconds = record.best_seconds = r.seconds;
  record.trial = rank;
  record.compiler_version = compiled.compiler;
  record.offline = true;
  const db::Artifact artifact = artifact_of(source, compiled.object, compiled.compiler);
  writer_.put([record, artifact](db::Store& store) mutable {
    record.artifact_hash = store.put_artifact(artifact);
    store.insert(record);
  });
  return true;
}

TuneResult OfflineRun::rank(const Workload& w, uint64_t seed) {
  if (Backend::of(target_).only_predicts()) {
    std::vector<std::string> guesses;
    writer_.flush();  // stores what this run found for earlier workloads
    if (options_.warm_start) guesses = similar_winners(store_, identity_, w, options_.threads);
    TuneResult result =
        rank_gpu_offline(w, target_, identity_, writer_, compilers_, run_id_, options_, guesses,
                         seed, options_.seconds > 0 ? started_ + options_.seconds : 0, cancelled_);
    result.interrupted = cancelled_;
    return result;
  }
  double begin = steady_seconds();
  TuneResult result;
  result.workload = &w;
  result.predicted = true;
  for (const Ranked& r : search(w, seed, result)) {
    if (cancelled_ || result.valid >= std::min(kKeptOffline, options_.finalists)) break;
    if (!keep(w, r, static_cast<int>(result.valid))) {
      ++result.invalid[TrialVerdict::CompileError];
      continue;
    }
    if (result.valid++ > 0) continue;
    result.best_seconds = r.seconds;
    result.config = r.candidate.config;
    result.sketch = r.candidate.sketch->name;
  }
  result.elapsed = steady_seconds() - begin;
  result.interrupted = cancelled_;
  return result;
}

}  // namespace

MeasureOptions offline_options(MeasureOptions options) {
  options.builders = available_cores();
  options.compile_seconds = kPatientCompileSeconds;
  return options;
}

std::vector<TuneResult> rank_offline(const std::vector<Workload>& workloads, const Target& target,
                                     const database::TargetIdentity& identity,
                                     database::Store& store, LocalMeasurer& compilers,
                                     const TuneOptions& options, const std::atomic<bool>& cancelled,
                                     const ProgressFn& progress) {
  OfflineRun run(target, identity, store, compilers, options, cancelled);
  Rng seeds(options.seed);
  std::vector<TuneResult> results;
  for (const Workload& w : workloads) {
    results.push_back(run.rank(w, seeds.next()));
    if (!progress) continue;
    const TuneResult& r = results.back();
    auto done = static_cast<int64_t>(results.size()), all = static_cast<int64_t>(workloads.size());
    TuneProgress p;
    p.workload = r.workload;
    p.index = static_cast<int>(done - 1);
    p.count = static_cast<int>(all);
    p.trials = r.trials;
    p.budget = options.trials;
    p.valid = r.valid;
    p.invalid = r.invalid;
    p.best_seconds = r.best_seconds;
    p.elapsed = run.elapsed();
    p.done = done * options.trials;
    p.remaining = (all - done) * options.trials;
    p.limit = options.seconds;
    p.predicted = true;
    progress(p);
  }
  run.finish();
  return results;
}

}  // namespace tilewright
