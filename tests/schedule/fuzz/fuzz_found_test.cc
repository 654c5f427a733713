#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/schedule/fuzz/fuzz_schedule.h"

// Cases that the fuzzer found to fail, shrunk. They are now accepted with the same meaning, or
// refused.
namespace tilewright::test {
namespace {

Step step(const char* primitive, const nlohmann::ordered_json& arguments) {
  return {primitive, arguments.dump(), {}};
}

struct Found {
  const char* name;
  const char* spec;
  std::vector<Step> steps;
  bool refused = false;
  std::map<std::string, int64_t> dims = {};
};

class FuzzFound : public ::testing::TestWithParam<Found> {};

TEST_P(FuzzFound, IsRightOrRefused) {
  const Found& found = GetParam();
  std::optional<std::string> failure = check_steps({found.spec, found.dims, true}, found.steps);
  EXPECT_EQ(!failure.has_value(), found.refused);
  EXPECT_EQ(failure.value_or(""), "");
  if (!found.refused) return;
  // Only the last step is refused.
  std::vector<Step> accepted(found.steps.begin(), found.steps.end() - 1);
  EXPECT_EQ(check_steps({found.spec, found.dims, true}, accepted), "");
}

const std::vector<Found> kFound = {
    {"PaddingOfALayoutIsNotPrecomputed",
     "matmul:m=2,n=5,k=9,dtype=i8,w.dtype=i4",
     {step("transform_layout",
           {{"buffer", "B_value"}, {"map", "(a0, a1) -> (floordiv(a0, 5), a1, floormod(a0, 5))"}}),
      step("precompute", {{"block", "B_value"}})},
     true},
    {"SumsThatArePackedAnew",
     "matmul:m=2,n=5,k=9,dtype=i8",
     {step("convert_operand", {{"block", "C"}, {"buffer", "A"}, {"type", "u8"}, {"offset", 128}}),
      step("precompute", {{"block", "C_offset"}}),
      step("prepack", {{"buffer", "C_offset"}, {"map", "(a0) -> (a0)"}})}},
    {"PaddedLayoutCopiedUnderALoop",
     "conv1d:n=2,l=8,ci=3,co=2,kernel=3,stride=2,pad=1",
     {step("compute_at", {{"block", "X_pad"}, {"loop", "kl"}}),
      step("transform_layout",
           {{"buffer", "X_pad"},
            {"map", "(a0, a1, a2) -> (a0, a1, floordiv(a2, 4), floormod(a2, 4))"}}),
      step("cache_read", {{"block", "Y"}, {"buffer", "X_pad"}, {"scope", "register"}})}},
    {"PaddedLayoutPaddedAgain",
     "matmul:m=12,n=3,k=10,trans_b=true",
     {step("rfactor", {{"block", "C"}, {"loop", "k"}, {"factor_axis", 0}}),
      step("cache_write", {{"block", "C_rf"}, {"buffer", "C_rf"}, {"scope", "local"}}),
      step("transform_layout",
           {{"buffer", "C_rf_local"},
            {"map", "(a0, a1, a2) -> (floordiv(a0, 4), a1, a2, floormod(a0, 4))"}}),
      step("pad_einsum", {{"block", "C_rf"}, {"multiples", {1, 2, 1}}})}},
    {"PaddedLayoutSelected",
     "softmax:m=6,n=7",
     {step("transform_layout",
           {{"buffer", "X_exp"}, {"map", "(a0, a1) -> (a0, floordiv(a1, 3), floormod(a1, 3))"}}),
      step("pad_einsum", {{"block", "Y"}, {"multiples", {4, 1}}})}},
    {"PaddingPadded",
     "matmul:m=4,n=8,k=4",
     {step("pad_einsum", {{"block", "C"}, {"multiples", {6, 1, 1}}}),
      step("pad_einsum", {{"block", "A_pad"}, {"multiples", {8, 1}}})}},
    {"CopyOfACopyOfAPaddedLayout",
     "conv2d:n=1,h=3,w=3,ci=2,co=1,kernel=3,layout=nchw",
     {step("cache_write", {{"block", "Y"}, {"buffer", "Y"}, {"scope", "register"}}),
      step("transform_layout",
           {{"buffer", "Y_register"},
            {"map", "(a0, a1, a2, a3) -> (floordiv(a0, 3), a1, a2, a3, floormod(a0, 3))"}}),
      step("cache_read", {{"block", "Y_register"}, {"buffer", "Y_register"}, {"scope", "local"}}),
      step("cache_read",
           {{"block", "Y_register"}, {"buffer", "Y_register_local"}, {"scope", "register"}})}},
    {"PaddedLayoutUnderAPredicate",
     "reduce:shape=[4,2,9],axes=[2],kind=mean",
     {step("transform_block_layout",
           {{"block", "Y_acc"},
            {"map", "(a0, a1, a2) -> (floordiv(a0, 3), a1, a2, floormod(a0, 3))"}}),
      step("transform_layout",
           {{"buffer", "Y_acc"}, {"map", "(a0, a1) -> (floordiv(a0, 3), a1, floormod(a0, 3))"}}),
      step("cache_write", {{"block", "Y_acc"}, {"buffer", "Y_acc"}, {"scope", "shared"}})}},
    {"TileOverTheEdgeOfARow",
     "norm:b=6,m=1,n=4",
     {step("transform_block_layout",
           {{"block", "Y"}, {"map", "(a0) -> (floordiv(a0, 2), floormod(a0, 2))"}}),
      step("split", {{"loop", "Y_ax1"}, {"factors", {2, 2, -1}}}),
      step("cache_write", {{"block", "Y"}, {"buffer", "Y"}, {"scope", "shared"}}),
      step("reverse_compute_at", {{"block", "Y_shared"}, {"loop", "Y_ax1_0"}})},
     true},
    {"ZeroOfPaddingThatNobodyStores",
     "rms_norm:m=3,n=16",
     {step("transform_layout",
           {{"buffer", "X_sq"}, {"map", "(a0) -> (floordiv(a0, 4), floormod(a0, 4))"}}),
      step("pad_einsum", {{"block", "X_rstd"}, {"multiples", {2}}}),
      step("reverse_compute_at", {{"block", "X_sq_pad"}, {"loop", "i"}})},
     true},
    {"TileCutInTheMiddleOfARow",
     "norm:b=6,m=1,n=4",
     {step("transform_block_layout",
           {{"block", "Y"}, {"map", "(a0) -> (floordiv(a0, 3), floormod(a0, 3))"}}),
      step("split", {{"loop", "Y_ax1"}, {"factors", {2, 2}}}),
      step("cache_write", {{"block", "Y"}, {"buffer", "Y"}, {"scope", "shared"}}),
      step("reverse_compute_at", {{"block", "Y_shared"}, {"loop", "Y_ax1_0"}})},
     true},
    {"RemainderOfOneSplitTwice",
     "matmul:m=2,n=12,k=1,trans_a=true",
     {step("transform_block_layout",
           {{"block", "C"}, {"map", "(a0, a1, a2) -> (a0, a1, floordiv(a2, 5), floormod(a2, 5))"}}),
      step("split", {{"loop", "C_ax3"}, {"factors", {-1, 2}}}),
      step("split", {{"loop", "C_ax3_1"}, {"factors", {-1, 4}}})}},
    {"FusedReductionReordered",
     "matmul:m=10,n=3,k=9,trans_b=true",
     {step("fuse", {{"loops", {"j", "k"}}}),
      step("split", {{"loop", "j_k_fused"}, {"factors", {4, -1}}}),
      step("reorder", {{"loops", {"j_k_fused_1", "j_k_fused_0"}}})},
     true},
    {"OnePieceOfADynamicAxis",
     "depthwise_conv2d:n=1..3,h=3,w=4,c=5,kernel=3",
     {step("transform_block_layout",
           {{"block", "Y"},
            {"map",
             "(a0, a1, a2, a3, a4, a5) -> (a2, a4, a5, floordiv(a0, 4), floormod(a0, 4), a3, "
             "a1)"}})},
     false,
     {{"n", 1}}},
    {"PaddedLayoutFilledByACopy",
     "rms_norm:m=2,n=6",
     {step("transform_layout",
           {{"buffer", "X_rstd"}, {"map", "(a0) -> (floormod(a0, 4), floordiv(a0, 4))"}}),
      step("cache_write", {{"block", "X_rstd"}, {"buffer", "X_rstd"}, {"scope", "local"}}),
      step("pad_einsum", {{"block", "Y"}, {"multiples", {4, 3}}})}},
    {"MoreThanTheProducerOfOneIterationStores",
     R"({"op": "expr", "expr": "T0[k,j] = A[0,k] + D[j//2]; T1[k,j] = T0[k,j] * B[k,j//2]",
         "dims": {"j": 7, "k": 4}})",
     {step("cache_write", {{"block", "T1"}, {"buffer", "T1"}, {"scope", "local"}}),
      step("transform_block_layout",
           {{"block", "T1"}, {"map", "(a0, a1) -> (floordiv(a0, 2), a1, floormod(a0, 2))"}}),
      step("compute_at", {{"block", "T0"}, {"loop", "T1_ax1"}}),
      step("fuse", {{"loops", {"T1_ax0", "T1_ax1"}}}),
      step("cache_write", {{"block", "T1"}, {"buffer", "T1_local"}, {"scope", "shared"}}),
      step("reverse_compute_at", {{"block", "T1_local_shared"}, {"loop", "T1_ax0_T1_ax1_fused"}}),
      step("compute_at", {{"block", "T1"}, {"loop", "T1_local_shared_ax0"}})},
     true},
    {"PartialResultsUnderALoopThatAConditionStops",
     "reduce:shape=[1,1,5],axes=[0,2],kind=sum",
     {step("split", {{"loop", "r0"}, {"factors", {5, 4, -1}}}),
      step("split", {{"loop", "r0_2"}, {"factors", {-1, 2, 4}}}),
      step("fuse", {{"loops", {"r0_2_2", "r2"}}}),
      step("rfactor", {{"block", "Y"}, {"loop", "r0_0"}, {"factor_axis", -1}})}},
};

INSTANTIATE_TEST_SUITE_P(Cases, FuzzFound, ::testing::ValuesIn(kFound),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace tilewright::test
