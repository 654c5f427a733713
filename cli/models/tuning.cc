#include "cli/models/tuning.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "cli/kernel_worker.h"
#include "cli/line/interrupt.h"
#include "cli/output/progress.h"
#include "graph/loops/loops.h"
#include "graph/sizes.h"
#include "runtime/machine/timer.h"
#include "tilewright/version.h"
#include "tuner/backend.h"
#include "tuner/search/offline.h"

namespace tilewright::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kFallbackTrials = 16;  // of a model, where its first answer fails
constexpr int kOfflineTrials = 400;  // at most, of a workload within a time limit

}  // namespace

Uses uses_of(const graph::Graph& graph) {
  Uses uses;
  std::map<std::string, size_t> places;
  std::set<const graph::Value*> weights;
  graph::for_each_node(graph,
                       [&](const graph::Graph& around, const graph::Node& node, double times) {
                         if (!node.is_workload()) return;
                         const std::string spec = graph::ranged(around, node).spec;
                         auto [place, fresh] = places.emplace(spec, uses.workloads.size());
                         if (fresh) {
                           uses.workloads.push_back(parse_workload(spec));
                           uses.counts.push_back(0);
                         }
                         uses.counts[place->second] += times;
                         SpreadOperands& own = uses.constants[uses.workloads[place->second].hash()];
                         for (const auto& [name, value] : node.operands) {
                           if (!around.values[value].constant) continue;
                           weights.insert(&around.values[value]);
                           if (std::ranges::count(own.names, name) == 0) own.names.push_back(name);
                         }
                       });
  int64_t bytes = 0;
  for (const graph::Value* value : weights) bytes += value->bytes();
  for (auto& [workload, own] : uses.constants) own.bytes = bytes;
  return uses;
}

Tuning::Tuning(const TuningArguments& a, const Uses& uses, database::Store& store)
    : a_(a), uses_(uses), store_(store), lookup_(a.common), interrupted_(catch_interrupts()) {
  if (a.offline) lookup_.identity = described_identity(lookup_.target);
}

database::BestResult Tuning::best(const Workload& w) const {
  return a_.offline ? lookup_.best_or_predicted(store_, w) : lookup_.best(store_, w);
}

std::vector<size_t> Tuning::lacking() const {
  std::vector<size_t> found;
  for (size_t i = 0; i < uses_.workloads.size(); ++i) {
    if (!best(uses_.workloads[i]).record) found.push_back(i);
  }
  return found;
}

double Tuning::seconds() const {
  double sum = 0;
  for (size_t i = 0; i < uses_.workloads.size(); ++i) {
    sum += uses_.counts[i] * best(uses_.workloads[i]).record->median_seconds;
  }
  return sum;
}

bool Tuning::answer(double seconds) {
  TuneOptions first;
  first.trials = 1;
  first.seconds = seconds;
  first.search.population = 0;
  first.measures_default = false;
  first.finalists = a_.offline ? 1 : 0;
  tune_at(lacking(), first, Goal::FirstAnswers);
  return interrupted_;
}

bool Tuning::run() {
  const double started = steady_seconds();
  answer(0);
  TuneOptions fallback;
  fallback.trials = a_.offline ? kFallbackTrials : 1;
  tune_at(lacking(), fallback, Goal::FirstAnswers);
  TuneOptions search;
  search.resume = true;
  search.trials = a_.trials;
  if (a_.seconds > 0) {
    if (a_.offline) search.trials = std::min(search.trials, kOfflineTrials);
    search.seconds = a_.seconds - (steady_seconds() - started);
    if (search.seconds <= 0) return interrupted_;
  }
  if (search.trials > 0) tune_at(untuned(), search, Goal::Search);
  return interrupted_;
}

std::vector<size_t> Tuning::untuned() const {
  std::vector<size_t> found;
  for (size_t i = 0; i < uses_.workloads.size(); ++i) {
    if (!is_tuned(uses_.workloads[i])) found.push_back(i);
  }
  return found;
}

// Whether a search went beyond a first answer, here or elsewhere.
bool Tuning::is_tuned(const Workload& w) const {
  const database::BestResult best = this->best(w);
  const auto tried =
      store_.records({.workload_hash = w.hash(), .target_hash = lookup_.identity.hash});
  if (best.record && best.record->offline) {
    return std::ranges::any_of(tried.records, [&](const auto& r) { return is_of_a_search(r); });
  }
  std::set<std::string> found;  // one that fails twice is one
  for (const database::Record& r : tried.records) {
    if (!r.is_default && !r.offline && !r.confirmed && r.threads == lookup_.threads)
      found.insert(r.sketch + r.config);
  }
  return found.size() > 1 || (found.empty() && best.record && !best.record->is_default);
}

bool Tuning::is_of_a_search(const database::Record& predicted) const {
  const auto run = store_.run(predicted.run_id);
  const Json args = run ? Json::parse(run.value->args, nullptr, false) : Json();
  return !args.is_object() || !args.contains("first_answers");
}

// The workloads that take most of the model's time first: a time limit may end before the others.
void Tuning::sort_by_time(std::vector<size_t>& which) const {
  std::map<size_t, double> seconds;
  for (size_t i : which) {
    const auto record = best(uses_.workloads[i]).record;
    seconds[i] = uses_.counts[i] * (record ? record->median_seconds : 0);
  }
  std::ranges::stable_sort(which, [&](size_t a, size_t b) { return seconds[a] > seconds[b]; });
}

void Tuning::tune_at(std::vector<size_t> which, TuneOptions o, Goal goal) {
  if (which.empty() || interrupted_) return;
  if (a_.offline) sort_by_time(which);
  std::vector<Workload> workloads;
  for (size_t i : which) {
    workloads.push_back(uses_.workloads[i]);
    o.uses.push_back(uses_.counts[i]);
  }
  o.threads = lookup_.threads;
  o.measure = Backend::of(lookup_.target).measure_options();
  o.measure.threads = o.threads;
  o.measure.spread = uses_.constants;
  o.tool_version = TILEWRIGHT_VERSION;
  Json args = {{"model", a_.model}, {"trials", o.trials}};
  if (a_.offline && goal == Goal::FirstAnswers) args["first_answers"] = true;
  o.run_args = args.dump();
  if (a_.offline) {
    o.measure = offline_options(o.measure);
  } else {
    note_confinement(a_.common, lookup_.target);
  }
  LocalMeasurer measurer(worker_command(), lookup_.target, o.measure);
  ProgressLine line(a_.common.quiet, {});
  const auto show = [&](const TuneProgress& p) { line.show(p); };
  if (a_.offline) {
    rank_offline(workloads, lookup_.target, lookup_.identity, store_, measurer, o, interrupted_,
                 show);
  } else {
    tune(workloads, lookup_.target, lookup_.identity, store_, measurer, o, interrupted_, show);
  }
  line.finish();
}

}  // namespace tilewright::cli
