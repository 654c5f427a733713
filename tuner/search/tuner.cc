#include "tuner/search/tuner.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>

#include "database/tables/convert.h"
#include "runtime/machine/timer.h"
#include "tuner/backend.h"
#include "tuner/search/finalists.h"
#include "tuner/search/gpu_estimates.h"
#include "tuner/search/history.h"
#include "tuner/search/patient_writer.h"
#include "tuner/search/pretrained.h"
#include "tuner/search/run_findings.h"
#include "tuner/search/size_plan.h"
#include "tuner/search/task_scheduler.h"
#include "tuner/search/trial_record.h"

namespace tilewright {
namespace {

namespace db = database;

class TuneRun {
 public:
  TuneRun(const std::vector<Workload>& workloads, const Target& target,
          const db::TargetIdentity& identity, db::Store& store, Measurer& measurer,
          const TuneOptions& options, const std::atomic<bool>& cancelled,
          const ProgressFn& progress)
      : workloads_(workloads), target_(target), identity_(identity), store_(store), writer_(store),
        measurer_(measurer), options_(options), cancelled_(cancelled), progress_(progress) {}

  std::vector<TuneResult> run();

 private:
  struct Task {
    const Workload* workload;
    std::unique_ptr<CandidateMaker> maker;
    // One policy; with dynamic dimensions, one per size where candidates are timed, in turns.
    std::vector<std::unique_ptr<SearchPolicy>> policies;
    std::optional<SizePlan> sizes;  // for dynamic dimensions
    PointFinalists at_points{0};
    size_t turn = 0;                   // counts the policies' turns
    std::unique_ptr<CostModel> prior;  // of other workloads, as of the first batch
    std::vector<Candidate> waiting;    // proposed, but not measured within the round's time
    TuneResult result;
    std::vector<FinalistRounds> compared;
    std::vector<Finalist> finalists;   // fastest first
    std::optional<Finalist> fallback;  // the untuned default
    std::optional<Finalist> champion;  // the database's best before this run
    bool default_tried = false;
    bool exhausted = false;  // no more candidates
    int64_t unlowered = 0;   // trials that lowering refused
    double best_seconds() const { return sizes ? at_points.typical() : result.best_seconds; }
  };

  void search();
  Task make_task(size_t index, uint64_t seed);
  void restore(Task& task);
  void recall();
  static void count_invalid(Task& task, TrialVerdict verdict);
  void round(int index, double until);
  std::vector<Candidate> batch_for(Task& task, int count, bool shared);
  void record(Task& task, const Candidate& c, Measurement m);
  std::unique_ptr<CostModel> prior_for(const Task& task) const;
  void remember();
  void confirm(Task& task);
  void learn(Task& task);
  void note_findings();
  void close(db::RunState state);
  void report(int index);
  bool learns() const { return options_.search.kind != SearchKind::Steady; }  // from other runs
  size_t finalists() const { return static_cast<size_t>(std::max(0, options_.finalists)); }
  // The share of the workload's search that is gone.
  double spent(const Task& task) const {
    const auto trials = static_cast<double>(task.result.trials);
    const double clock = steady_seconds() - started_;
    return std::max(trials / static_cast<double>(std::max<int64_t>(1, options_.trials)),
                    options_.seconds > 0 ? clock / options_.seconds : 0);
  }
  double search_deadline() const;
  double deadline() const {
    return options_.seconds > 0 ? started_ + options_.seconds
                                : std::numeric_limits<double>::infinity();
  }

  const std::vector<Workload>& workloads_;
  const Target& target_;
  const db::TargetIdentity& identity_;
  db::Store& store_;
  PatientWriter writer_;
  Measurer& measurer_;
  const TuneOptions& options_;
  const std::atomic<bool>& cancelled_;
  const ProgressFn& progress_;
  std::vector<std::byte> base_;  // the model to start from
  std::vector<Task> tasks_;
  std::string run_id_;
  double started_ = 0;
  int64_t done_ = 0;  // trials of this run, over all workloads
};

TuneRun::Task TuneRun::make_task(size_t index, uint64_t seed) {
  const Workload& w = workloads_[index];
  Task task;
  task.workload = &w;
  task.maker = std::make_unique<CandidateMaker>(w, target_, options_.threads, &cancelled_);
  task.sizes = plan_sizes(w);
  const size_t points = task.sizes ? task.sizes->tuned.size() : 1;
  task.at_points = PointFinalists(task.sizes ? points : 0);
  Rng seeds(seed);
  std::vector<GpuEstimates::Sizes> sizes(1);
  if (task.sizes) sizes = task.sizes->at(task.sizes->tuned);
  const auto estimates = std::make_shared<GpuEstimates>(target_, std::move(sizes), &cancelled_);
  for (size_t p = 0; p < points; ++p) {
    SearchOptions search = options_.search;
    search.seed = p == 0 ? seed : seeds.next();
    if (options_.seconds > 0 && workloads_.size() > 1) search.lowered_each = 8;
    task.policies.push_back(std::make_unique<SearchPolicy>(*task.maker, search));
    if (Backend::of(target_).only_predicts()) task.policies[p]->start_by(gpu_scorer(estimates, p));
  }
  task.result.workload = &w;
  task.champion = stored_best(store_, best_query(w, target_, identity_, options_.threads), target_);
  if (options_.resume) restore(task);
  if (options_.warm_start && learns()) {
    const auto winners = similar_winners(store_, identity_, w, options_.threads);
    for (auto& policy : task.policies) policy->seed_with(winners);
  }
  if (options_.proposer) task.policies.back()->ask(options_.proposer);
  if (!options_.wanted.empty()) task.policies.back()->begin_with(options_.wanted[index]);
  return task;
}

// Tells the policies what the database knows of this workload.
void TuneRun::restore(Task& task) {
  db::RecordFilter filter;
  filter.workload_hash = task.workload->hash();
  filter.target_hash = identity_.hash;
  for (const db::Record& r : store_.records(filter).records) {
    // A confirmed record repeats a trial's record.
    if (r.offline || r.confirmed || r.threads != options_.threads) continue;
    const std::string problem = replay_problem(r.sketch, r.sketch_version);
    if (!problem.empty()) {
      ++task.result.not_resumed[problem];
      continue;
    }
    const Sketch* sketch = find_sketch(r.sketch);
    auto c = task.maker->make(*sketch, Trial::mutate(r.config, 0, 0));
    if (!c || c->config != r.config) continue;
    double seconds = r.verdict == TrialVerdict::Valid ? r.median_seconds : 0;
    const std::vector<double> at_points =
        task.sizes ? times_at(*task.sizes, r) : std::vector{seconds > 0 ? r.best_seconds : 0};
    for (size_t p = 0; p < task.policies.size(); ++p) {
      if (seconds > 0 && at_points[p] == 0) continue;  // not timed at that size
      task.policies[p]->tell(outcome_of(*c, at_points[p]));
    }
    ++task.result.trials;
    if (r.is_default && seconds == 0) task.default_tried = true;
    if (seconds == 0) count_invalid(task, r.verdict);
    if (seconds > 0) {
      ++task.result.valid;
      task.result.note_best(seconds, r.config, r.sketch);
      if (r.is_default) task.result.default_seconds = seconds;
      auto artifact = store_.artifact(r);
      if (artifact) {
        Finalist f = finalist_of(r, *artifact.value, target_);
        if (task.sizes) f.kernel.at_points = at_points;
        if (r.is_default) task.fallback = f;
        task.at_points.keep(f);
        keep_finalist(task.finalists, std::move(f), finalists());
      }
    }
  }
}

std::vector<Candidate> TuneRun::batch_for(Task& task, int count, bool shared) {
  if (!task.waiting.empty()) return std::exchange(task.waiting, {});
  std::vector<Candidate> batch;
  const bool wants_default = options_.measures_default && !task.fallback && !task.default_tried;
  if (wants_default) batch.push_back(task.maker->make_default());
  if (!task.prior) task.prior = prior_for(task);
  // The policy of the largest size starts.
  const size_t turn = task.policies.size() - 1 - task.turn++ % task.policies.size();
  SearchPolicy& policy = *task.policies[turn];
  const int further = count - static_cast<int>(batch.size());
  std::ranges::move(policy.propose(further, *task.prior, spent(task)), std::back_inserter(batch));
  // The default may take as long as all others together: under a shared deadline it comes last.
  if (wants_default && shared) std::rotate(batch.begin(), batch.begin() + 1, batch.end());
  return batch;
}

void TuneRun::record(Task& task, const Candidate& c, Measurement m) {
  const bool valid = m.verdict == TrialVerdict::Valid;
  if (task.sizes && valid) m.at_points.push_back(m.median);
  db::Record r = record_of(*task.workload, identity_, c, options_, run_id_);
  r.verdict = m.verdict;
  r.reason = m.reason;
  r.samples = m.samples;
  r.median_seconds = m.median;
  if (task.sizes) r.points = sized_times(*task.sizes, m.at_points);
  r.trial = static_cast<int>(task.result.trials);
  r.compiler_version = m.compiler;
  // Keeps the kernel only of candidates that can still win, all of which passed every check.
  const double best = task.result.best_seconds;
  bool promising = valid && m.in_full &&
                   (c.is_default || best == 0 || m.median <= Measurer::kKept * best ||
                    task.at_points.is_promising(m.at_points));
  std::optional<db::Artifact> kernel;
  if (promising) {
    kernel = artifact_of(m.source, m.object, m.compiler, m.cuda);
    r.artifact_hash = db::content_hash(*kernel);
  }
  r.created = db::now_microseconds();
  r.id = db::content_hash(r);
  writer_.put([r, kernel](db::Store& store) {
    if (kernel) store.put_artifact(*kernel);
    store.insert(r);
  });

  for (size_t p = 0; p < task.policies.size(); ++p) {
    double seconds = !valid ? 0 : task.sizes ? m.at_points[p] : least_sample(m);
    task.policies[p]->tell(outcome_of(c, seconds));
  }
  task.result.order.push_back(c.config);
  ++task.result.trials;
  ++done_;
  if (c.is_default) task.default_tried = true;
  if (!valid) {
    count_invalid(task, m.verdict);
    // Candidates may fail; a failure of the default is unexpected.
    spdlog::log(c.is_default ? spdlog::level::warn : spdlog::level::debug, "{} {}{}: {}",
                task.workload->canonical, db::verdict_name(m.verdict),
                c.is_default ? ", the untuned default" : " " + c.config, m.reason);
    return;
  }
  ++task.result.valid;
  task.result.note_best(m.median, c.config, c.sketch->name);
  if (c.is_default) task.result.default_seconds = m.median;
  if (!promising) return;
  Finalist f{std::move(r), std::move(m)};
  if (c.is_default) task.fallback = f;
  task.at_points.keep(f);
  keep_finalist(task.finalists, std::move(f), finalists());
}

void TuneRun::count_invalid(Task& task, TrialVerdict verdict) {
  ++task.result.invalid[verdict];
  if (verdict == TrialVerdict::Illegal) ++task.unlowered;
}

void TuneRun::round(int index, double until) {
  Task& task = tasks_[static_cast<size_t>(index)];
  const SpendingClock clock(measurer_, task.result.elapsed, task.result.spent);
  double start = steady_seconds();
  const int most = task.result.trials == 0
                       ? first_count(options_.search.kind, options_.first_batch, options_.trials)
                       : options_.batch;
  int count = static_cast<int>(std::min<int64_t>(most, options_.trials - task.result.trials));
  const bool shared = until < search_deadline();
  const bool first = task.result.order.empty();  // of this run
  if (shared && first) count = std::min(count, TaskScheduler::first_trials(until - start));
  std::vector<Candidate> batch = batch_for(task, count, shared);
  task.result.spent.proposing += steady_seconds() - start;
  std::vector<bool> measured_now(batch.size());
  // Until something is found, a round may take four times its share, and half of what it leaves to others.
  double found_by = first || !task.result.found() ? deadline() : 0;
  if (shared)
    found_by = std::min({found_by, until + 3 * (until - start), (until + deadline()) / 2});
  measurer_.measure(
      *task.workload, batch, {cancelled_, until, shared, found_by}, task.result.best_seconds,
      [&](size_t i, const Measurement& m) {
        measured_now[i] = true;
        record(task, batch[i], m);
      },
      task.sizes ? task.at_points.beside_last(*task.sizes) : std::vector<SizePoint>{});
  for (size_t i = 0; i < batch.size(); ++i) {
    if (!measured_now[i]) task.waiting.push_back(std::move(batch[i]));
  }
  // Refusals of a rewrite are no trials; those of lowering are.
  task.result.invalid[TrialVerdict::Illegal] = task.maker->illegal().total + task.unlowered;
  report(index);
}

// Loads the start model: the stored one of an earlier run, else the shipped one.
void TuneRun::recall() {
  if (options_.pretrained) base_ = Backend::of(target_).pretrained(target_);
  if (!options_.warm_start || !learns()) return;
  auto stored = store_.model(identity_.hash, "xgboost", Backend::of(target_).feature_version());
  if (!stored) return;
  try {
    CostModel().load(stored.value->bytes);
    base_ = stored.value->bytes;
  } catch (const Error& e) {
    spdlog::warn("the stored cost model is left aside: {}", e.what());
  }
}

// The prior of a workload's first trial: the base model, and this run's measurements of other
// workloads. The workload itself is left out: a model that has seen its times would know them by
// heart, and leave the ranker nothing to learn.
std::unique_ptr<CostModel> TuneRun::prior_for(const Task& task) const {
  auto prior = std::make_unique<CostModel>(CostModelOptions{
      .seed = static_cast<int>(options_.seed & 0x7fffffff), .threads = options_.threads});
  if (options_.search.kind == SearchKind::Random) return prior;
  if (!base_.empty()) prior->load(base_);
  if (!learns()) return prior;
  std::vector<Sample> others;
  for (const Task& t : tasks_) {
    if (&t == &task) continue;
    for (Sample& s : t.policies.back()->samples()) others.push_back(std::move(s));
  }
  prior->train_further(others);
  return prior;
}

// Trains from all records: the last model would grow with each run.
void TuneRun::remember() {
  if (options_.search.kind == SearchKind::Random || done_ == 0) return;
  writer_.flush();  // the training reads stored records
  int64_t samples = 0;
  // Captured by the write, which may run after this function returns.
  TrainingOptions training{.base = {},
                           .without = {},
                           .threads = options_.threads,
                           .feature_version = Backend::of(target_).feature_version()};
  if (options_.pretrained) training.base = Backend::of(target_).pretrained(target_);
  auto model = std::make_shared<CostModel>(train_on(store_, identity_.hash, training, &samples));
  if (!model->trained()) return;
  writer_.put([target = identity_.hash, model, samples, training](db::Store& store) {
    store_model(store, target, *model, samples, training.feature_version);
  });
  writer_.flush();
}

void TuneRun::report(int index) {
  if (!progress_) return;
  const TuneResult& r = tasks_[static_cast<size_t>(index)].result;
  int64_t remaining = 0;
  for (const Task& t : tasks_) {
    if (!t.exhausted) remaining += std::max<int64_t>(0, options_.trials - t.result.trials);
  }
  progress_({r.workload, index, static_cast<int>(tasks_.size()), r.trials, options_.trials, r.valid,
             r.invalid, r.best_seconds, r.default_seconds, steady_seconds() - started_, done_,
             remaining, options_.seconds});
}

// When searching has to end so that the winners can be confirmed in time. At most a fifth of the
// time is kept for that.
double TuneRun::search_deadline() const {
  double reserve = 0;
  for (const Task& task : tasks_) {
    std::vector<double> medians;
    for (const Finalist& f : task.finalists) {
      if (medians.size() < finalists()) medians.push_back(f.kernel.median);
    }
    reserve += Measurer::compare_seconds(medians);
    if (task.sizes) reserve += Measurer::compare_at_seconds(task.sizes->learnt.size());
  }
  return deadline() - std::min(reserve, 0.2 * options_.seconds);
}

// Measures the finalists again in turns.
void TuneRun::confirm(Task& task) {
  if (task.finalists.empty() || cancelled_) return;
  std::vector<Finalist> rivals =
      rivals_of(task.finalists, finalists(), task.fallback, task.champion);
  const auto comparison =
      measurer_.compare(*task.workload, kernels_of(rivals), {cancelled_, deadline()});
  const auto& medians = comparison.medians;
  task.result.disturbed = comparison.disturbed;
  const int champion = champion_among(rivals, task.champion);
  const int best = winner_of(rivals, comparison, champion);
  if (best < 0) return;
  task.compared = finalist_rounds(rivals, comparison, best);
  const auto winner = static_cast<size_t>(best);
  for (size_t i = 0; i < rivals.size(); ++i) {
    if (medians[i] > 0 && rivals[i].record.is_default) task.result.default_seconds = medians[i];
    if (i != winner && (static_cast<int>(i) != champion || medians[i] <= 0)) continue;
    if (rivals.size() == 1 && task.result.valid < 2) break;  // it won against nothing
    const db::Record confirmed = confirmation_of(rivals[i].record, comparison, i, run_id_);
    writer_.put([confirmed](db::Store& store) { store.insert(confirmed); });
  }
  task.result.best_seconds = medians[winner];
  task.result.behind = comparison.behind[winner];
  task.result.config = rivals[winner].record.config;
  task.result.sketch = rivals[winner].record.sketch;
}

// Decides which kernel runs at which sizes.
void TuneRun::learn(Task& task) {
  if (task.workload->dims.empty() || cancelled_) return;
  if (!task.sizes) {
    task.result.dispatch.note = no_table_note(*task.workload);
    return;
  }
  writer_.flush();  // the table names stored records
  std::vector<Finalist> first;
  if (task.fallback) first.push_back(*task.fallback);
  if (!task.finalists.empty()) first.push_back(task.finalists[0]);
  if (task.champion) first.push_back(*task.champion);
  auto earlier = store_.dispatch(best_query(*task.workload, target_, identity_, options_.threads));
  for (const auto& [id, kernel] : earlier.kernels) {
    first.push_back(finalist_of(kernel.record, *kernel.artifact, target_));
  }
  task.result.dispatch = learn_dispatch(*task.workload, *task.sizes, task.at_points.pick(first),
                                        measurer_, {cancelled_, deadline()}, options_.dispatch);
  if (const auto& table = task.result.dispatch.table)
    writer_.put([table = *table](db::Store& store) { store.put_dispatch(table); });
}

// Readers see the findings while the run goes on.
void TuneRun::note_findings() {
  RunFindings all;
  for (const Task& t : tasks_) {
    all[t.workload->hash()] = {t.result.elapsed, t.result.spent, t.compared};
  }
  writer_.put([id = run_id_, args = with_findings(options_.run_args, all)](db::Store& store) {
    store.set_run_args(id, args);
  });
}

std::vector<TuneResult> TuneRun::run() {
  started_ = steady_seconds();
  db::TuningRun run;
  run.seed = options_.seed;
  run.args = options_.run_args.empty() ? "{}" : options_.run_args;
  run.target_hash = identity_.hash;
  run.tool_version = options_.tool_version;
  run_id_ = store_.begin_run(run);
  try {
    search();
  } catch (...) {
    try {
      close(db::RunState::Failed);
    } catch (const db::DatabaseError& e) {
      spdlog::warn("the run is not marked as failed: {}", e.what());
    }
    throw;
  }
  close(cancelled_ ? db::RunState::Interrupted : db::RunState::Finished);
  std::vector<TuneResult> results;
  for (Task& task : tasks_) results.push_back(std::move(task.result));
  return results;
}

void TuneRun::close(db::RunState state) {
  writer_.put([id = run_id_, state](db::Store& store) { store.set_run_state(id, state); });
  writer_.flush();
}

void TuneRun::search() {
  Rng seeds(options_.seed);
  recall();
  TaskScheduler scheduler = TaskScheduler::of(workloads_.size(), options_.uses);
  scheduler.end_below(options_.least_gain);
  for (size_t i = 0; i < workloads_.size(); ++i) {
    tasks_.push_back(make_task(i, seeds.next()));
    scheduler.expect(static_cast<int>(i), tasks_.back().best_seconds());
  }
  while (!cancelled_ && steady_seconds() < search_deadline()) {
    int index = scheduler.next();
    if (index < 0) break;
    Task& task = tasks_[static_cast<size_t>(index)];
    if (task.result.trials >= options_.trials) {
      scheduler.exhaust(index);
      continue;
    }
    const int64_t before = task.result.trials;
    round(index, scheduler.round_end(index, steady_seconds(), search_deadline()));
    scheduler.report(index, task.result.found() ? task.best_seconds() : 0, task.result.trials);
    note_findings();
    task.result.settled = scheduler.has_settled(index) && task.result.trials < options_.trials;
    task.exhausted = task.result.settled || (task.result.trials == before && task.waiting.empty());
    if (task.exhausted) scheduler.exhaust(index);
  }
  for (Task& task : tasks_) {
    const SpendingClock clock(measurer_, task.result.elapsed, task.result.spent);
    confirm(task);
    learn(task);
    task.result.interrupted = cancelled_;
    if (const ProposalCounts* c = task.policies.back()->proposals()) task.result.proposals = *c;
  }
  note_findings();
  remember();
}

}  // namespace

std::vector<TuneResult> tune(const std::vector<Workload>& workloads, const Target& target,
                             const database::TargetIdentity& identity, database::Store& store,
                             Measurer& measurer, const TuneOptions& options,
                             const std::atomic<bool>& cancelled, const ProgressFn& progress) {
  return TuneRun(workloads, target, identity, store, measurer, options, cancelled, progress).run();
}

}  // namespace tilewright
