// Search policies, the cost model and the task scheduler.
#include "tuner/search/search.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <set>
#include <stdexcept>

#include "ir/ops/spec.h"
#include "tuner/features/features.h"
#include "tuner/parallel.h"
#include "tuner/search/task_scheduler.h"

namespace tilewright {
namespace {

class SearchTest : public testing::Test {
 protected:
  Workload workload_ = make_workload(parse_spec("matmul:m=96,n=128,k=64"));
  Target target_ = Target::parse("avx512");

  // The configs of three batches; each candidate's "time" depends on its features.
  std::vector<std::string> run(SearchKind kind, uint64_t seed) {
    CandidateMaker maker(workload_, target_, 2);
    SearchOptions options;
    options.kind = kind;
    options.seed = seed;
    options.population = 32;
    SearchPolicy policy(maker, options);
    CostModel model;
    std::vector<std::string> configs;
    for (int batch = 0; batch < 3; ++batch) {
      for (Candidate& c : policy.propose(8, model)) {
        configs.push_back(c.config);
        policy.tell(outcome_of(c, 1.0 / (5 + c.features[10])));
      }
      model.train(policy.samples());
    }
    return configs;
  }
};

TEST_F(SearchTest, EqualSeedsProposeEqualSequences) {
  for (SearchKind kind : kSearchKinds) {
    SCOPED_TRACE(name_of(kind));
    EXPECT_EQ(run(kind, 7), run(kind, 7));
    EXPECT_EQ(run(kind, 7) == run(kind, 8), kind == SearchKind::Steady);
  }
}

// Late in a search, and always where it is descent, candidates have one choice of their own beside the
// fastest one, and choices that follow from it.
TEST_F(SearchTest, LateCandidatesChangeOneChoiceOfTheFastest) {
  CandidateMaker maker(workload_, target_, 1);
  for (SearchKind kind : {SearchKind::Evolutionary, SearchKind::Descent}) {
    SearchPolicy policy(maker, {.kind = kind, .seed = 5, .population = 32});
    std::string fastest;
    double least = 1;
    for (const Candidate& c : policy.propose(12, CostModel())) {
      const double seconds = c.predicted_seconds > 0 ? c.predicted_seconds : 1;
      policy.tell(outcome_of(c, seconds));
      if (seconds < least) {
        least = seconds;
        fastest = c.config;
      }
    }
    Trial trial = Trial::replay(fastest);
    apply_sketch(cpu_sketches()[0], {workload_, target_, 1}, trial);
    std::set<std::string> near;
    for (const std::string& config : single_changes(trial)) {
      // Whatever is drawn for dependent choices, there is a seed for it.
      for (uint64_t seed = 0; seed < 40; ++seed) {
        if (auto c = maker.make(cpu_sketches()[0], Trial::mutate(config, 0, seed))) {
          near.insert(c->fingerprint);
        }
      }
    }
    const double spent = kind == SearchKind::Descent ? 0 : 0.7;
    const std::vector<Candidate> late = policy.propose(8, CostModel(), spent);
    EXPECT_EQ(late.size(), 8u);
    for (const Candidate& c : late) EXPECT_TRUE(near.count(c.fingerprint)) << c.config;
  }
}

TEST_F(SearchTest, ASteadySearchBeginsWithAThirdOfItsTrials) {
  EXPECT_EQ(first_count(SearchKind::Steady, 16, 64), 21);
  EXPECT_EQ(first_count(SearchKind::Steady, 16, 12), 16);
  EXPECT_EQ(first_count(SearchKind::Steady, 16, 1000), 32);
  EXPECT_EQ(first_count(SearchKind::Evolutionary, 16, 64), 16);
}

// Among equal candidates the one is changed that is nearest to the first answer, whatever order they were timed in.
TEST_F(SearchTest, ASteadySearchChangesTheSimplestOfEqualCandidates) {
  CandidateMaker maker(workload_, target_, 1);
  std::vector<std::string> sequences[2];
  for (const bool reversed : {false, true}) {
    SearchPolicy policy(maker, {.kind = SearchKind::Steady, .population = 32});
    std::vector<Candidate> first = policy.propose(12, CostModel());
    if (reversed) std::ranges::reverse(first);
    double seconds = 1;
    for (const Candidate& c : first) policy.tell(outcome_of(c, seconds += 5e-4));
    for (const Candidate& c : policy.propose(4, CostModel())) {
      sequences[reversed].push_back(c.config);
    }
  }
  EXPECT_EQ(sequences[0].size(), 4u);
  EXPECT_EQ(sequences[0], sequences[1]);
}

TEST_F(SearchTest, NoProgramIsProposedTwice) {
  std::vector<std::string> configs = run(SearchKind::Evolutionary, 3);
  std::set<std::string> distinct(configs.begin(), configs.end());
  EXPECT_EQ(distinct.size(), configs.size());
  EXPECT_EQ(configs.size(), 24u);
}

TEST_F(SearchTest, AConfigReplaysToTheSameProgram) {
  CandidateMaker maker(workload_, target_, 2);
  for (uint64_t seed = 0; seed < 20; ++seed) {
    auto c = maker.make(cpu_sketches()[0], Trial::random(seed));
    if (!c) continue;
    auto again = maker.make(cpu_sketches()[0], Trial::replay(c->config));
    ASSERT_TRUE(again);
    EXPECT_EQ(again->fingerprint, c->fingerprint) << c->config;
  }
}

// Candidates made in parallel are the same as those made alone, and in order.
TEST_F(SearchTest, ManyAtOnceAreMadeInTheirOrder) {
  CandidateMaker one(workload_, target_, 2), many(workload_, target_, 2);
  std::vector<Draft> drafts;
  for (uint64_t seed = 0; seed < 40; ++seed) {
    drafts.push_back({cpu_sketches().data(), Trial::random(seed)});
  }
  const auto made = many.make_all(drafts);
  ASSERT_EQ(made.size(), drafts.size());
  for (size_t i = 0; i < drafts.size(); ++i) {
    auto alone = one.make(*drafts[i].sketch, drafts[i].trial);
    ASSERT_EQ(made[i].has_value(), alone.has_value()) << i;
    if (alone) {
      EXPECT_EQ(made[i]->fingerprint, alone->fingerprint) << i;
    }
  }
  EXPECT_EQ(many.illegal().by_reason, one.illegal().by_reason);
}

TEST_F(SearchTest, WithoutAPopulationFirstAnswersAreAll) {
  CandidateMaker maker(workload_, target_, 1);
  SearchPolicy one(maker, {.population = 0}), many(maker, {.population = 0});
  const std::vector<Candidate> best = one.propose(1, CostModel());
  const std::vector<Candidate> all = many.propose(64, CostModel());
  ASSERT_EQ(best.size(), 1u);
  ASSERT_LT(all.size(), 64u);
  EXPECT_EQ(best[0].config, all[0].config);
  for (const Candidate& c : all) EXPECT_TRUE(c.is_first) << c.config;
}

// A small batch under a shared time limit costs the lowering of few candidates.
TEST_F(SearchTest, ASmallBatchLooksAtFewCandidates) {
  CandidateMaker maker(workload_, target_, 1);
  const auto looked_at = [&](int lowered_each) {
    size_t most = 0;
    SearchPolicy policy(maker, {.seed = 4, .lowered_each = lowered_each});
    policy.start_by([&](std::vector<Candidate>& all) { most = std::max(most, all.size()); });
    EXPECT_EQ(policy.propose(2, CostModel()).size(), 2u);
    return most;
  };
  EXPECT_LE(looked_at(4), 2u * 4 * 2);
  EXPECT_GT(looked_at(0), 64u);
  // Neighbours of the fastest, too.
  const auto neighbours = [&](int lowered_each) {
    SearchPolicy policy(maker,
                        {.kind = SearchKind::Descent, .seed = 4, .lowered_each = lowered_each});
    for (const Candidate& c : policy.propose(2, CostModel())) policy.tell(outcome_of(c, 1e-3));
    size_t most = 0;
    policy.start_by([&](std::vector<Candidate>& all) { most = std::max(most, all.size()); });
    EXPECT_EQ(policy.propose(2, CostModel(), 0.7).size(), 2u);
    return most;
  };
  EXPECT_LE(neighbours(4), 2u * 4);
  EXPECT_GT(neighbours(0), 2u * 4);
}

// A single candidate is the best of all that were looked at; the first answers stand in every batch but
// that one.
TEST_F(SearchTest, TheBestCandidateComesFirst) {
  CandidateMaker maker(workload_, target_, 1);
  SearchPolicy alone(maker, {.seed = 4}), batch(maker, {.seed = 4});
  const std::vector<Candidate> one = alone.propose(1, CostModel());
  const std::vector<Candidate> many = batch.propose(16, CostModel());
  ASSERT_EQ(one.size(), 1u);
  ASSERT_EQ(many.size(), 16u);
  EXPECT_EQ(one[0].config, many[0].config);
  const auto first =
      std::find_if(many.begin(), many.end(), [](const Candidate& c) { return c.is_first; });
  ASSERT_NE(first, many.end());
  EXPECT_EQ(first->config, maker.make(cpu_sketches()[0], Trial::first())->config);
  // Only a candidate that promises a tenth more may stand before a first answer.
  for (auto c = many.begin(); c != first; ++c) {
    EXPECT_LT(1.09 * c->predicted_seconds, first->predicted_seconds) << c->config;
  }
}

// Before any measurement on a GPU, the analytical model leads the search further than its initial
// sample.
TEST(GpuSearch, FirstBatchIsEvolvedOnTheModel) {
  const Workload w = make_workload(parse_spec("matmul:m=512,n=1024,k=512,dtype=f16,trans_b=true"));
  const Target target = Target::parse("cuda:sm_90a");
  auto fastest = [&](int generations, uint64_t seed) {
    CandidateMaker maker(w, target, 1);
    SearchOptions options;
    options.seed = seed;
    options.generations = generations;
    options.population = 32 * (generations + 1);
    SearchPolicy policy(maker, options);
    policy.start_by([](std::vector<Candidate>& candidates) {
      for (Candidate& c : candidates) {
        c.score = c.predicted_seconds > 0 ? static_cast<float>(1 / c.predicted_seconds) : 0;
      }
    });
    double best = 1;
    for (const Candidate& c : policy.propose(4, CostModel())) {
      if (c.predicted_seconds > 0) best = std::min(best, c.predicted_seconds);
    }
    return best;
  };
  double evolved = 0, sampled = 0;
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    evolved += fastest(3, seed);
    sampled += fastest(0, seed);
  }
  EXPECT_LT(evolved, sampled);
}

TEST(GpuSearch, ProposesNothingWhereNothingIsAskedForOrLegal) {
  const Workload w = make_workload(parse_spec("matmul:m=64,n=64,k=64,dtype=f16"));
  const Target target = Target::parse("cuda:sm_90a");
  CandidateMaker maker(w, target, 1);
  SearchPolicy policy(maker, {});
  policy.start_by([](std::vector<Candidate>& candidates) { EXPECT_FALSE(candidates.empty()); });
  EXPECT_TRUE(policy.propose(0, CostModel()).empty());
  EXPECT_EQ(policy.propose(1, CostModel()).size(), 1u);
}

// The model's result for a candidate does not depend on the thread that made it.
TEST(GpuSearch, PredictionsAreTheSameOnAllThreads) {
  const Workload w = make_workload(parse_spec("matmul:m=4096,n=8192,k=8192,dtype=f16"));
  const Target target = Target::parse("cuda:sm_90a");
  CandidateMaker one(w, target, 1), many(w, target, 1);
  std::vector<Draft> drafts;
  for (uint64_t seed = 0; seed < 12; ++seed) {
    drafts.push_back({cuda_sketches().data(), Trial::random(seed)});
  }
  const auto made = many.make_all(drafts);
  for (size_t i = 0; i < drafts.size(); ++i) {
    auto alone = one.make(*drafts[i].sketch, drafts[i].trial);
    ASSERT_EQ(made[i].has_value(), alone.has_value()) << i;
    if (!alone) continue;
    EXPECT_EQ(made[i]->predicted_seconds, alone->predicted_seconds) << alone->config;
    EXPECT_EQ(made[i]->features, alone->features) << alone->config;
  }
}

TEST(ForEachInParallel, DoesEachOnceAndTellsTheFirstFailure) {
  std::vector<std::atomic<int>> done(100);
  for_each_in_parallel(done.size(), [&](size_t i) { ++done[i]; });
  for (const auto& times : done) EXPECT_EQ(times, 1);
  try {
    for_each_in_parallel(done.size(), [&](size_t i) {
      ++done[i];
      if (i % 10 == 7) throw std::runtime_error(std::to_string(i));
    });
    FAIL() << "nothing was thrown";
  } catch (const std::runtime_error& e) {
    EXPECT_STREQ(e.what(), "7");
  }
  for (const auto& times : done)
    EXPECT_EQ(times, 2) << "a failure keeps nothing else from being done";
}

TEST_F(SearchTest, FeaturesHaveTheirNamesNumberAndTellCandidatesApart) {
  CandidateMaker maker(workload_, target_, 2);
  std::set<std::vector<float>> distinct;
  for (uint64_t seed = 0; seed < 12; ++seed) {
    auto c = maker.make(cpu_sketches()[0], Trial::random(seed));
    if (!c) continue;
    EXPECT_EQ(c->features.size(), feature_names().size());
    distinct.insert(c->features);
  }
  EXPECT_GT(distinct.size(), 8u);
}

TEST(CostModel, LearnsAnOrderAndKeepsItWhenSaved) {
  std::vector<Sample> samples;
  for (int i = 0; i < 64; ++i) {
    float x = static_cast<float>(i) / 64;
    samples.push_back({{x, 1 - x, static_cast<float>(i % 5)}, x});
  }
  CostModel model;
  EXPECT_FALSE(model.trained());
  model.train(samples);
  std::vector<std::vector<float>> rows = {{0.1f, 0.9f, 1}, {0.9f, 0.1f, 1}};
  std::vector<float> scores = model.predict(rows);
  EXPECT_LT(scores[0] + 0.3f, scores[1]);
  CostModel copy;
  copy.load(model.save());
  EXPECT_EQ(copy.predict(rows), scores);
  CostModel again;
  again.train(samples);
  EXPECT_EQ(again.predict(rows), scores);
}

TEST(CostModel, RefusesBytesThatAreNoModel) {
  CostModel model;
  EXPECT_THROW(model.load(std::vector<std::byte>(100, std::byte{7})), Error);
  EXPECT_FALSE(model.trained());
}

TEST(TaskScheduler, VisitsEachOnceThenTheOneThatPromisesMost) {
  TaskScheduler s(std::vector<double>{1, 1, 1});
  EXPECT_EQ(s.next(), 0);
  s.report(0, 1e-3, 16);
  EXPECT_EQ(s.next(), 1);
  s.report(1, 5e-3, 16);
  EXPECT_EQ(s.next(), 2);
  s.report(2, 2e-3, 16);
  EXPECT_EQ(s.next(), 1) << "the slowest has the most to gain";
  s.exhaust(1);
  EXPECT_EQ(s.next(), 2);
  s.exhaust(0);
  s.exhaust(2);
  EXPECT_EQ(s.next(), -1);
}

// The gain is that of the last 24 trials, whatever the rounds are.
TEST(TaskScheduler, EndsAWorkloadThatGainsTooLittle) {
  TaskScheduler s(2);
  s.end_below(0.01);
  s.report(1, 1.0, 16);
  s.report(0, 1.0, 16);
  s.report(0, 0.5, 24);
  s.report(0, 0.499, 32);
  s.report(0, 0.498, 40);  // from 1.0 within 24 trials
  EXPECT_FALSE(s.has_settled(0));
  s.report(0, 0.497, 48);  // from 0.5
  EXPECT_TRUE(s.has_settled(0));
  EXPECT_FALSE(s.has_settled(1));
  EXPECT_EQ(s.next(), 1);
  TaskScheduler endless(1);
  for (int64_t trials = 16; trials < 400; trials += 8) endless.report(0, 1, trials);
  EXPECT_FALSE(endless.has_settled(0));
  EXPECT_EQ(endless.next(), 0);
}

// A search that has found nothing valid yet does not end so.
TEST(TaskScheduler, NothingFoundIsNoSmallGain) {
  TaskScheduler s(1);
  s.end_below(0.01);
  for (int64_t trials = 16; trials <= 64; trials += 8) s.report(0, 0, trials);
  EXPECT_FALSE(s.has_settled(0));
}

TEST(TaskScheduler, FirstRoundsShareTheTime) {
  TaskScheduler s(4);
  EXPECT_EQ(s.round_end(0, 100, 180), 120);
  s.report(0, 1e-3, 5);
  s.exhaust(1);
  EXPECT_EQ(s.round_end(2, 120, 180), 150);
  EXPECT_EQ(s.round_end(2, 179.5, 180), 180) << "nothing comes of less";
  EXPECT_EQ(s.round_end(0, 120, 180), 180) << "a later round has no share";
  s.report(2, 1e-3, 5);
  EXPECT_EQ(s.round_end(3, 150, 180), 180) << "the last one may take what is left";
  s.report(3, 1e-3, 5);
  EXPECT_EQ(s.round_end(0, 160, 180), 180);
  EXPECT_EQ(s.round_end(0, 160, HUGE_VAL), HUGE_VAL);
}

TEST(TaskScheduler, WhereNothingIsValidAFewRoundsFollow) {
  TaskScheduler s(std::vector<double>{1, 1});
  s.report(0, 5e-3, 8);
  s.report(1, 0, 8);
  s.report(1, 0, 16);
  EXPECT_EQ(s.next(), 1);
  s.report(1, 0, 24);
  EXPECT_EQ(s.next(), 1);
  s.report(1, 0, 32);
  EXPECT_EQ(s.next(), 0) << "the other one may still be sped up";
  s.exhaust(0);
  EXPECT_EQ(s.next(), 1);
}

TEST(TaskScheduler, AShortRoundProposesLittle) {
  EXPECT_EQ(TaskScheduler::first_trials(0), 2);
  EXPECT_EQ(TaskScheduler::first_trials(4), 8);
  EXPECT_EQ(TaskScheduler::first_trials(HUGE_VAL), 64);
}

TEST(TaskScheduler, WithoutUsesGainsAreRelative) {
  TaskScheduler s(2);
  s.report(0, 5e-3, 16);
  s.report(1, 4e-6, 16);
  s.report(0, 4.9e-3, 32);
  s.report(1, 3e-6, 32);
  EXPECT_EQ(s.next(), 1) << "a quarter of 4 us is more than a fiftieth of 5 ms";
}

TEST(TaskScheduler, FirstRoundsGoWhereTheModelsTimeGoes) {
  TaskScheduler s(std::vector<double>{1, 10, 1, 1});
  s.expect(0, 1e-3);
  s.expect(1, 1e-3);
  s.expect(2, 9e-3);
  EXPECT_EQ(s.next(), 3) << "its time is not known";
  EXPECT_EQ(s.round_end(3, 0, 80), 20);
  s.report(3, 1e-3, 1);
  EXPECT_EQ(s.next(), 1) << "ten uses";
  EXPECT_EQ(s.round_end(1, 0, 80), 40) << "10 of 20 ms";
  s.report(1, 1e-4, 5);
  EXPECT_EQ(s.next(), 2);
  EXPECT_EQ(s.round_end(2, 0, 80), 40) << "half of the time at most";
  s.exhaust(2);
  EXPECT_EQ(s.next(), 0);
  s.report(0, 1e-4, 5);
  EXPECT_EQ(s.next(), 1) << "all had a round";
}

TEST(TaskScheduler, WhatTakesLittleWaitsForWhatTakesMuch) {
  TaskScheduler s(std::vector<double>{1, 1, 1});
  s.expect(0, 100e-3);
  s.expect(1, 1e-3);
  s.expect(2, 1e-3);
  EXPECT_EQ(s.next(), 0);
  s.report(0, 40e-3, 5);
  EXPECT_EQ(s.next(), 0) << "a second round may save 2 ms, a first one less than one";
  s.report(0, 39e-3, 13);
  EXPECT_EQ(s.next(), 0);
  s.report(0, 39e-3, 21);
  s.report(0, 39e-3, 29);
  s.report(0, 39e-3, 37);
  EXPECT_EQ(s.next(), 1) << "nothing came of three rounds";
  EXPECT_EQ(s.round_end(1, 0, 80), 40);
}

TEST(TaskScheduler, WeighsByUse) {
  TaskScheduler s(std::vector<double>{100, 1});
  s.report(0, 1e-3, 16);
  s.report(1, 5e-3, 16);
  EXPECT_EQ(s.next(), 0);
}

}  // namespace
}  // namespace tilewright
