// Ping-pong: two warpgroups take the tiles of a block in turns, so that one multiplies while the
// other one stores.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "codegen/codegen.h"
#include "codegen/cuda_lowering.h"
#include "runtime/cuda/cubin.h"
#include "runtime/cuda/nvrtc.h"
#include "tests/tuner/edited_kernel.h"
#include "tests/tuner/hopper.h"
#include "tuner/gpu/gpu_model.h"
#include "tuner/gpu/gpu_work.h"
#include "tuner/measure/exercise.h"

namespace tilewright {
namespace {

using ::testing::AnyOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

Choices in_turns(const Workload& w, const std::string& tile, const Choices& more = {}) {
  const Choices choices = {{".mma", wgmma_for(w.inputs.front().buffer->elem)},
                           {".tile", tile},
                           {".copies", "ping_pong"},
                           {".stages", 2},
                           {".pending?", 0},
                           {".cluster?", "1x1"},
                           {".stores", "direct"},
                           {".order?", "rows"},
                           {".group?", 1},
                           {".parts?", 1}};
  return joined_choices(choices, more);
}

TEST(GpuPingPong, IsOfferedToTilesOfOneWarpgroupWhereBlocksHaveTwo) {
  const Workload w = workload("matmul:m=512,n=512,k=128,dtype=f16,trans_b=true");
  auto copies = [&](const char* tile, const Target& target) {
    return options_of(gpu_trial(w, target, {{".mma", "wgmma_f32_f16"}, {".tile", tile}}),
                      ".copies");
  };
  EXPECT_THAT(copies("64x128x64/64x128", hopper(4)), Contains("ping_pong"));
  EXPECT_THAT(copies("64x128x64/64x128", hopper()), Not(Contains("ping_pong"))) << "32 tiles";
  EXPECT_THAT(copies("128x128x64/64x128", hopper(4)), Not(Contains("ping_pong")));
  const Trial trial = gpu_trial(w, hopper(4), in_turns(w, "64x128x64/64x128"));
  EXPECT_EQ(options_of(trial, ".grid"), std::vector<std::string>{"persistent"});
}

TEST(GpuPingPong, ComputesTheSameResults) {
  struct Case {
    const char* spec;
    const char* tile;
    int sms;
    Choices more = {};
  };
  for (const Case& c : std::vector<Case>{
           // An odd number of tiles, and a k that leaves stages behind whole turns of the ring.
           {"matmul:m=320,n=128,k=192,dtype=f16,trans_b=true", "64x128x64/64x128", 1, {}},
           {"matmul:m=300,n=136,k=72,dtype=f16,epilogue=[bias,relu]",
            "64x64x64/64x64",
            2,
            {{".stages", 3}, {".pending?", 1}}},
           {"matmul:m=256,n=256,k=320,dtype=bf16,trans_b=true,out=bf16",
            "64x128x64/64x128",
            1,
            {{".stores", "stmatrix_tensor"}, {".stages", 3}, {".pending?", 1}}},
           {"matmul:m=256,n=512,k=128,dtype=f16,trans_b=true,out=f16",
            "64x256x64/64x256",
            2,
            {{".stores", "stmatrix_tensor_subtiles"}}},
           {"matmul:m=512,n=256,k=192,dtype=f16,trans_b=true,out=f16",
            "64x128x64/64x128",
            2,
            {{".stores", "shared"}, {".cluster?", "2x1"}, {".order?", "hilbert"}}},
           {"matmul:m=256,n=256,k=256,dtype=f8e4m3,trans_b=true", "64x64x128/64x64", 3, {}}}) {
    SCOPED_TRACE(c.spec);
    const Workload w = workload(c.spec);
    const Target target = hopper(c.sms);
    const Schedule s = gpu_schedule(w, target, in_turns(w, c.tile, c.more));
    EXPECT_THAT(text_of(s, target), HasSubstr("order"));
    for (uint64_t seed : {1, 2, 5}) {
      const GpuRun run = run_on_emulator(w, s, target, {}, seed);
      EXPECT_EQ(outcome_of(run), "ok")
          << seed << ": "
          << (run.emulated.ok() ? run.checked.message : run.emulated.fault->to_string())
          << run.source.text;
    }
  }
}

// Turns, arrays and counts of iterations keep the teams apart.
TEST(GpuPingPong, NeedsTurnsAndArraysOfEachTeam) {
  const Workload w = workload("matmul:m=256,n=256,k=320,dtype=f16,trans_b=true,out=f16");
  const Schedule s = gpu_schedule(
      w, hopper(1),
      in_turns(w, "64x128x64/64x128", {{".stages", 3}, {".stores", "stmatrix_tensor"}}));
  auto outcome = [&](const std::string& from, const std::string& to) {
    return outcome_of_edited(w, s, hopper(1), from, to, Places::All, 2);
  };
  ASSERT_EQ(outcome("order", "turns"), "ok");
  EXPECT_THAT(outcome("tw_mbarrier_wait(order + ", "if (tx < 0) tw_mbarrier_wait(order + "),
              AnyOf("copy-in-flight", "uninitialized-read", "race"))
      << "a team takes the stages of the other one for its own";
  EXPECT_EQ(outcome("tw_mbarrier_arrive(order + ", "if (tx < 0) tw_mbarrier_arrive(order + "),
            "deadlock");
  EXPECT_THAT(outcome("C_shared + (warpgroup * 8192", "C_shared + (0 * 8192"),
              AnyOf("copy-in-flight", "race", "missing-fence"));
  EXPECT_NE(outcome("(unsigned)((warpgroup * 5))", "(unsigned)((warpgroup * 4))"), "ok");
}

// A check of a kernel asks for two tiles of each team.
TEST(GpuPingPong, IsExercisedByTilesOfEachTeam) {
  const Workload w = workload("matmul:m=256,n=256,k=320,dtype=f16,trans_b=true");
  auto turns = [&](const Choices& more) {
    const Choices choices = joined_choices(in_turns(w, "64x128x64/64x128"), more);
    return exercise_of(gpu_schedule(w, hopper(1), choices).program()).turns;
  };
  EXPECT_EQ(turns({{".copies", "roles"}, {".grid", "persistent"}, {".blocks?", 1}}), 8);
  EXPECT_EQ(turns({}), 4);
}

const Choices kAlone = {{".copies", "roles"}, {".grid", "persistent"}, {".blocks?", 1}};

// Two teams have the work of one: as many products and bytes, also of an odd number of tiles.
TEST(GpuPingPong, CountsTheWorkOfAllTiles) {
  const Target target = hopper();
  for (int tiles : {2, 3}) {
    SCOPED_TRACE(tiles);
    const Workload w = workload(fmt::format(
        "matmul:m={},n=128,k=512,dtype=bf16,trans_b=true,out=bf16", tiles * target.gpu.sms * 128));
    auto work = [&](const Choices& more) {
      const Choices same = {{".stages", 4}, {".pending?", 1}, {".stores", "stmatrix_tensor"}};
      const Choices choices =
          joined_choices(joined_choices(in_turns(w, "128x128x64/128x128"), same), more);
      const Schedule s = gpu_schedule(w, target, choices);
      return gpu_work_of(lower_for_cuda(s.program(), target), target).at(0);
    };
    auto stored = [](const GpuKernelWork& of) {
      double bytes = 0;
      for (const GlobalAccess& a : of.global) bytes += a.is_store ? a.bytes : 0;
      return bytes;
    };
    const GpuKernelWork turns = work({}), alone = work(kAlone);
    EXPECT_EQ(turns.blocks, target.gpu.sms);
    EXPECT_EQ(alone.blocks, target.gpu.sms);
    EXPECT_EQ(alone.products.operations, tiles * 2.0 * 128 * 128 * 512);
    EXPECT_EQ(turns.products.operations, alone.products.operations);
    EXPECT_EQ(stored(alone), tiles * 2.0 * 128 * 128);
    EXPECT_EQ(stored(turns), stored(alone));
    EXPECT_EQ(turns.bare.bytes, alone.bare.bytes);
    EXPECT_EQ(turns.tma.bytes, alone.tma.bytes);
    EXPECT_EQ(turns.teams.tiles, tiles);
  }
}

// The epilogue of one team runs beside the products of the other one, but for the last tile's.
TEST(GpuPingPong, IsPredictedToHideEpilogues) {
  Target target = hopper();
  target.gpu.tensor_f16 /= 2;  // so that L2 is no limit
  const double tiles = 8;
  const Workload w = workload(fmt::format(
      "matmul:m={},n=1024,k=4096,dtype=bf16,trans_b=true,out=bf16", target.gpu.sms * 128));
  const Choices same = {{".stages", 4}, {".pending?", 1}, {".stores", "stmatrix_tensor"}};
  double epilogues = 0;  // seconds of a block, of its stores alone
  auto seconds = [&](const Choices& more) {
    const Choices choices =
        joined_choices(joined_choices(in_turns(w, "128x128x64/128x128"), same), more);
    const Schedule s = gpu_schedule(w, target, choices);
    const GpuEstimate e = estimate_gpu(s.program(), target);
    EXPECT_TRUE(e.fits()) << e.refusal;
    const GpuKernelWork work = gpu_work_of(lower_for_cuda(s.program(), target), target).at(0);
    epilogues = work.bare.bytes / kPortBytes / target.gpu.clock;
    return e.seconds;
  };
  const double alone = seconds(kAlone), turns = seconds({});
  EXPECT_GT(epilogues, 0);
  EXPECT_GE(alone - turns, epilogues * (tiles - 1) / tiles);
}

TEST(GpuPingPong, CompilesWithoutSpills) {
  if (!cuda::nvrtc_problem().empty()) GTEST_SKIP() << "NVRTC: " << cuda::nvrtc_problem();
  const Workload w = workload("matmul:m=4096,n=4096,k=4096,dtype=bf16,trans_b=true,out=bf16");
  for (const char* tile : {"64x256x64/64x256", "128x128x64/128x128"}) {
    SCOPED_TRACE(tile);
    const Schedule s = gpu_schedule(
        w, hopper(), in_turns(w, tile, {{".stages", 4}, {".pending?", 1}, {".order?", "hilbert"}}));
    const CudaSource source = generate_cuda(s.module(), hopper());
    const cuda::CubinFacts facts = cuda::cubin_facts(
        cuda::compile_to_cubin(source.text, "kernel", "sm_90a"), source.launches.at(0).entry);
    EXPECT_EQ(facts.stack_bytes, 0);
    EXPECT_EQ(facts.local_accesses(), 0);
    EXPECT_GT(facts.count("HGMMA"), 0);
  }
}

}  // namespace
}  // namespace tilewright
