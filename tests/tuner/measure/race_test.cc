// The race of finalists, on drawn times.
#include "tuner/measure/race.h"

#include <gmock/gmock.h>

#include <cmath>
#include <random>

namespace tilewright {
namespace {

using testing::ElementsAre;

// Rounds as a machine gives them: noise of a round that all kernels share, noise of each, and rare stalls.
class Machine {
 public:
  explicit Machine(uint64_t seed) : random_(seed) {}

  // Runs a race of kernels with these true times; returns it after its last round.
  Race run(const std::vector<double>& seconds, double noise, int most = 60) {
    Race race(seconds.size());
    std::normal_distribution<double> each(0, noise), shared(0, 0.05);
    std::uniform_real_distribution<double> stall(0, 1);
    for (rounds = 0; rounds < most && (rounds < 5 || !race.decided()); ++rounds) {
      const double all = shared(random_);
      for (size_t k = 0; k < seconds.size(); ++k) {
        const double late = stall(random_) < 0.02 ? 0.3 : 0;
        if (race.runs(k)) race.add(k, seconds[k] * std::exp(all + each(random_) + late), false);
      }
      race.end_round();
    }
    return race;
  }
  int rounds = 0;

 private:
  std::mt19937_64 random_;
};

TEST(Race, HeadsNeededFollowFromTheBets) {
  // 2^(n+1) - 1 over n + 1 is the stake after n heads of n.
  EXPECT_EQ(Race::heads_needed(9, 1 / 102.0), 9);
  EXPECT_EQ(Race::heads_needed(9, 1 / 103.0), 10);
  EXPECT_EQ(Race::heads_needed(0, 0.01), 1);
  EXPECT_GT(Race::heads_needed(100, 0.01), 60);
  EXPECT_LT(Race::heads_needed(100, 0.01), 70);
}

// At any number of flips, as often as the error allows at most.
TEST(Race, AFairCoinIsHardlyEverSaidToBeLoaded) {
  constexpr double kError = 0.05;
  constexpr int kCoins = 2000, kFlips = 200;
  std::vector<int> needed;
  for (int n = 0; n <= kFlips; ++n) needed.push_back(Race::heads_needed(n, kError));
  std::mt19937_64 random(1);
  int wrong = 0;
  for (int coin = 0; coin < kCoins; ++coin) {
    for (int n = 1, heads = 0; n <= kFlips; ++n) {
      heads += static_cast<int>(random() & 1);
      if (heads < needed[static_cast<size_t>(n)]) continue;
      ++wrong;
      break;
    }
  }
  EXPECT_LT(wrong, kError * kCoins);
  EXPECT_GT(wrong, 0.1 * kError * kCoins);  // and it is no test that says nothing
}

TEST(Race, TheFastestWinsInFewRounds) {
  Machine machine(2);
  for (int repeat = 0; repeat < 50; ++repeat) {
    const Race race = machine.run({1.03, 1, 1.04, 1.2}, 0.003);
    const Comparison found = race.result();
    EXPECT_THAT(found.tied, ElementsAre(false, true, false, false));
    EXPECT_LT(machine.rounds, 30);
    EXPECT_GE(found.behind[1], 0);
    EXPECT_LE(found.behind[1], Race::kNoise);
    EXPECT_LT(found.behind[0], 0);  // it left
  }
}

TEST(Race, EqualKernelsTie) {
  Machine machine(3);
  for (int repeat = 0; repeat < 50; ++repeat) {
    const Comparison found = machine.run({1, 1.001, 1}, 0.002).result();
    EXPECT_THAT(found.tied, ElementsAre(true, true, true));
    EXPECT_LT(machine.rounds, 60);
    for (double behind : found.behind) EXPECT_LE(behind, Race::kClaim);
  }
}

// The bound of a claim is above the truth but once in a hundred races. Noise is large, so that races end undecided.
TEST(Race, ClaimsHold) {
  Machine machine(4);
  const std::vector<double> seconds = {1, 1.004, 1.012, 1.02};
  int claims = 0, wrong = 0;
  for (int repeat = 0; repeat < 400; ++repeat) {
    const Comparison found = machine.run(seconds, 0.02, 40).result();
    for (size_t k = 0; k < seconds.size(); ++k) {
      if (found.behind[k] < 0) continue;
      ++claims;
      wrong += seconds[k] > 1 + found.behind[k] + 1e-9 ? 1 : 0;
    }
  }
  EXPECT_GT(claims, 400);
  EXPECT_LE(wrong, 4);
}

TEST(Race, FewRoundsClaimNothing) {
  Race race(2);
  for (int round = 0; round < 5; ++round) {
    race.add(0, 1, false);
    race.add(1, 1.02, false);
    race.end_round();
  }
  EXPECT_FALSE(race.decided());
  EXPECT_THAT(race.result().behind, ElementsAre(-1, -1));
  EXPECT_THAT(race.result().tied, ElementsAre(true, false));
}

TEST(Race, ALoneKernelIsDecidedAndNotBehind) {
  Race race(1);
  race.add(0, 2, false);
  race.end_round();
  EXPECT_TRUE(race.decided());
  EXPECT_THAT(race.result().behind, ElementsAre(0));
}

TEST(Race, DisturbedRoundsCountOnlyWithoutOthers) {
  Race race(3);
  const auto round = [&](double a, double b, double c, bool disturbed) {
    race.add(0, a, disturbed);
    race.add(1, b, false);
    race.add(2, c, true);
    race.end_round();
  };
  round(9, 1, 1.01, true);
  round(1.02, 1.01, 1.02, false);
  round(1.02, 1, 1.02, false);
  const Comparison found = race.result();
  EXPECT_THAT(found.rounds[0], ElementsAre(1.02, 1.02));
  EXPECT_EQ(found.medians[0], 1.02);
  EXPECT_THAT(found.rounds[2], ElementsAre(1.01, 1.02, 1.02));
  EXPECT_TRUE(race.spoiled());
}

TEST(Race, KernelsThatFailOrAreFarBehindLeave) {
  Race race(3);
  race.add(0, 1, false);
  race.add(1, 1.2, false);
  race.fail(2);
  race.end_round();
  EXPECT_TRUE(race.runs(1));
  race.add(0, 1.1, false);
  race.add(1, 1.22, false);
  race.end_round();
  EXPECT_FALSE(race.runs(1));
  EXPECT_FALSE(race.runs(2));
  EXPECT_THAT(race.result().tied, ElementsAre(true, false, false));
  EXPECT_THAT(race.result().medians, ElementsAre(1.05, testing::Gt(1), 0));
}

TEST(Race, NothingIsFoundWithoutARound) {
  EXPECT_THAT(Race(2).result().medians, ElementsAre(0, 0));
  EXPECT_THAT(Race(2).result().tied, ElementsAre(false, false));
}

}  // namespace
}  // namespace tilewright
