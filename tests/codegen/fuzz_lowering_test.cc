// Random schedules of random operators, lowered: what comes out means what the operator means.
#include <gtest/gtest.h>

#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "codegen/lowering.h"
#include "tests/schedule/fuzz_schedule.h"

namespace tilewright::testing {
namespace {

constexpr uint64_t kCases = 480;  // unless TILEWRIGHT_FUZZ_CASES says otherwise
constexpr uint64_t kShards = 4;

class LoweredSchedules : public ::testing::Test {
 protected:
  // A check of the fuzzer: the scheduled module, lowered for the target. What lowering refuses is
  // right, and counted.
  std::optional<std::string> check(const RandomSpec& spec, const std::vector<Step>& steps,
                                   const Target& target) {
    Program before = unscheduled(spec);
    Schedule schedule(before);
    try {
      for (const Step& step : steps) schedule.apply({step.primitive, step.arguments, {}});
      return check_module(before, lower_module(schedule.module(), target), spec);
    } catch (const ScheduleError&) {
      return std::nullopt;
    } catch (const LoweringError&) {
      ++refused_;
      return "";
    } catch (const std::exception& e) {
      return fmt::format("exception: {}", e.what());
    }
  }

  int refused_ = 0;

 private:
  static Module lower_module(const Module& scheduled, const Target& target) {
    Module module{lower_for_cpu(scheduled.main, target), {}};
    for (const Program& pack : scheduled.packs) {
      module.packs.push_back(lower_for_cpu(pack, target));
    }
    return module;
  }

  static std::string check_module(const Program& before, const Module& module,
                                  const RandomSpec& spec) {
    NdArrays want = inputs_of(before, spec.dims), got = want;
    for (auto& [name, array] : got) array.shape = {static_cast<int64_t>(array.data.size())};
    interpret(before, want, spec.dims);
    interpret(module, got, spec.dims);
    return compare_outputs(before, want, got, spec.exact);
  }
};

class FuzzLowering : public LoweredSchedules, public ::testing::WithParamInterface<uint64_t> {};

TEST_P(FuzzLowering, KeepsTheMeaning) {
  const std::vector<std::string> names = {"avx512", "avx2", "generic"};
  uint64_t steps = 0, cases = total_cases(kCases) / kShards;
  for (uint64_t i = 0; i < cases; ++i) {
    Target target = Target::parse(names[i % names.size()]);
    FuzzCase c = fuzz_schedule(1 + GetParam() + i * kShards,
                               [&](const RandomSpec& spec, const std::vector<Step>& list) {
                                 return check(spec, list, target);
                               });
    steps += c.steps.size();
    EXPECT_TRUE(c.failure.empty()) << "for " << target.name << ", " << describe(c);
  }
  // Cases without steps, or that are refused, would test little.
  EXPECT_GE(steps, 2 * cases);
  EXPECT_LE(static_cast<uint64_t>(refused_), cases / 4);
}

INSTANTIATE_TEST_SUITE_P(Shards, FuzzLowering, ::testing::Range<uint64_t>(0, kShards));

// A copy under loops whose later iterations hang over the end of the axis: what the first one left
// in a buffer is gone there (found by the fuzzer).
TEST_F(LoweredSchedules, CopiesUnderTilesThatAreLargerThanTheirAxis) {
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
  for (size_t i = 0; i < all.size(); ++i) {
    std::vector<Step> steps = all[i].steps;
    steps.insert(steps.end(), copies[i].begin(), copies[i].end());
    for (const char* name : {"avx512", "avx2", "generic"}) {
      EXPECT_EQ(check({all[i].spec, {}, i == 1}, steps, Target::parse(name)), "") << all[i].spec;
    }
  }
  EXPECT_EQ(refused_, 0);
}

}  // namespace
}  // namespace tilewright::testing
