#include "tuner/candidate.h"

#define XXH_INLINE_ALL
#include <fmt/core.h>
#include <spdlog/spdlog.h>
#include <xxhash.h>

#include "ir/printer.h"
#include "tuner/feature_row.h"
#include "tuner/features.h"

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
  c.feature_version = feature_version(input_.target);
  if (!input_.target.is_cuda()) {
    c.features = extract_features(c.module.main, input_.target, input_.threads);
    return;
  }
  auto [it, is_new] = on_gpu_.try_emplace(c.fingerprint);
  if (is_new) {
    it->second = gpu_features(c.module.main, input_.target);
    if (it->second.seconds == 0) spdlog::debug("{}: {}", c.config, it->second.refusal);
  }
  c.features = it->second.values;
  c.predicted_seconds = it->second.seconds;
}

std::optional<Candidate> CandidateMaker::make(const Sketch& sketch, Trial trial) {
  try {
    Schedule schedule = apply_sketch(sketch, input_, trial);
    return finish(sketch, trial, std::move(schedule));
  } catch (const ScheduleError& e) {
    ++illegal_.total;
    ++illegal_.by_reason[fmt::format("{}: {}", e.primitive(), name_of(e.kind()))];
    spdlog::debug("illegal {}: {}", trial.config(), e.what());
    return std::nullopt;
  }
}

const std::vector<Sketch>& CandidateMaker::sketches() const {
  return input_.target.is_cuda() ? cuda_sketches() : cpu_sketches();
}

Candidate CandidateMaker::make_default() {
  Trial trial = Trial::first();
  const Sketch& sketch = default_sketch(input_.target);
  Schedule schedule = apply_sketch(sketch, input_, trial);
  Candidate c = finish(sketch, trial, std::move(schedule));
  c.is_default = true;
  return c;
}

}  // namespace tilewright
