#include "tuner/candidate.h"

#define XXH_INLINE_ALL
#include <fmt/core.h>
#include <spdlog/spdlog.h>
#include <xxhash.h>

#include "ir/printer.h"
#include "tuner/features.h"

namespace tilewright {

Candidate CandidateMaker::finish(const Sketch& sketch, const Trial& trial, Schedule schedule) {
  Candidate c;
  c.sketch = &sketch;
  c.config = trial.config();
  c.module = schedule.module();
  c.features = extract_features(c.module.main, input_.target, input_.threads);
  std::string text = to_string(c.module);
  XXH128_hash_t h = XXH3_128bits(text.data(), text.size());
  c.fingerprint = fmt::format("{:016x}{:016x}", h.high64, h.low64);
  return c;
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

Candidate CandidateMaker::make_default() {
  Trial trial = Trial::first();
  Schedule schedule = apply_sketch(default_sketch(), input_, trial);
  Candidate c = finish(default_sketch(), trial, std::move(schedule));
  c.is_default = true;
  return c;
}

}  // namespace tilewright
