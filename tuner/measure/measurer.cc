#include "tuner/measure/measurer.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <span>

#include "codegen/codegen.h"
#include "ir/ops/spec.h"
#include "runtime/compile/compile.h"
#include "runtime/error.h"
#include "runtime/machine/timer.h"
#include "runtime/worker/jobs.h"
#include "runtime/worker/worker_pool.h"
#include "tuner/backend.h"
#include "tuner/measure/second_look.h"
#include "tuner/parallel.h"

namespace tilewright {
namespace {

constexpr double kPrepareSeconds = 300;
constexpr int kLeastRounds = 5, kMostRounds = 60;  // of a race
constexpr double kRaceSeconds = 4;                 // for a race, beyond its least rounds
constexpr size_t kBuildAhead = 2;  // candidates per builder before measuring, if time is limited
constexpr uint64_t kConfirmationSeed = 0x636f6e6669726dull;
// Limits of one job's timing.
constexpr double kLeastSeconds = 0.01, kMostSeconds = 0.12;
// In a race more rounds tell more than longer ones, whatever the samples of one differ by.
constexpr double kLeastRoundSeconds = 0.005, kMostRoundSeconds = 0.03, kAnyInterval = 1;
constexpr double kHopeless = 4;  // times the fastest's time: not worth exact timing
// The same at one of several sizes.
constexpr double kLeastPointSeconds = 0.004, kMostPointSeconds = 0.03;
constexpr double kFarBehind = 1.3;       // times the fastest: no more rounds at several sizes
constexpr double kLoneRunSeconds = 0.5;  // slower kernels: the checked run is the measurement
constexpr double kJobSeconds = 0.01;     // a job's overhead besides its timing, roughly

TrialVerdict verdict_of(Verdict v) {
  switch (v) {
    case Verdict::Ok: return TrialVerdict::Valid;
    case Verdict::Wrong:
    case Verdict::OutOfBounds: return TrialVerdict::Wrong;
    case Verdict::Compile: return TrialVerdict::CompileError;
    case Verdict::Runtime: return TrialVerdict::RuntimeError;
    case Verdict::Timeout: return TrialVerdict::Timeout;
  }
  return TrialVerdict::RuntimeError;
}

// Throws for errors that concern this machine and not the candidate: the user must fix them.
void throw_if_environment(const JobResult& r) {
  if (r.status == JobStatus::NoToolchain) throw ToolchainError(r.message);
  if (r.status == JobStatus::NotStarted) throw Error("a worker does not start: " + r.message);
}

// Operations at each size, as shares of the operations at the largest sizes.
std::vector<double> shares_of(const Workload& workload, const SizeList& sizes) {
  std::vector<double> shares;
  for (const auto& dims : sizes) {
    const double flops = at_sizes(workload, dims).flops;
    shares.push_back(workload.flops > 0 ? flops / workload.flops : 1);  // 0: pure data movement
  }
  return shares;
}

// Whether to time a kernel with this time at the largest size where it does `share` of the
// operations. Not if a run would be long and another kernel is much faster, which is typical of the
// untuned default.
bool is_worth_timing(double seconds, double fastest, double share) {
  return seconds * share < kLoneRunSeconds || seconds < 2 * fastest;
}

// Whether a kernel is much slower at every size than another kernel there.
bool is_far_behind(const std::vector<std::vector<double>>& seconds, size_t kernel) {
  for (size_t s = 0; s < seconds[kernel].size(); ++s) {
    double best = std::numeric_limits<double>::infinity();
    for (const std::vector<double>& other : seconds) {
      if (other[s] > 0) best = std::min(best, other[s]);
    }
    if (seconds[kernel][s] <= kFarBehind * best) return false;
  }
  return true;
}

}  // namespace

struct LocalMeasurer::Impl {
  Target target;
  MeasureOptions options;
  WorkerPool builders;
  WorkerPool runner;
  SecondsSpent spent = {};
  SecondLook second_look = {};

  Impl(std::vector<std::string> command, Target t, MeasureOptions o)
      : target(std::move(t)), options(o),
        builders(WorkerOptions{command, o.memory_limit, {}}, std::max(1, o.builders)),
        runner(WorkerOptions{.command = command,
                             .memory_limit_bytes = backend().memory_limit(o),
                             .confined = backend().is_confined()},
               1) {}

  const Backend& backend() const { return Backend::of(target); }
  void generate(const std::vector<Candidate>& batch, std::vector<Measurement>& results);
  void build(std::span<Measurement> results, const MeasureLimits& limits);
  void run(const Workload& workload, const Candidate& c, Measurement& m,
           const MeasureLimits& limits, double best_seconds, const std::vector<SizePoint>& points);
  void look_again(const Workload& workload, std::span<const Candidate> batch,
                  std::span<Measurement> results, const MeasureLimits& limits, double best_seconds);
  double timeout_of(const Candidate& c, const MeasureLimits& limits) const;
  std::optional<JobResult> run_job(const MeasureJob& job, double timeout,
                                   const std::atomic<bool>& cancelled);
  std::optional<JobResult> await(const std::string& type, const std::string& payload,
                                 double timeout, const std::atomic<bool>& cancelled);
  MeasureResult result_of(const JobResult& job);
  MeasureJob job_for(const Workload& workload, const Measurement& m);
};

LocalMeasurer::LocalMeasurer(std::vector<std::string> worker_command, Target target,
                             MeasureOptions options)
    : impl_(std::make_unique<Impl>(std::move(worker_command), std::move(target), options)) {}
LocalMeasurer::~LocalMeasurer() = default;
const SecondsSpent& LocalMeasurer::spent() const { return impl_->spent; }

SecondsSpent& SecondsSpent::operator+=(const SecondsSpent& other) {
  for (const auto& [name, part] : kSpentParts) this->*part += other.*part;
  return *this;
}

SecondsSpent SecondsSpent::operator-(const SecondsSpent& other) const {
  SecondsSpent rest = *this;
  for (const auto& [name, part] : kSpentParts) rest.*part -= other.*part;
  return rest;
}

// Generates each candidate's source text. A candidate that cannot be lowered as scheduled is
// illegal.
void LocalMeasurer::Impl::generate(const std::vector<Candidate>& batch,
                                   std::vector<Measurement>& results) {
  const Stopwatch watch(spent.proposing);
  for_each_in_parallel(batch.size(), [&](size_t i) {
    try {
      backend().generate(batch[i].module, target, results[i]);
      results[i].verdict = TrialVerdict::Valid;
    } catch (const LoweringError& e) {
      results[i].reason = e.what();
    }
  });
}

void LocalMeasurer::Impl::build(std::span<Measurement> results, const MeasureLimits& limits) {
  std::map<int64_t, size_t> owner;
  const double begin = steady_seconds();
  for (size_t i = 0; i < results.size(); ++i) {
    if (results[i].verdict != TrialVerdict::Valid) continue;
    BuildJob job;
    job.source = results[i].source;
    job.timeout_seconds = options.compile_seconds / 2;
    backend().complete(job, results[i], target);
    owner[builders.submit("build", to_json(job), options.compile_seconds)] = i;
  }
  while (builders.pending() > 0) {
    std::vector<Completion> done = limits.reached() ? builders.cancel_all() : builders.wait(0.2);
    for (const Completion& c : done) {
      Measurement& m = results[owner.at(c.job)];
      throw_if_environment(c.result);
      if (c.result.status == JobStatus::Cancelled) {
        m.verdict = TrialVerdict::Illegal;  // without a reason: not measured
        continue;
      }
      if (c.result.status != JobStatus::Done) {
        MeasureResult failed = failed_measurement(c.result);
        m.verdict = TrialVerdict::CompileError;
        m.reason = failed.message;
        continue;
      }
      // A compiler that warns of slow code.
      if (!c.result.stderr_tail.empty()) spdlog::warn("{}", c.result.stderr_tail);
      BuildResult built = build_result_from_json(c.result.result);
      m.compiler = built.compiler;
      m.object = built.object_path.empty() ? built.object
                                           : read_cached_object(built.object_path).value_or("");
      if (!built.error.empty()) {
        m.verdict = TrialVerdict::CompileError;
        m.reason = built.error;
      } else {
        backend().take(std::move(built), target, m);
      }
    }
  }
  spent.building += steady_seconds() - begin;
}

MeasureJob LocalMeasurer::Impl::job_for(const Workload& workload, const Measurement& m) {
  MeasureJob job;
  job.object = m.object;
  job.description = m.source.description;
  job.cuda = m.cuda;
  job.workload = workload.canonical;
  job.dims = largest_sizes(workload);
  job.seed = options.seed;
  job.threads = options.threads;
  const double begin = steady_seconds();
  job.roof_seconds = backend().measured_roof(workload, target, options.threads);
  spent.timing += steady_seconds() - begin;
  if (const auto own = options.spread.find(workload.hash()); own != options.spread.end()) {
    job.spread = own->second;
  }
  job.timing.cache = options.cold ? CacheState::Cold : CacheState::Warm;
  job.timing.max_seconds = kMostSeconds;
  job.timing.min_samples = 5;
  job.timing.min_seconds = kLeastSeconds;
  job.timing.lone_run_seconds = kLoneRunSeconds;
  job.point_timing = job.timing;
  job.point_timing.max_seconds = kMostPointSeconds;
  job.point_timing.min_seconds = kLeastPointSeconds;
  return job;
}

std::optional<JobResult> LocalMeasurer::Impl::run_job(const MeasureJob& job, double timeout,
                                                      const std::atomic<bool>& cancelled) {
  // Work that all candidates share is outside of any candidate's time; if done before, it costs a
  // moment. If it fails, the candidate's own job reports that.
  MeasureJob shared = job;
  shared.object.clear();
  const double begin = steady_seconds();
  if (!await("prepare", to_json(shared), kPrepareSeconds, cancelled)) return std::nullopt;
  spent.reference += steady_seconds() - begin;
  return await("measure", to_json(job), timeout, cancelled);
}

std::optional<JobResult> LocalMeasurer::Impl::await(const std::string& type,
                                                    const std::string& payload, double timeout,
                                                    const std::atomic<bool>& cancelled) {
  runner.submit(type, payload, timeout);
  while (true) {
    std::vector<Completion> done = cancelled ? runner.cancel_all() : runner.wait(0.2);
    if (done.empty()) continue;
    throw_if_environment(done[0].result);
    if (done[0].result.status == JobStatus::Cancelled) return std::nullopt;
    return done[0].result;
  }
}

MeasureResult LocalMeasurer::Impl::result_of(const JobResult& job) {
  if (job.status != JobStatus::Done) return failed_measurement(job);
  MeasureResult result = measure_result_from_json(job.result);
  spent.checks += result.check_seconds;
  spent.timing += result.timing_seconds;
  return result;
}

double LocalMeasurer::Impl::timeout_of(const Candidate& c, const MeasureLimits& limits) const {
  if (!c.is_default) return options.timeout_seconds;
  double half_of_the_rest = (limits.deadline - steady_seconds()) / 2;
  return std::clamp(half_of_the_rest, options.timeout_seconds,
                    std::max(options.timeout_seconds, options.default_timeout_seconds));
}

void LocalMeasurer::Impl::run(const Workload& workload, const Candidate& c, Measurement& m,
                              const MeasureLimits& limits, double best_seconds,
                              const std::vector<SizePoint>& points) {
  MeasureJob job = job_for(workload, m);
  if (best_seconds > 0) job.timing.cutoff_seconds = kHopeless * best_seconds;
  job.points = points;
  for (SizePoint& p : job.points) p.cutoff_seconds *= kHopeless;
  const bool one_size = workload.dims.empty();
  if (best_seconds > 0 && one_size && !c.is_default) {
    job.keep_seconds = Measurer::kKept * best_seconds;
  }
  std::optional<JobResult> done;
  const bool late = c.is_default && limits.another_round &&
                    steady_seconds() + options.timeout_seconds > limits.deadline;
  if (!limits.reached() && !late) {
    done = run_job(job, timeout_of(c, limits), limits.cancelled);
  }
  if (!done) {
    m.verdict = TrialVerdict::Illegal;
    return;
  }
  MeasureResult r = result_of(*done);
  m.verdict = verdict_of(r.verdict);
  m.reason = r.verdict == Verdict::Ok ? r.note : r.message;
  m.samples = r.timing.samples;
  m.median = r.timing.median;
  m.at_points = r.at_points;
  m.max_rel_error = r.max_rel_error;
  m.in_full = r.in_full;
}

void LocalMeasurer::Impl::look_again(const Workload& workload, std::span<const Candidate> batch,
                                     std::span<Measurement> results, const MeasureLimits& limits,
                                     double best_seconds) {
  second_look.look(workload.hash(), results, best_seconds, [&](const Measurement& m) {
    if (limits.reached() || m.median >= kLoneRunSeconds) return std::vector<double>{};
    MeasureJob job = job_for(workload, m);
    job.check = false;
    job.timing.cutoff_seconds = kHopeless * best_seconds;
    const auto done = run_job(job, options.timeout_seconds, limits.cancelled);
    if (!done) return std::vector<double>{};
    const MeasureResult r = result_of(*done);
    // Faster than the machine can be: the timing that was checked stands.
    if (r.verdict != Verdict::Ok || r.timing.min < job.roof_seconds / kAboveRoof) {
      return std::vector<double>{};
    }
    return r.timing.samples;
  });
  // One that seemed slow was not checked in full.
  for (size_t i = 0; i < results.size(); ++i) {
    Measurement& m = results[i];
    const bool may_be_kept = SecondLook::is_within(m, Measurer::kKept, best_seconds);
    if (!may_be_kept || m.in_full || limits.reached()) continue;
    Measurement checked = m;
    run(workload, batch[i], checked, limits, 0, {});
    const bool ran = checked.verdict != TrialVerdict::Illegal || !checked.reason.empty();
    if (checked.verdict == TrialVerdict::Valid) take_faster(checked, m.samples, m.median);
    if (ran) m = std::move(checked);
  }
}

std::vector<Measurement> LocalMeasurer::build(const std::vector<Candidate>& batch,
                                              const MeasureLimits& limits) {
  std::vector<Measurement> results(batch.size());
  impl_->generate(batch, results);
  impl_->build(results, limits);
  return results;
}

std::vector<Measurement> LocalMeasurer::measure(const Workload& workload,
                                                const std::vector<Candidate>& batch,
                                                const MeasureLimits& limits, double best_seconds,
                                                const MeasuredFn& measured,
                                                const std::vector<SizePoint>& points) {
  std::vector<Measurement> results(batch.size());
  impl_->generate(batch, results);
  // With a deadline, builds a few at a time, so that one slow compilation does not keep all other
  // candidates from being measured.
  bool limited = std::isfinite(limits.deadline);
  size_t step = limited ? kBuildAhead * impl_->builders.size() : std::max<size_t>(1, batch.size());
  MeasureLimits now = limits;
  now.deadline = std::max(limits.deadline, limits.first_deadline);
  std::vector<size_t> waiting;  // for a second look
  const auto tell = [&] {
    for (size_t i : std::exchange(waiting, {})) {
      if (measured) measured(i, results[i]);
    }
  };
  try {
    for (size_t begin = 0, end = 0; begin < batch.size(); begin = end) {
      const bool in_haste = now.deadline > limits.deadline;  // for one at least
      end = std::min(batch.size(), begin + (in_haste ? impl_->builders.size() : step));
      impl_->build(std::span(results).subspan(begin, end - begin), now);
      for (size_t i = begin; i < end; ++i) {
        Measurement& m = results[i];
        if (m.verdict == TrialVerdict::Valid) {
          impl_->run(workload, batch[i], m, now, best_seconds, points);
          bool best = best_seconds == 0 || m.median < best_seconds;
          if (m.verdict == TrialVerdict::Valid && best) best_seconds = m.median;
        }
        // One that failed, and the default, leave the search with nothing to go on from.
        const bool found = m.verdict == TrialVerdict::Valid && !batch[i].is_default;
        if (found) now.deadline = limits.deadline;
        const bool left_out = m.verdict == TrialVerdict::Illegal && m.reason.empty();
        if (workload.dims.empty() && SecondLook::is_due(m, best_seconds)) {
          waiting.push_back(i);
        } else if (measured && !left_out) {
          measured(i, m);
        }
      }
      if (!waiting.empty()) {
        impl_->look_again(workload, std::span(batch).subspan(begin, end - begin),
                          std::span(results).subspan(begin, end - begin), now, best_seconds);
      }
      tell();
    }
  } catch (...) {
    tell();  // a trial that has finished is kept
    throw;
  }
  return results;
}

double Measurer::compare_seconds(const std::vector<double>& medians) {
  double sum = 0, best = std::numeric_limits<double>::infinity();
  for (double m : medians) best = std::min(best, m);
  for (double m : medians) {
    // About ten runs give a small interval; a warm-up and three samples are always taken.
    double usual = std::max(4 * m, std::clamp(10 * m, kLeastRoundSeconds, kMostRoundSeconds));
    double timing = m >= kLoneRunSeconds ? m : usual;
    const bool far_behind = m > Race::kFarBehind * best;
    sum +=
        (far_behind ? static_cast<int>(Race::kOpenRounds) : kLeastRounds) * (timing + kJobSeconds);
  }
  return sum;
}

Comparison LocalMeasurer::compare(const Workload& workload, const std::vector<Measurement>& kernels,
                                  const MeasureLimits& limits) {
  Race race(kernels.size());
  const double began = steady_seconds();
  std::string reason;
  // Operands differ from those of the candidates' checks.
  const uint64_t seed = impl_->options.seed + kConfirmationSeed;
  for (int round = 0; round < kMostRounds; ++round) {
    if (round > 0 && limits.reached()) break;
    const bool late = steady_seconds() - began > kRaceSeconds;
    if (round >= kLeastRounds && (race.decided() || late)) break;
    for (size_t i = 0; i < kernels.size(); ++i) {
      if (!race.runs(i)) continue;
      MeasureJob job = impl_->job_for(workload, kernels[i]);
      job.seed = seed;
      job.check = round == 0;
      job.timing.relative_ci = kAnyInterval;
      job.timing.min_seconds = kLeastRoundSeconds;
      job.timing.max_seconds = kMostRoundSeconds;
      auto done = impl_->run_job(job, impl_->options.timeout_seconds, limits.cancelled);
      if (!done) return Race(kernels.size()).result();
      MeasureResult r = impl_->result_of(*done);
      if (r.verdict != Verdict::Ok) {
        race.fail(i);
        continue;
      }
      // The time of one thread is known, whatever disturbed it.
      race.add(i, r.timing.min, !r.timing.disturbed.empty() && impl_->options.threads > 1);
      if (!r.timing.disturbed.empty()) reason = r.timing.disturbed;
    }
    race.end_round();
  }
  Comparison comparison = race.result();
  if (race.spoiled()) comparison.disturbed = reason;
  return comparison;
}

double least_sample(const Measurement& m) {
  return m.samples.empty() ? m.median : std::ranges::min(m.samples);
}

double Measurer::compare_at_seconds(size_t sizes) {
  constexpr double kKernels = 16, kRounds = 2;  // most leave after the first of three rounds
  return kKernels * kRounds * static_cast<double>(sizes) * (kLeastPointSeconds + kJobSeconds / 2);
}

std::optional<SizeComparison> LocalMeasurer::compare_at(const Workload& workload,
                                                        const std::vector<Measurement>& kernels,
                                                        const SizeList& sizes, int rounds,
                                                        const MeasureLimits& limits) {
  SizeComparison found;
  found.seconds.assign(kernels.size(), std::vector<double>(sizes.size(), 0));
  found.rows.resize(kernels.size());
  const std::vector<double> shares = shares_of(workload, sizes);
  double fastest = std::numeric_limits<double>::infinity();
  for (const Measurement& m : kernels) fastest = std::min(fastest, m.median);
  for (int round = 0; round < rounds; ++round) {
    if (round > 0 && limits.reached()) break;
    for (size_t k = 0; k < kernels.size(); ++k) {
      if (round > 0 && is_far_behind(found.seconds, k)) continue;
      MeasureJob job = impl_->job_for(workload, kernels[k]);
      job.check = job.compare_rows = round == 0 && is_worth_timing(kernels[k].median, fastest, 1);
      job.time = false;  // the largest sizes are a point if they count
      std::vector<size_t> timed;
      for (size_t s = 0; s < sizes.size(); ++s) {
        if (!is_worth_timing(kernels[k].median, fastest, shares[s])) continue;
        timed.push_back(s);
        job.points.push_back({.dims = sizes[s]});
      }
      auto done = impl_->run_job(job, impl_->options.default_timeout_seconds, limits.cancelled);
      if (!done) return std::nullopt;
      MeasureResult r = impl_->result_of(*done);
      if (r.verdict != Verdict::Ok || r.at_points.size() != timed.size()) continue;
      if (round == 0) found.rows[k] = r.rows_identity;
      for (size_t i = 0; i < timed.size(); ++i) {
        double& least = found.seconds[k][timed[i]];
        least = least == 0 ? r.at_points[i] : std::min(least, r.at_points[i]);
      }
    }
  }
  return found;
}

}  // namespace tilewright
