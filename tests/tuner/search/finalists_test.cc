// Candidates that may win, and the one that does.
#include "tuner/search/finalists.h"

#include <gmock/gmock.h>

namespace tilewright {
namespace {

using testing::ElementsAre;

// A kernel with these seconds and so many bytes of code.
Finalist finalist(const std::string& config, double seconds, size_t code) {
  Finalist f;
  f.record.config = config;
  f.record.trial = static_cast<int>(code);
  f.kernel.median = 2 * seconds;  // of a disturbed minute
  f.kernel.samples = {2 * seconds, seconds, 3 * seconds};
  f.kernel.object = std::string(code, 'x');
  return f;
}

std::vector<std::string> configs_of(const std::vector<Finalist>& finalists) {
  std::vector<std::string> configs;
  for (const Finalist& f : finalists) configs.push_back(f.record.config);
  return configs;
}

TEST(Finalists, ATieGoesToTheChampionThenToSmallerCodeThenToTheConfig) {
  std::vector<Finalist> rivals(4);
  const char *configs[] = {"d", "c", "b", "a"}, *objects[] = {"long", "xyz", "abc", "in"};
  for (size_t i = 0; i < rivals.size(); ++i) {
    rivals[i].record.config = configs[i];
    rivals[i].kernel.object = objects[i];
  }
  const auto winner = [&](std::vector<bool> tied, int champion) {
    Comparison comparison;
    comparison.tied = std::move(tied);
    return winner_of(rivals, comparison, champion);
  };
  EXPECT_EQ(winner({true, true, true, false}, -1), 2);
  EXPECT_EQ(winner({true, true, true, false}, 0), 0);
  EXPECT_EQ(winner({true, true, true, false}, 3), 2);
  EXPECT_EQ(winner({true, true, true, true}, -1), 3);
  EXPECT_EQ(winner({false, false, false, false}, 1), -1);
}

TEST(Finalists, TheFastestStayAndAllThatAreNearlyAsFast) {
  std::vector<Finalist> kept;
  keep_finalist(kept, finalist("slow", 1.5, 1), 2);
  keep_finalist(kept, finalist("slower", 1.6, 2), 2);
  EXPECT_THAT(configs_of(kept), ElementsAre("slow", "slower"));
  keep_finalist(kept, finalist("fast", 1.2, 3), 2);
  EXPECT_THAT(configs_of(kept), ElementsAre("fast", "slow"));
  for (const char* equal : {"a", "b", "c"}) keep_finalist(kept, finalist(equal, 1, 4), 2);
  keep_finalist(kept, finalist("near", 1.01, 5), 2);
  EXPECT_THAT(configs_of(kept), ElementsAre("a", "b", "c", "near"));
}

// Whichever of them were a moment faster, the ones with little code are there.
TEST(Finalists, AmongManyEqualKernelsThoseRaceThatWouldWinATie) {
  std::vector<Finalist> kept;
  for (int i = 0; i < 8; ++i) {
    keep_finalist(kept,
                  finalist(std::string(1, static_cast<char>('a' + i)), 1 + 0.002 * i,
                           static_cast<size_t>(20 - i)),
                  4);
  }
  keep_finalist(kept, finalist("small", 1.03, 1), 4);
  EXPECT_THAT(configs_of(rivals_of(kept, 4, std::nullopt, std::nullopt)),
              ElementsAre("h", "g", "b", "a"));
  // The next fastest follow if few are near.
  std::vector<Finalist> apart;
  for (int i = 0; i < 6; ++i)
    keep_finalist(apart, finalist(std::string(1, static_cast<char>('a' + i)), 1 + 0.1 * i, 9), 6);
  EXPECT_THAT(configs_of(rivals_of(apart, 4, std::nullopt, std::nullopt)),
              ElementsAre("a", "b", "c", "d"));
}

}  // namespace
}  // namespace tilewright
