// Knowledge before the first trial, and what a workload's measurements add to it.
#include "tuner/search/ranker.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "ir/ops/spec.h"
#include "tuner/backend.h"
#include "tuner/features/features.h"
#include "tuner/search/pretrained.h"
#include "tuner/search/search.h"

namespace tilewright {
namespace {

Candidate candidate(float feature, AnswerValues answers) {
  Candidate c;
  c.features = {feature, 1};
  c.answers = std::move(answers);
  c.predicted_seconds = 1e-6;
  return c;
}

// Samples whose speed depends on one choice, all with the same features.
std::vector<RankedSample> decided_by_an_answer() {
  std::vector<RankedSample> samples;
  for (int i = 0; i < 24; ++i) {
    float rows = static_cast<float>(i % 4);
    samples.push_back({{0, 1}, {{"C.i.rows", rows}}, 0.25f + 0.2f * rows, 1e-6});
  }
  return samples;
}

TEST(Ranker, LearnsFromAnswersWhatFeaturesDoNotTell) {
  CostModel untrained;
  Ranker ranker({});
  EXPECT_FALSE(ranker.trained());
  ranker.train(decided_by_an_answer(), judged_scores(untrained, {}));
  ASSERT_TRUE(ranker.trained());
  std::vector<float> scores =
      ranker.predict({candidate(0, {{"C.i.rows", 0}}), candidate(0, {{"C.i.rows", 3}})});
  EXPECT_LT(scores[0] + 0.2f, scores[1]);
}

// Candidates of which the model expects larger errors are worth less, though nothing tells them apart in
// what was measured.
TEST(Ranker, KeepsThePriorsOrderWhereNothingWasMeasured) {
  std::vector<Sample> others;
  for (int i = 0; i < 40; ++i) {
    const float x = static_cast<float>(i % 10) / 10;
    others.push_back({{x, 1}, 0.5f - x});
  }
  CostModel prior;
  prior.train(others);
  Ranker ranker({});
  ranker.train(decided_by_an_answer(), judged_scores(prior, {}));  // all at feature 0
  std::vector<float> scores =
      ranker.predict({candidate(0.1f, {{"C.i.rows", 2}}), candidate(0.9f, {{"C.i.rows", 2}})});
  EXPECT_LT(scores[0] + 0.2f, scores[1]);
}

TEST(MarkWinners, MarksTheFastestThirdAndNothingThatFailed) {
  auto marks = [](const std::vector<float>& speeds) {
    std::vector<RankedSample> samples;
    for (float s : speeds) samples.push_back({{0, 1}, {}, s, 1e-6});
    mark_winners(samples);
    std::vector<float> scores;
    for (const RankedSample& s : samples) scores.push_back(s.score);
    return scores;
  };
  EXPECT_EQ(marks({0.2f, 1, 0.5f, 0.9f, 0.3f, 0.8f}), (std::vector<float>{0, 1, 0, 1, 0, 0}));
  EXPECT_EQ(marks({0, 0, 0, 0.1f}), (std::vector<float>{0, 0, 0, 1}));
  EXPECT_EQ(marks({0, 0, 0}), (std::vector<float>{0, 0, 0}));
}

// A classifier of winners orders candidates by an answer that winners share, and by the prior where nothing
// was measured. Its predictions are probabilities.
TEST(Ranker, ClassifiesWinners) {
  CostModel untrained;
  std::vector<RankedSample> samples = decided_by_an_answer();
  mark_winners(samples);
  CostModelOptions options;
  options.classifies = true;
  Ranker ranker(options);
  ranker.train(samples, odds_of(judged_scores(untrained, prospects_of(samples))));
  Candidate slow = candidate(0, {{"C.i.rows", 3}});
  slow.predicted_seconds = 2e-6;
  const std::vector<float> scores =
      ranker.predict({candidate(0, {{"C.i.rows", 0}}), candidate(0, {{"C.i.rows", 3}}), slow});
  EXPECT_LT(scores[0], 0.3f);
  EXPECT_GT(scores[1], 0.7f);
  EXPECT_LT(scores[2], scores[1] - 0.05f);
  for (float s : scores) {
    EXPECT_GT(s, 0);
    EXPECT_LT(s, 1);
  }
}

TEST(JudgedScores, AreOneForTheFastestKnownAndHalfForTwiceTheTime) {
  const CostModel untrained;
  auto at = [](double seconds) { return Prospect{{0, 1}, seconds}; };
  const std::vector<float> scores =
      judged_scores(untrained, {at(2e-6), at(1e-6)})({at(1e-6), at(2e-6), at(0.5e-6), at(0)});
  EXPECT_FLOAT_EQ(scores[0], 1);
  EXPECT_FLOAT_EQ(scores[1], 0.5);
  EXPECT_FLOAT_EQ(scores[2], 2);
  EXPECT_EQ(scores[3], 0);
  // Without a known time, the fastest of the first candidates is the measure, also for later ones.
  const PriorScores fresh = judged_scores(untrained, {});
  EXPECT_FLOAT_EQ(fresh({at(3e-6), at(1e-6)})[1], 1);
  EXPECT_FLOAT_EQ(fresh({at(4e-6)})[0], 0.25);
}

// A model that has learnt that one half of the candidates takes 1.5 times as long beside the other half.
TEST(JudgedScores, AreCorrectedByAPredictedError) {
  MeasuredRows rows;
  for (int i = 0; i < 40; ++i) {
    rows.emplace_back(std::vector<float>{10, static_cast<float>(i % 2)}, i % 2 ? 3e-6 : 2e-6);
  }
  CostModel model;
  model.train(samples_of_errors(rows));
  const std::vector<float> scores = judged_scores(model, {})({{{10, 0}, 1e-6}, {{10, 1}, 1e-6}});
  EXPECT_NEAR(scores[0] / scores[1], std::pow(1.5, 0.5), 0.02);
}

TEST(SamplesOfErrors, LeaveOutWhatHasNoTime) {
  const MeasuredRows rows = {
      {{20, 1}, 1e-3}, {{20, 2}, 0}, {{0, 3}, 1e-3}, {{}, 1e-3}, {{20, 5}, 1}};
  const std::vector<Sample> samples = samples_of_errors(rows);
  ASSERT_EQ(samples.size(), 2u);
  EXPECT_EQ(samples[0].features[1], 1);
  EXPECT_LT(samples[0].target, 0);
  EXPECT_GT(samples[0].weight, samples[1].weight);
  EXPECT_TRUE(samples_of_errors({}).empty());
}

TEST(PredictedSeconds, AreTheFirstFeatureOfBothBackends) {
  for (const char* name : {"avx512", "cuda:sm_90a"}) {
    const Workload w = make_workload(parse_spec("matmul:m=64,n=64,k=64,dtype=f16"));
    const Target target = Target::parse(name);
    CandidateMaker maker(w, target, 1);
    auto c = maker.make(maker.sketches()[0], Trial::first());
    ASSERT_TRUE(c);
    ASSERT_GT(c->predicted_seconds, 0);
    EXPECT_NEAR(predicted_seconds(c->features) / c->predicted_seconds, 1, 1e-3) << name;
  }
  EXPECT_EQ(predicted_seconds({}), 0);
}

TEST(Ranker, TakesCandidatesThatAnsweredOtherQuestions) {
  CostModel untrained;
  Ranker ranker({});
  ranker.train(decided_by_an_answer(), judged_scores(untrained, {}));
  std::vector<float> scores =
      ranker.predict({candidate(0, {{"C.j.vectors", 2}}), candidate(0, {})});
  EXPECT_TRUE(std::isfinite(scores[0]));
  EXPECT_EQ(scores[0], scores[1]);
}

TEST(CostModel, FurtherTreesKeepWhatWasLearnt) {
  std::vector<Sample> first, second;
  for (int i = 0; i < 64; ++i) {
    float x = static_cast<float>(i % 8) / 8, y = static_cast<float>(i % 2);
    first.push_back({{x, 0.5f}, x});
    second.push_back({{0.5f, y}, 0.25f + 0.5f * y});
  }
  CostModel model;
  model.train(first);
  CostModel loaded;
  loaded.load(model.save());
  loaded.train_further(second);
  std::vector<float> scores = loaded.predict({{0.1f, 0}, {0.9f, 0}, {0.5f, 0}, {0.5f, 1}});
  EXPECT_LT(scores[0] + 0.2f, scores[1]);
  EXPECT_LT(scores[2] + 0.2f, scores[3]);
}

TEST(AnswerValues, AreNumbersOfAllKindsOfAnswers) {
  Trial t = Trial::first();
  t.choose("rows", std::vector<int64_t>{7, 1, 3});
  t.choose("order", std::vector<std::string>{"spatial", "reversed"});
  std::vector<int64_t> factors = t.split("k", 12, 2);
  AnswerValues values = values_of(t);
  EXPECT_FLOAT_EQ(values.at("rows"), 3);  // log2(1 + 7)
  EXPECT_FLOAT_EQ(values.at("order"), 0);
  EXPECT_FLOAT_EQ(values.at("k.0"), std::log2(1 + static_cast<float>(factors[0])));
  EXPECT_FLOAT_EQ(values.at("k.1"), std::log2(1 + static_cast<float>(factors[1])));
  EXPECT_EQ(values.size(), 4u);
}

// The shipped model matches this version's features: scripts/pretrain makes a new one when their
// meaning changes.
class PretrainedModel : public testing::TestWithParam<const char*> {};

TEST_P(PretrainedModel, TellsCandidatesApartWithinWhatItWasTaught) {
  Workload workload = make_workload(parse_spec("matmul:m=192,n=320,k=160"));
  Target target = Target::parse(GetParam());
  CostModel model;
  model.load(pretrained_model());
  CandidateMaker maker(workload, target, 1);
  std::vector<std::vector<float>> features;
  for (uint64_t seed = 0; features.size() < 24 && seed < 64; ++seed) {
    auto c = maker.make(cpu_sketches()[0], Trial::random(seed));
    if (c) features.push_back(c->features);
  }
  std::vector<float> errors = model.predict(features);
  std::ranges::sort(errors);
  EXPECT_GT(errors.back() - errors.front(), 0.02f);
  EXPECT_GT(errors.front(), -1.6f);
  EXPECT_LT(errors.back(), 1.6f);
}

INSTANTIATE_TEST_SUITE_P(Cpu, PretrainedModel, testing::Values("avx512", "avx2"));

TEST(PretrainedModels, AreOfCpus) {
  EXPECT_TRUE(cuda_backend().pretrained(Target::parse("cuda:sm_80")).empty());
}

}  // namespace
}  // namespace tilewright
