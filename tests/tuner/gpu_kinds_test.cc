// Each GPU workload of bench/workloads has kernels of two kinds or more: where the hardware of one
// faults or crawls on a device, another one may run. A single row of dense operands has the plainest
// kind, loads and multiply-adds; few draws find another.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "ir/ops/spec.h"
#include "tests/golden.h"
#include "tuner/candidate.h"
#include "tuner/features/gpu_features.h"

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

// The kinds of the first candidates that random choices give, two of them if there are.
std::set<GpuKind> kinds_among_few(const Workload& w, const Target& target) {
  constexpr uint64_t kDraws = 60;
  CandidateMaker maker(w, target, 1);
  std::set<GpuKind> kinds;
  for (uint64_t seed = 1; seed <= kDraws && kinds.size() < 2; ++seed) {
    const auto c = maker.make(cuda_sketches().front(), Trial::random(seed));
    if (c && c->predicted_seconds > 0) kinds.insert(gpu_kind(c->features));
  }
  return kinds;
}

// Each case has another third of the workloads, of all files and forms.
class GpuKinds : public testing::TestWithParam<size_t> {};

TEST_P(GpuKinds, EachWorkloadHasTwo) {
  const Target target = Target::parse("cuda:sm_90a");
  const std::vector<std::string> specs = gpu_workloads();
  ASSERT_EQ(specs.size(), 105U);
  for (size_t i = GetParam(); i < specs.size(); i += 3) {
    const nlohmann::json spec = nlohmann::json::parse(specs[i]);
    const std::set<GpuKind> kinds = kinds_among_few(parse_workload(specs[i]), target);
    if (spec.at("m") == 1 && !spec.contains("w")) {
      EXPECT_TRUE(kinds.contains(GpuKind::Fma)) << specs[i];
    } else {
      EXPECT_GE(kinds.size(), 2U) << specs[i];
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Thirds, GpuKinds, testing::Values(0, 1, 2));

}  // namespace
}  // namespace tilewright
