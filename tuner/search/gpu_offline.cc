#include "tuner/search/gpu_offline.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>

#include "codegen/codegen.h"
#include "codegen/lowering.h"
#include "database/tables/convert.h"
#include "runtime/machine/timer.h"
#include "schedule/error.h"
#include "tuner/measure/gpu_offline_kernel.h"
#include "tuner/parallel.h"
#include "tuner/search/gpu_estimates.h"
#include "tuner/search/search.h"
#include "tuner/search/size_plan.h"
#include "tuner/search/trial_record.h"

namespace tilewright {
namespace {

namespace db = database;

constexpr int64_t kBatch = 64;       // candidates per generation
constexpr size_t kShortlist = 20;    // candidates to compile
constexpr size_t kMoreForASize = 4;  // for each further size that is ranked
constexpr int64_t kKept = 3;         // at most, checked and stored, besides a table's kernels
// Candidates of a further kind to compile, and how many are looked at for them.
constexpr size_t kOfAKind = 3, kLooked = 128;
constexpr double kNear = 4;     // times the fastest: of use where the fastest fails
constexpr size_t kDrawn = 512;  // at most, where one kind alone was found

struct RankedAtSizes {
  Candidate candidate;
  std::vector<double> seconds;  // predicted, at each size
};

class GpuOffline {
 public:
  GpuOffline(const Workload& w, const Target& target, const db::TargetIdentity& identity,
             PatientWriter& writer, LocalMeasurer& compilers, const std::string& run_id,
             const TuneOptions& options, const std::vector<std::string>& guesses, double until,
             const std::atomic<bool>& cancelled)
      : w_(w), target_(target), identity_(identity), writer_(writer), compilers_(compilers),
        run_id_(run_id), options_(options), guesses_(guesses), until_(until), cancelled_(cancelled),
        maker_(w, target, 1, &cancelled), instances_(w), plan_(plan_sizes(w)),
        kept_(std::clamp<int64_t>(options.finalists, 1, kKept)) {
    if (plan_) sizes_ = plan_->at(plan_->tuned);
  }

  TuneResult run(uint64_t seed);

 private:
  using Kernels = std::vector<OfflineKernel>;  // sorted by time at the largest sizes

  std::vector<SearchPolicy> policies(const std::shared_ptr<GpuEstimates>& estimates, uint64_t seed);
  std::vector<RankedAtSizes> search(uint64_t seed);
  std::vector<Candidate> shortlist(std::vector<RankedAtSizes> ranked);
  std::string kind_of(const Candidate& c) const;
  using KindSet = std::set<std::string, std::less<>>;
  void add_kinds(std::vector<Candidate> others, const KindSet& kinds, double fastest,
                 std::vector<Candidate>& chosen) const;
  std::vector<std::string> ways();
  std::vector<Candidate> draw(Rng& seeds, std::set<std::string>& seen);
  void add_drawn(uint64_t seed, Kernels& kernels);
  // A kernel, or the reason why there is none. Both are empty if it was not tried.
  struct Compiled {
    std::optional<OfflineKernel> kernel;
    std::string refusal;
  };
  Compiled take(Candidate c, Measurement built) const;
  std::vector<Compiled> compile_all(std::vector<Candidate> candidates) const;
  Kernels compile_best(std::vector<Candidate> candidates);
  bool goes_on() const { return !cancelled_ && (until_ == 0 || steady_seconds() < until_); }
  bool is_right(OfflineKernel& k);
  double at_largest(OfflineKernel& k) const { return k.seconds({sizes_.back()}).front(); }
  bool is_near(OfflineKernel& k, Kernels& kernels) const {
    return at_largest(k) <= kNear * at_largest(kernels.front());
  }
  KindSet kinds_of_use(Kernels& kernels) const;
  void keep(OfflineKernel& k);
  void keep_as_found(OfflineKernel& k);
  void learn(Kernels& kernels);
  DispatchOutcome learn_once(Kernels& kernels) const;
  bool settle(const db::DispatchTable& table, Kernels& kernels);

  const Workload& w_;
  const Target& target_;
  const db::TargetIdentity& identity_;
  PatientWriter& writer_;
  LocalMeasurer& compilers_;
  const std::string& run_id_;
  const TuneOptions& options_;
  const std::vector<std::string>& guesses_;
  double until_;
  const std::atomic<bool>& cancelled_;
  CandidateMaker maker_;
  EmulatedInstances instances_;
  std::optional<SizePlan> plan_;                   // for dynamic dimensions
  int64_t kept_;                                   // besides a table's kernels
  std::vector<GpuEstimates::Sizes> sizes_ = {{}};  // where candidates are ranked, largest last
  TuneResult result_;
  std::string reason_;  // why the first failed candidate did not compile
};

// One search policy per size.
std::vector<SearchPolicy> GpuOffline::policies(const std::shared_ptr<GpuEstimates>& estimates,
                                               uint64_t seed) {
  std::vector<SearchPolicy> policies;
  Rng seeds(seed);
  for (size_t p = 0; p < sizes_.size(); ++p) {
    SearchOptions search = options_.search;
    search.seed = p == 0 ? seed : seeds.next();
    policies.emplace_back(maker_, search);
    policies.back().rank_by(gpu_scorer(estimates, p));
    policies.back().seed_with(guesses_);
  }
  return policies;
}

// All candidates that the model ranked and did not refuse.
std::vector<RankedAtSizes> GpuOffline::search(uint64_t seed) {
  const auto estimates = std::make_shared<GpuEstimates>(target_, sizes_, &cancelled_);
  std::vector<SearchPolicy> policies = this->policies(estimates, seed);
  const CostModel none;
  std::vector<RankedAtSizes> ranked;
  int64_t refused = 0;
  for (size_t turn = policies.size(); goes_on() && result_.trials < options_.trials;) {
    // The policy of the largest size starts.
    SearchPolicy& policy = policies[--turn];
    if (turn == 0) turn = policies.size();
    auto count = static_cast<int>(std::min<int64_t>(kBatch, options_.trials - result_.trials));
    std::vector<Candidate> batch = policy.propose(count, none);
    for (Candidate& c : batch) {
      if (cancelled_) break;
      const std::vector<double>& seconds = estimates->at_sizes(c);
      for (size_t p = 0; p < policies.size(); ++p) {
        policies[p].tell(outcome_of(c, seconds[p]));
      }
      result_.order.push_back(c.config);
      if (seconds.back() > 0) ranked.push_back({std::move(c), seconds});
      refused += seconds.back() > 0 ? 0 : 1;
      ++result_.trials;
    }
    if (static_cast<int>(batch.size()) < count / 8 + 1) break;  // few candidates are left
  }
  result_.invalid[TrialVerdict::Illegal] = maker_.illegal().total + refused;
  return ranked;
}

// The fastest candidate at each size, then the second at each, and so on. With dynamic dimensions
// the untuned default comes first, as a table's baseline.
std::vector<Candidate> GpuOffline::shortlist(std::vector<RankedAtSizes> ranked) {
  std::vector<Candidate> chosen;
  std::set<std::string> taken;  // fingerprints
  if (plan_) {
    chosen.push_back(maker_.make_default());
    taken.insert(chosen.front().fingerprint);
  }
  std::vector<std::vector<size_t>> orders;
  for (size_t p = 0; p < sizes_.size(); ++p) {
    std::vector<size_t>& order = orders.emplace_back();
    for (size_t i = 0; i < ranked.size(); ++i) order.push_back(i);
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      return ranked[a].seconds[p] < ranked[b].seconds[p];
    });
  }
  const size_t most = taken.size() + kShortlist + (sizes_.size() - 1) * kMoreForASize;
  std::vector<Candidate> others;
  for (size_t place = 0; place < ranked.size(); ++place) {
    for (const std::vector<size_t>& order : orders) {
      Candidate& c = ranked[order[place]].candidate;
      if (!taken.insert(c.fingerprint).second) continue;
      (chosen.size() < most ? chosen : others).push_back(std::move(c));
    }
  }
  KindSet kinds;
  double fastest = std::numeric_limits<double>::infinity();
  for (const Candidate& c : chosen) {
    kinds.insert(kind_of(c));
    if (c.predicted_seconds > 0) fastest = std::min(fastest, c.predicted_seconds);
  }
  others.resize(std::min(others.size(), kLooked));
  add_kinds(std::move(others), kinds, fastest, chosen);
  return chosen;
}

std::string GpuOffline::kind_of(const Candidate& c) const {
  try {
    return std::string(cuda_kind(generate_cuda(c.module, target_).text));
  } catch (const LoweringError&) {
    return "";
  }
}

// Whether a kernel of this kind is of use beside those. Threads alone come nowhere near matrix
// instructions, but for few rows.
bool is_another(std::string_view kind, const std::set<std::string, std::less<>>& kinds,
                bool is_near) {
  return !kind.empty() && kinds.find(kind) == kinds.end() &&
         (kinds.empty() || kind != "threads" || is_near);
}

// Adds the first of other kinds: a model that is wrong about a feature is wrong about all kernels
// that have it. The fastest kernel so far takes `fastest` seconds.
void GpuOffline::add_kinds(std::vector<Candidate> others, const KindSet& kinds, double fastest,
                           std::vector<Candidate>& chosen) const {
  std::vector<std::string> kind(others.size());
  for_each_in_parallel(others.size(), [&](size_t i) {
    if (!cancelled_) kind[i] = kind_of(others[i]);
  });
  std::map<std::string, size_t> added;
  for (size_t i = 0; i < others.size(); ++i) {
    const bool is_near = others[i].predicted_seconds <= kNear * fastest;
    if (is_another(kind[i], kinds, is_near) && ++added[kind[i]] <= kOfAKind) {
      chosen.push_back(std::move(others[i]));
    }
  }
}

// Configs of one choice that leaves out what the first candidate does, and one of no choice. Among many
// shapes of a product by threads, "none" leads to the other instructions.
std::vector<std::string> GpuOffline::ways() {
  std::vector<std::string> configs = {"{}"};
  Trial first = Trial::first();
  try {
    apply_sketch(maker_.sketches().front(), maker_.input(), first);
  } catch (const ScheduleError&) {
    return configs;
  }
  for (const Decision& d : first.decisions()) {
    const auto none = std::find(d.options.begin(), d.options.end(), Answer("none"));
    if (none != d.options.end()) configs.push_back(fmt::format(R"({{"{}": "none"}})", d.name));
  }
  return configs;
}

// Candidates at random, the fastest by the model first, without those that were `seen`.
std::vector<Candidate> GpuOffline::draw(Rng& seeds, std::set<std::string>& seen) {
  const std::vector<std::string> from = ways();
  std::vector<Draft> drafts;
  for (size_t i = 0; i < kLooked; ++i) {
    drafts.push_back(
        {&maker_.sketches().front(), Trial::mutate(from[i % from.size()], 0, seeds.next())});
  }
  std::vector<Candidate> drawn;
  for (std::optional<Candidate>& c : maker_.make_all(std::move(drafts))) {
    if (!c || c->predicted_seconds <= 0 || !seen.insert(c->fingerprint).second) continue;
    drawn.push_back(std::move(*c));
  }
  std::stable_sort(drawn.begin(), drawn.end(), [](const Candidate& a, const Candidate& b) {
    return a.predicted_seconds < b.predicted_seconds;
  });
  return drawn;
}

// The kinds among which kernels are stored: threads alone that are slow are none.
GpuOffline::KindSet GpuOffline::kinds_of_use(Kernels& kernels) const {
  KindSet kinds;
  for (OfflineKernel& k : kernels) {
    const std::string_view kind = cuda_kind(k.description().source.text);
    if (is_another(kind, kinds, is_near(k, kernels))) kinds.emplace(kind);
  }
  return kinds;
}

// Draws candidates where the compiled ones are of one kind, until some of another kind are found and
// compiled: a search of few trials follows the fastest kind alone.
void GpuOffline::add_drawn(uint64_t seed, Kernels& kernels) {
  KindSet kinds = kinds_of_use(kernels);
  Rng seeds(seed);
  std::set<std::string> seen;  // fingerprints
  for (size_t drawn = 0; kinds.size() < 2 && drawn < kDrawn && goes_on(); drawn += kLooked) {
    std::vector<Candidate> candidates = draw(seeds, seen), others;
    if (candidates.empty()) break;  // there are few in all
    const double fastest =
        kernels.empty() ? candidates.front().predicted_seconds : at_largest(kernels.front());
    add_kinds(std::move(candidates), kinds, fastest, others);
    for (OfflineKernel& k : compile_best(std::move(others))) {
      const double seconds = at_largest(k);
      const auto slower = std::find_if(kernels.begin(), kernels.end(), [&](OfflineKernel& other) {
        return at_largest(other) > seconds;
      });
      kernels.insert(slower, std::move(k));
    }
    kinds = kinds_of_use(kernels);
  }
}

// Predicts a candidate's time again from the compiler's facts. Refuses kernels that did not compile or
// that spill registers.
GpuOffline::Compiled GpuOffline::take(Candidate c, Measurement built) const {
  if (built.verdict != TrialVerdict::Valid) return {{}, built.reason};
  OfflineKernel kernel(std::move(c), std::move(built), target_);
  if (kernel.spills()) return {{}, "spills registers"};
  kernel.seconds(sizes_);
  if (!kernel.refusal().empty()) return {{}, kernel.refusal()};
  return {std::move(kernel), ""};
}

// Compiles all candidates, except those not yet done at a cancellation.
std::vector<GpuOffline::Compiled> GpuOffline::compile_all(std::vector<Candidate> candidates) const {
  std::vector<Measurement> built = compilers_.build(candidates, {cancelled_});
  std::vector<Compiled> compiled(candidates.size());
  for_each_in_parallel(candidates.size(), [&](size_t i) {
    if (!cancelled_) compiled[i] = take(std::move(candidates[i]), std::move(built[i]));
  });
  return compiled;
}

GpuOffline::Kernels GpuOffline::compile_best(std::vector<Candidate> candidates) {
  std::vector<std::string> configs;
  for (const Candidate& c : candidates) configs.push_back(c.config);
  std::vector<std::pair<double, size_t>> order;
  std::vector<Compiled> compiled = compile_all(std::move(candidates));
  for (size_t i = 0; i < compiled.size(); ++i) {
    if (compiled[i].kernel) {
      order.emplace_back(at_largest(*compiled[i].kernel), i);
    } else if (!compiled[i].refusal.empty()) {
      spdlog::debug("{}: {}", configs[i], compiled[i].refusal);
      if (reason_.empty()) reason_ = compiled[i].refusal;
      ++result_.invalid[TrialVerdict::CompileError];
    }
  }
  std::sort(order.begin(), order.end());
  Kernels sorted;
  for (const auto& [seconds, place] : order) sorted.push_back(std::move(*compiled[place].kernel));
  return sorted;
}

// Checks a kernel in the emulator.
bool GpuOffline::is_right(OfflineKernel& k) {
  const bool is_known = !k.problem().empty();
  if (k.is_right(instances_)) return true;
  if (is_known) return false;
  ++result_.invalid[k.ran() ? TrialVerdict::Wrong : TrialVerdict::Illegal];
  spdlog::warn("{}: {}", k.candidate().config, k.problem());
  return false;
}

// Stores a correct kernel, once.
void GpuOffline::keep(OfflineKernel& k) {
  if (!k.record.id.empty()) return;
  KernelSource source;
  source.code = k.description().source.text;
  source.flags = {"--gpu-architecture=" + architecture_of(target_)};
  const std::string& compiler = k.compiler();
  const db::Artifact artifact = artifact_of(source, k.cubin(), compiler, k.description().to_json());
  k.record = record_of(w_, identity_, k.candidate(), options_, run_id_);
  k.record.median_seconds = k.record.best_seconds = at_largest(k);
  k.record.threads = 1;
  k.record.trial = static_cast<int>(result_.valid++);
  k.record.compiler_version = compiler;
  k.record.offline = true;
  k.record.artifact_hash = db::content_hash(artifact);
  k.record.created = db::now_microseconds();
  k.record.id = db::content_hash(k.record);
  writer_.put([record = k.record, artifact](db::Store& store) {
    store.put_artifact(artifact);
    store.insert(record);
  });
}

// Stores a kernel; the first one is the result.
void GpuOffline::keep_as_found(OfflineKernel& k) {
  keep(k);
  if (result_.best_seconds != 0) return;
  result_.best_seconds = at_largest(k);
  result_.config = k.candidate().config;
  result_.sketch = k.candidate().sketch->name;
}

// Learns a table from the current knowledge of the kernels. A kernel that is not checked yet counts
// as correct at all sizes; its index stands for its id.
DispatchOutcome GpuOffline::learn_once(Kernels& kernels) const {
  std::vector<Finalist> rivals;
  for (size_t i = 0; i < kernels.size(); ++i) {
    Finalist& f = rivals.emplace_back();
    f.record = kernels[i].record;
    f.record.is_default = kernels[i].candidate().is_default;
    if (f.record.id.empty()) f.record.id = std::to_string(i);
  }
  const SizeTimer timer = [&](const std::vector<size_t>& which, const std::vector<SizeVector>& at,
                              int) -> std::optional<SizeComparison> {
    SizeComparison found;
    for (size_t i : which) {
      OfflineKernel& k = kernels[i];
      found.seconds.push_back(k.seconds(plan_->at(at)));
      found.rows.push_back(k.record.id.empty() ? "open" : k.rows());
    }
    return found;
  };
  return learn_dispatch(*plan_, rivals, timer, options_.dispatch, false);
}

// Whether all kernels named by the table are stored. If not, checks the others, stores the correct
// ones and drops the rest.
bool GpuOffline::settle(const db::DispatchTable& table, Kernels& kernels) {
  const std::vector<std::string> named = records_of(table);
  bool settled = true;
  for (size_t i = kernels.size(); i-- > 0;) {
    const bool is_named = std::find(named.begin(), named.end(), std::to_string(i)) != named.end();
    if (!kernels[i].record.id.empty() || !is_named) continue;
    settled = false;
    if (cancelled_) return false;
    if (is_right(kernels[i])) {
      keep(kernels[i]);
    } else {
      kernels.erase(kernels.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }
  return settled;
}

// Decides which kernel runs at which sizes. Checking is slow, so only kernels that the table names
// are checked. If a check changes the table, it is learned again.
void GpuOffline::learn(Kernels& kernels) {
  while (!cancelled_) {
    result_.dispatch = learn_once(kernels);
    result_.dispatch.predicted = true;
    const auto& table = result_.dispatch.table;
    if (!table) return;
    if (!settle(*table, kernels)) continue;
    writer_.put([table = *table](db::Store& store) { store.put_dispatch(table); });
    return;
  }
  result_.dispatch = {.table = {}, .mended = {}, .note = "interrupted", .predicted = true};
}

TuneResult GpuOffline::run(uint64_t seed) {
  double begin = steady_seconds();
  result_.workload = &w_;
  result_.predicted = true;
  Kernels kernels = compile_best(shortlist(search(seed)));
  // Further kinds stand in for a first one that fails on a device: where one kernel is asked for, there is none.
  if (kept_ > 1 || kernels.empty()) add_drawn(seed, kernels);
  // The best of each kind, then the best of what is left.
  KindSet kinds;
  for (bool of_new_kinds : {true, false}) {
    for (auto k = kernels.begin(); k != kernels.end() && !cancelled_ && result_.valid < kept_;) {
      const std::string_view kind = cuda_kind(k->description().source.text);
      if (of_new_kinds && !is_another(kind, kinds, is_near(*k, kernels))) {
        ++k;
      } else if (is_right(*k)) {
        keep_as_found(*k);
        kinds.emplace(kind);
        ++k;
      } else {
        k = kernels.erase(k);
      }
    }
  }
  if (result_.valid == 0 && !reason_.empty()) {
    spdlog::warn("{}: no candidate compiles: {}", w_.canonical, reason_);
  }
  if (plan_) {
    learn(kernels);
  } else {
    result_.dispatch.note = no_table_note(w_);
  }
  result_.elapsed = steady_seconds() - begin;
  return std::move(result_);
}

}  // namespace

TuneResult rank_gpu_offline(const Workload& workload, const Target& target,
                            const database::TargetIdentity& identity, PatientWriter& writer,
                            LocalMeasurer& compilers, const std::string& run_id,
                            const TuneOptions& options, const std::vector<std::string>& guesses,
                            uint64_t seed, double until, const std::atomic<bool>& cancelled) {
  return GpuOffline(workload, target, identity, writer, compilers, run_id, options, guesses, until,
                    cancelled)
      .run(seed);
}

}  // namespace tilewright
