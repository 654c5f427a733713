// What the analytical model says of candidates, remembered.
#pragma once

#include <string>
#include <unordered_map>

#include "codegen/target.h"
#include "tuner/candidate.h"
#include "tuner/search.h"

namespace tilewright {

// The target must outlive it. Not thread-safe.
class GpuEstimates {
 public:
  explicit GpuEstimates(const Target& target) : target_(target) {}

  // Seconds; 0 for what does not run on the target.
  double seconds(const Candidate& candidate);
  // Sets scores: the faster, the higher.
  void score(std::vector<Candidate>& candidates);

 private:
  const Target& target_;
  std::unordered_map<std::string, double> known_;  // by fingerprint
};

// Scores by a model of its own.
SearchPolicy::Scorer gpu_scorer(const Target& target);

}  // namespace tilewright
