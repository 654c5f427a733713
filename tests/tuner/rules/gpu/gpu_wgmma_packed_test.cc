// Few-bit weights with wgmma: operand A from registers.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "codegen/cuda/instructions/cuda_wgmma_nest.h"
#include "runtime/cuda/cubin.h"
#include "runtime/cuda/nvrtc.h"
#include "tests/tuner/edited_kernel.h"
#include "tests/tuner/hopper.h"
#include "tuner/gpu/gpu_model.h"
#include "tuner/gpu/gpu_work.h"

namespace tilewright {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

// The instructions for a weight in fragment order; none if it cannot be.
std::vector<std::string> ways_of_wgmma_packed(const Workload& w, const Target& target) {
  return options_of(gpu_trial(w, target, {{".B.layout", "fragments"}}), ".mma");
}

// The workload with wgmma and these choices; threads copy. TMA: gpu_packed_copies_test.cc.
Schedule scheduled_wgmma_packed(const Workload& w, const Choices& more = {},
                                const Target& target = hopper()) {
  return gpu_schedule(w, target,
                      joined_choices({{".B.layout", "fragments"},
                                      {".mma", wgmma_for(w.inputs.front().buffer->elem)},
                                      {".copies?", "cp_async"}},
                                     more));
}

TEST(GpuWgmmaPacked, IsOfferedBehindTheInstructionsOfWarps) {
  const Workload w =
      workload("matmul:m=64,n=128,k=256,dtype=f16,trans_b=true,w.dtype=u4,w.group=128");
  EXPECT_EQ(ways_of_wgmma_packed(w, hopper()),
            (std::vector<std::string>{"m16n8k16_f32_f16", "wgmma_f32_f16"}));
  for (const char* target : {"cuda:sm_80", "cuda:sm_100"}) {
    EXPECT_TRUE(ways_of_wgmma_packed(w, Target::parse(target)).empty()) << "nothing is asked";
  }
  auto offered = [](const char* spec) { return ways_of_wgmma_packed(workload(spec), hopper()); };
  EXPECT_THAT(offered("matmul:m=64,n=128,k=256,dtype=i8,w.dtype=i4"), Contains("wgmma_s32_s8"));
  EXPECT_THAT(offered("matmul:m=8,n=128,k=256,dtype=f16,w.dtype=u4"),
              Not(Contains(StartsWith("wgmma_"))))
      << "eight rows are what instructions of warps take";
  EXPECT_THAT(offered("matmul:m=64,n=128,k=256,dtype=i8,acc=f32,w.dtype=i4,w.group=32"),
              Contains("wgmma_s32_s8"));
}

TEST(GpuWgmmaPacked, InstructionsOfWarpsAreAChoice) {
  const Workload w =
      workload("matmul:m=64,n=128,k=256,dtype=f16,trans_b=true,w.dtype=u4,w.group=128");
  const std::string text =
      text_of(scheduled_wgmma_packed(w, {{".mma", "m16n8k16_f32_f16"}, {".tile", "64x64/16"}}));
  EXPECT_THAT(text, HasSubstr("tw_mma_m16n8k16_f32_f16("));
  EXPECT_THAT(text, Not(HasSubstr("tw_wgmma")));
}

struct PackedCase {
  const char* spec;
  const char* tile;
  int64_t k = 0, stages = 0;  // 0: the first option
};

Choices choices_of(const PackedCase& c) {
  Choices choices = {{".tile", c.tile}};
  if (c.k > 0) choices[".k"] = c.k;
  if (c.stages > 0) choices[".stages"] = c.stages;
  return choices;
}

class GpuWgmmaPackedKernel : public ::testing::TestWithParam<PackedCase> {};

TEST_P(GpuWgmmaPackedKernel, IsRight) {
  const PackedCase& c = GetParam();
  SCOPED_TRACE(c.spec);
  const Workload w = workload(c.spec);
  const Schedule s = scheduled_wgmma_packed(w, choices_of(c));
  const std::string text = text_of(s);
  EXPECT_THAT(text, HasSubstr("tw_wgmma_m64n"));
  EXPECT_THAT(text, HasSubstr("*(unsigned(*)[4])(B_")) << "the weight comes from registers";
  expect_right_on_gpu(w, s, hopper());
}

INSTANTIATE_TEST_SUITE_P(
    Every, GpuWgmmaPackedKernel,
    ::testing::Values(
        PackedCase{"matmul:m=16,n=64,k=256,dtype=f16,trans_b=true,w.dtype=u4,w.group=128,"
                   "w.scale=f16,w.zero=u4",
                   "16x64/16", 128},
        PackedCase{"matmul:m=32,n=128,k=256,dtype=bf16,trans_b=true,w.dtype=i4,w.group=64,"
                   "w.scale=bf16",
                   "32x128/16", 64, 3},
        PackedCase{"matmul:m=32,n=64,k=512,dtype=f16,w.dtype=i2,w.scale=f16", "32x64/16", 256, 2},
        PackedCase{"matmul:m=24,n=64,k=128,dtype=f16,w.dtype=u2,w.group=32,w.zero=u2", "24x64/16",
                   32},
        PackedCase{"matmul:m=16,n=64,k=128,dtype=f16,w.dtype=i1,w.group=64", "16x64/16"},
        PackedCase{"matmul:m=16,n=64,k=256,dtype=f16,trans_b=true,w.dtype=nf4,w.group=128,"
                   "w.scale=f16",
                   "16x64/16", 128},
        PackedCase{"matmul:m=16,n=64,k=128,dtype=bf16,w.dtype=f4e2m1,w.group=32,w.scale=e8m0",
                   "16x64/16"},
        PackedCase{"matmul:m=16,n=64,k=128,dtype=f16,w.dtype=f4e2m1,w.group=16,w.scale=f8e4m3",
                   "16x64/16"},
        PackedCase{"matmul:m=16,n=64,k=128,dtype=f16,w.dtype=f8e4m3,w.scale=f32", "16x64/16"},
        PackedCase{"matmul:m=16,n=64,k=128,dtype=bf16,w.dtype=i8,w.group=64", "16x64/16"},
        PackedCase{"matmul:m=48,n=64,k=256,dtype=i8,w.dtype=i4", "48x64/16", 256},
        PackedCase{"matmul:m=16,n=64,k=256,dtype=i8,w.dtype=u4,w.zero=u4,w.group=128", "16x64/16"},
        PackedCase{"matmul:m=32,n=64,k=128,dtype=i8,acc=f32,w.dtype=i2,w.group=32,w.scale=f16",
                   "32x64/16"},
        PackedCase{"matmul:m=16,n=64,k=256,dtype=f8e4m3,acc=f32,w.dtype=f8e4m3,w.group=128,"
                   "out=bf16",
                   "16x64/16", 128},
        PackedCase{"matmul:m=16,n=64,k=384,dtype=f8e4m3,acc=f32,w.dtype=f8e4m3,out=bf16",
                   "16x64/16"},
        // Partial tiles along rows, columns and k.
        PackedCase{"matmul:m=37,n=72,k=200,dtype=f16,w.dtype=u4,w.group=64,w.zero=u4", "48x64/16"},
        PackedCase{"matmul:m=20,n=100,k=128,dtype=f16,w.dtype=i4,w.group=64,epilogue=[bias,gelu]",
                   "24x128/16"}),
    [](const ::testing::TestParamInfo<PackedCase>& info) { return std::to_string(info.index); });

// Accumulators of 8-bit floats are promoted every 128 of k, with any scaling.
TEST(GpuWgmmaPacked, SumsOfSmallFloatsArePromoted) {
  auto text_of = [](const Workload& w, int64_t terms) {
    const Schedule s = scheduled_wgmma_packed(w, {{".tile", "16x64/16"}, {".promote", terms}});
    expect_right_on_gpu(w, s, hopper());
    return generate_cuda(s.module(), hopper()).text;
  };
  const Workload whole =
      workload("matmul:m=16,n=64,k=384,dtype=f8e4m3,acc=f32,w.dtype=f8e4m3,w.group=-1,out=bf16");
  EXPECT_THAT(text_of(whole, 128), HasSubstr("C_acc_partial_partial["));
  const Workload few =
      workload("matmul:m=16,n=64,k=128,dtype=f8e4m3,acc=f32,w.dtype=f8e4m3,w.group=-1,out=bf16");
  EXPECT_THAT(text_of(few, 0), Not(HasSubstr("C_acc_partial_partial[")));
  const Workload groups =
      workload("matmul:m=16,n=64,k=384,dtype=f8e4m3,acc=f32,w.dtype=f8e4m3,w.group=128,out=bf16");
  EXPECT_THAT(text_of(groups, 128), HasSubstr("C_acc_partial["));
}

TEST(GpuWgmmaPacked, RowsMayBeDynamic) {
  const Workload w =
      workload("matmul:m=1..80,n=64,k=128,dtype=f16,trans_b=true,w.dtype=u4,w.group=64");
  const Schedule s = scheduled_wgmma_packed(w, {{".tile", "32x64/16"}});
  for (int64_t m : {1, 33, 80}) expect_right_on_gpu(w, s, hopper(), {{"m", m}});
}

TEST(GpuWgmmaPacked, BlocksTakeTilesInTurnOrShareThem) {
  const Target chip = hopper(3);
  const Workload w =
      workload("matmul:m=20,n=200,k=256,dtype=f16,w.dtype=u4,w.group=64,w.scale=f16,w.zero=u4");
  for (const char* grid : {"persistent", "stream_k"}) {
    SCOPED_TRACE(grid);
    const Schedule s = scheduled_wgmma_packed(
        w, {{".tile", "16x64/16"}, {".order", "rows"}, {".k", 64}, {".grid", grid}, {".blocks", 1}},
        chip);
    const CudaSource source = generate_cuda(s.module(), chip);
    EXPECT_THAT(source.text, HasSubstr("tw_wgmma_m64n16k16"));
    EXPECT_EQ(source.launches.size(), std::string(grid) == "stream_k" ? 2u : 1u);
    expect_right_on_gpu(w, s, chip);
  }
}

TEST(GpuWgmmaPacked, EveryAnswerIsLegal) {
  for (const char* spec : {"matmul:m=20,n=72,k=512,dtype=f16,w.dtype=u4,w.group=128,trans_b=true",
                           "matmul:m=200,n=320,k=512,dtype=i8,w.dtype=i4",
                           "matmul:m=64,n=64,k=256,dtype=bf16,"
                           "w.dtype=nf4,w.group=-1"}) {
    SCOPED_TRACE(spec);
    const Workload w = workload(spec);
    int by_groups = 0;
    for (uint64_t seed = 0; seed < 40; ++seed) {
      Trial trial = Trial::random(seed);
      Schedule s = apply_sketch(cuda_sketches().front(), {w, hopper(), 1}, trial);
      if (trial.config().find("wgmma_") == std::string::npos) continue;
      ++by_groups;
      EXPECT_NO_THROW(lower_for_cuda(s.program(), hopper())) << trial.config();
    }
    EXPECT_GT(by_groups, 3);
  }
}

const Workload& small_wgmma_packed() {
  static const Workload w =
      workload("matmul:m=16,n=64,k=256,dtype=f16,trans_b=true,w.dtype=u4,w.group=128,w.scale=f16");
  return w;
}

// The second chunk's codes are unpacked into other registers while the first chunk is multiplied.
TEST(GpuWgmmaPacked, UnpackingRunsBesideTheInstructions) {
  const Schedule s = scheduled_wgmma_packed(small_wgmma_packed(),
                                            {{".tile", "16x64/16"}, {".k", 128}, {".stages", 3}});
  const std::string text = text_of(s);
  EXPECT_THAT(text, HasSubstr("B_value_register[64];")) << "of both chunks";
  EXPECT_THAT(text, HasSubstr("tw_wgmma_wait<1>();"));
  EXPECT_THAT(text, HasSubstr("tw_wgmma_hold(*(unsigned(*)[32])B_value_register);"));
  auto verdict = [&](const std::string& from, const std::string& to) {
    return outcome_of_edited(small_wgmma_packed(), s, hopper(), from, to, Places::All);
  };
  EXPECT_EQ(verdict("tw_wgmma_fence();", "tw_wgmma_fence();"), "ok");
  EXPECT_EQ(verdict("tw_wgmma_wait<1>();", ""), "ok") << "the registers of two chunks differ";
  EXPECT_EQ(verdict("(k_1_1 * 32", "(0"), "wgmma-in-flight")
      << "one set of registers, which the first group still reads";
  EXPECT_EQ(verdict("tw_wgmma_fence();", ""), "missing-fence");
  EXPECT_EQ(verdict("tw_fence_async();", ""), "missing-fence");
  EXPECT_EQ(verdict("tw_wgmma_commit();", ""), "wgmma-in-flight");
  EXPECT_EQ(verdict("tw_wgmma_wait<0>();", ""), "wgmma-in-flight");
  EXPECT_EQ(verdict("tw_wgmma_operand<128>", "tw_wgmma_operand<64>"), "wrong");
}

// Registers belong to one iteration.
TEST(GpuWgmmaPacked, NoGroupOutlivesThePipelinesIteration) {
  Schedule s = scheduled_wgmma_packed(small_wgmma_packed(),
                                      {{".tile", "16x64/16"}, {".k", 128}, {".stages", 3}});
  for (const Loop& l : s.loops(s.block("C_acc_partial"))) {
    if (s.node(l).annotations.count("pipeline_stages") == 0) continue;
    s.annotate(l, kWgmmaPendingKey, int64_t{1});
    break;
  }
  EXPECT_THAT(lowering_refusal(s, hopper()),
              HasSubstr("take an operand from registers, which each iteration makes anew; a loop "
                        "inside of it may leave them so"));
}

TEST(GpuWgmmaPacked, CompilesToTheInstructionWithoutSpills) {
  if (!cuda::nvrtc_problem().empty()) GTEST_SKIP() << "NVRTC: " << cuda::nvrtc_problem();
  if (!cuda::nvrtc_accepts("sm_90a")) GTEST_SKIP() << "this NVRTC knows no sm_90a";
  const std::string u4 =
      "n=4096,k=4096,dtype=f16,trans_b=true,w.dtype=u4,w.group=128,"
      "w.scale=f16,w.zero=u4";
  for (const auto& [spec, tile, mnemonic] :
       {std::tuple{"matmul:m=16," + u4, "16x64/16", "HGMMA"},
        std::tuple{"matmul:m=64," + u4, "64x128/16", "HGMMA"},
        std::tuple{"matmul:m=128," + u4, "128x128/16", "HGMMA"},
        std::tuple{std::string("matmul:m=64,n=4096,k=4096,dtype=bf16,trans_b=true,w.dtype=f4e2m1,"
                               "w.group=32,w.scale=e8m0"),
                   "64x64/16", "HGMMA"},
        std::tuple{std::string("matmul:m=64,n=4096,k=4096,dtype=i8,acc=f32,w.dtype=i4,w.group=128,"
                               "w.scale=f16"),
                   "64x64/16", "IGMMA"}}) {
    SCOPED_TRACE(spec);
    const CudaSource source = generate_cuda(
        scheduled_wgmma_packed(workload(spec), {{".tile", tile}, {".stages", 3}}).module(),
        hopper());
    const cuda::CubinFacts facts = cuda::cubin_facts(
        cuda::compile_to_cubin(source.text, "kernel", "sm_90a"), source.launches.at(0).entry);
    EXPECT_GE(facts.count(mnemonic), 2) << source.text;
    EXPECT_EQ(facts.local_accesses(), 0) << source.text;
    EXPECT_EQ(facts.count("HMMA") + facts.count("IMMA"), 0);
    EXPECT_GT(facts.count("LDGSTS"), 0);
  }
}

TEST(GpuWgmmaPacked, TheModelCountsIt) {
  const Schedule s = scheduled_wgmma_packed(small_wgmma_packed(),
                                            {{".tile", "16x64/16"}, {".k", 128}, {".stages", 3}});
  const EmulatorCounters c = run_on_emulator(small_wgmma_packed(), s, hopper()).emulated.counters;
  EXPECT_EQ(c.wgmma, 256 / 16) << "one warpgroup, every instruction along k";
  EXPECT_EQ(c.mma, 0);
  auto works = gpu_work_of(lower_for_cuda(s.program(), hopper()), hopper());
  ASSERT_EQ(works.size(), 1u);
  EXPECT_TRUE(works[0].products.is_wgmma);
  EXPECT_EQ(works[0].products.operations, static_cast<double>(c.mma_operations));
}

// With enough work, wgmma is predicted to be faster than any tile of warp instructions.
TEST(GpuWgmmaPacked, TheModelPrefersItForManyRows) {
  for (int64_t m : {64, 128, 4096}) {
    SCOPED_TRACE(m);
    const Workload w = workload(
        fmt::format("matmul:m={},n=4096,k=4096,dtype=f16,trans_b=true,w.dtype=u4,w.group=128,"
                    "w.scale=f16,w.zero=u4",
                    m));
    double best[2] = {1, 1};
    for (uint64_t seed = 0; seed < 60; ++seed) {
      Trial trial = Trial::random(seed);
      const Schedule s = apply_sketch(cuda_sketches().front(), {w, hopper(), 1}, trial);
      const bool by_groups = trial.config().find("wgmma_") != std::string::npos;
      const bool by_warps = trial.config().find("m16n8k16") != std::string::npos;
      if (!by_groups && !by_warps) continue;
      const GpuEstimate e = estimate_gpu(s.program(), hopper());
      if (e.fits()) best[by_groups] = std::min(best[by_groups], e.seconds);
    }
    EXPECT_LT(best[1], best[0]);
  }
}

}  // namespace
}  // namespace tilewright
