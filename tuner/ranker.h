// Ranks the candidates of one workload: what was known before, corrected by what was measured.
#pragma once

#include <string>
#include <vector>

#include "tuner/candidate.h"
#include "tuner/cost_model.h"

namespace tilewright {

// What the ranker learns from: a measured candidate and its speed relative to the fastest of its
// workload (0: it failed).
struct RankedSample {
  std::vector<float> features;
  AnswerValues answers;
  float score;
};

// The prior model has seen other workloads and judges by features, which mean the same everywhere.
// Within a workload the answers themselves tell more (as in "Learning to Optimize Tensor Programs",
// Chen et al., NeurIPS 2018, section 4.1): the ranker's trees see both, and learn what the prior
// leaves unexplained.
class Ranker {
 public:
  explicit Ranker(CostModelOptions options) : model_(options) {}

  // `prior` may be untrained; it must outlive the ranker.
  void train(const std::vector<RankedSample>& samples, const CostModel& prior);
  bool trained() const { return model_.trained(); }
  // One score a candidate; higher is better.
  std::vector<float> predict(const std::vector<Candidate>& candidates) const;

 private:
  std::vector<float> row(const std::vector<float>& features, const AnswerValues& answers) const;

  CostModel model_;
  const CostModel* prior_ = nullptr;
  std::vector<std::string> questions_;  // that some sample answered: columns after the features
};

}  // namespace tilewright
