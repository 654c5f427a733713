// A bandit over knobs of words.
#include "tuner/search/word_bandit.h"

#include <gtest/gtest.h>

#include <map>

namespace tilewright {
namespace {

Trial trial_of(const std::string& config) {
  Trial trial = Trial::replay(config);
  trial.choose("layout", std::vector<std::string>{"rows", "columns", "blocks"});
  trial.choose("tile", std::vector<int64_t>{4, 8});
  trial.choose("order", std::vector<std::string>{"plain", "turned"});
  return trial;
}

std::string config(const std::string& layout, const std::string& order, int tile = 8) {
  return R"({"layout":")" + layout + R"(","tile":)" + std::to_string(tile) + R"(,"order":")" +
         order + R"("})";
}

int count_of(const std::vector<std::string>& configs, const std::string& word) {
  int count = 0;
  for (const std::string& c : configs)
    count += c.find('"' + word + '"') != std::string::npos ? 1 : 0;
  return count;
}

TEST(BanditConfigs, PlayEachOptionOnceFirst) {
  const auto configs = bandit_configs(trial_of(config("rows", "plain")), {}, 3);
  EXPECT_EQ(configs[0], config("rows", "plain"));
  EXPECT_EQ(configs[1], config("columns", "turned"));
  EXPECT_EQ(count_of(configs, "blocks"), 1);
}

// The option of the fast configs is played most, the slow ones now and then; each knob for itself.
TEST(BanditConfigs, PlayFastOptionsMost) {
  std::vector<PlayedConfig> played;
  for (int i = 0; i < 4; ++i) {
    played.push_back({config("columns", "plain"), 0.95});
    played.push_back({config("columns", "turned"), 0.85});
    played.push_back({config("rows", "plain"), 0.55});
    played.push_back({config("blocks", i % 2 ? "turned" : "plain"), 0});
  }
  const auto configs = bandit_configs(trial_of(config("rows", "turned")), played, 24);
  EXPECT_GT(count_of(configs, "columns"), 16);
  EXPECT_EQ(count_of(configs, "blocks"), 0);
  EXPECT_GT(count_of(configs, "plain"), 12);
  EXPECT_GT(count_of(configs, "turned"), 2);
}

TEST(BanditConfigs, KeepNumbersAndForgetWordsThatAreNoOptionAnyMore) {
  const auto configs = bandit_configs(trial_of(config("rows", "plain", 4)),
                                      {{R"({"layout":"spiral","order":"turned"})", 1}}, 2);
  for (const std::string& c : configs) EXPECT_NE(c.find(R"("tile":4)"), std::string::npos) << c;
  EXPECT_EQ(count_of(configs, "spiral"), 0);
}

}  // namespace
}  // namespace tilewright
