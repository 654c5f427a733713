// Random schedules of random operators, lowered: the results mean what the operators mean.
#include <gtest/gtest.h>

#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "tests/codegen/fuzz_lowering.h"

namespace tilewright::testing {
namespace {

constexpr uint64_t kCases = 480;  // unless TILEWRIGHT_FUZZ_CASES says otherwise
constexpr uint64_t kShards = 4;

class FuzzLowering : public ::testing::TestWithParam<uint64_t> {};

TEST_P(FuzzLowering, KeepsTheMeaning) {
  uint64_t steps = 0, refused = 0, cases = total_cases(kCases) / kShards;
  for (uint64_t i = 0; i < cases; ++i) {
    LoweringCase c = fuzz_lowering(first_seed() + GetParam() + i * kShards);
    steps += c.schedule.steps.size();
    refused += static_cast<uint64_t>(c.refused);
    EXPECT_TRUE(c.schedule.failure.empty()) << describe(c);
  }
  // Cases without steps, or that are refused, would test little.
  EXPECT_GE(steps, 2 * cases);
  EXPECT_LE(refused, cases / 4);
}

INSTANTIATE_TEST_SUITE_P(Shards, FuzzLowering, ::testing::Range<uint64_t>(0, kShards));

// A copy under loops whose later iterations hang over the end of the axis: what the first one left
// in a buffer is gone there (found by the fuzzer).
TEST(FuzzLoweringFound, CopiesUnderTilesThatAreLargerThanTheirAxis) {
  auto split = [](const char* loop, std::vector<int64_t> factors) {
    return Step{"split", nlohmann::json{{"loop", loop}, {"factors", factors}}.dump(), {}};
  };
  auto copy = [](const std::string& buffer, const std::string& scope, const char* loop) {
    nlohmann::json write = {{"block", buffer}, {"buffer", buffer}, {"scope", scope}};
    nlohmann::json move = {{"block", buffer + "_" + scope}, {"loop", loop}};
    return std::vector<Step>{{"cache_write", write.dump(), {}},
                             {"reverse_compute_at", move.dump(), {}}};
  };
  struct Found {
    const char* spec;
    std::vector<Step> steps;
  };
  std::vector<Found> all = {
      {"rms_norm:m=1,n=16", {split("i_2", {-1, 4}), split("j_1", {-1, 3})}},
      {"matmul:m=1,n=11,k=1", {split("i", {-1, 2}), split("k", {-1, 1})}},
      {"layer_norm:m=2,n=13", {split("i_4", {8, 5, 5})}},
  };
  std::vector<std::vector<Step>> copies = {
      copy("Y", "register", "j_1_1"), copy("C", "global", "k_1"), copy("Y", "register", "i_4_1")};
  int refused = 0;
  for (size_t i = 0; i < all.size(); ++i) {
    std::vector<Step> steps = all[i].steps;
    steps.insert(steps.end(), copies[i].begin(), copies[i].end());
    for (const char* name : {"avx512", "avx2", "generic"}) {
      RandomSpec spec{all[i].spec, {}, i == 1};
      EXPECT_EQ(check_lowering(spec, steps, Target::parse(name), &refused), "") << spec.text;
    }
  }
  EXPECT_EQ(refused, 0);
}

}  // namespace
}  // namespace tilewright::testing
