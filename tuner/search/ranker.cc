#include "tuner/search/ranker.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <set>
#include <utility>

namespace tilewright {

std::vector<Prospect> prospects_of(const std::vector<RankedSample>& samples) {
  std::vector<Prospect> list;
  for (const RankedSample& s : samples) list.push_back({s.features, s.predicted});
  return list;
}

std::vector<Prospect> prospects_of(const std::vector<Candidate>& candidates) {
  std::vector<Prospect> list;
  for (const Candidate& c : candidates) list.push_back({c.features, c.predicted_seconds});
  return list;
}

namespace {

constexpr double kTrust = 0.5;  // share of a predicted error that counts (docs/search.md)

// The least predicted seconds; 0 where nothing runs.
double fastest_of(const std::vector<Prospect>& prospects) {
  double fastest = 0;
  for (const Prospect& p : prospects) {
    if (p.predicted > 0 && (fastest == 0 || p.predicted < fastest)) fastest = p.predicted;
  }
  return fastest;
}

}  // namespace

PriorScores judged_scores(const CostModel& model, const std::vector<Prospect>& known) {
  // Scores of several calls must be comparable.
  auto fastest = std::make_shared<double>(fastest_of(known));
  return [&model, fastest](const std::vector<Prospect>& prospects) {
    std::vector<std::vector<float>> rows;
    for (const Prospect& p : prospects) rows.push_back(p.features);
    std::vector<float> scores = model.predict(rows);  // zeros of an untrained one
    if (*fastest == 0) *fastest = fastest_of(prospects);
    for (size_t i = 0; i < prospects.size(); ++i) {
      const double predicted = prospects[i].predicted;
      const double speed = predicted > 0 ? *fastest / predicted : 0;
      scores[i] = static_cast<float>(speed * std::exp(-kTrust * double{scores[i]}));
    }
    return scores;
  };
}

void mark_winners(std::vector<RankedSample>& samples) {
  std::vector<float> speeds;
  for (const RankedSample& s : samples) speeds.push_back(s.score);
  const auto last = speeds.begin() + static_cast<long>((speeds.size() - 1) / 3);
  std::nth_element(speeds.begin(), last, speeds.end(), std::greater<>());
  const float least = *last;
  for (RankedSample& s : samples) s.score = s.score > 0 && s.score >= least ? 1.0f : 0.0f;
}

PriorScores odds_of(PriorScores speeds) {
  return [speeds = std::move(speeds)](const std::vector<Prospect>& prospects) {
    constexpr float kSlope = 4;      // a tenth slower: a third less likely
    constexpr float kLeast = 1e-3f;  // what does not run
    std::vector<float> odds = speeds(prospects);
    for (float& o : odds) o = kSlope * std::log(std::max(o, kLeast));
    return odds;
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
  for (const RankedSample& s : samples) {
    rows.push_back(sample_of_speed(row(s.features, s.answers), s.score));
    if (classifies_) rows.back().weight = 1;
  }
  model_.train(rows, prior_(prospects_of(samples)));
}

std::vector<float> Ranker::predict(const std::vector<Candidate>& candidates) const {
  std::vector<std::vector<float>> rows;
  for (const Candidate& c : candidates) rows.push_back(row(c.features, c.answers));
  return model_.predict(rows, prior_(prospects_of(candidates)));
}

}  // namespace tilewright
