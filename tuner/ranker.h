// Ranks the candidates of one workload: what was known before, corrected by what was measured.
#pragma once

#include <functional>
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

// One score a row of features, by what is known of other workloads; none where nothing is known.
using PriorScores = std::function<std::vector<float>(const std::vector<std::vector<float>>&)>;
// Those of a model, which must outlive them; none where it has learnt nothing.
PriorScores scores_of(const CostModel& model);

// The prior has seen other workloads and judges by features, which mean the same everywhere.
// Within a workload the answers themselves tell more (as in "Learning to Optimize Tensor Programs",
// Chen et al., NeurIPS 2018, section 4.1): the ranker's trees see both, and learn what the prior
// leaves unexplained.
class Ranker {
 public:
  explicit Ranker(CostModelOptions options) : model_(options) {}

  void train(const std::vector<RankedSample>& samples, PriorScores prior);
  bool trained() const { return model_.trained(); }
  // One score a candidate; higher is better.
  std::vector<float> predict(const std::vector<Candidate>& candidates) const;

 private:
  std::vector<float> row(const std::vector<float>& features, const AnswerValues& answers) const;

  CostModel model_;
  PriorScores prior_;
  std::vector<std::string> questions_;  // that some sample answered: columns after the features
};

}  // namespace tilewright
