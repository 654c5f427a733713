// A bandit over the knobs of words: sketch rules and mappings, such as instructions and layouts of operands.
#pragma once

#include <string>
#include <vector>

#include "schedule/trial.h"

namespace tilewright {

// A measured config and its speed beside the fastest of its workload, in [0, 1]; 0: it failed.
struct PlayedConfig {
  std::string config;
  double speed = 0;
};

// `count` configs that are the trial's except for its words. Each knob of words is a bandit of its own whose
// arms are the options: the one with the highest upper confidence bound is played (UCB1; Auer, Cesa-Bianchi and
// Fischer, "Finite-time Analysis of the Multiarmed Bandit Problem", 2002). An option counts as played with its
// mean speed by each config that is returned, so that a batch spreads. Numbers stay and may not fit any more.
std::vector<std::string> bandit_configs(const Trial& trial, const std::vector<PlayedConfig>& played,
                                        int count);

}  // namespace tilewright
