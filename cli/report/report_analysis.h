// Conclusions from the trials of one workload: intervals, predictions, knobs that matter.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "tuner/features/cost_model.h"

namespace tilewright::cli {

// A median with its interval of 95% from order statistics (runtime/machine/timer.h).
struct MedianInterval {
  double median = 0, low = 0, high = 0;
  size_t samples = 0;  // fewer than 3 make no interval

  bool overlaps(const MedianInterval& other) const {
    return low <= other.high && other.low <= high;
  }
};
MedianInterval interval_of(const std::vector<double>& samples);

// A trial as models see it, in the order of measuring.
struct ModelledTrial {
  int number = 0;
  double seconds = 0;                // 0: it failed
  std::vector<float> features = {};  // of equal length in all trials; may be empty
  std::map<std::string, float> knobs = {};
};

// A config's choices as numbers: log2(1 + x) of a number and of each factor of a list ("i.0", …). Words
// are numbered in `words` as they are met, per knob. Anything but an object of these has no knobs.
using KnobWords = std::map<std::string, std::vector<std::string>>;
std::map<std::string, float> knobs_of(const std::string& config, KnobWords& words);

struct KnobShare {
  std::string knob;
  double share;  // of the variance of speed that depends on it
};

struct KnobImportance {
  std::vector<KnobShare> knobs;  // most important first
  double explained = 0;          // share of the variance that all knobs explain together
  std::string missing = {};      // why there is no list
};

// Permutation importance on trials that the model has not seen (Breiman 2001, with the held-out data
// of Strobl et al. 2007): how much worse a model of the knobs predicts speed when one knob's values are
// shuffled. For independent knobs, half of that over the variance is the total Sobol index. The gain of
// the trees was not taken: it prefers knobs with many values and credits knobs that trees fit to noise.
// Factors of one split are shuffled together.
KnobImportance knob_importance(const std::vector<ModelledTrial>& trials);

struct PredictedTrial {
  int number;
  // Speed in shares of the best of all earlier trials.
  double predicted, measured;
};

struct Predictions {
  std::vector<PredictedTrial> trials;
  double rank_correlation = 0;  // Spearman's
  std::string missing = {};     // why there are none
};

// Predictions of valid trials from earlier trials alone, in blocks, by a model as the search trains it:
// features and knobs on top of a prior (untrained: none). The records keep no predictions.
Predictions replayed_predictions(const std::vector<ModelledTrial>& trials, const CostModel& prior);

}  // namespace tilewright::cli
