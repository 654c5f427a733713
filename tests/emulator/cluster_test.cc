// Blocks in clusters: what they tell each other, what one of them copies to all, and the kernels that get
// it wrong.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/cuda/cubin.h"
#include "runtime/cuda/nvrtc.h"
#include "tests/kernels/async_kernels.h"
#include "tests/kernels/cuda_kernels.h"

namespace tilewright {
namespace {

using test::kClusterPipeline;
using test::numbers;
using test::PipelineRun;
using test::replaced;
using test::run_pipeline;
using testing::AnyOf;
using testing::HasSubstr;
using testing::StartsWith;
using LaunchBuffer = EmulatedLaunch::Buffer;

constexpr int64_t kHalf = 32;  // rows of A that a block of a cluster loads

PipelineRun run_cluster(const std::string& text, int64_t m, int64_t n, int64_t k,
                        uint64_t seed = 0) {
  return run_pipeline(text, m, n, k, seed, TensorSwizzle::B128, kHalf);
}

TEST(ClusterPipeline, MultipliesExactlyInEveryOrder) {
  for (uint64_t seed : {0, 1, 2, 3}) {
    auto run = run_cluster(kClusterPipeline, 128, 64, 448, seed);
    ASSERT_TRUE(run.result.ok()) << run.result.fault->to_string();
    EXPECT_EQ(run.c, run.want);
    // Each block loads half of its tile of A.
    EXPECT_EQ(run.result.counters.bulk_bytes, 4 * (7 * (4096 + 4096) + 8192));
  }
}

TEST(ClusterPipeline, TailsBeyondTheOperands) {
  auto run = run_cluster(kClusterPipeline, 100, 104, 200, 1);
  ASSERT_TRUE(run.result.ok()) << run.result.fault->to_string();
  EXPECT_EQ(run.c, run.want);
}

// The kernel with parts of its text replaced, which must be wrong in every order of its threads; the
// first order's report.
std::string broken(const std::vector<std::pair<std::string, std::string>>& changes) {
  std::string text = kClusterPipeline;
  for (const auto& [from, to] : changes) text = replaced(text, from, to);
  for (uint64_t seed : {1, 2}) {
    EXPECT_FALSE(run_cluster(text, 64, 64, 448, seed).result.ok()) << "in order " << seed;
  }
  auto run = run_cluster(text, 64, 64, 448);
  return run.result.fault ? run.result.fault->to_string() : "no fault";
}

const char* const kMeet = "  tw_cluster_arrive();\n  tw_cluster_wait();\n";
const char* const kMeetRelaxed = "  tw_cluster_arrive_relaxed();\n  tw_cluster_wait();\n";

TEST(BrokenClusters, NoBarrierOfTheClusterBehindTheMBarriers) {
  EXPECT_THAT(
      broken({{std::string(kMeetRelaxed) + "  if (warp", "  __syncthreads();\n  if (warp"}}),
      AllOf(StartsWith("bad-barrier"), HasSubstr("full[0]")));
}

TEST(BrokenClusters, NobodyWaitsForTheOthersBarriers) {
  EXPECT_THAT(broken({{std::string(kMeetRelaxed) + "  if (warp",
                       "  tw_cluster_arrive_relaxed();\n  __syncthreads();\n  if (warp"}}),
              StartsWith("bad-barrier"));
}

// A relaxed arrival shows others nothing without the fence before it.
TEST(BrokenClusters, MBarriersAreNotFencedForTheOthers) {
  EXPECT_THAT(broken({{"    tw_mbarrier_fence_init();\n", ""}}), StartsWith("bad-barrier"));
}

TEST(BrokenClusters, ExpectsOwnBytesAlone) {
  EXPECT_THAT(broken({{"full + s, 12288", "full + s, 8192"}}),
              AnyOf(StartsWith("copy-in-flight"), StartsWith("bad-barrier")));
}

TEST(BrokenClusters, CountsOwnReadersAlone) {
  const std::string report =
      broken({{"tw_mbarrier_init(empty + s, 8)", "tw_mbarrier_init(empty + s, 4)"},
              {"if (lane < 2) tw_mbarrier_arrive_cluster(empty + s, lane)",
               "if (lane == 0) tw_mbarrier_arrive(empty + s)"}});
  EXPECT_THAT(report, AnyOf(StartsWith("race"), StartsWith("copy-in-flight")));
  EXPECT_THAT(report, HasSubstr("As["));
}

TEST(BrokenClusters, CountsReadersThatNeverCome) {
  EXPECT_THAT(broken({{"if (lane < 2) tw_mbarrier_arrive_cluster(empty + s, lane)",
                       "if (lane == 0) tw_mbarrier_arrive(empty + s)"}}),
              AllOf(StartsWith("deadlock"), HasSubstr("4 of 8 arrivals"), HasSubstr("of block 1")));
}

TEST(BrokenClusters, EndsBeforeTheOthersAreDone) {
  EXPECT_THAT(broken({{std::string(kMeet) + "}\n", "}\n"}}),
              AllOf(StartsWith("exited-block"), HasSubstr("arrives at empty["),
                    HasSubstr("of the cluster")));
}

TEST(BrokenClusters, ComesToTheLastBarrierAndDoesNotWait) {
  EXPECT_THAT(broken({{std::string(kMeet) + "}\n", "  tw_cluster_arrive();\n}\n"}}),
              StartsWith("exited-block"));
}

TEST(BrokenClusters, MaskOfBlocksThatAreNotThere) {
  EXPECT_THAT(broken({{"full + s, 3)", "full + s, 6)"}}),
              AllOf(StartsWith("bad-copy"), HasSubstr("the mask 0x6; the cluster has 2")));
  EXPECT_THAT(broken({{"full + s, 3)", "full + s, 0)"}}),
              AllOf(StartsWith("bad-copy"), HasSubstr("to no block")));
}

TEST(BrokenClusters, ArrivesInABlockThatIsNotThere) {
  EXPECT_THAT(
      broken({{"lane < 2", "lane < 3"}}),
      AllOf(StartsWith("bad-barrier"), HasSubstr("in block 2 of the cluster, which has 2")));
}

TEST(BrokenClusters, GridIsNotMadeOfWholeClusters) {
  auto run = run_cluster(kClusterPipeline, 64, 96, 64);
  ASSERT_FALSE(run.result.ok());
  EXPECT_THAT(run.result.fault->to_string(), HasSubstr("a grid of (3, 1, 1), which is not made of "
                                                       "whole clusters of 2"));
}

TEST(BrokenClusters, ShapesThatAreNotEmulated) {
  auto run = run_cluster(replaced(kClusterPipeline, "(2, 1, 1)", "(1, 2, 1)"), 128, 64, 64);
  ASSERT_FALSE(run.result.ok());
  EXPECT_THAT(run.result.fault->to_string(), HasSubstr("has clusters of (1, 2, 1) blocks"));
}

// Two blocks of 64 threads, of which the first leaves something in memory for the second.
EmulatorResult hand_over(const std::string& between, uint64_t seed) {
  std::vector<float> c(128), d(128);
  const std::string text =
      "extern \"C\" __global__ void __cluster_dims__(2, 1, 1) kernel(TW_INOUT(float) C,\n"
      "                                                              TW_OUT(float) D) {\n"
      "  const int t = threadIdx.x, rank = (int)tw_cluster_rank();\n"
      "  if (rank == 0) C[t] = (float)t;\n" +
      between + "  D[rank * 64 + t] = rank == 1 ? C[63 - t] : 0.0f;\n}\n";
  EmulatedLaunch launch{"kernel", {2, 1, 1}, {64, 1, 1}, 0, {LaunchBuffer{0}, LaunchBuffer{1}}};
  EmulatorOptions options;
  options.seed = seed;
  EmulatorResult result =
      emulate(text, {launch}, {{"C", c.data(), 512, false}, {"D", d.data(), 512, false}}, options);
  if (result.ok()) {
    for (size_t t = 0; t < 64; ++t) EXPECT_EQ(d[64 + t], static_cast<float>(63 - t));
  }
  return result;
}

TEST(ClusterBarrier, OrdersWhatBlocksDo) {
  for (uint64_t seed : {0, 1, 2, 3}) {
    EmulatorResult right = hand_over(kMeet, seed);
    EXPECT_TRUE(right.ok()) << right.fault->to_string();
    // One thread of each block comes for all: the block's barriers pass it on.
    EmulatorResult one =
        hand_over(std::string("  __syncthreads();\n") + kMeet + "  __syncthreads();\n", seed);
    EXPECT_TRUE(one.ok()) << one.fault->to_string();
    EmulatorResult wrong = hand_over("  __syncthreads();\n", seed);
    ASSERT_FALSE(wrong.ok());
    EXPECT_THAT(wrong.fault->to_string(), AnyOf(StartsWith("race"), StartsWith("uninitialized")));
  }
}

TEST(ClusterBarrier, ShowsNoStoresIfItIsRelaxed) {
  for (uint64_t seed : {0, 1, 2, 3}) {
    EmulatorResult result = hand_over(kMeetRelaxed, seed);
    ASSERT_FALSE(result.ok());
    EXPECT_THAT(result.fault->to_string(), StartsWith("race"));
  }
}

TEST(ClusterBarrier, IsComeToOnceAPhase) {
  for (const char* twice :
       {"tw_cluster_arrive(); tw_cluster_arrive(); tw_cluster_wait();", "tw_cluster_wait();"}) {
    EmulatorResult result = hand_over(twice, 0);
    ASSERT_FALSE(result.ok());
    EXPECT_THAT(result.fault->to_string(),
                AllOf(StartsWith("bad-barrier"), HasSubstr("the barrier of the cluster")));
  }
}

TEST(ClusterPipeline, CompilesToMulticastAndBarriersOfClusters) {
  if (!cuda::nvrtc_problem().empty()) GTEST_SKIP() << "NVRTC: " << cuda::nvrtc_problem();
  if (!cuda::nvrtc_accepts("sm_90a")) GTEST_SKIP() << "this NVRTC knows no sm_90a";
  const cuda::CubinFacts facts =
      cuda::cubin_facts(cuda::compile_to_cubin(kClusterPipeline, "kernel", "sm_90a"), "pipeline");
  EXPECT_GT(facts.count("UTMALDG.MULTICAST"), 0);
  EXPECT_GT(facts.count("UTMALDG"), 0) << "of the operand that each block has by itself";
  EXPECT_GT(facts.count("UCGABAR"), 0);
  EXPECT_EQ(facts.local_accesses(), 0);
}

}  // namespace
}  // namespace tilewright
