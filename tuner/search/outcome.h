// The result of one measured candidate.
#pragma once

#include <string>
#include <vector>

#include "tuner/candidate.h"

namespace tilewright {

struct Outcome {
  const Sketch* sketch = nullptr;
  std::string config;
  std::string fingerprint;
  std::vector<float> features;
  AnswerValues answers;
  double seconds = 0;    // 0: it failed
  double predicted = 0;  // by the analytical model
};

inline Outcome outcome_of(const Candidate& c, double seconds) {
  return {c.sketch, c.config, c.fingerprint, c.features, c.answers, seconds, c.predicted_seconds};
}

}  // namespace tilewright
