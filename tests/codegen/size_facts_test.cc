// Facts of dynamic dimensions in the descriptions of kernels.
#include "ir/arith/size_facts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "codegen/codegen.h"
#include "ir/ops/spec.h"
#include "kernel/cuda_description.h"
#include "tests/codegen/support.h"

namespace tilewright {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

const Target kTarget = Target::parse("avx512");

SizeFacts facts_of(const Program& program) {
  return generate_c({program, {}}, kTarget).description.sizes;
}

Program tiles() { return test::matmul_in_tiles("matmul:m=1..65,n=40,k=9", 7).program(); }

TEST(KernelSizes, AreTheTilesThatWereScheduled) {
  const SizeFacts facts = facts_of(tiles());
  ASSERT_EQ(facts.steps.size(), 1u);
  EXPECT_THAT(facts.steps[0], Contains(SizeStep{7, 7}));
  EXPECT_GT(facts.accesses, 6);
  EXPECT_EQ(facts.proved, facts.accesses);
}

// The guards of a schedule, each broken by hand: the accesses that it guards are not proved.
TEST(KernelSizes, OfABrokenGuardAreNotProved) {
  const std::string right = to_string(tiles());
  ASSERT_THAT(right, HasSubstr("< m)"));
  std::string wrong = right;
  for (size_t at = 0; (at = wrong.find("< m)", at)) != std::string::npos; at += 5) {
    wrong.replace(at, 4, "<= m)");
  }
  const SizeFacts facts = facts_of(parse_program(wrong));
  EXPECT_LT(facts.proved, facts.accesses);
  EXPECT_EQ(facts_of(parse_program(right)).proved, facts_of(parse_program(right)).accesses);
}

TEST(KernelSizes, AreOnlyThoseOfDynamicDimensions) {
  const KernelSource source =
      generate_c(test::matmul_in_tiles("matmul:m=65,n=40,k=9", 7).module(), kTarget);
  EXPECT_EQ(source.description.sizes, SizeFacts());
  EXPECT_EQ(source.description.to_json().find("sizes"), std::string::npos);
}

TEST(KernelSizes, StandInTheDescription) {
  KernelDescription d = generate_c({tiles(), {}}, kTarget).description;
  d.sizes = {.steps = {{{7, 7}, {0, 64}}}, .accesses = 9, .proved = 8};
  EXPECT_THAT(d.to_json(), HasSubstr(R"("steps":[[[7,7],[0,64]]])"));
  EXPECT_EQ(KernelDescription::from_json(d.to_json()).sizes, d.sizes);
}

TEST(KernelSizes, OfAGpuStandInItsDescription) {
  const Program program = lower(make_workload(parse_spec("softmax:m=1..24,n=10")));
  CudaDescription d;
  d.source.target = "cuda:sm_80";
  d.source.dims = program.dims;
  d.source.sizes = {.steps = {{{32, 32}}}, .accesses = 5, .proved = 5};
  EXPECT_EQ(CudaDescription::from_json(d.to_json()).source.sizes, d.source.sizes);
}

TEST(KernelSizes, ThatAreDamagedAreRefused) {
  const std::string text = generate_c({tiles(), {}}, kTarget).description.to_json();
  auto refusal = [&](const std::string& sizes) {
    std::string damaged = text;
    const size_t at = damaged.find("\"sizes\":"), end = damaged.find("]]}", at) + 3;
    damaged.replace(at, end - at, "\"sizes\":" + sizes);
    try {
      KernelDescription::from_json(damaged);
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string("accepted");
  };
  EXPECT_EQ(refusal(R"({"accesses":1,"proved":1,"steps":[[[7,7]]]})"), "accepted");
  EXPECT_THAT(refusal(R"({"accesses":1,"proved":1,"steps":[]})"),
              HasSubstr("sizes: key 'steps' has no list for each of 1 dynamic dimensions: []"));
  EXPECT_THAT(refusal(R"({"accesses":1,"proved":1,"steps":[[[7]]]})"),
              HasSubstr("sizes: expected [step, first], got [7]"));
  EXPECT_THAT(refusal(R"({"accesses":1,"proved":1,"steps":[[[-7,1]]]})"),
              HasSubstr("sizes: expected [step, first], got [-7,1]"));
  EXPECT_THAT(refusal(R"({"accesses":1,"proved":1,"steps":[7]})"),
              HasSubstr("sizes: expected a list of at most 8 steps, got 7"));
  EXPECT_THAT(refusal(R"({"proved":1,"steps":[[]]})"), HasSubstr("missing key 'accesses'"));
}

}  // namespace
}  // namespace tilewright
