// Random schedules of random operators, lowered: their results are checked against the operators.
#include <gtest/gtest.h>

#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "tests/codegen/fuzz_lowering.h"

namespace tilewright::test {
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

Step step(const char* primitive, const nlohmann::ordered_json& arguments) {
  return {primitive, arguments.dump(), {}};
}

Step copy(const char* buffer, const char* scope) {
  return step("cache_write", {{"block", buffer}, {"buffer", buffer}, {"scope", scope}});
}

// Cases that the fuzzer once found to fail, shrunk. They are now accepted with the same meaning, or
// refused. Most have tiles that are larger than their axis. Later iterations of the loop over these
// tiles lie wholly beyond the end. The values that the first one left in a buffer are gone there.
struct Found {
  const char* name;
  const char* spec;
  std::vector<Step> steps;
  bool exact = true, refused = false;
  std::map<std::string, int64_t> dims = {};
};

class FuzzLoweringFound : public ::testing::TestWithParam<Found> {};

TEST_P(FuzzLoweringFound, IsRightOrRefused) {
  const Found& found = GetParam();
  RandomSpec spec{found.spec, found.dims, found.exact};
  int refused = 0;
  for (const char* name : {"avx512", "avx2", "generic"}) {
    std::optional<std::string> failure =
        check_lowering(spec, found.steps, Target::parse(name), &refused);
    EXPECT_EQ(!failure.has_value(), found.refused);
    EXPECT_EQ(failure.value_or(""), "");
  }
  EXPECT_EQ(refused, 0);
}

const std::vector<Found> kFound = {
    {"CopyUnderAColumn",
     "rms_norm:m=1,n=16",
     {step("split", {{"loop", "i_2"}, {"factors", {-1, 4}}}),
      step("split", {{"loop", "j_1"}, {"factors", {-1, 3}}}), copy("Y", "register"),
      step("reverse_compute_at", {{"block", "Y_register"}, {"loop", "j_1_1"}})},
     false},
    {"CopyUnderAReduction",
     "matmul:m=1,n=11,k=1",
     {step("split", {{"loop", "i"}, {"factors", {-1, 2}}}),
      step("split", {{"loop", "k"}, {"factors", {-1, 1}}}), copy("C", "global"),
      step("reverse_compute_at", {{"block", "C_global"}, {"loop", "k_1"}})}},
    {"CopyUnderARow",
     "layer_norm:m=2,n=13",
     {step("split", {{"loop", "i_4"}, {"factors", {8, 5, 5}}}), copy("Y", "register"),
      step("reverse_compute_at", {{"block", "Y_register"}, {"loop", "i_4_1"}})},
     false},
    {"CopyBesideAReaderUnderTheLoop",
     "layer_norm:m=1,n=15",
     {step("split", {{"loop", "i_1"}, {"factors", {-1, 4, 4}}}),
      step("reverse_compute_at", {{"block", "X_var"}, {"loop", "i_1_1"}}),
      copy("X_mean", "register")},
     false},
    {"CopyMergedWithItsWriter",
     "matmul:m=8,n=5,k=6,epilogue=[relu]",
     {step("split", {{"loop", "i_1"}, {"factors", {8, 8, 5}}}), copy("C", "register"),
      step("merge", {{"loops", {"i_1_0", "C_register_ax0"}}})},
     true,
     true},
    {"ReaderMergedWithAPaddedCopy",
     "matmul:m=1..16,n=2,k=3,batch=2,trans_b=true,epilogue=[bias,relu]",
     {step("pad_einsum", {{"block", "C_acc"}, {"multiples", {1, 1, 4, 4}}}),
      copy("B_pad", "global"), step("split", {{"loop", "B_pad_global_ax0"}, {"factors", {2, 4}}}),
      step("merge", {{"loops", {"B_pad_global_ax0_0", "b"}}})},
     true,
     true,
     {{"m", 2}}},
    {"DigitsOfALayoutUnderTheLoopOfTheirInput",
     "reduce:shape=[4,3,19],axes=[1,2],kind=sum",
     {step("rfactor", {{"block", "Y"}, {"loop", "r2"}, {"factor_axis", 1}}),
      step("pad_einsum", {{"block", "Y_rf"}, {"multiples", {1, 4, 3}}}),
      step("merge", {{"loops", {"X_pad_0", "i0"}}}),
      step("reverse_compute_at", {{"block", "Y_rf_unpad"}, {"loop", "X_pad_0"}}),
      step("transform_layout",
           {{"buffer", "Y_rf_pad"}, {"map", "(a0, a1) -> (floordiv(a0, 3), floormod(a0, 3), a1)"}}),
      step("compute_at", {{"block", "Y_rf"}, {"loop", "Y_rf_unpad_ax1"}})},
     true,
     true},
};

INSTANTIATE_TEST_SUITE_P(Cases, FuzzLoweringFound, ::testing::ValuesIn(kFound),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace tilewright::test
