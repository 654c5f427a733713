#include "tuner/search/proposals.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

namespace tilewright {
namespace {

constexpr int kRunsForKnobs = 32;  // of a sketch at random, to see its knobs
constexpr int kTries = 3;

}  // namespace

Proposals::Proposals(CandidateMaker& maker, Proposer proposer, uint64_t seed)
    : maker_(maker), proposer_(std::move(proposer)), rng_(seed) {}

void Proposals::look_for_knobs(Trial trial, const Sketch& sketch) {
  try {
    apply_sketch(sketch, maker_.input(), trial);
  } catch (const ScheduleError&) {
    // The knobs until then count, too.
  }
  for (const Decision& d : trial.decisions()) {
    auto knob = std::ranges::find(knobs_, d.name, &KnobOptions::name);
    if (knob == knobs_.end()) knob = knobs_.insert(knobs_.end(), {d.name, {}});
    for (const Answer& option : d.options) {
      if (std::ranges::find(knob->options, option) == knob->options.end()) {
        knob->options.push_back(option);
      }
    }
  }
}

void Proposals::look_for_knobs() {
  for (const Sketch& sketch : maker_.sketches()) {
    look_for_knobs(Trial::first(), sketch);
    for (int i = 0; i < kRunsForKnobs && !maker_.cancelled(); ++i) {
      look_for_knobs(Trial::random(rng_.next()), sketch);
    }
  }
}

std::vector<ProposalRequest::Told> Proposals::untold(const std::vector<Outcome>& outcomes) {
  std::vector<ProposalRequest::Told> told;
  for (; told_ < outcomes.size(); ++told_) {
    const Outcome& o = outcomes[told_];
    const auto tag = tags_.find(o.fingerprint);
    told.push_back({o, tag == tags_.end() ? "" : tag->second});
  }
  return told;
}

std::optional<Candidate> Proposals::make(const ProposedConfig& proposed, std::string* reason) {
  const std::vector<Sketch>& sketches = maker_.sketches();
  const auto sketch = proposed.sketch.empty()
                          ? sketches.begin()
                          : std::ranges::find(sketches, proposed.sketch, &Sketch::name);
  if (sketch == sketches.end()) {
    std::vector<std::string> names;
    for (const Sketch& s : sketches) names.push_back(s.name);
    *reason =
        fmt::format("no sketch '{}'; expected one of {}", proposed.sketch, fmt::join(names, ", "));
    return std::nullopt;
  }
  try {
    return maker_.make(*sketch,
                       proposed.repair ? Trial::mutate(proposed.config, 0, rng_.next())
                                       : Trial::with(proposed.config),
                       reason);
  } catch (const ScheduleError& e) {
    *reason = e.what();
    return std::nullopt;
  }
}

void Proposals::refuse(const ProposedConfig& proposed, std::string reason) {
  if (counts_.refused++ == 0) counts_.first_reason = reason;
  refused_.push_back({proposed, std::move(reason)});
}

std::vector<Candidate> Proposals::ask(int count, const std::vector<Outcome>& outcomes,
                                      const std::function<bool(const Candidate&)>& is_new) {
  if (knobs_.empty()) look_for_knobs();
  std::vector<Candidate> batch;
  for (int tries = 0; tries < kTries && batch.empty() && !maker_.cancelled(); ++tries) {
    const std::vector<ProposalRequest::Refused> refused = std::exchange(refused_, {});
    const std::vector<ProposedConfig> proposed =
        proposer_({maker_.input(), maker_.sketches(), count, knobs_, untold(outcomes), refused});
    if (proposed.empty()) break;
    counts_.proposed += static_cast<int64_t>(proposed.size());
    for (const ProposedConfig& p : proposed) {
      if (static_cast<int>(batch.size()) == count) {
        refuse(p, fmt::format("one more than the {} that were wanted", count));
        continue;
      }
      std::string reason;
      std::optional<Candidate> c = make(p, &reason);
      if (c && !is_new(*c)) reason = "gives the same program as an earlier config: " + c->config;
      if (!reason.empty()) {
        refuse(p, reason);
      } else if (c) {
        if (!p.tag.empty()) tags_.emplace(c->fingerprint, p.tag);
        batch.push_back(std::move(*c));
      }
    }
  }
  return batch;
}

}  // namespace tilewright
