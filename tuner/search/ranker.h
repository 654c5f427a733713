// Ranks the candidates of one workload: a prior, corrected by measurements.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tuner/candidate.h"
#include "tuner/features/cost_model.h"

namespace tilewright {

// A training sample of the ranker: a measured candidate and its speed relative to the fastest of
// its workload (0: it failed).
struct RankedSample {
  std::vector<float> features;
  AnswerValues answers;
  float score;
  double predicted = 0;  // seconds
};

// A candidate as a prior sees it: its features, and the seconds that an analytical model predicts (0:
// it does not run).
struct Prospect {
  std::vector<float> features;
  double predicted = 0;
};
std::vector<Prospect> prospects_of(const std::vector<RankedSample>& samples);
std::vector<Prospect> prospects_of(const std::vector<Candidate>& candidates);

// One score per prospect, from knowledge of other workloads; empty if there is none.
using PriorScores = std::function<std::vector<float>(const std::vector<Prospect>&)>;
// The predicted speed beside the fastest of `known`, or of the first prospects where none is. A trained
// model, which must outlive the scores, corrects it by the error that it predicts (samples_of_errors()).
PriorScores judged_scores(const CostModel& model, const std::vector<Prospect>& known);

// Replaces speeds by 1 for the fastest third of the samples and 0 for the others: what a classifier learns whose
// probabilities order candidates by their expected improvement (Tiao et al., "BORE: Bayesian Optimization by
// Density-Ratio Estimation", ICML 2021).
void mark_winners(std::vector<RankedSample>& samples);
// The prior of such a classifier, in logarithms of odds.
PriorScores odds_of(PriorScores speeds);

// The prior has seen other workloads and judges by features, which mean the same everywhere. Within
// one workload the choices themselves tell more ("Learning to Optimize Tensor Programs", Chen et
// al., NeurIPS 2018, section 4.1). The ranker's trees see both, and fit the prior's residual.
class Ranker {
 public:
  explicit Ranker(CostModelOptions options) : classifies_(options.classifies), model_(options) {}

  void train(const std::vector<RankedSample>& samples, PriorScores prior);
  bool trained() const { return model_.trained(); }
  // One score per candidate; higher is better.
  std::vector<float> predict(const std::vector<Candidate>& candidates) const;

 private:
  std::vector<float> row(const std::vector<float>& features, const AnswerValues& answers) const;

  bool classifies_;
  CostModel model_;
  PriorScores prior_;
  std::vector<std::string> questions_;  // knobs of the samples: columns after the features
};

}  // namespace tilewright
