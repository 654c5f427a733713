#include "tuner/fleet/fleet_measurer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "codegen/codegen.h"
#include "runtime/machine/timer.h"
#include "tuner/backend.h"
#include "tuner/fleet/trial_message.h"
#include "tuner/measure/roofline.h"

namespace tilewright {
namespace {

using nlohmann::json;

constexpr double kForged = 1.5;  // times the same kernel's time elsewhere
// A lease also lasts for the reference values and for lines on the way.
constexpr double kLeaseSeconds = 330;

}  // namespace

// The candidates of one batch.
class FleetMeasurer::Trials : public CrewWork {
 public:
  Trials(FleetMeasurer& fleet, const Workload& workload, const std::vector<Candidate>& batch,
         const MeasureLimits& limits, double best_seconds, const MeasuredFn& measured,
         const std::vector<SizePoint>& points)
      : fleet_(fleet), workload_(workload), batch_(batch), limits_(limits), now_(limits),
        best_seconds_(best_seconds), measured_(measured), points_(points), results_(batch.size()),
        jobs_(batch.size()) {
    now_.deadline = std::max(limits.deadline, limits.first_deadline);
  }

  std::optional<CrewJob> make(size_t index) override;
  Judgement judge(size_t index, int worker, const json& answer) override;
  void give_up(size_t index, const std::string& reason) override;
  std::optional<std::string> artifact(const std::string&) override { return std::nullopt; }
  std::vector<Measurement> take() { return std::move(results_); }

 private:
  struct Doubted {
    int worker;
    Measurement measurement;
  };
  bool is_doubtful(const Measurement& m, int worker) const;
  void accept(size_t index, Measurement m);

  FleetMeasurer& fleet_;
  const Workload& workload_;
  const std::vector<Candidate>& batch_;
  const MeasureLimits& limits_;
  MeasureLimits now_;
  double best_seconds_;
  const MeasuredFn& measured_;
  const std::vector<SizePoint>& points_;
  std::vector<Measurement> results_;
  std::vector<TrialJob> jobs_;
  std::map<size_t, Doubted> doubted_;
};

std::optional<CrewJob> FleetMeasurer::Trials::make(size_t index) {
  const Candidate& c = batch_[index];
  const bool late = c.is_default && limits_.another_round &&
                    steady_seconds() + fleet_.options_.timeout_seconds > now_.deadline;
  if (now_.reached() || late) return std::nullopt;
  TrialJob& job = jobs_[index];
  job = {fleet_.context(workload_, now_),
         c.sketch->name,
         c.sketch->version,
         c.config,
         c.fingerprint,
         c.is_default,
         best_seconds_,
         points_};
  const MeasureOptions& o = fleet_.options_;
  const auto doubted = doubted_.find(index);
  return CrewJob{
      "trial", to_json(job),
      kLeaseSeconds + o.compile_seconds + std::max(o.timeout_seconds, o.default_timeout_seconds),
      doubted == doubted_.end() ? -1 : doubted->second.worker};
}

bool FleetMeasurer::Trials::is_doubtful(const Measurement& m, int worker) const {
  return m.verdict == TrialVerdict::Valid &&
         least_sample(m) * kAboveRoof < fleet_.roof_seconds(workload_, worker) &&
         fleet_.crew_.living() > 1;
}

Judgement FleetMeasurer::Trials::judge(size_t index, int worker, const json& answer) {
  TrialAnswer got = trial_answer_from(answer, jobs_[index]);
  fleet_.spent_ += got.spent;
  const auto doubted = doubted_.find(index);
  if (doubted == doubted_.end()) {
    if (is_doubtful(got.measurement, worker)) {
      doubted_.emplace(index, Doubted{worker, std::move(got.measurement)});
      return {Judgement::Kind::Again};
    }
    if (!got.left_out) accept(index, std::move(got.measurement));
    return {};
  }
  Doubted first = std::move(doubted->second);
  doubted_.erase(doubted);
  if (got.left_out) return {};
  const Measurement& second = got.measurement;
  const bool agree =
      second.verdict == TrialVerdict::Valid && second.median <= kForged * first.measurement.median;
  Judgement judged;
  if (!agree && first.worker != worker) {
    judged.liar = first.worker;
    judged.reason =
        fmt::format("a time of {:.3g} s, faster than the machine can be; {} measured {}",
                    first.measurement.median, fleet_.crew_.name(static_cast<size_t>(worker)),
                    second.verdict == TrialVerdict::Valid
                        ? fmt::format("{:.3g} s", second.median)
                        : std::string(database::verdict_name(second.verdict)));
  }
  const bool slower = second.median >= first.measurement.median;
  accept(index, !agree || slower ? std::move(got.measurement) : std::move(first.measurement));
  return judged;
}

void FleetMeasurer::Trials::accept(size_t index, Measurement m) {
  const Candidate& c = batch_[index];
  if (!m.object.empty()) {
    const Stopwatch watch(fleet_.spent_.proposing);
    Measurement own;
    try {
      Backend::of(fleet_.target_).generate(c.module, fleet_.target_, own);
      m.source = std::move(own.source);
    } catch (const LoweringError& e) {  // which the worker should have met
      m.verdict = TrialVerdict::Illegal;
      m.reason = e.what();
      m.object.clear();
    }
  }
  const bool valid = m.verdict == TrialVerdict::Valid;
  if (valid && (best_seconds_ == 0 || m.median < best_seconds_)) best_seconds_ = m.median;
  if (valid && !c.is_default) now_.deadline = limits_.deadline;
  // The record keeps kernels with objects only.
  m.in_full = m.in_full && !m.object.empty();
  results_[index] = std::move(m);
  if (measured_) measured_(index, results_[index]);
}

void FleetMeasurer::Trials::give_up(size_t index, const std::string& reason) {
  Measurement m;
  m.verdict = TrialVerdict::RuntimeError;
  m.reason = "all workers that tried it were lost, the last one: " + reason;
  accept(index, std::move(m));
}

// Kernels that take turns, on one machine.
class FleetMeasurer::Turns : public CrewWork {
 public:
  Turns(FleetMeasurer& fleet, const Workload& workload, CompareJob job,
        const std::vector<Measurement>& kernels)
      : fleet_(fleet), workload_(workload), job_(std::move(job)), kernels_(kernels) {
    for (const Measurement& m : kernels) {
      job_.kernels.push_back({sha256_of(m.object),
                              m.cuda.empty() ? m.source.description.to_json() : "", m.cuda,
                              m.median});
    }
  }

  std::optional<CrewJob> make(size_t) override {
    const auto kernels = static_cast<double>(kernels_.size());
    const double each =
        std::max(60.0, fleet_.options_.default_timeout_seconds) * std::max(1, job_.rounds);
    return CrewJob{job_.sizes.empty() ? "compare" : "compare_at", to_json(job_),
                   kLeaseSeconds + kernels * each, first_ ? first_worker_ : -1};
  }
  Judgement judge(size_t, int worker, const json& answer) override;
  void give_up(size_t, const std::string&) override {}
  std::optional<std::string> artifact(const std::string& sha256) override {
    for (size_t i = 0; i < kernels_.size(); ++i) {
      if (job_.kernels[i].sha256 == sha256) return kernels_[i].object;
    }
    return std::nullopt;
  }
  std::optional<CompareAnswer> answer;

 private:
  FleetMeasurer& fleet_;
  const Workload& workload_;
  CompareJob job_;
  const std::vector<Measurement>& kernels_;
  std::optional<CompareAnswer> first_;
  int first_worker_ = -1;
};

Judgement FleetMeasurer::Turns::judge(size_t, int worker, const json& line) {
  CompareAnswer got = compare_answer_from(line, job_);
  fleet_.spent_ += got.spent;
  const double roof = fleet_.roof_seconds(workload_, worker);
  const auto& medians = got.comparison.medians;
  const bool doubtful =
      std::ranges::any_of(medians, [&](double m) { return m > 0 && m * kAboveRoof < roof; });
  if (!first_ && doubtful && fleet_.crew_.living() > 1) {
    first_ = std::move(got);
    first_worker_ = worker;
    return {Judgement::Kind::Again};
  }
  Judgement judged;
  if (first_ && first_worker_ != worker) {
    for (size_t i = 0; i < medians.size(); ++i) {
      const double before = first_->comparison.medians[i];
      if (before <= 0 || medians[i] <= kForged * before) continue;
      judged.liar = first_worker_;
      judged.reason = fmt::format(
          "a time of {:.3g} s in turns, faster than the machine can be; {} measured {:.3g} s",
          before, fleet_.crew_.name(static_cast<size_t>(worker)), medians[i]);
    }
  }
  answer = std::move(got);
  return judged;
}

FleetMeasurer::FleetMeasurer(Crew& crew, Target target, MeasureOptions options)
    : crew_(crew), target_(std::move(target)), options_(std::move(options)) {}
FleetMeasurer::~FleetMeasurer() = default;

JobContext FleetMeasurer::context(const Workload& workload, const MeasureLimits& limits) const {
  JobContext c{workload.canonical, options_, limits.deadline - steady_seconds()};
  std::erase_if(c.options.spread, [&](const auto& s) { return s.first != workload.hash(); });
  return c;
}

double FleetMeasurer::roof_seconds(const Workload& workload, int without) const {
  if (target_.is_cuda()) return 0;
  const RooflineWork work = roofline_work(workload);
  std::vector<double> roofs;
  for (size_t i = 0; i < crew_.size(); ++i) {
    if (static_cast<int>(i) == without || crew_.is_dropped(i)) continue;
    const Machine& m = crew_.hello(i).machine;
    roofs.push_back(std::max(m.roofline_seconds(work.flops, 0, options_.threads, work.factors),
                             m.roofline_seconds(0, work.bytes, options_.threads)));
  }
  if (roofs.empty()) return 0;
  const auto middle = roofs.begin() + static_cast<std::ptrdiff_t>(roofs.size() / 2);
  std::ranges::nth_element(roofs, middle);
  return *middle;
}

std::vector<Measurement> FleetMeasurer::measure(const Workload& workload,
                                                const std::vector<Candidate>& batch,
                                                const MeasureLimits& limits, double best_seconds,
                                                const MeasuredFn& measured,
                                                const std::vector<SizePoint>& points) {
  Trials trials(*this, workload, batch, limits, best_seconds, measured, points);
  crew_.run(batch.size(), trials, limits.cancelled);
  return trials.take();
}

Comparison FleetMeasurer::compare(const Workload& workload, const std::vector<Measurement>& kernels,
                                  const MeasureLimits& limits) {
  Turns turns(*this, workload, {context(workload, limits), {}, {}, 0}, kernels);
  crew_.run(1, turns, limits.cancelled);
  return turns.answer ? turns.answer->comparison : Race(kernels.size()).result();
}

std::optional<SizeComparison> FleetMeasurer::compare_at(const Workload& workload,
                                                        const std::vector<Measurement>& kernels,
                                                        const SizeList& sizes, int rounds,
                                                        const MeasureLimits& limits) {
  Turns turns(*this, workload, {context(workload, limits), {}, sizes, rounds}, kernels);
  crew_.run(1, turns, limits.cancelled);
  if (!turns.answer) return std::nullopt;
  return std::move(turns.answer->at_sizes);
}

}  // namespace tilewright
