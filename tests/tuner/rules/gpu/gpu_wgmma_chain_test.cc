// Attention in one kernel with wgmma: in the emulator, compared with the oracle.
#include <gmock/gmock.h>

#include <algorithm>
#include <functional>

#include "codegen/cuda/instructions/cuda_instruction.h"
#include "ir/ops/spec.h"
#include "runtime/cuda/cubin.h"
#include "runtime/cuda/nvrtc.h"
#include "schedule/error.h"
#include "tests/tuner/hopper.h"
#include "tuner/gpu/gpu_model.h"

namespace tilewright {
namespace {

using ::testing::HasSubstr;

Choices choices_of_wgmma_chain(const std::string& tile, const std::string& copies, int stages,
                               bool overlaps = false, const Choices& more = {}) {
  Choices choices = {{"S_max.softmax", "online_wgmma"},
                     {"S_max.tile", tile},
                     {"S_max.copies", copies},
                     {"S_max.stages", stages}};
  if (overlaps) choices["S_max.overlap"] = "values";
  return plain_with(joined_choices(choices, more));
}

struct WgmmaChainCase {
  const char* spec;
  const char* tile;
  const char* copies;
  int stages;
  bool overlaps = false;
};

Schedule scheduled_wgmma_chain(const WgmmaChainCase& c) {
  const Workload w = make_workload(parse_spec(c.spec));
  return gpu_schedule(w, hopper(), choices_of_wgmma_chain(c.tile, c.copies, c.stages, c.overlaps));
}

class GpuWgmmaChainRun : public ::testing::TestWithParam<WgmmaChainCase> {};

TEST_P(GpuWgmmaChainRun, IsRightInOneKernel) {
  const Workload w = make_workload(parse_spec(GetParam().spec));
  GpuRun run = run_on_emulator(w, scheduled_wgmma_chain(GetParam()), hopper());
  ASSERT_TRUE(run.emulated.ok()) << run.emulated.fault->to_string() << "\n" << run.source.text;
  EXPECT_EQ(run.checked.verdict, Verdict::Ok) << run.checked.message << "\n" << run.source.text;
  EXPECT_EQ(run.source.launches.size(), 1u);
  EXPECT_GT(run.emulated.counters.wgmma, 0);
  EXPECT_EQ(run.emulated.counters.mma, 0);
}

INSTANTIATE_TEST_SUITE_P(
    Specs, GpuWgmmaChainRun,
    ::testing::Values(
        WgmmaChainCase{"attention:m=64,n=64,d=64,dtype=f16", "64x32/64", "cp_async", 1},
        WgmmaChainCase{"attention:heads=2,kv_heads=1,m=70,n=100,d=32,dtype=bf16", "64x64/64",
                       "cp_async", 2},
        WgmmaChainCase{"attention:m=70,n=100,d=24,dv=48,causal=true,dtype=f16", "64x32/64",
                       "cp_async", 3},
        WgmmaChainCase{"attention:m=128,n=160,d=80,causal=true,dtype=bf16", "128x80/64", "cp_async",
                       2},
        WgmmaChainCase{"attention:m=64,n=192,d=64,dtype=f16", "64x64/64", "tensor", 2},
        WgmmaChainCase{
            "attention:heads=4,kv_heads=2,m=130,n=200,d=128,dv=64,causal=true,dtype=bf16",
            "128x64/64", "roles", 2},
        WgmmaChainCase{"attention:m=192,n=192,d=64,dtype=f16", "192x64/64", "cp_async", 2},
        WgmmaChainCase{"attention:m=128,n=300,d=128,dtype=f16", "128x96/64", "cp_async", 1},
        WgmmaChainCase{"attention:m=192,n=192,d=192,dv=128,causal=true,dtype=f16", "64x64/64",
                       "roles", 2},
        WgmmaChainCase{"attention:m=64,n=64,d=64,dtype=f16", "64x64/64", "roles", 3, true},
        WgmmaChainCase{"attention:m=64,n=160,d=80,dv=48,dtype=bf16", "64x32/64", "roles", 4, true},
        WgmmaChainCase{"attention:heads=2,kv_heads=1,m=200,n=260,d=64,causal=true,dtype=f16",
                       "128x64/64", "roles", 3, true}));

// Each single error in a kernel gives a wrong result or a fault in the emulator.
TEST(GpuWgmmaChainBroken, IsSeen) {
  auto is_seen = [&](const WgmmaChainCase& c, const std::string& from, const std::string& to) {
    const Workload w = make_workload(parse_spec(c.spec));
    GpuRun run =
        run_on_emulator(w, scheduled_wgmma_chain(c), hopper(), {}, 1, [&](std::string& text) {
          ASSERT_THAT(text, HasSubstr(from));
          for (size_t at = text.find(from); at != std::string::npos;
               at = text.find(from, at + to.size())) {
            text.replace(at, from.size(), to);
          }
        });
    return !run.emulated.ok() || run.checked.verdict != Verdict::Ok;
  };
  constexpr const char* kSpec = "attention:m=64,n=100,d=128,dv=16,causal=true,dtype=f16";
  const WgmmaChainCase by_threads{kSpec, "64x32/64", "cp_async", 2},
      by_roles{kSpec, "64x32/64", "roles", 2};
  EXPECT_FALSE(is_seen(by_roles, "distance = 2;", "distance = 2;"));
  EXPECT_TRUE(is_seen(by_roles, "distance = 2;", "distance = 1;"));
  EXPECT_TRUE(is_seen(by_roles, "tw_wgmma_wait<0>();", ""));
  EXPECT_TRUE(is_seen(by_roles, "tw_wgmma_fence();", ""));
  EXPECT_TRUE(is_seen(by_roles, "c * 8192", "c * 4096"));
  // For the rows, which threads store.
  EXPECT_TRUE(is_seen(by_roles, "tw_fence_async();", ""));
  EXPECT_TRUE(is_seen(by_roles, "tw_barrier_sync(1, 128);", ""));
  EXPECT_TRUE(is_seen(by_threads, "tw_fence_async();", ""));
  EXPECT_TRUE(is_seen(by_threads, "tw_cp_async_wait<0>();", ""));
}

// Missing parts of a product that runs beside the softmax of the next keys.
TEST(GpuWgmmaChainBroken, IsSeenBesideTheSoftmax) {
  const WgmmaChainCase c{"attention:m=64,n=160,d=64,dtype=f16", "64x32/64", "roles", 3, true};
  auto is_seen = [&](const std::string& from, const std::string& to) {
    const Workload w = make_workload(parse_spec(c.spec));
    GpuRun run =
        run_on_emulator(w, scheduled_wgmma_chain(c), hopper(), {}, 1, [&](std::string& text) {
          // In the loop, which comes after the first iteration.
          const size_t at = text.find(from, text.find("S_max_ax3_0 = 1"));
          ASSERT_NE(at, std::string::npos) << text;
          text.replace(at, from.size(), to);
        });
    return !run.emulated.ok() || run.checked.verdict != Verdict::Ok;
  };
  EXPECT_FALSE(is_seen("tw_wgmma_wait<1>();", "tw_wgmma_wait<1>();"));
  // First for the scores; then for the product, before its accumulators are scaled and its operand
  // is overwritten.
  EXPECT_TRUE(is_seen("tw_wgmma_wait<1>();", ""));
  EXPECT_TRUE(is_seen("tw_wgmma_wait<0>();", ""));
  EXPECT_TRUE(is_seen("tw_wgmma_fence();", ""));
  // The values of the previous keys come from the stage that was filled for them.
  EXPECT_TRUE(
      is_seen("V_shared + ((((S_max_ax3_0 + 2) % 3)", "V_shared + ((((S_max_ax3_0 + 0) % 3)"));
  EXPECT_TRUE(is_seen("tw_put_word(P_register", "if (0) tw_put_word(P_register"));
}

// A product is software-pipelined only if the surrounding loop shows that it may be.
TEST(GpuWgmmaChain, RefusesToOverlapWhatItCannot) {
  auto refusal =
      [&](const std::function<void(Schedule&, const Loop& step, const Loop& product)>& f) {
        Schedule s = scheduled_wgmma_chain(
            {"attention:m=64,n=256,d=64,dtype=f16", "64x32/64", "roles", 3, true});
        Loop step, product;
        for (const Loop& l : s.loops(s.block("O"))) {
          const Annotations& notes = s.node(l).annotations;
          if (notes.count("copies") != 0) step = l;
          if (notes.count("wgmma_behind") != 0) product = l;
        }
        f(s, step, product);
        try {
          text_of(s);
        } catch (const LoweringError& e) {
          return std::string(e.what());
        }
        return std::string("was not refused");
      };
  EXPECT_EQ(refusal([](Schedule&, const Loop&, const Loop&) {}), "was not refused");
  EXPECT_THAT(refusal([](Schedule& s, const Loop& step, const Loop&) {
                s.annotate(step, "pipeline_stages", int64_t{2});
              }),
              HasSubstr("needs 'copies' of 'roles' and 'pipeline_stages' of 3 or more"));
  EXPECT_THAT(refusal([](Schedule& s, const Loop& step, const Loop&) {
                s.annotate(step, "wgmma_pending", int64_t{1});
              }),
              HasSubstr("wgmma_pending"));
  EXPECT_THAT(refusal([](Schedule& s, const Loop&, const Loop&) {
                for (const Loop& l : s.loops(s.block("S"))) {
                  if (s.node(l).annotations.count(kInstructionKey) != 0) {
                    s.annotate(l, "wgmma_behind", int64_t{1});
                  }
                }
              }),
              HasSubstr("there may be one such product"));
}

// Tiles that see the most keys come first, for all heads, in the kernel and in the model.
TEST(GpuWgmmaChainOrder, HasTheLongestTilesFirst) {
  auto scheduled_in = [&](const std::string& spec, const std::string& tile, int stages,
                          const std::string& order) {
    return gpu_schedule(
        workload(spec), hopper(),
        choices_of_wgmma_chain(tile, "roles", stages, false, {{"S_max.order", order}}));
  };
  const std::string small = "attention:heads=3,m=200,n=260,d=64,causal=true,dtype=f16";
  const Schedule s = scheduled_in(small, "64x64/64", 2, "longest_first");
  GpuRun run = run_on_emulator(workload(small), s, hopper());
  ASSERT_TRUE(run.emulated.ok()) << run.emulated.fault->to_string() << "\n" << run.source.text;
  EXPECT_EQ(run.checked.verdict, Verdict::Ok) << run.checked.message << "\n" << run.source.text;
  EXPECT_THAT(run.source.text, HasSubstr("(bx % 3) * 4 - bx / 3 + 3"));
  const std::string large = "attention:heads=16,m=4096,n=4096,d=128,dtype=f16,causal=true";
  auto estimate = [&](const std::string& order) {
    return estimate_gpu(scheduled_in(large, "128x128/64", 2, order).program(), hopper()).seconds;
  };
  EXPECT_LT(estimate("longest_first"), 0.98 * estimate("rows"));
  // Without a mask all tiles have the same length.
  EXPECT_THROW(scheduled_in("attention:m=64,n=64,d=64,dtype=f16", "64x32/64", 2, "rows"),
               ScheduleError);
}

// The product waits for the softmax of the next keys, not vice versa.
TEST(GpuWgmmaChain, AsksForTheNextScoresFirst) {
  const WgmmaChainCase c{"attention:m=64,n=256,d=64,causal=true,dtype=f16", "64x32/64", "roles", 3,
                         true};
  const std::string all = generate_cuda(scheduled_wgmma_chain(c).module(), hopper()).text;
  const std::string text = all.substr(all.find("S_max_ax3_0 = 1"));
  std::vector<size_t> order;
  for (const char* what :
       {"tw_wgmma_m64n32k16_f32_f16", "tw_wgmma_m64n64k16_f32_f16", "tw_wgmma_wait<1>();",
        "tw_exp2", "P_sum[P_sum_ax2_1", "tw_wgmma_wait<0>();", "tw_wgmma_settle",
        "tw_put_word(P_register", "tw_mbarrier_arrive"}) {
    order.push_back(text.find(what));
    ASSERT_NE(order.back(), std::string::npos) << what << "\n" << all;
  }
  EXPECT_TRUE(std::is_sorted(order.begin(), order.end())) << all;
}

// Weights are summed while the second product runs.
TEST(GpuWgmmaChain, WaitsForTheProductBehindTheSum) {
  const WgmmaChainCase c{"attention:m=64,n=64,d=64,dtype=f16", "64x32/64", "roles", 2};
  const std::string text = generate_cuda(scheduled_wgmma_chain(c).module(), hopper()).text;
  const size_t product = text.find("tw_wgmma_m64n64k16_f32_f16"),
               sum = text.find("P_sum[P_sum_ax2_1 * 8] =", product),
               wait = text.find("tw_wgmma_wait", product);
  ASSERT_NE(sum, std::string::npos) << text;
  EXPECT_LT(sum, wait) << text;
  EXPECT_LT(wait, text.find("tw_mbarrier_arrive", product)) << text;
}

TEST(GpuWgmmaChainSketch, ComesFirstWhereRowsFillAWarpgroup) {
  auto way = [](const std::string& spec, const std::string& target) {
    return choice_of(gpu_trial(workload(spec), Target::parse(target)), "S_max.softmax");
  };
  EXPECT_EQ(way("attention:m=64,n=64,d=64,dtype=f16", "cuda:sm_90a"), "online_wgmma");
  EXPECT_EQ(way("attention:m=63,n=64,d=64,dtype=f16", "cuda:sm_90a"), "online_mma");
  EXPECT_EQ(way("attention:m=64,n=64,d=64,dtype=f16", "cuda:sm_100"), "online_mma");
  EXPECT_NE(way("attention:m=64,n=64,d=64,dtype=f32", "cuda:sm_90a"), "online_wgmma");
  EXPECT_NE(way("attention:m=64,n=64,d=64,dv=24,dtype=f16", "cuda:sm_90a"), "online_wgmma");
}

// With warp specialization, consumers have more registers than the kernel starts with.
TEST(GpuWgmmaChainModel, PrefersItToInstructionsOfWarps) {
  for (const char* causal : {"false", "true"}) {
    const std::string spec =
        std::string("attention:heads=16,m=4096,n=4096,d=128,dtype=f16,causal=") + causal;
    const Workload w = make_workload(parse_spec(spec));
    auto estimate = [&](const Choices& choices) {
      return estimate_gpu(gpu_schedule(w, hopper(), choices).program(), hopper());
    };
    const GpuEstimate by_groups = estimate(choices_of_wgmma_chain("128x128/64", "roles", 2));
    const GpuEstimate by_warps = estimate(plain_with({{"S_max.softmax", "online_mma"},
                                                      {"S_max.tile", "128x64/16"},
                                                      {"S_max.rows", "registers"},
                                                      {"S_max.stages", 2}}));
    ASSERT_TRUE(by_groups.fits() && by_warps.fits()) << by_groups.refusal;
    EXPECT_LT(by_groups.seconds, by_warps.seconds);
    EXPECT_EQ(by_groups.kernels.at(0).blocks_per_sm, 1);
  }
}

// Work that runs beside a warpgroup's own products waits for nothing.
TEST(GpuWgmmaChainModel, KnowsWhatRunsBesideProducts) {
  const Workload w = make_workload(parse_spec("attention:heads=16,m=2048,n=2048,d=128,dtype=f16"));
  auto seconds = [&](const char* tile, int stages, bool overlaps) {
    const Schedule s =
        gpu_schedule(w, hopper(), choices_of_wgmma_chain(tile, "roles", stages, overlaps));
    const GpuEstimate e = estimate_gpu(s.program(), hopper());
    EXPECT_TRUE(e.fits()) << e.refusal;
    return e.seconds;
  };
  EXPECT_LT(seconds("128x128/64", 3, true), 0.985 * seconds("128x128/64", 2, false));
}

// Compilers that object to code between products serialize the products.
TEST(GpuWgmmaChainCompiled, OverlapsWithoutWaiting) {
  if (!cuda::nvrtc_problem().empty()) GTEST_SKIP() << "NVRTC: " << cuda::nvrtc_problem();
  if (!cuda::nvrtc_accepts("sm_90a")) GTEST_SKIP() << "this NVRTC knows no sm_90a";
  for (const WgmmaChainCase& c :
       {WgmmaChainCase{"attention:heads=16,m=2048,n=2048,dtype=f16,d=128", "128x128/64", "roles", 3,
                       true},
        {"attention:heads=16,m=2048,n=2048,dtype=f16,d=128,causal=true", "128x128/64", "roles", 3,
         true},
        {"attention:heads=16,m=2048,n=2048,dtype=bf16,d=64", "192x128/64", "roles", 3, true}}) {
    SCOPED_TRACE(std::string(c.spec) + " " + c.tile);
    CudaSource source = generate_cuda(scheduled_wgmma_chain(c).module(), hopper());
    cuda::CubinFacts facts = cuda::cubin_facts(
        cuda::compile_to_cubin(source.text, "kernel", "sm_90a"), source.launches.at(0).entry);
    // Three groups of products each: the first keys' scores, both products of the loop, and the
    // last values.
    EXPECT_GE(facts.count("HGMMA"), 20);
    EXPECT_LE(facts.count("WARPGROUP"), 8) << source.text;
    EXPECT_EQ(facts.local_accesses(), 0);
    EXPECT_EQ(facts.stack_bytes, 0);
  }
}

TEST(GpuWgmmaChainCompiled, KeepsScoresAndSumsInRegisters) {
  if (!cuda::nvrtc_problem().empty()) GTEST_SKIP() << "NVRTC: " << cuda::nvrtc_problem();
  if (!cuda::nvrtc_accepts("sm_90a")) GTEST_SKIP() << "this NVRTC knows no sm_90a";
  constexpr const char* kNarrow = "attention:heads=16,m=2048,n=2048,causal=true,dtype=bf16,d=64";
  constexpr const char* kWide = "attention:heads=16,m=2048,n=2048,dtype=f16,d=128";
  for (const WgmmaChainCase& c : {WgmmaChainCase{kNarrow, "192x128/64", "roles", 2},
                                  {kNarrow, "128x176/64", "tensor", 2},
                                  {kWide, "128x176/64", "roles", 2},
                                  {kWide, "192x64/64", "cp_async", 2},
                                  {kWide, "64x128/64", "roles", 2}}) {
    SCOPED_TRACE(std::string(c.spec) + " " + c.tile);
    CudaSource source = generate_cuda(scheduled_wgmma_chain(c).module(), hopper());
    cuda::CubinFacts facts = cuda::cubin_facts(
        cuda::compile_to_cubin(source.text, "kernel", "sm_90a"), source.launches.at(0).entry);
    const bool in_boxes = std::string(c.copies) != "cp_async";
    EXPECT_GE(facts.count("HGMMA"), 8) << source.text;
    EXPECT_EQ(facts.count("UTMALDG") > 0, in_boxes) << source.text;
    EXPECT_EQ(facts.count("LDGSTS") > 0, !in_boxes) << source.text;
    EXPECT_EQ(facts.count("HMMA"), 0);
    EXPECT_EQ(facts.local_accesses(), 0) << source.text;
    EXPECT_EQ(facts.stack_bytes, 0);
  }
}

}  // namespace
}  // namespace tilewright
