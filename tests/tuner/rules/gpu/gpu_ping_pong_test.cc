// Ping-pong: two warpgroups take the tiles of a block in turns, so that one multiplies while the
// other one stores.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "codegen/codegen.h"
#include "runtime/cuda/cubin.h"
#include "runtime/cuda/nvrtc.h"
#include "tests/tuner/edited_kernel.h"
#include "tests/tuner/hopper.h"
#include "tuner/gpu/gpu_model.h"
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

// What keeps the teams apart: their turns, arrays and counts of iterations.
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

// The epilogue of one team runs beside the products of the other one.
TEST(GpuPingPong, IsPredictedToHideEpilogues) {
  const Workload w = workload("matmul:m=8192,n=8192,k=512,dtype=bf16,trans_b=true,out=bf16");
  const Choices same = {{".stages", 6}, {".pending?", 1}, {".stores", "stmatrix_tensor"}};
  auto seconds = [&](const Choices& more) {
    const Choices choices = joined_choices(in_turns(w, "128x128x64/128x128", same), more);
    const GpuEstimate e = estimate_gpu(gpu_schedule(w, hopper(), choices).program(), hopper());
    EXPECT_TRUE(e.fits()) << e.refusal;
    return e.seconds;
  };
  const Choices alone = {
      {".copies", "roles"}, {".stages", 4}, {".grid", "persistent"}, {".blocks?", 1}};
  EXPECT_LT(seconds({{".stages", 4}}), seconds(alone));
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
