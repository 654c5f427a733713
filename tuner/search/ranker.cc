#include "tuner/search/ranker.h"

#include <limits>
#include <set>
#include <utility>

namespace tilewright {
PriorScores scores_of(const CostModel& model) {
  return [&model](const std::vector<std::vector<float>>& features) {
    return model.trained() ? model.predict(features) : std::vector<float>{};
  };
}

std::vector<float> Ranker::row(const std::vector<float>& features,
                               const AnswerValues& answers) const {
  std::vector<float> values = features;
  for (const std::string& q : questions_) {
    auto it = answers.find(q);
    values.push_back(it == answers.end() ? std::numeric_limits<float>::quiet_NaN() : it->second);
  }
  return values;
}

void Ranker::train(const std::vector<RankedSample>& samples, PriorScores prior) {
  prior_ = std::move(prior);
  std::set<std::string> asked;
  for (const RankedSample& s : samples) {
    for (const auto& [question, value] : s.answers) asked.insert(question);
  }
  questions_.assign(asked.begin(), asked.end());
  std::vector<Sample> rows;
  std::vector<std::vector<float>> features;
  for (const RankedSample& s : samples) {
    rows.push_back({row(s.features, s.answers), s.score});
    features.push_back(s.features);
  }
  model_.train(rows, prior_(features));
}

std::vector<float> Ranker::predict(const std::vector<Candidate>& candidates) const {
  std::vector<std::vector<float>> rows, features;
  for (const Candidate& c : candidates) {
    rows.push_back(row(c.features, c.answers));
    features.push_back(c.features);
  }
  return model_.predict(rows, prior_(features));
}

}  // namespace tilewright
