// Trials of tests that name only the choices they are about.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "tuner/sketch.h"

namespace tilewright {

// A replayed trial of the GPU sketch with these choices. Each other knob that the sketch has then
// must be one of those below, and gets its plain option: nothing is fused, split, packed, shared or
// ordered.
inline Trial plain_trial(const Workload& w, const Target& target, nlohmann::json answers) {
  static const std::map<std::string, nlohmann::json> plain = {
      {"softmax", "apart"}, {"heads", "apart"},   {"parts", 1},           {"overlap", "none"},
      {"order", "rows"},    {"group", 1},         {"grid", "tiles"},      {"cluster", "1x1"},
      {"layout", "none"},   {"stores", "direct"}, {"copies", "cp_async"}, {"rows", "padded"}};
  for (bool complete = false; !complete;) {
    Trial drawn = Trial::mutate(answers.dump(), 0, 1);
    try {
      apply_sketch(cuda_sketches().front(), {w, target, 1}, drawn);
    } catch (const ScheduleError&) {  // for what it drew; the knobs up to there count
    }
    complete = true;
    for (const Decision& d : drawn.decisions()) {
      if (answers.contains(d.name)) continue;
      const auto option = plain.find(d.name.substr(d.name.rfind('.') + 1));
      if (option == plain.end()) {
        ADD_FAILURE() << "the test must choose '" << d.name << "'";
        break;
      }
      answers[d.name] = option->second;
      complete = false;  // later knobs depend on this one
      break;
    }
  }
  return Trial::replay(answers.dump());
}

inline Trial plain_trial(const Workload& w, const Target& target, const std::string& answers) {
  return plain_trial(w, target, nlohmann::json::parse(answers));
}
inline Trial plain_trial(const Workload& w, const Target& target, const char* answers) {
  return plain_trial(w, target, nlohmann::json::parse(answers));
}

// The whole config of such a trial.
inline std::string plain_config(const Workload& w, const Target& target,
                                const std::string& answers) {
  Trial trial = plain_trial(w, target, answers);
  apply_sketch(cuda_sketches().front(), {w, target, 1}, trial);
  return trial.config();
}

}  // namespace tilewright
