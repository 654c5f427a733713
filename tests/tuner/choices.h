// Sketches with a few choices: what a test says matters, and every other knob has its first option.
#pragma once

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <variant>
#include <vector>

#include "schedule/trial.h"
#include "tuner/sketch.h"

namespace tilewright {

// Choices by knob, {{"C.tile", "64x64x32/32x32"}, {".stages", 3}, {".group?", 1}}: a name that begins
// with a dot is that of the knobs of all blocks. A name has to be that of a knob unless it ends with
// '?'. Each choice has to be an option.
using Choices = nlohmann::json;

inline Trial trial_with(const Choices& choices) {
  return choices.empty() ? Trial::first() : Trial::with(choices.dump());
}

inline Schedule apply_sketch(const Sketch& sketch, const SketchInput& input,
                             const Choices& choices) {
  Trial trial = trial_with(choices);
  return apply_sketch(sketch, input, trial);
}

// The trial after the sketch has run: its config, and the options of its knobs.
inline Trial applied_trial(const Sketch& sketch, const SketchInput& input,
                           const Choices& choices = {}) {
  Trial trial = trial_with(choices);
  apply_sketch(sketch, input, trial);
  return trial;
}

// These choices, and those of `more`, which have precedence.
inline Choices joined_choices(Choices choices, const Choices& more) {
  if (choices.is_null()) choices = Choices::object();
  if (!more.empty()) choices.update(more);
  return choices;
}

// These choices for a GPU; nothing else is fused, split, packed, shared or ordered.
inline Choices plain_with(const Choices& more) {
  static const Choices plain = {
      {".softmax?", "apart"}, {".heads?", "apart"},     {".parts?", 1},
      {".overlap?", "none"},  {".order?", "rows"},      {".group?", 1},
      {".grid?", "tiles"},    {".cluster?", "1x1"},     {".layout?", "none"},
      {".stores?", "direct"}, {".copies?", "cp_async"}, {".rows?", "padded"}};
  return joined_choices(plain, more);
}

// The decision on the first knob of this name, or that ends so; null if the sketch did not ask.
inline const Decision* decision_on(const Trial& trial, const std::string& knob) {
  const std::vector<Decision>& all = trial.decisions();
  auto found = std::find_if(all.begin(), all.end(),
                            [&](const Decision& d) { return d.name.ends_with(knob); });
  return found == all.end() ? nullptr : &*found;
}

inline std::string text_of_answer(const Answer& answer) {
  const auto* word = std::get_if<std::string>(&answer);
  return word ? *word
              : std::visit([](const auto& value) { return nlohmann::json(value).dump(); }, answer);
}

// The choice for a knob as text, or "not asked".
inline std::string choice_of(const Trial& trial, const std::string& knob) {
  const Decision* d = decision_on(trial, knob);
  return d ? text_of_answer(d->options.at(d->chosen)) : "not asked";
}

// The options of a knob as text; none if the sketch did not ask.
inline std::vector<std::string> options_of(const Trial& trial, const std::string& knob) {
  std::vector<std::string> texts;
  if (const Decision* d = decision_on(trial, knob)) {
    for (const Answer& option : d->options) texts.push_back(text_of_answer(option));
  }
  return texts;
}

}  // namespace tilewright
