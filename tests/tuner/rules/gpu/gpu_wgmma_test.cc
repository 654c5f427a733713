// Products with wgmma, from the sketch to the machine code.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "codegen/cuda/instructions/cuda_instruction.h"
#include "codegen/cuda/instructions/cuda_mma.h"
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
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

// The matrix instructions that the sketch offers for operands that stay as they are.
std::vector<std::string> instructions_for(const Workload& w, const Target& target) {
  return options_of(gpu_trial(w, target, {{".B.layout?", "none"}, {".gemv?", "none"}}), ".mma");
}

// With wgmma, this tile and these choices; threads copy. TMA tiles: gpu_tensor_copies_test.cc,
// curves: gpu_cluster_test.cc.
Choices choices_of_wgmma(const Workload& w, const std::string& tile, int64_t stages,
                         const Choices& more = {}) {
  return joined_choices({{".B.layout?", "none"},
                         {".gemv?", "none"},
                         {".parts?", 1},
                         {".mma", wgmma_for(w.inputs.front().buffer->elem)},
                         {".tile", tile},
                         {".copies?", "cp_async"},
                         {".stages", stages},
                         {".order?", "rows"},
                         {".group?", 1}},
                        more);
}

Schedule scheduled_wgmma(const Workload& w, const std::string& tile, int64_t stages = 2,
                         const Choices& more = {}) {
  return gpu_schedule(w, hopper(), choices_of_wgmma(w, tile, stages, more));
}

TEST(GpuWgmma, IsOfferedWhereTheTargetHasItForTheTypes) {
  auto offered = [](const char* type, const Target& target = hopper()) {
    return instructions_for(workload(std::string("matmul:m=64,n=64,k=64,dtype=") + type), target);
  };
  EXPECT_THAT(offered("f16"), Contains("wgmma_f32_f16"));
  EXPECT_THAT(offered("f8e4m3"), Contains("wgmma_f32_e4m3"));
  EXPECT_THAT(offered("i8"), Contains("wgmma_s32_s8"));
  EXPECT_THAT(offered("f32"), Not(Contains(StartsWith("wgmma_")))) << "tf32 is not asked for";
  for (const char* target : {"cuda:sm_80", "cuda:sm_89", "cuda:sm_100"}) {
    EXPECT_THAT(offered("f16", Target::parse(target)), Not(Contains(StartsWith("wgmma_"))));
  }
  EXPECT_EQ(offered("f16").front(), "m16n8k16_f32_f16") << "what was the first answer stays it";
  const Workload w = workload("matmul:m=64,n=64,k=64,dtype=f16");
  EXPECT_THAT(options_of(gpu_trial(w, hopper(), {{".mma", "wgmma_f32_f16"}}), ".tile"),
              Contains("64x64x64/64x64"));
}

TEST(GpuWgmma, OperandsMayRunEitherWay) {
  for (const char* ways : {"", ",trans_b=true", ",trans_a=true", ",trans_a=true,trans_b=true"}) {
    SCOPED_TRACE(ways);
    Workload w = workload(std::string("matmul:m=128,n=128,k=128,dtype=f16") + ways);
    Schedule s = scheduled_wgmma(w, "128x128x64/64x128", 2);
    EXPECT_THAT(text_of(s), HasSubstr("tw_wgmma_m64n128k16_f32_f16<"));
    expect_right_on_gpu(w, s, hopper());
  }
}

TEST(GpuWgmma, TypesTilesStagesAndTails) {
  struct Case {
    const char* spec;
    const char* tile;
    int64_t stages;
  };
  for (const Case& c :
       {Case{"matmul:m=64,n=256,k=128,dtype=bf16", "64x256x64/64x256", 3},
        {"matmul:m=256,n=128,k=64,dtype=f16", "256x128x64/128x128", 1},
        {"matmul:m=128,n=192,k=128,dtype=f16,trans_b=true", "128x192x64/64x192", 2},
        {"matmul:m=100,n=90,k=72,dtype=f16", "64x64x64/64x64", 2},
        {"matmul:m=64,n=64,k=64,dtype=f16,batch=2", "64x32x64/64x32", 2},
        {"matmul:m=64,n=128,k=256,dtype=f8e4m3,trans_b=true", "64x128x128/64x128", 2},
        {"matmul:m=64,n=64,k=128,dtype=i8", "64x64x128/64x64", 2}}) {
    SCOPED_TRACE(c.spec);
    Workload w = workload(c.spec);
    Schedule s = scheduled_wgmma(w, c.tile, c.stages);
    EXPECT_THAT(text_of(s), HasSubstr("tw_wgmma_m64"));
    expect_right_on_gpu(w, s, hopper());
  }
}

TEST(GpuWgmma, ResultsGoEveryWayToMemory) {
  Workload w = workload("matmul:m=128,n=128,k=64,dtype=f16,epilogue=[bias,relu]");
  for (const char* stores : {"direct", "shared", "stmatrix"}) {
    SCOPED_TRACE(stores);
    Schedule s = scheduled_wgmma(w, "128x128x64/64x128", 2, {{".stores", stores}});
    EXPECT_EQ(text_of(s).find("tw_stmatrix") != std::string::npos,
              std::string(stores) == "stmatrix");
    expect_right_on_gpu(w, s, hopper());
  }
}

// Accumulators of 8-bit floats are promoted after every k tile of 128.
TEST(GpuWgmma, SumsOfSmallFloatsArePromoted) {
  const Workload w = workload("matmul:m=64,n=128,k=384,dtype=f8e4m3,trans_b=true");
  const Workload few = workload("matmul:m=64,n=128,k=128,dtype=f8e4m3,trans_b=true");
  auto text_of = [&](const Workload& of, int64_t terms) {
    Choices choices = {{".promote", terms}};
    if (terms == 0) choices[".pending"] = 1;
    Schedule s = scheduled_wgmma(of, "64x128x128/64x128", 3, choices);
    expect_right_on_gpu(of, s, hopper());
    return generate_cuda(s.module(), hopper()).text;
  };
  const std::string promoted = text_of(w, 128), plain = text_of(few, 0);
  EXPECT_THAT(promoted, HasSubstr("_partial["));
  EXPECT_THAT(promoted, Not(HasSubstr("tw_wgmma_wait<1>"))) << "what is added has landed";
  EXPECT_THAT(plain, Not(HasSubstr("_partial[")));
  const Trial trial = gpu_trial(w, hopper(), choices_of_wgmma(w, "64x128x128/64x128", 3));
  EXPECT_THAT(options_of(trial, ".promote"), ElementsAre("128"))
      << "more terms than that lose more than is granted";
  EXPECT_THAT(options_of(trial, ".tile"), Not(Contains("128x256x128/64x256")))
      << "two sets of so many sums do not fit registers";
}

TEST(GpuWgmma, RowsMayBeDynamic) {
  Workload w = workload("matmul:m=1..300,n=64,k=64,dtype=f16");
  Schedule s = scheduled_wgmma(w, "64x64x64/64x64");
  for (int64_t m : {1, 64, 130}) expect_right_on_gpu(w, s, hopper(), {{"m", m}});
}

// A wgmma group stays in flight across the barrier; its operands are not overwritten before it is
// waited for.
TEST(GpuWgmma, AGroupMayStayInFlight) {
  Workload w = workload("matmul:m=128,n=64,k=384,dtype=f16,trans_b=true");
  for (int64_t stages : {3, 4}) {
    Schedule s = scheduled_wgmma(w, "64x64x64/64x64", stages, {{".pending", 1}});
    const std::string text = text_of(s);
    EXPECT_THAT(text, HasSubstr("tw_wgmma_wait<1>();"));
    EXPECT_THAT(text, HasSubstr(fmt::format("tw_cp_async_wait<{}>();", stages - 3)));
    expect_right_on_gpu(w, s, hopper());
  }
  Schedule s = scheduled_wgmma(w, "64x64x64/64x64", 3, {{".pending", 1}});
  auto fault = [&](const std::string& from, const std::string& to) {
    return outcome_of_edited(w, s, hopper(), from, to);
  };
  EXPECT_EQ(fault("tw_wgmma_wait<1>();", "tw_wgmma_wait<2>();"), "wgmma-in-flight");
  EXPECT_EQ(fault("tw_wgmma_wait<0>();", ""), "wgmma-in-flight");
  Schedule two = scheduled_wgmma(w, "64x64x64/64x64", 2);
  for (const Loop& l : two.loops(two.block("C_acc"))) {
    if (two.node(l).annotations.count("pipeline_stages") == 0) continue;
    two.annotate(l, kWgmmaPendingKey, int64_t{1});
    break;
  }
  try {
    generate_cuda(two.module(), hopper());
    FAIL() << "was not refused";
  } catch (const LoweringError& e) {
    EXPECT_THAT(e.what(), HasSubstr("must be 3 or more, got 2"));
  }
}

// The emulator detects missing output of the printer.
TEST(GpuWgmma, EveryFenceAndWaitIsNeeded) {
  Workload w = workload("matmul:m=64,n=64,k=192,dtype=f16");
  Schedule s = scheduled_wgmma(w, "64x64x64/64x64", 3, {{".pending", 0}});
  auto verdict = [&](const std::string& from, const std::string& to) {
    return outcome_of_edited(w, s, hopper(), from, to);
  };
  EXPECT_EQ(verdict("tw_wgmma_fence", "tw_wgmma_fence"), "ok");
  EXPECT_EQ(verdict("tw_fence_async();", ""), "missing-fence");
  EXPECT_EQ(verdict("tw_wgmma_fence();", ""), "missing-fence");
  EXPECT_EQ(verdict("tw_wgmma_wait<0>();", ""), "wgmma-in-flight");
  EXPECT_EQ(verdict("tw_wgmma_commit();", ""), "wgmma-in-flight");
  EXPECT_EQ(verdict("tw_wgmma_operand<128>", "tw_wgmma_operand<64>"), "wrong");
  EXPECT_EQ(verdict("tw_cp_async_wait<1>", "tw_cp_async_wait<2>"), "copy-in-flight");
}

TEST(GpuWgmma, CompilesToTheInstructionWithSumsInRegisters) {
  if (!cuda::nvrtc_problem().empty()) GTEST_SKIP() << "NVRTC: " << cuda::nvrtc_problem();
  if (!cuda::nvrtc_accepts("sm_90a")) GTEST_SKIP() << "this NVRTC knows no sm_90a";
  struct Case {
    const char* spec;
    const char* tile;
    const char* mnemonic;
  };
  for (const Case& c :
       {Case{"matmul:m=2048,n=2048,k=512,dtype=f16", "128x256x64/64x256", "HGMMA"},
        {"matmul:m=2048,n=2048,k=512,dtype=bf16,trans_b=true", "128x256x64/128x128", "HGMMA"},
        {"matmul:m=2048,n=2048,k=512,dtype=f8e4m3,trans_b=true", "128x128x128/64x128", "QGMMA"},
        {"matmul:m=2048,n=2048,k=512,dtype=i8,trans_b=true", "64x256x128/64x256", "IGMMA"}}) {
    SCOPED_TRACE(c.spec);
    Workload w = workload(c.spec);
    CudaSource source = generate_cuda(scheduled_wgmma(w, c.tile, 3).module(), hopper());
    cuda::CubinFacts facts = cuda::cubin_facts(
        cuda::compile_to_cubin(source.text, "kernel", "sm_90a"), source.launches.at(0).entry);
    EXPECT_GE(facts.count(c.mnemonic), 4) << source.text;
    EXPECT_EQ(facts.local_accesses(), 0) << source.text;
    EXPECT_EQ(facts.count("HMMA") + facts.count("QMMA") + facts.count("IMMA"), 0);
    EXPECT_GT(facts.count("LDGSTS"), 0);
  }
}

TEST(GpuWgmma, TheModelCountsItAndPrefersIt) {
  Workload small = workload("matmul:m=128,n=128,k=128,dtype=f16,trans_b=true");
  Schedule s = scheduled_wgmma(small, "128x128x64/64x128");
  EmulatorCounters c = run_on_emulator(small, s, hopper()).emulated.counters;
  EXPECT_EQ(c.wgmma, 2 * 2 * 4) << "of two warpgroups, two tiles, four instructions";
  EXPECT_EQ(c.mma, 0);
  auto works = gpu_work_of(lower_for_cuda(s.program(), hopper()), hopper());
  ASSERT_EQ(works.size(), 1u);
  EXPECT_TRUE(works[0].products.is_wgmma);
  EXPECT_EQ(works[0].products.operations, static_cast<double>(c.mma_operations));
  // If tensor cores are the limit, wgmma gets their full rate.
  Workload large = workload("matmul:m=8192,n=8192,k=8192,dtype=f16,trans_b=true");
  Trial first = Trial::first();
  Schedule sync = gpu_schedule(large, hopper(), first);
  GpuEstimate by_warps = estimate_gpu(sync.program(), hopper());
  GpuEstimate by_groups =
      estimate_gpu(scheduled_wgmma(large, "128x256x64/64x256", 3).program(), hopper());
  ASSERT_TRUE(by_warps.fits() && by_groups.fits()) << by_groups.refusal;
  EXPECT_LT(by_groups.seconds, by_warps.seconds);
}

TEST(GpuWgmma, RefusesOtherTargetsAndLayouts) {
  Workload w = workload("matmul:m=128,n=128,k=64,dtype=f16,trans_b=true");
  Schedule s = scheduled_wgmma(w, "128x128x64/64x128");
  EXPECT_THAT(lowering_refusal(s, Target::parse("cuda:sm_80")),
              HasSubstr("is marked as wgmma 'm64n128k16_f32_f16', which cuda:sm_80 does not have"));
  // A nest of another row.
  Schedule other = scheduled_wgmma(w, "128x128x64/64x128");
  for (const Loop& l : other.loops(other.block("C_acc"))) {
    if (mma_mark(other.node(l)).empty()) continue;
    other.annotate(l, kInstructionKey, std::string("m64n64k16_f32_f16"));
  }
  EXPECT_THAT(lowering_refusal(other, hopper()), HasSubstr("has another size"));
}

}  // namespace
}  // namespace tilewright
