// Shrunk cases that the format fuzzer once found to fail: now right, or refused.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "ir/ops/spec.h"
#include "tests/tuner/fuzz/fuzz_formats.h"
#include "tuner/sketch.h"

namespace tilewright::test {
namespace {

Step step(const char* primitive, const nlohmann::ordered_json& arguments) {
  return {primitive, arguments.dump(), {}};
}

struct Found {
  const char* name;
  const char* target;
  const char* spec;
  const char* config = "";
  std::vector<Step> steps = {};
  bool refused = false;
  std::set<std::string> extensions = {};  // of the target
};

FormatCase case_of(const Found& found) {
  FormatCase c;
  c.spec = found.spec;
  c.target = Target::parse(found.target);
  c.target.extensions.insert(found.extensions.begin(), found.extensions.end());
  if (*found.config != 0) {  // choices that the config lacks are drawn
    Trial trial = Trial::mutate(found.config, 0, 1);
    const Workload workload = make_workload(parse_spec(c.spec));
    apply_sketch(cpu_sketches().front(), {workload, c.target, 2}, trial);
    c.config = trial.config();
  }
  c.steps = found.steps;
  return c;
}

class FuzzFormatsFound : public ::testing::TestWithParam<Found> {};

TEST_P(FuzzFormatsFound, IsRightOrRefused) {
  const Found& found = GetParam();
  FormatCase c = case_of(found);
  std::optional<std::string> failure = check_format(c);
  EXPECT_EQ(!failure.has_value(), found.refused);
  EXPECT_EQ(failure.value_or(""), "");
  if (!found.refused) return;
  // Only the last step is refused.
  c.steps.pop_back();
  EXPECT_EQ(check_format(c), "");
}

const std::vector<Found> kFound = {
    {"PaddingOfALayoutReadBeyondAWindow",
     "generic",
     "matmul:m=1,n=16,k=11,trans_b=true,dtype=i8,w.dtype=i2,w.scale=none",
     "",
     {step("transform_layout",
           {{"buffer", "B_value"}, {"map", "(a0, a1) -> (floormod(a1, 5), floordiv(a1, 5), a0)"}}),
      step("pad_einsum", {{"block", "C"}, {"multiples", {4, 1, 4}}})},
     true},
    {"PaddingOfALayoutConverted",
     "avx512",
     "conv2d_transpose:n=1,h=2,w=3,ci=1,co=4,kernel=2,dtype=i8,w.dtype=i4,w.scale=none",
     "",
     {step("transform_layout",
           {{"buffer", "X_pad"},
            {"map", "(a0, a1, a2, a3) -> (a0, a1, a2, floordiv(a3, 5), floormod(a3, 5))"}}),
      step("convert_operand",
           {{"block", "Y"}, {"buffer", "X_pad"}, {"type", "u8"}, {"offset", 128}})},
     true},
    {"PackOfMoreIteratorsLaidOutAnew",
     "avx2",
     "matmul:m=1,n=1,k=24,trans_a=true,trans_b=true,dtype=i8,w.dtype=u8,w.scale=none",
     "",
     {step("transform_block_layout",
           {{"block", "B_value"}, {"map", "(a0, a1) -> (a0, floordiv(a1, 3), floormod(a1, 3))"}}),
      step("precompute", {{"block", "B_value"}}),
      step("prepack", {{"buffer", "B_value"},
                       {"map", "(a0, a1) -> (a0, floordiv(a1, 7), floormod(a1, 7))"}})}},
    {"PackOfTurnedIteratorsLaidOutAnew",
     "generic",
     "matmul:m=4,n=15,k=4,epilogue=[relu,add],dtype=f32,w.dtype=u1,w.scale=none",
     "",
     {step("transform_block_layout", {{"block", "B_value"}, {"map", "(a0, a1) -> (a1, a0)"}}),
      step("precompute", {{"block", "B_value"}}),
      step("prepack", {{"buffer", "B_value"}, {"map", "(a0, a1) -> (a0, a1)"}})}},
    {"ZeroPointsOfOneBitTakenOffSums", "avx2",
     "matmul:m=6,n=33,k=22,dtype=f32,w.dtype=u1,w.scale=e8m0,w.zero=u4,w.group=-1,"
     "w.sparse=15:64,w.vector=3",
     R"({"C.scales":"sums","C.vj.vectors":4,"C.vi.rows":1,"C.vi.s2":6,"C.vj.s2":1,"C.vj.s1":1,)"
     R"("C.vk.chunk":22,"C.vk.unroll":1,"C.outer_order":"spatial","C.inner_order":"spatial",)"
     R"("C.A":"none","C.B":"tiles","C.parallel":1})"},
    {"ZeroPointsThatAreTheWholeColumn", "generic",
     "matmul:m=3,n=16,k=21,trans_b=true,dtype=f32,w.dtype=u2,w.scale=f32,w.zero=u8,w.group=-1,"
     "w.sparse=5:64,w.vector=3",
     R"({"C.scales":"sums","C.vj.vectors":4,"C.vi.rows":3,"C.vk.chunk":21,"C.vk.unroll":1,)"
     R"("C.outer_order":"spatial","C.inner_order":"spatial","C.A":"none","C.B":"tiles",)"
     R"("C.parallel":1})"},
    {"ZeroPointsOfOneGroup", "avx2",
     "matmul:m=2,n=14,k=17,dtype=f32,w.dtype=u4,w.scale=bf16,w.zero=u4,w.group=18,"
     "w.sparse=4:32,w.vector=1",
     R"({"C.scales":"sums","C.vj.vectors":2,"C.vi.rows":2,"C.vk.chunk":17,"C.vk.unroll":1,)"
     R"("C.outer_order":"spatial","C.inner_order":"spatial","C.B":"tiles","C.parallel":1})"},
    {"ZeroPointsOfBytes", "avx512",
     "matmul:m=3,n=4,k=18,dtype=f32,w.dtype=u8,w.scale=f16,w.zero=u8,w.group=18,"
     "w.sparse=6:32,w.vector=1",
     R"({"C.scales":"sums","C.vj.vectors":1,"C.vi.rows":3,"C.vk.chunk":18,"C.vk.unroll":1,)"
     R"("C.outer_order":"spatial","C.inner_order":"spatial","C.B":"tiles","C.parallel":1})"},
    {"ZeroPointsUnderAnEpilogue", "avx512",
     "matmul:m=4,n=14,k=12,trans_b=true,epilogue=[relu,add],dtype=f32,w.dtype=i8,"
     "w.scale=f8e4m3,w.zero=u8,w.group=-1,w.sparse=1:8,w.vector=16",
     R"({"C_acc.scales":"sums","C_acc.vj.vectors":1,"C_acc.vi.rows":4,"C_acc.vk.chunk":12,)"
     R"("C_acc.vk.unroll":1,"C_acc.outer_order":"spatial","C_acc.inner_order":"spatial",)"
     R"("C_acc.B":"tiles","C_acc.parallel":1})"},
    {"TermsOfOneIterationGathered",
     "avx512",
     "conv2d:n=1,h=3,w=3,ci=1,co=16,kernel=2,stride=2,dtype=u8",
     R"({"Y.intrinsic":"neon.usdot over kh,kw,ci"})",
     {},
     false,
     {"neon", "i8mm"}},
    {"InitsThatReadOtherIterationsMerged",
     "generic",
     "matmul:m=10,n=10,k=5,dtype=i8",
     "",
     {step("convert_operand", {{"block", "C"}, {"buffer", "A"}, {"type", "i16"}, {"offset", 8}}),
      step("merge", {{"loops", {"C_offset_ax0", "i"}}})},
     true},
};

INSTANTIATE_TEST_SUITE_P(Cases, FuzzFormatsFound, ::testing::ValuesIn(kFound),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace tilewright::test
