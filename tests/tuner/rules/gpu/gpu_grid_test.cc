// Products with persistent grids, and with stream-K, where blocks share the reduction.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "codegen/cuda_lowering.h"
#include "ir/ops/spec.h"
#include "runtime/cuda/cubin.h"
#include "runtime/cuda/nvrtc.h"
#include "tests/tuner/edited_kernel.h"
#include "tests/tuner/gpu_check.h"
#include "tuner/gpu/gpu_model.h"
#include "tuner/measure/emulated_check.h"

namespace tilewright {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A chip with so few SMs that small products fill it more than once.
Target small_chip(const std::string& name, int sms) {
  Target target = Target::parse(name);
  target.gpu.sms = sms;
  return target;
}

struct GridCase {
  const char *spec, *target, *block, *tile;
  int sms;  // so few that blocks get several tiles, not all the same number
};

const std::vector<GridCase>& cases_grid() {
  static const std::vector<GridCase> list = {
      {"matmul:m=100,n=136,k=160,dtype=f16,trans_b=true,epilogue=[bias,relu]", "cuda:sm_80",
       "C_acc", "32x64x32/32x16", 5},
      {"matmul:m=96,n=70,k=160,dtype=bf16,trans_a=true", "cuda:sm_90a", "C_acc", "32x32x32/32x16",
       5},
      {"matmul:m=40,n=72,k=128,dtype=i8,batch=3", "cuda:sm_80", "C", "32x64x64/32x16", 5},
      {"matmul:m=64,n=136,k=96,dtype=f16,acc=f16", "cuda:sm_86", "C", "32x64x32/32x16", 5},
      {"matmul:m=1..100,n=136,k=96,dtype=f16,trans_b=true", "cuda:sm_80", "C_acc", "32x64x32/32x16",
       5},
      {"matmul:m=100,n=70,k=80", "cuda:sm_80", "C", "32x32x32/4x4", 5},
      {"conv2d:n=2,h=9,w=9,ci=16,co=24,kernel=3,pad=1,dtype=f16", "cuda:sm_80", "Y_acc",
       "32x64x32/32x16", 5},
      {"matmul:m=64,n=128,k=64,dtype=f16", "cuda:sm_75", "C_acc", "32x64x16/32x16", 3},
      {"matmul:m=40,n=200,k=256,dtype=f16,w.dtype=u4,w.group=64,w.scale=f16,w.zero=u4",
       "cuda:sm_80", "C_acc", "32x64/16", 3},
      {"matmul:m=1..100,n=200,k=256,dtype=i8,w.dtype=i2", "cuda:sm_80", "C", "32x64/16", 3},
      {"matmul:m=9,n=200,k=192,dtype=i8,w.dtype=i4,trans_b=true", "cuda:sm_90a", "C", "16x64/16",
       3},
      {"matmul:m=20,n=200,k=320,dtype=i4", "cuda:sm_80", "C", "32x64/16", 3},
      {"matmul:m=9,n=200,k=256,dtype=f16,w.sparse=2:4", "cuda:sm_80", "C_acc", "16x64/16", 3},
  };
  return list;
}

Choices choices_of(const GridCase& c, const std::string& grid, const Choices& more = {}) {
  const std::string block = c.block;
  Choices choices = {{block + ".tile", c.tile}, {block + ".grid", grid}};
  if (grid != "tiles") choices[block + ".blocks"] = 1;
  return joined_choices(choices, more);
}

TEST(GpuGrid, EveryKindOfProductIsRightInFewBlocks) {
  for (const GridCase& c : cases_grid()) {
    Workload w = make_workload(parse_spec(c.spec));
    for (const char* grid : {"persistent", "stream_k"}) {
      SCOPED_TRACE(fmt::format("{} in a grid '{}'", c.spec, grid));
      Target target = small_chip(c.target, c.sms);
      const Schedule s = gpu_schedule(w, target, choices_of(c, grid));
      const CudaSource source = generate_cuda(s.module(), target);
      const bool is_shared = grid == std::string("stream_k");
      EXPECT_EQ(source.launches.size(), is_shared ? 2u : 1u);
      EXPECT_EQ(source.text.find("_turn") != std::string::npos, !is_shared) << source.text;
      if (w.dims.empty()) {
        expect_right_on_gpu(w, s, target);
        continue;
      }
      for (int64_t m : {int64_t{1}, int64_t{33}, w.dims[0].max}) {
        expect_right_on_gpu(w, s, target, {{"m", m}});
      }
    }
  }
}

// Column scales apply to accumulators that are not the result's, so blocks take whole tiles.
TEST(GpuGrid, ScalesOfWholeColumnsLeaveTilesWhole) {
  Target target = small_chip("cuda:sm_80", 3);
  Workload w = make_workload(parse_spec("matmul:m=9,n=200,k=256,dtype=f16,w.dtype=i4"));
  const Choices choices = {
      {"C_acc.tile", "16x64/16"}, {"C_acc.grid", "persistent"}, {"C_acc.blocks", 1}};
  EXPECT_THAT(options_of(gpu_trial(w, target, choices), ".grid"),
              ElementsAre("tiles", "persistent"));
  const Schedule s = gpu_schedule(w, target, choices);
  expect_right_on_gpu(w, s, target);
}

// 12 tiles of 5 steps for 16 blocks: each block has less than a tile, from one or two tiles.
TEST(GpuGrid, MoreBlocksThanTilesShareAllOfThem) {
  Target target = small_chip("cuda:sm_80", 16);
  Workload w = make_workload(parse_spec(cases_grid()[0].spec));
  Schedule s = gpu_schedule(w, target, choices_of(cases_grid()[0], "stream_k"));
  CudaSource source = generate_cuda(s.module(), target);
  ASSERT_EQ(source.launches.size(), 2u);
  EXPECT_EQ(as_int(source.launches[0].grid[0]), 16);
  EXPECT_EQ(as_int(source.launches[1].grid[0]), 12);
  expect_right_on_gpu(w, s, target);
}

// Through shared memory, in groups of tile rows, at every pipeline depth.
TEST(GpuGrid, GoesWithAllElseThatATileIsAsked) {
  Target target = small_chip("cuda:sm_80", 3);
  Workload w = make_workload(parse_spec("matmul:m=256,n=128,k=96,dtype=f16,trans_b=true"));
  for (const char* grid : {"persistent", "stream_k"}) {
    for (int stages : {1, 2, 4}) {
      const bool is_shared = grid == std::string("stream_k"), is_padded = stages % 2 != 0,
                 stores_direct = stages == 1;
      const Choices choices = choices_of(cases_grid()[0], grid,
                                         {{"C_acc.tile", "64x64x32/32x32"},
                                          {"C_acc.stages", stages},
                                          {"C_acc.rows", is_padded ? "padded" : "swizzled"},
                                          {"C_acc.stores", stores_direct ? "direct" : "shared"},
                                          {"C_acc.group", 4}});
      SCOPED_TRACE(choices.dump());
      Schedule s = gpu_schedule(w, target, choices);
      const CudaSource source = generate_cuda(s.module(), target);
      EXPECT_EQ(source.launches.size(), is_shared ? 2u : 1u);
      EXPECT_EQ(source.text.find("tw_swizzle<") == std::string::npos, is_padded);
      expect_right_on_gpu(w, s, target);
    }
  }
}

// Blocks that share tiles communicate through two kernels only: each error shows.
TEST(GpuGrid, AWrongShareIsSeen) {
  const GridCase& c = cases_grid()[0];
  Target target = small_chip(c.target, c.sms);
  Workload w = make_workload(parse_spec(c.spec));
  auto outcome = [&](const std::string& grid, const std::string& from, const std::string& to) {
    return outcome_of_edited(w, gpu_schedule(w, target, choices_of(c, grid)), target, from, to);
  };
  EXPECT_EQ(outcome("stream_k", "from", "from"), "ok");
  EXPECT_NE(outcome("stream_k", "from < (last + 1)", "from < last"), "ok");
  EXPECT_NE(outcome("stream_k", "(first < from) ? 0 : 1", "(first < from) ? 1 : 0"), "ok");
  EXPECT_NE(outcome("persistent", "_turn * 5", "_turn * 4"), "ok");
}

// The next tile's copies overwrite data that warps may still read.
TEST(GpuGrid, TilesAreKeptApartByABarrier) {
  Target target = small_chip("cuda:sm_80", 2);
  Workload w = make_workload(parse_spec("matmul:m=128,n=128,k=64,dtype=f16,trans_b=true"));
  Schedule s =
      gpu_schedule(w, target, choices_of(cases_grid()[0], "persistent", {{"C_acc.stages", 3}}));
  GpuRun right = run_on_emulator(w, s, target);
  ASSERT_TRUE(right.emulated.ok()) << right.emulated.fault->to_string();
  GpuRun without = run_on_emulator(w, s, target, {}, 1, [](std::string& text) {
    size_t fill = text.find("_ahead = 0"), barrier = text.rfind("__syncthreads();", fill);
    ASSERT_NE(barrier, std::string::npos) << text;
    text.erase(barrier, std::string("__syncthreads();").size());
  });
  ASSERT_FALSE(without.emulated.ok()) << without.source.text;
  EXPECT_TRUE(without.emulated.fault->kind == FaultKind::Race ||
              without.emulated.fault->kind == FaultKind::CopyInFlight)
      << without.emulated.fault->to_string();
}

std::vector<std::string> grids_offered(const std::string& spec, const Target& target) {
  const Choices choices = {{"C_acc.tile", "128x128x32/64x32"}, {"C_acc.stages", 3}};
  return options_of(gpu_trial(make_workload(parse_spec(spec)), target, choices), "C_acc.grid");
}

TEST(GpuGrid, IsAskedWhereItMatters) {
  using ::testing::IsEmpty;
  Target target = Target::parse("cuda:sm_80");  // 108 SMs
  EXPECT_THAT(grids_offered("matmul:m=4096,n=4096,k=4096,dtype=f16", target),
              ElementsAre("tiles", "persistent", "stream_k"));
  EXPECT_THAT(grids_offered("matmul:m=1024,n=1024,k=4096,dtype=f16", target),
              ElementsAre("tiles", "stream_k"))
      << "64 tiles leave 44 multiprocessors without work";
  EXPECT_THAT(grids_offered("matmul:m=128,n=13824,k=4096,dtype=f16", target), IsEmpty())
      << "108 tiles: one each";
  EXPECT_THAT(grids_offered("matmul:m=27648,n=27648,k=4096,dtype=f16", target),
              ElementsAre("tiles", "persistent"))
      << "the last of so many waves is whole";
}

// Warpgroups that reallocate registers take all of an SM's registers. A config from before
// registers counted keeps its grid.
TEST(GpuGrid, BlocksOfAMultiprocessorHaveTheirRegisters) {
  const Workload w = make_workload(parse_spec("matmul:m=4096,n=4096,k=4096,dtype=f16"));
  const Target target = Target::parse("cuda:sm_90a");
  auto trial_of = [&](const char* tile) {
    return gpu_trial(w, target,
                     {{"C_acc.mma", "wgmma_f32_f16"},
                      {"C_acc.tile", tile},
                      {"C_acc.copies", "roles"},
                      {"C_acc.stages", 2},
                      {"C_acc.stores", "direct"},
                      {"C_acc.cluster", "1x1"},
                      {"C_acc.order", "rows"},
                      {"C_acc.group", 1},
                      {"C_acc.grid", "persistent"}});
  };
  EXPECT_THAT(options_of(trial_of("128x128x64/64x128"), "C_acc.blocks"), ElementsAre("1"));
  EXPECT_THAT(options_of(trial_of("64x64x64/64x64"), "C_acc.blocks"), Contains("2"))
      << "of one warpgroup";

  nlohmann::json more = nlohmann::json::parse(trial_of("128x128x64/64x128").config());
  more["C_acc.blocks"] = 2;
  EXPECT_THROW(gpu_schedule(w, target, Trial::replay(more.dump())), ScheduleError);
}

// The config of a large workload, on an instance with fewer tiles than the chip has SMs.
TEST(GpuGrid, IsCheckedOnASmallInstanceWithSeveralTilesABlock) {
  Workload w = parse_workload("matmul:m=4096,n=4096,k=4096,dtype=f16");
  Target target = Target::parse("cuda:sm_80");
  auto check = [&](const char* grid) {
    const Choices choices = {
        {"C_acc.tile", "64x64x32/32x32"}, {"C_acc.stages", 3}, {"C_acc.grid", grid}};
    return check_emulated(w, target, cuda_sketches().front(),
                          gpu_trial(w, target, choices).config());
  };
  EmulatedCheck tiles = check("tiles"), persistent = check("persistent"),
                shared = check("stream_k");
  EXPECT_TRUE(tiles.passed()) << tiles.run.problem;
  EXPECT_TRUE(persistent.passed()) << persistent.run.problem;
  EXPECT_TRUE(shared.passed()) << shared.run.problem;
  EXPECT_EQ(persistent.run.counters.mma, tiles.run.counters.mma);
  EXPECT_GT(persistent.run.counters.block_barriers, tiles.run.counters.block_barriers)
      << "tiles of one block wait for each other";
  EXPECT_GT(shared.run.counters.store_bytes, tiles.run.counters.store_bytes) << "partial sums";
}

GpuEstimate estimated(const std::string& spec, const char* grid, int blocks) {
  Workload w = parse_workload(spec);
  Target target = Target::parse("cuda:sm_80");
  Choices choices =
      choices_of(cases_grid()[0], grid, {{"C_acc.tile", "128x128x32/64x32"}, {"C_acc.stages", 3}});
  if (choices.contains("C_acc.blocks")) choices["C_acc.blocks"] = blocks;
  return estimate_gpu(gpu_schedule(w, target, choices).program(), target);
}

// 64 tiles for 108 SMs; 256 tiles for 216 blocks that run at once.
TEST(GpuGrid, TheModelSeesWhatALastWaveCosts) {
  for (auto [spec, blocks] : {std::pair{"matmul:m=1024,n=1024,k=8192,dtype=f16", 1},
                              std::pair{"matmul:m=2048,n=2048,k=8192,dtype=f16", 2}}) {
    SCOPED_TRACE(spec);
    GpuEstimate tiles = estimated(spec, "tiles", blocks);
    GpuEstimate shared = estimated(spec, "stream_k", blocks);
    ASSERT_TRUE(shared.fits()) << shared.refusal;
    EXPECT_LT(shared.seconds, 0.95 * tiles.seconds);
    ASSERT_EQ(shared.kernels.size(), 2u);
    EXPECT_GT(shared.kernels[1].l2_bytes, 0) << "what adds up reads";
  }
  const char* spec = "matmul:m=4096,n=4096,k=4096,dtype=f16";
  GpuEstimate tiles = estimated(spec, "tiles", 1), persistent = estimated(spec, "persistent", 1);
  EXPECT_EQ(persistent.kernels[0].blocks, 108);
  EXPECT_NEAR(persistent.kernels[0].l2_bytes, tiles.kernels[0].l2_bytes,
              0.1 * tiles.kernels[0].l2_bytes);
}

// The work counted from a program with few blocks equals what the emulator counts.
TEST(GpuGrid, ItsWorkIsWhatTheEmulatorCounts) {
  Target target = small_chip("cuda:sm_80", 3);
  Workload w = make_workload(parse_spec("matmul:m=256,n=128,k=256,dtype=f16,trans_b=true"));
  for (const char* grid : {"persistent", "stream_k"}) {
    SCOPED_TRACE(grid);
    Schedule s = gpu_schedule(
        w, target,
        choices_of(cases_grid()[0], grid, {{"C_acc.tile", "64x64x32/32x32"}, {"C_acc.stages", 3}}));
    EmulatorCounters c = run_on_emulator(w, s, target).emulated.counters;
    double operations = 0, sectors = 0;
    for (const GpuKernelWork& work : gpu_work_of(lower_for_cuda(s.program(), target), target)) {
      const auto blocks = static_cast<double>(work.blocks);
      operations += work.products.operations * blocks;
      for (const GlobalAccess& a : work.global) sectors += a.bytes / 32 * blocks;
    }
    auto near = [](double got, int64_t want) {
      EXPECT_NEAR(got, static_cast<double>(want), 0.25 * static_cast<double>(want));
    };
    near(operations, c.mma_operations);
    near(sectors, c.load_sectors + c.store_sectors);
  }
}

TEST(GpuGrid, CompilesWithoutSpills) {
  if (!cuda::nvrtc_problem().empty()) GTEST_SKIP() << "NVRTC: " << cuda::nvrtc_problem();
  Workload w = parse_workload("matmul:m=4096,n=4096,k=4096,dtype=f16,trans_b=true,out=f16");
  for (const Target& target : cuda_targets()) {
    const std::string arch = target.name.substr(target.name.find(':') + 1);
    if (target.gpu.compute_capability < 80 || !cuda::nvrtc_accepts(arch)) continue;
    for (const char* grid : {"persistent", "stream_k"}) {
      SCOPED_TRACE(target.name + " " + grid);
      const Choices choices = choices_of(cases_grid()[0], grid,
                                         {{"C_acc.tile", "128x128x32/64x32"}, {"C_acc.stages", 3}});
      CudaSource source = generate_cuda(gpu_schedule(w, target, choices).module(), target);
      std::string cubin = cuda::compile_to_cubin(source.text, "kernel", arch);
      for (const CudaLaunch& launch : source.launches) {
        EXPECT_EQ(cuda::cubin_facts(cubin, launch.entry).local_accesses(), 0) << source.text;
      }
      EXPECT_GT(cuda::cubin_facts(cubin, source.launches[0].entry).count("HMMA"), 0);
    }
  }
}

}  // namespace
}  // namespace tilewright
