#include "tuner/search/word_bandit.h"

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

namespace tilewright {
namespace {

using Json = nlohmann::ordered_json;

// UCB1 has sqrt(2) for rewards that fill [0, 1]. Mean speeds of the options of one knob differ by some tenths.
constexpr double kExploration = 0.15;

struct Arm {
  std::string word;
  double plays = 0, speeds = 0;

  double bound(double plays_of_all) const {
    if (plays == 0) return std::numeric_limits<double>::infinity();
    return speeds / plays + kExploration * std::sqrt(std::log(plays_of_all) / plays);
  }
};

struct Knob {
  std::string name;
  std::vector<Arm> arms;
  double plays = 0;

  Arm* arm_of(const std::string& word) {
    for (Arm& a : arms) {
      if (a.word == word) return &a;
    }
    return nullptr;
  }
  void play(Arm& arm, double speed) {
    ++arm.plays;
    ++plays;
    arm.speeds += speed;
  }
  // The arm that is played next; of equal ones the first.
  Arm& next() {
    Arm* best = arms.data();
    for (Arm& a : arms) {
      if (a.bound(plays) > best->bound(plays)) best = &a;
    }
    return *best;
  }
};

std::vector<Knob> knobs_of_words(const Trial& trial) {
  std::vector<Knob> knobs;
  for (const Decision& d : trial.decisions()) {
    if (d.options.size() < 2 || !std::holds_alternative<std::string>(d.options[0])) continue;
    Knob knob{d.name, {}, 0};
    for (const Answer& option : d.options) knob.arms.push_back({std::get<std::string>(option)});
    knobs.push_back(std::move(knob));
  }
  return knobs;
}

void tell(std::vector<Knob>& knobs, const PlayedConfig& played) {
  const Json config = Json::parse(played.config);
  for (Knob& knob : knobs) {
    const auto answer = config.find(knob.name);
    if (answer == config.end() || !answer->is_string()) continue;
    if (Arm* arm = knob.arm_of(answer->get<std::string>())) knob.play(*arm, played.speed);
  }
}

}  // namespace

std::vector<std::string> bandit_configs(const Trial& trial, const std::vector<PlayedConfig>& played,
                                        int count) {
  std::vector<Knob> knobs = knobs_of_words(trial);
  for (const PlayedConfig& p : played) tell(knobs, p);
  Json config = Json::parse(trial.config());
  std::vector<std::string> configs;
  for (int i = 0; i < count; ++i) {
    for (Knob& knob : knobs) {
      Arm& arm = knob.next();
      config[knob.name] = arm.word;
      knob.play(arm, arm.plays > 0 ? arm.speeds / arm.plays : 0);
    }
    configs.push_back(config.dump());
  }
  return configs;
}

}  // namespace tilewright
