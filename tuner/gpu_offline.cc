#include "tuner/gpu_offline.h"

#include <spdlog/spdlog.h>

#include <algorithm>

#include "codegen/codegen.h"
#include "codegen/cuda_description.h"
#include "runtime/cuda/cubin.h"
#include "runtime/cuda/nvrtc.h"
#include "runtime/error.h"
#include "runtime/timer.h"
#include "runtime/weight_packing.h"
#include "tuner/emulated_check.h"
#include "tuner/gpu_estimates.h"
#include "tuner/search.h"
#include "tuner/trial_record.h"

namespace tilewright {
namespace {

namespace db = database;

constexpr int64_t kBatch = 64;     // candidates between two generations
constexpr size_t kShortlist = 20;  // compiled
constexpr int64_t kKept = 3;       // proved and stored

struct Ranked {
  Candidate candidate;
  double seconds;  // predicted
};

struct Compiled {
  Ranked ranked;
  CudaDescription description;  // with the text of its source
  std::string cubin;
};

class GpuOffline {
 public:
  GpuOffline(const Workload& w, const Target& target, const db::TargetIdentity& identity,
             PatientWriter& writer, const std::string& run_id, const TuneOptions& options,
             double until, const std::atomic<bool>& cancelled)
      : w_(w), target_(target), identity_(identity), writer_(writer), run_id_(run_id),
        options_(options), until_(until), cancelled_(cancelled) {}

  TuneResult run(uint64_t seed);

 private:
  std::vector<Ranked> search(uint64_t seed);
  std::vector<Compiled> compile_best(std::vector<Ranked> ranked);
  bool compile(Ranked& r, std::vector<Compiled>& out);
  bool refuse(const Ranked& r, const std::string& reason);
  bool is_right(Compiled& c);
  void keep(const Compiled& c);

  const Workload& w_;
  const Target& target_;
  const db::TargetIdentity& identity_;
  PatientWriter& writer_;
  const std::string& run_id_;
  const TuneOptions& options_;
  double until_;
  const std::atomic<bool>& cancelled_;
  TuneResult result_;
  std::string reason_;  // why the first candidate that was not compiled was not
};

std::vector<Ranked> GpuOffline::search(uint64_t seed) {
  CandidateMaker maker(w_, target_, 1);
  GpuEstimates estimates(target_);
  SearchOptions search = options_.search;
  search.seed = seed;
  SearchPolicy policy(maker, search);
  policy.rank_by([&](std::vector<Candidate>& candidates) { estimates.score(candidates); });
  const CostModel none;
  std::vector<Ranked> ranked;
  int64_t refused = 0;
  while (!cancelled_ && (until_ == 0 || steady_seconds() < until_) &&
         result_.trials < options_.trials) {
    auto count = static_cast<int>(std::min<int64_t>(kBatch, options_.trials - result_.trials));
    std::vector<Candidate> batch = policy.propose(count, none);
    for (Candidate& c : batch) {
      double seconds = estimates.seconds(c);
      policy.tell({c.sketch, c.config, c.fingerprint, c.features, c.answers, seconds});
      result_.order.push_back(c.config);
      if (seconds > 0) ranked.push_back({std::move(c), seconds});
      refused += seconds > 0 ? 0 : 1;
    }
    result_.trials += static_cast<int64_t>(batch.size());
    if (static_cast<int>(batch.size()) < count / 8 + 1) break;  // there are few left
  }
  result_.invalid[TrialVerdict::Illegal] = maker.illegal().total + refused;
  std::stable_sort(ranked.begin(), ranked.end(),
                   [](const Ranked& a, const Ranked& b) { return a.seconds < b.seconds; });
  if (ranked.size() > kShortlist) ranked.resize(kShortlist);
  return ranked;
}

bool GpuOffline::refuse(const Ranked& r, const std::string& reason) {
  spdlog::debug("{}: {}", r.candidate.config, reason);
  if (reason_.empty()) reason_ = reason;
  return false;
}

// Compiles a candidate and predicts it again by what the compiler made of it; false when it spills
// registers or does not compile.
bool GpuOffline::compile(Ranked& r, std::vector<Compiled>& out) {
  Compiled c;
  try {
    c.description.source = generate_cuda(r.candidate.module, target_);
    c.cubin = cuda::compile_to_cubin(c.description.source.text, "kernel", architecture_of(target_));
    c.description.packing = compile_packing(c.description.source.packing);
  } catch (const LoweringError& e) {
    return refuse(r, e.what());
  } catch (const CompileError& e) {
    return refuse(r, e.what());
  }
  std::vector<CompiledFacts> registers;
  c.description.facts = facts_of_cubin(c.description.source, c.cubin);
  for (const CudaKernelFacts& facts : c.description.facts) {
    if (facts.spills()) return refuse(r, "spills registers");
    registers.push_back({facts.registers});
  }
  GpuEstimate e = estimate_gpu(r.candidate.module.main, target_, registers);
  if (!e.fits()) return refuse(r, e.refusal);
  c.ranked = {std::move(r.candidate), e.seconds};
  out.push_back(std::move(c));
  return true;
}

std::vector<Compiled> GpuOffline::compile_best(std::vector<Ranked> ranked) {
  std::vector<Compiled> compiled;
  for (Ranked& r : ranked) {
    if (cancelled_) break;
    if (!compile(r, compiled)) ++result_.invalid[TrialVerdict::CompileError];
  }
  std::stable_sort(compiled.begin(), compiled.end(), [](const Compiled& a, const Compiled& b) {
    return a.ranked.seconds < b.ranked.seconds;
  });
  return compiled;
}

// Proves it in the emulator, and keeps what that counted.
bool GpuOffline::is_right(Compiled& c) {
  const Candidate& candidate = c.ranked.candidate;
  EmulatedCheck check = check_emulated(w_, target_, *candidate.sketch, candidate.config);
  c.description.emulated = {check.instance, check.run.counters.by_name()};
  if (check.passed()) return true;
  bool ran = !check.instance.empty();
  ++result_.invalid[ran ? TrialVerdict::Wrong : TrialVerdict::Illegal];
  spdlog::warn("{}: {}", candidate.config,
               ran ? check.instance + " in the emulator: " + check.run.problem
                   : "no instance of the workload that the emulator can run takes this config");
  return false;
}

void GpuOffline::keep(const Compiled& c) {
  db::Record record = record_of(w_, identity_, c.ranked.candidate, options_, run_id_);
  record.median_seconds = record.best_seconds = c.ranked.seconds;
  record.threads = 1;
  record.trial = static_cast<int>(result_.valid);
  record.compiler_version = cuda::nvrtc_identity();
  record.offline = true;
  KernelSource source;
  source.code = c.description.source.text;
  source.flags = {"--gpu-architecture=" + architecture_of(target_)};
  db::Artifact artifact =
      artifact_of(source, c.cubin, record.compiler_version, c.description.to_json());
  writer_.put([record, artifact](db::Store& store) mutable {
    record.artifact_hash = store.put_artifact(artifact);
    store.insert(record);
  });
}

TuneResult GpuOffline::run(uint64_t seed) {
  double begin = steady_seconds();
  result_.workload = &w_;
  result_.predicted = true;
  for (Compiled& c : compile_best(search(seed))) {
    if (cancelled_ || result_.valid >= kKept) break;
    if (!is_right(c)) continue;
    keep(c);
    if (result_.valid++ > 0) continue;
    result_.best_seconds = c.ranked.seconds;
    result_.config = c.ranked.candidate.config;
    result_.sketch = c.ranked.candidate.sketch->name;
  }
  if (result_.valid == 0 && !reason_.empty()) {
    spdlog::warn("{}: no candidate compiles: {}", w_.canonical, reason_);
  }
  result_.elapsed = steady_seconds() - begin;
  return std::move(result_);
}

}  // namespace

std::vector<CudaKernelFacts> facts_of_cubin(const CudaSource& source, const std::string& cubin) {
  std::vector<CudaKernelFacts> list;
  for (const CudaLaunch& l : source.launches) {
    cuda::CubinFacts facts = cuda::cubin_facts(cubin, l.entry);
    list.push_back({facts.registers, facts.stack_bytes, facts.instructions});
  }
  return list;
}

std::string architecture_of(const Target& target) {
  return target.name.substr(target.name.find(':') + 1);
}

TuneResult rank_gpu_offline(const Workload& workload, const Target& target,
                            const db::TargetIdentity& identity, PatientWriter& writer,
                            const std::string& run_id, const TuneOptions& options, uint64_t seed,
                            double until, const std::atomic<bool>& cancelled) {
  return GpuOffline(workload, target, identity, writer, run_id, options, until, cancelled)
      .run(seed);
}

}  // namespace tilewright
