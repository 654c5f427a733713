// Findings of a run in its row of the database.
#include "tuner/search/run_findings.h"

#include <gmock/gmock.h>

namespace tilewright {
namespace {

using testing::ElementsAre;

constexpr const char* kArgs = R"({"specs":["matmul:m=1,n=1,k=1"],"trials":8})";

RunFindings sample() {
  WorkloadFindings f;
  f.elapsed = 12.5;
  f.spent = {.proposing = 1, .building = 2, .reference = 3, .checks = 4, .timing = 2.25};
  f.finalists = {{"cpu_tiles", "{}", {1e-3, 2e-3}, true}, {"other", R"({"a":1})", {3e-3}, false}};
  return {{"hash", f}};
}

TEST(RunFindings, StandBesideTheArguments) {
  const std::string args = with_findings(kArgs, sample());
  EXPECT_EQ(without_findings(args), kArgs);
  const WorkloadFindings f = findings_of(args).at("hash");
  EXPECT_EQ(f.elapsed, 12.5);
  EXPECT_EQ(f.spent.proposing, 1);
  EXPECT_EQ(f.spent.building, 2);
  EXPECT_EQ(f.spent.reference, 3);
  EXPECT_EQ(f.spent.checks, 4);
  EXPECT_EQ(f.spent.timing, 2.25);
  ASSERT_EQ(f.finalists.size(), 2u);
  EXPECT_EQ(f.finalists[0].sketch, "cpu_tiles");
  EXPECT_TRUE(f.finalists[0].winner);
  EXPECT_FALSE(f.finalists[1].winner);
  EXPECT_EQ(f.finalists[1].config, R"({"a":1})");
  EXPECT_THAT(f.finalists[0].seconds, ElementsAre(1e-3, 2e-3));
}

TEST(RunFindings, LaterOnesReplaceEarlierOnes) {
  RunFindings later = sample();
  later["hash"].elapsed = 20;
  const std::string args = with_findings(with_findings(kArgs, sample()), later);
  EXPECT_EQ(findings_of(args).at("hash").elapsed, 20);
  EXPECT_EQ(without_findings(args), kArgs);
}

TEST(RunFindings, OtherTextsHaveNone) {
  for (const char* args :
       {"", "{}", "[]", "x", R"({"findings": 3})", R"({"findings": {"h": 3}})"}) {
    EXPECT_TRUE(findings_of(args).empty()) << args;
  }
  EXPECT_EQ(without_findings("x"), "x");
  EXPECT_EQ(without_findings(kArgs), kArgs);
  const RunFindings odd = findings_of(R"({"findings": {"h": {"elapsed_s": "x", "spent_s": [1],
      "finalists": [3, {"seconds": 1}, {"seconds": [-1, "x"]}, {"seconds": [1e-3], "config": 4}]}}})");
  EXPECT_EQ(odd.at("h").elapsed, 0);
  ASSERT_EQ(odd.at("h").finalists.size(), 1u);
  EXPECT_EQ(odd.at("h").finalists[0].config, "");
}

TEST(RunFindings, ComparedKernelsAreInOrderAndThoseThatFailedAreNotAmongThem) {
  std::vector<Finalist> rivals(3);
  const char* names[] = {"slow", "failed", "fast"};
  for (size_t i = 0; i < 3; ++i) rivals[i].record.config = names[i];
  Comparison comparison;
  comparison.medians = {3, 0, 1};
  comparison.rounds = {{3, 3}, {}, {1, 1}};
  const auto found = finalist_rounds(rivals, comparison, 2);
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].config, "fast");
  EXPECT_TRUE(found[0].winner);
  EXPECT_EQ(found[1].config, "slow");
  EXPECT_THAT(found[1].seconds, ElementsAre(3, 3));
}

// A champion of an earlier run comes with the claim of its own race.
TEST(RunFindings, AClaimTakesThePlaceOfAnEarlierOne) {
  const std::string claim = "at most 0.4% slower than the fastest finalist, at 99%";
  EXPECT_EQ(with_claim("", 0.004), claim);
  EXPECT_EQ(with_claim("", -1), "");
  EXPECT_EQ(with_claim("a note", 0.004), "a note; " + claim);
  EXPECT_EQ(with_claim("a note", -1), "a note");
  for (const char* note : {"", "a note"}) {
    const std::string before = with_claim(note, 0.009);
    EXPECT_EQ(with_claim(before, 0.004), with_claim(note, 0.004));
    EXPECT_EQ(with_claim(before, -1), note);
  }
}

TEST(RunFindings, TheChampionIsKnownByItsKernel) {
  std::vector<Finalist> rivals(2);
  rivals[0].record.artifact_hash = "a";
  rivals[1].record.artifact_hash = "b";
  EXPECT_EQ(champion_among(rivals, rivals[1]), 1);
  EXPECT_EQ(champion_among(rivals, std::nullopt), -1);
  EXPECT_EQ(champion_among(rivals, Finalist{}), -1);
}

}  // namespace
}  // namespace tilewright
