// Products with thread-block clusters, whose blocks each copy a part of shared data (TMA
// multicast): from the sketch to the machine code.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "codegen/cuda/cuda_cluster.h"
#include "codegen/cuda/cuda_tensor_copy.h"
#include "codegen/cuda_lowering.h"
#include "ir/ops/spec.h"
#include "runtime/cuda/cubin.h"
#include "runtime/cuda/nvrtc.h"
#include "tests/tuner/edited_kernel.h"
#include "tests/tuner/gpu_check.h"
#include "tests/tuner/hopper.h"
#include "tuner/gpu/gpu_model.h"
#include "tuner/measure/emulated_check.h"

namespace tilewright {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

// A product with wgmma, this tile and these choices; otherwise plain tiles in clusters of two rows.
Choices choices_of_cluster(const Workload& w, const std::string& tile, const Choices& more) {
  const Choices clusters = {
      {".B.layout?", "none"}, {".gemv?", "none"}, {".copies", "roles"}, {".cluster?", "2x1"}};
  return joined_choices(joined_choices(plain_wgmma(w, tile), clusters), more);
}

Schedule scheduled_cluster(const Workload& w, const Target& target, const std::string& tile,
                           const Choices& more) {
  return gpu_schedule(w, target, choices_of_cluster(w, tile, more));
}

// Two row tiles multicast the columns' operand, and two column tiles the rows'.
TEST(Clusters, TheOperandThatTheyShareIsCopiedInParts) {
  const Workload w = workload("matmul:m=256,n=256,k=200,dtype=f16");
  for (const auto& [shape, shared, own] :
       {std::tuple{"2x1", "B", "A"}, std::tuple{"1x2", "A", "B"}}) {
    SCOPED_TRACE(shape);
    Schedule s = scheduled_cluster(w, hopper(), "128x128x64/64x128", {{".cluster", shape}});
    const CudaSource source = generate_cuda(s.module(), hopper());
    EXPECT_THAT(source.text, HasSubstr("__cluster_dims__(2, 1, 1)"));
    EXPECT_THAT(source.text, HasSubstr(fmt::format("tw_tensor_multicast_2d({}_", shared)));
    EXPECT_THAT(source.text, HasSubstr(fmt::format("tw_tensor_load_2d({}_", own)));
    EXPECT_EQ(count_of(source.text, "tw_tensor_multicast_2d("), 1) << source.text;
    for (const TensorMap& map : source.launches[0].tensor_maps) {
      const std::string name = source.params[static_cast<size_t>(map.buffer)].name;
      const std::vector<int64_t> whole = {64, name == "A" ? 128 : 64}, half = {64, whole[1] / 2};
      EXPECT_EQ(map.box, name == shared ? half : whole) << name;
    }
    expect_right_on_gpu(w, s, hopper());
  }
}

TEST(Clusters, TypesTilesTailsAndGrids) {
  struct Case {
    const char* spec;
    const char* tile;
    const char* cluster;
    Choices choices;
    std::vector<const char*> texts;  // what these choices make the kernel have
  };
  for (const Case& c :
       std::vector<Case>{// 3 tile rows: the last cluster has a tile beyond the result.
                         {"matmul:m=192,n=72,k=136,dtype=f16",
                          "64x64x64/64x64",
                          "2x1",
                          {{".stores", "shared"}},
                          {"tw_wgmma_m64n64k16_f32_f16<", "tw_f16, C_shared, "}},
                         {"matmul:m=130,n=192,k=72,dtype=bf16,trans_b=true,epilogue=[bias,relu]",
                          "64x64x64/64x64",
                          "1x2",
                          {{".pending", 0}, {".stores", "tensor"}},
                          {"tw_wgmma_m64n64k16_f32_bf16<", "tw_tensor_store_2d("}},
                         {"matmul:m=128,n=136,k=136,dtype=f16,trans_a=true",
                          "64x32x64/64x32",
                          "2x1",
                          {{".grid", "persistent"}},
                          {"tw_wgmma_m64n32k16_f32_f16<"}},
                         {"matmul:m=70,n=128,k=136,dtype=f16,batch=3",
                          "64x64x64/64x64",
                          "1x2",
                          {{".grid", "persistent"}, {".stores", "tensor"}},
                          {"tw_tensor_store_"}},
                         {"matmul:m=100,n=64,k=272,dtype=f8e4m3,trans_b=true",
                          "64x64x128/64x64",
                          "2x1",
                          {{".promote", 128}},
                          {"tw_wgmma_m64n64k32_f32_e4m3", "_partial["}},
                         {"matmul:m=512,n=128,k=72,dtype=f16",
                          "64x64x64/64x64",
                          "2x1",
                          {{".group", 4}, {".grid", "persistent"}, {".stores", "tensor"}},
                          {"tw_tensor_store_2d("}},
                         {"matmul:m=256,n=128,k=136,dtype=f16",
                          "128x64x64/64x64",
                          "2x1",
                          {{".stores", "stmatrix"}},
                          {"tw_stmatrix_x4("}}}) {
    SCOPED_TRACE(std::string(c.spec) + " in clusters of " + c.cluster);
    const Workload w = workload(c.spec);
    const Schedule s = scheduled_cluster(w, hopper(3), c.tile,
                                         joined_choices(c.choices, {{".cluster", c.cluster}}));
    const std::string text = text_of(s, hopper(3));
    EXPECT_THAT(text, HasSubstr("__cluster_dims__(2, 1, 1)"));
    EXPECT_THAT(text, ContainsRegex(c.cluster[0] == '2' ? "tw_tensor_multicast_[23]d\\(B_"
                                                        : "tw_tensor_multicast_[23]d\\(A_"));
    for (const char* part : c.texts) EXPECT_THAT(text, HasSubstr(part));
    const bool waits_for_all = c.choices.contains(".pending") || c.choices.contains(".promote");
    EXPECT_EQ(text.find("tw_wgmma_wait<1>") == std::string::npos, waits_for_all) << text;
    EXPECT_EQ(text.find("_turn") != std::string::npos, c.choices.contains(".grid"));
    expect_right_on_gpu(w, s, hopper(3));
  }
}

TEST(Clusters, RowsMayBeDynamic) {
  const Workload w = workload("matmul:m=1..300,n=64,k=136,dtype=f16");
  for (const char* grid : {"tiles", "persistent"}) {
    Schedule s = scheduled_cluster(w, hopper(2), "64x64x64/64x64", {{".grid", grid}});
    const CudaSource source = generate_cuda(s.module(), hopper(2));
    EXPECT_EQ(size_at(source.launches[0].grid[0], source, {130}), grid[0] == 't' ? 4 : 2);
    for (int64_t m : {1, 65, 300}) expect_right_on_gpu(w, s, hopper(2), {{"m", m}});
  }
}

// The emulator's verdicts on kernels with a missing part.
TEST(Clusters, EveryPartIsNeeded) {
  const Workload w = workload("matmul:m=256,n=64,k=520,dtype=f16");
  Schedule s = scheduled_cluster(w, hopper(2), "64x64x64/64x64", {{".grid", "persistent"}});
  // Replaces one part of the text, everywhere or at its first occurrence.
  auto replaced = [&](const std::string& from, const std::string& to, bool all) {
    return outcome_of_edited(w, s, hopper(2), from, to, all ? Places::All : Places::First);
  };
  EXPECT_EQ(
      replaced("tw_cluster_arrive_relaxed();\n  tw_cluster_wait();", "__syncthreads();", false),
      "bad-barrier");
  EXPECT_EQ(replaced("    tw_cluster_arrive();\n    tw_cluster_wait();", "", true), "exited-block");
  EXPECT_EQ(replaced("0x3);", "0x1);", true), "deadlock");
  EXPECT_EQ(replaced(" + 3), tx % 32);", " + 3), 1);", true), "race")
      << "with the readers of the first block, for whom nobody waits";
}

TEST(Clusters, AreOfferedWhereTwoTilesStandSideBySide) {
  auto shapes = [&](const std::string& spec, const Choices& more) {
    const Workload w = workload(spec);
    const Choices choices =
        choices_of_cluster(w, "64x64x64/64x64", joined_choices({{".cluster?", "1x1"}}, more));
    return options_of(gpu_trial(w, hopper(3), choices), ".cluster");
  };
  using Shapes = std::vector<std::string>;
  EXPECT_EQ(shapes("matmul:m=256,n=256,k=128,dtype=f16", {}), (Shapes{"1x1", "2x1", "1x2"}));
  EXPECT_EQ(shapes("matmul:m=256,n=64,k=128,dtype=f16", {}), (Shapes{"1x1", "2x1"}));
  EXPECT_EQ(shapes("matmul:m=64,n=64,k=128,dtype=f16", {}), (Shapes{"1x1"}));
  EXPECT_EQ(shapes("matmul:m=256,n=256,k=128,dtype=f16", {{".copies", "tensor"}}), Shapes{});
}

TEST(Clusters, WhatNoneDescribesIsRefused) {
  const Workload w = workload("matmul:m=256,n=256,k=128,dtype=f16");
  auto refusal = [&](const Choices& more, int64_t blocks) {
    Schedule s = scheduled_cluster(w, hopper(3), "64x64x64/64x64",
                                   joined_choices({{".cluster?", "1x1"}}, more));
    const Block block = s.blocks().front();
    s.annotate(s.loops(block).front(), kClusterKey, blocks);
    return lowering_refusal(s, hopper(3));
  };
  EXPECT_EQ(refusal({}, 1), "was not refused");
  EXPECT_THAT(refusal({}, 9), HasSubstr("must be a number from 1 to 8"));
  EXPECT_THAT(refusal({}, 3), HasSubstr("its extent must be a multiple of that"));
  EXPECT_THAT(refusal({{".copies", "tensor"}}, 2),
              HasSubstr("needs 'copies' of 'roles' or 'ping_pong'"));
  EXPECT_THAT(refusal({{".copies", "cp_async"}}, 2), HasSubstr("they need a pipelined loop"));
  EXPECT_THAT(refusal({{".grid", "persistent"}}, 2), HasSubstr("is not made of whole clusters"));
  EXPECT_THAT(refusal({{".grid", "stream_k"}}, 2), HasSubstr("clusters"));
}

// Both blocks request shared data from L2 once; each of them writes all of it to its shared memory.
TEST(Clusters, TheModelCountsWhatIsSharedOnce) {
  const Workload w = workload("matmul:m=4096,n=4096,k=4096,dtype=f16");
  auto estimate = [&](const char* cluster) {
    GpuEstimate e = estimate_gpu(
        scheduled_cluster(w, hopper(), "128x256x64/64x256", {{".cluster", cluster}}).program(),
        hopper());
    EXPECT_TRUE(e.fits()) << e.refusal;
    return e.kernels.at(0);
  };
  const GpuKernelEstimate alone = estimate("1x1"), rows = estimate("2x1"),
                          columns = estimate("1x2");
  // A tile has 128 rows of A and 256 columns of B, and writes its results.
  const double results = 4096.0 * 4096 * 2, a = alone.l2_bytes - results;
  EXPECT_NEAR(rows.l2_bytes - results, a * (128 + 128) / 384, a / 100);
  EXPECT_NEAR(columns.l2_bytes - results, a * (64 + 256) / 384, a / 100);
  EXPECT_NEAR(rows.shared_passes, alone.shared_passes, alone.shared_passes / 100);
  EXPECT_LE(rows.dram_bytes, alone.dram_bytes * 1.05);
}

TEST(Clusters, AreCheckedOnSmallInstances) {
  const Workload w = workload("matmul:m=4096,n=4096,k=4096,dtype=f16");
  for (const auto& [tile, cluster, group] :
       {std::tuple{"128x128x64/64x128", "2x1", 1}, std::tuple{"128x256x64/64x256", "1x2", 8}}) {
    SCOPED_TRACE(fmt::format("{} in clusters of {}", tile, cluster));
    const Trial trial = gpu_trial(
        w, hopper(),
        choices_of_cluster(w, tile,
                           {{".grid", "persistent"}, {".cluster", cluster}, {".group", group}}));
    const EmulatedCheck check =
        check_emulated(w, hopper(), cuda_sketches().front(), trial.config());
    EXPECT_FALSE(check.instance.empty());
    EXPECT_EQ(check.run.problem, "");
  }
}

// Along a curve through tiles and through clusters of tiles, with remainders beside its squares.
TEST(TileOrders, AHilbertCurveThroughTheTiles) {
  struct Case {
    const char *spec, *cluster, *grid, *stores;
    std::vector<const char*> texts;
  };
  for (const Case& c :
       std::vector<Case>{{"matmul:m=320,n=200,k=72,dtype=f16",
                          "1x1",
                          "tiles",
                          "direct",
                          {"const int in_band = (bx - "}},
                         {"matmul:m=320,n=256,k=72,dtype=f16",
                          "2x1",
                          "persistent",
                          "tensor",
                          {"tw_tensor_multicast_2d(B_", "_turn", "tw_tensor_store_2d("}},
                         {"matmul:m=192,n=256,k=72,dtype=f16,batch=2",
                          "1x2",
                          "persistent",
                          "shared",
                          {"d(A_", "_turn", "tw_f16, C_shared, "}}}) {
    SCOPED_TRACE(fmt::format("{} in clusters of {}", c.spec, c.cluster));
    const Workload w = workload(c.spec);
    Schedule s = scheduled_cluster(
        w, hopper(3), "64x64x64/64x64",
        {{".order", "hilbert"}, {".cluster", c.cluster}, {".grid", c.grid}, {".stores", c.stores}});
    const std::string text = text_of(s, hopper(3));
    EXPECT_THAT(text, HasSubstr("tile_index"));
    for (const char* part : c.texts) EXPECT_THAT(text, HasSubstr(part));
    const bool shares = std::string(c.cluster) != "1x1";
    EXPECT_EQ(text.find("tw_tensor_multicast_") != std::string::npos, shares);
    EXPECT_EQ(text.find("__cluster_dims__(2, 1, 1)") != std::string::npos, shares);
    expect_right_on_gpu(w, s, hopper(3));
  }
}

TEST(TileOrders, TheModelSeesWhatBlocksOfAWaveShare) {
  auto estimate = [&](const char* spec, const char* order, const char* cluster) {
    GpuEstimate e = estimate_gpu(scheduled_cluster(workload(spec), hopper(), "128x256x64/64x256",
                                                   {{".order", order}, {".cluster", cluster}})
                                     .program(),
                                 hopper());
    EXPECT_TRUE(e.fits()) << e.refusal;
    return e.kernels.at(0);
  };
  const char* const large = "matmul:m=8192,n=8192,k=8192,dtype=f16";
  for (const char* cluster : {"1x1", "2x1"}) {
    SCOPED_TRACE(cluster);
    EXPECT_LT(estimate(large, "hilbert", cluster).dram_bytes,
              0.8 * estimate(large, "rows", cluster).dram_bytes);
  }
  // If all blocks run at once, nothing pays for computing tile positions.
  const char* const small = "matmul:m=512,n=512,k=128,dtype=f16";
  const GpuKernelEstimate rows = estimate(small, "rows", "1x1");
  const GpuKernelEstimate curve = estimate(small, "hilbert", "1x1");
  EXPECT_EQ(curve.dram_bytes, rows.dram_bytes);
  EXPECT_GT(curve.of(GpuLimit::Issue), rows.of(GpuLimit::Issue));
}

TEST(Clusters, CompileToMulticastWithSumsInRegisters) {
  if (!cuda::nvrtc_problem().empty()) GTEST_SKIP() << "NVRTC: " << cuda::nvrtc_problem();
  if (!cuda::nvrtc_accepts("sm_90a")) GTEST_SKIP() << "this NVRTC knows no sm_90a";
  for (const auto& [tile, cluster, stores, order] :
       {std::tuple{"128x256x64/64x256", "2x1", "tensor", "rows"},
        std::tuple{"128x256x64/64x256", "2x1", "tensor", "hilbert"},
        std::tuple{"256x128x64/128x128", "1x2", "direct", "rows"}}) {
    SCOPED_TRACE(fmt::format("{} in clusters of {} by {}", tile, cluster, order));
    const Workload w = workload("matmul:m=4096,n=4096,k=512,dtype=f16");
    Schedule s = scheduled_cluster(
        w, hopper(), tile,
        {{".cluster", cluster}, {".grid", "persistent"}, {".stores", stores}, {".order", order}});
    const CudaSource source = generate_cuda(s.module(), hopper());
    const cuda::CubinFacts facts = cuda::cubin_facts(
        cuda::compile_to_cubin(source.text, "kernel", "sm_90a"), source.launches.at(0).entry);
    EXPECT_GE(facts.count("HGMMA"), 4) << source.text;
    EXPECT_GT(facts.count("UTMALDG.MULTICAST"), 0);
    EXPECT_GT(facts.count("UTMALDG"), 0);
    EXPECT_GT(facts.count("UCGABAR"), 0);
    EXPECT_EQ(facts.local_accesses(), 0) << source.text;
  }
}

}  // namespace
}  // namespace tilewright
