#include "tuner/candidate.h"

#define XXH_INLINE_ALL
#include <fmt/core.h>
#include <spdlog/spdlog.h>
#include <xxhash.h>

#include "ir/text/printer.h"
#include "tuner/features/feature_row.h"
#include "tuner/parallel.h"

namespace tilewright {

AnswerValues values_of(const Trial& trial) {
  AnswerValues values;
  for (const Decision& d : trial.decisions()) {
    const Answer& answer = d.options[d.chosen];
    if (auto* number = std::get_if<int64_t>(&answer)) {
      values[d.name] = log2p(static_cast<double>(*number));
    } else if (auto* factors = std::get_if<std::vector<int64_t>>(&answer)) {
      for (size_t i = 0; i < factors->size(); ++i) {
        values[fmt::format("{}.{}", d.name, i)] = log2p(static_cast<double>((*factors)[i]));
      }
    } else {
      values[d.name] = static_cast<float>(d.chosen);
    }
  }
  return values;
}

Candidate CandidateMaker::finish(const Sketch& sketch, const Trial& trial, Schedule schedule) {
  Candidate c;
  c.sketch = &sketch;
  c.config = trial.config();
  c.answers = values_of(trial);
  c.module = schedule.module();
  std::string text = to_string(c.module);
  XXH128_hash_t h = XXH3_128bits(text.data(), text.size());
  c.fingerprint = fmt::format("{:016x}{:016x}", h.high64, h.low64);
  look_at(c);
  return c;
}

void CandidateMaker::look_at(Candidate& c) {
  Estimate e = estimate(c);
  c.feature_version = backend().feature_version();
  c.features = std::move(e.features);
  c.predicted_seconds = e.seconds;
}

// Candidates of one text have one estimate.
Estimate CandidateMaker::estimate(const Candidate& c) {
  {
    const std::lock_guard lock(mutex_);
    auto it = estimates_.find(c.fingerprint);
    if (it != estimates_.end()) return it->second;
  }
  Estimate e = backend().estimate(c.module.main, input_.target, input_.threads);
  if (!e.refusal.empty()) spdlog::debug("{}: {}", c.config, e.refusal);
  const std::lock_guard lock(mutex_);
  estimates_.emplace(c.fingerprint, e);
  return e;
}

CandidateMaker::Made CandidateMaker::try_to_make(Draft draft) {
  try {
    Schedule schedule = apply_sketch(*draft.sketch, input_, draft.trial);
    return {finish(*draft.sketch, draft.trial, std::move(schedule)), "", ""};
  } catch (const ScheduleError& e) {
    spdlog::debug("illegal {}: {}", draft.trial.config(), e.what());
    return {std::nullopt, fmt::format("{}: {}", e.primitive(), name_of(e.kind())), e.what()};
  }
}

std::optional<Candidate> CandidateMaker::count(Made made) {
  if (!made.refusal.empty()) {
    ++illegal_.total;
    ++illegal_.by_reason[made.refusal];
  }
  return std::move(made.candidate);
}

std::optional<Candidate> CandidateMaker::make(const Sketch& sketch, Trial trial,
                                              std::string* reason) {
  Made made = try_to_make({&sketch, std::move(trial)});
  if (reason != nullptr) *reason = made.message;
  return count(std::move(made));
}

std::vector<std::optional<Candidate>> CandidateMaker::make_all(std::vector<Draft> drafts) {
  std::vector<Made> made(drafts.size());
  for_each_in_parallel(drafts.size(), [&](size_t i) {
    if (!cancelled()) made[i] = try_to_make(std::move(drafts[i]));
  });
  std::vector<std::optional<Candidate>> candidates;
  for (Made& m : made) candidates.push_back(count(std::move(m)));
  return candidates;
}

Candidate CandidateMaker::make_default() {
  Trial trial = Trial::first();
  const Sketch& sketch = backend().untuned();
  Schedule schedule = apply_sketch(sketch, input_, trial);
  Candidate c = finish(sketch, trial, std::move(schedule));
  c.is_default = true;
  return c;
}

}  // namespace tilewright
