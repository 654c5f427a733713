// Each GPU workload of bench/workloads has kernels of two kinds or more: where the hardware of one
// faults or crawls on a device, another one may run. Of a single row of dense operands one draw in 30
// is another kind than loads and multiply-adds; a search without a device makes as many draws.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "codegen/codegen.h"
#include "ir/ops/spec.h"
#include "kernel/cuda_source.h"
#include "tests/golden.h"
#include "tests/tuner/hopper.h"
#include "tuner/candidate.h"

namespace tilewright {
namespace {

std::vector<std::string> gpu_workloads() {
  std::vector<std::string> specs;
  for (const char* file : {"gpu_lowbit.json", "gpu_matmul.json", "gpu_sparse.json"}) {
    std::ifstream in(test::source_dir() / "bench" / "workloads" / file);
    const nlohmann::json document = nlohmann::json::parse(in);
    for (const auto& spec : document.at("workloads")) specs.push_back(spec.dump());
  }
  return specs;
}

std::string kind_of(const Candidate& c, const Target& target) {
  return std::string(cuda_kind(generate_cuda(c.module, target).text));
}

// The kinds of the first candidates that random choices give, two of them if there are.
std::set<std::string> kinds_among(const Workload& w, const Target& target) {
  constexpr uint64_t kDraws = 256;
  CandidateMaker maker(w, target, 1);
  std::set<std::string> kinds;
  for (uint64_t seed = 1; seed <= kDraws && kinds.size() < 2; ++seed) {
    const auto c = maker.make(cuda_sketches().front(), Trial::random(seed));
    if (c && c->predicted_seconds > 0) kinds.insert(kind_of(*c, target));
  }
  return kinds;
}

TEST(CudaKind, IsTheHardwareThatChoicesNeed) {
  const Workload w = workload("matmul:m=2048,n=2048,k=2048,dtype=f16,out=f32,trans_b=true");
  const Target target = hopper();
  CandidateMaker maker(w, target, 1);
  const Choices plain = {{"C.B.layout", "none"}};
  const Choices groups = joined_choices(plain, {{"C.mma", "wgmma_f32_f16"}});
  const auto kind = [&](const Choices& choices) {
    const auto c = maker.make(cuda_sketches().front(), trial_with(choices));
    EXPECT_TRUE(c);
    return c ? kind_of(*c, target) : "";
  };
  EXPECT_EQ(kind(joined_choices(groups, {{"C.copies", "roles"}, {"C.cluster", "2x1"}})),
            "clusters");
  EXPECT_EQ(kind(joined_choices(groups, {{"C.copies", "roles"}, {"C.cluster", "1x1"}})), "wgmma");
  EXPECT_EQ(kind(joined_choices(groups, {{"C.copies", "cp_async"}})), "wgmma");
  EXPECT_EQ(kind(joined_choices(plain, {{"C.mma", "m16n8k16_f32_f16"}})), "mma");
  EXPECT_EQ(kind({{"C.mma", "none"}}), "threads");
}

// Each case has another third of the workloads, of all files and forms.
class GpuKinds : public testing::TestWithParam<size_t> {};

TEST_P(GpuKinds, EachWorkloadHasTwo) {
  const Target target = Target::parse("cuda:sm_90a");
  const std::vector<std::string> specs = gpu_workloads();
  ASSERT_EQ(specs.size(), 105U);
  for (size_t i = GetParam(); i < specs.size(); i += 3) {
    EXPECT_EQ(kinds_among(parse_workload(specs[i]), target).size(), 2U) << specs[i];
  }
}

INSTANTIATE_TEST_SUITE_P(Thirds, GpuKinds, testing::Values(0, 1, 2));

}  // namespace
}  // namespace tilewright
