// Configs that another program proposes.
#include "tuner/search/proposals.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "ir/ops/spec.h"
#include "tuner/search/search.h"

namespace tilewright {
namespace {

using nlohmann::json;
using testing::HasSubstr;

class ProposalsTest : public testing::Test {
 protected:
  // Two batches of four; each proposer's answer is what `next` gives.
  std::vector<std::vector<Candidate>> batches(int count = 2) {
    SearchPolicy policy(maker_, {.population = 16});
    policy.ask([this](const ProposalRequest& r) {
      counts_.push_back(r.count);
      knobs_.assign(r.knobs.begin(), r.knobs.end());
      for (const auto& [outcome, tag] : r.told) told_.push_back(tag);
      for (const auto& refused : r.refused) reasons_.push_back(refused.reason);
      return next(static_cast<int>(counts_.size()) - 1);
    });
    std::vector<std::vector<Candidate>> all;
    for (int b = 0; b < count; ++b) {
      all.push_back(policy.propose(4, CostModel()));
      for (const Candidate& c : all.back()) policy.tell(outcome_of(c, 1e-3));
    }
    return all;
  }

  std::function<std::vector<ProposedConfig>(int asked)> next;
  Workload workload_ = make_workload(parse_spec("matmul:m=96,n=128,k=64"));
  Target target_ = Target::parse("avx512");
  CandidateMaker maker_{workload_, target_, 1};
  std::vector<int> counts_;
  std::vector<KnobOptions> knobs_;
  std::vector<std::string> told_, reasons_;
};

TEST_F(ProposalsTest, AreMadeAsTheyAreAndToldByTheirTags) {
  next = [](int asked) -> std::vector<ProposedConfig> {
    const int rows = asked == 0 ? 4 : 6;
    return {{"cpu_tiles", json{{"C.vi.rows", rows}}.dump(), false, std::to_string(asked)}};
  };
  const auto all = batches();
  ASSERT_EQ(all[0].size(), 1u);
  EXPECT_EQ(json::parse(all[0][0].config)["C.vi.rows"], 4);
  EXPECT_EQ(json::parse(all[1][0].config)["C.vi.rows"], 6);
  EXPECT_EQ(told_, std::vector<std::string>{"0"});
  EXPECT_THAT(reasons_, testing::IsEmpty());
}

TEST_F(ProposalsTest, KnobsAreThoseThatTheSketchAsks) {
  next = [](int) { return std::vector<ProposedConfig>(); };
  const auto all = batches(1);
  const auto rows = std::ranges::find(knobs_, "C.vi.rows", &KnobOptions::name);
  ASSERT_NE(rows, knobs_.end());
  EXPECT_THAT(rows->options, testing::Contains(Answer(int64_t{6})));
  const std::set<Answer> distinct(rows->options.begin(), rows->options.end());
  EXPECT_EQ(distinct.size(), rows->options.size());
  EXPECT_EQ(all[0].size(), 4u) << "nothing was proposed: the search has its turn";
}

TEST_F(ProposalsTest, WhatDoesNotFitIsRefusedWithTheReasonAndAskedAgain) {
  next = [](int asked) -> std::vector<ProposedConfig> {
    if (asked == 0) return {{"", R"({"C.vi.rows": 5000})"}, {"", R"({"nonsense": 1})"}};
    if (asked == 1) return {{"nobody", "{}"}};
    return {{"", "{}"}};
  };
  const auto all = batches(1);
  ASSERT_EQ(all[0].size(), 1u);
  EXPECT_EQ(counts_.size(), 3u);
  ASSERT_EQ(reasons_.size(), 3u);
  EXPECT_THAT(reasons_[0], HasSubstr("C.vi.rows"));
  EXPECT_THAT(reasons_[0], HasSubstr("5000"));
  EXPECT_THAT(reasons_[1], HasSubstr("nonsense"));
  EXPECT_THAT(reasons_[2], HasSubstr("no sketch 'nobody'; expected one of cpu_tiles"));
}

TEST_F(ProposalsTest, ThreeAnswersOfNoUseLeaveTheBatchToTheSearch) {
  next = [](int) -> std::vector<ProposedConfig> { return {{"", R"({"nonsense": 1})"}}; };
  const auto all = batches(1);
  EXPECT_EQ(counts_.size(), 3u);
  EXPECT_EQ(all[0].size(), 4u);
}

TEST_F(ProposalsTest, RepairDrawsWhatDoesNotFit) {
  next = [](int) -> std::vector<ProposedConfig> {
    return {{"", R"({"C.vi.rows": 5000, "C.vj.vectors": 2, "nonsense": 1})", true}};
  };
  const auto all = batches(1);
  ASSERT_EQ(all[0].size(), 1u);
  EXPECT_EQ(json::parse(all[0][0].config)["C.vj.vectors"], 2);
  EXPECT_THAT(reasons_, testing::IsEmpty());
}

TEST_F(ProposalsTest, TheSameProgramIsNotMeasuredTwice) {
  next = [](int) -> std::vector<ProposedConfig> { return {{"", "{}"}, {"", "{}"}}; };
  const auto all = batches();
  EXPECT_EQ(all[0].size(), 1u);
  EXPECT_EQ(all[1].size(), 4u) << "of the search";
  ASSERT_FALSE(reasons_.empty());
  EXPECT_THAT(reasons_[0], HasSubstr("same program"));
}

TEST_F(ProposalsTest, NoMoreThanWasAsked) {
  next = [](int) {
    std::vector<ProposedConfig> many;
    for (int rows = 1; rows <= 8; ++rows) {
      many.push_back({"", json{{"C.vi.rows", rows}}.dump(), true});
    }
    return many;
  };
  EXPECT_EQ(batches()[0].size(), 4u);
  EXPECT_THAT(reasons_, testing::Contains("one more than the 4 that were wanted"));
}

}  // namespace
}  // namespace tilewright
