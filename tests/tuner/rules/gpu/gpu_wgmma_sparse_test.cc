// Weights with 2 of 4 elements, with sparse wgmma.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "codegen/cuda/instructions/cuda_instruction.h"
#include "codegen/cuda/instructions/cuda_mma.h"
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

// The instructions for a compressed weight; none if the target has none.
std::vector<std::string> ways_of_wgmma_sparse(const Workload& w, const Target& target) {
  return options_of(gpu_trial(w, target, {{".B.sparse", "halves"}}), ".mma");
}

// The sparse wgmma instruction for the workload's first operand.
std::string sparse_wgmma_for(const Workload& w) {
  const std::string dense = wgmma_for(w.inputs.front().buffer->elem), prefix = "wgmma_";
  return prefix + "sp_" + dense.substr(prefix.size());
}

// The workload with wgmma and these choices; threads copy. TMA: gpu_packed_copies_test.cc.
Schedule scheduled_wgmma_sparse(const Workload& w, const Choices& more = {},
                                const Target& target = hopper()) {
  return gpu_schedule(
      w, target,
      joined_choices(
          {{".B.sparse", "halves"}, {".mma", sparse_wgmma_for(w)}, {".copies?", "cp_async"}},
          more));
}

TEST(GpuWgmmaSparse, IsOfferedBehindTheInstructionsOfWarps) {
  const Workload w = workload("matmul:m=64,n=128,k=256,dtype=f16,trans_b=true,w.sparse=2:4");
  EXPECT_EQ(ways_of_wgmma_sparse(w, hopper()),
            (std::vector<std::string>{"sp_m16n8k32_f32_f16", "wgmma_sp_f32_f16"}));
  for (const char* target : {"cuda:sm_80", "cuda:sm_100"}) {
    EXPECT_TRUE(ways_of_wgmma_sparse(w, Target::parse(target)).empty()) << "nothing is asked";
  }
  auto offered = [](const char* spec) { return ways_of_wgmma_sparse(workload(spec), hopper()); };
  EXPECT_THAT(offered("matmul:m=64,n=128,k=256,dtype=i8,w.sparse=1:4"),
              Contains("wgmma_sp_s32_s8"));
  EXPECT_THAT(offered("matmul:m=8,n=128,k=256,dtype=f16,w.sparse=2:4"),
              Not(Contains(StartsWith("wgmma_sp_"))))
      << "eight rows are what instructions of warps take";
}

TEST(GpuWgmmaSparse, InstructionsOfWarpsAreAChoice) {
  const Workload w = workload("matmul:m=64,n=128,k=256,dtype=f16,trans_b=true,w.sparse=2:4");
  const std::string text =
      text_of(scheduled_wgmma_sparse(w, {{".mma", "sp_m16n8k32_f32_f16"}, {".tile", "64x64/16"}}));
  EXPECT_THAT(text, HasSubstr("tw_mma_sp_m16n8k32_f32_f16<1>("));
  EXPECT_THAT(text, Not(HasSubstr("tw_wgmma")));
}

struct SparseCase {
  const char* spec;
  const char* tile;
  int64_t k = 0, stages = 0;  // 0: the first option
};

class GpuWgmmaSparseKernel : public ::testing::TestWithParam<SparseCase> {};

TEST_P(GpuWgmmaSparseKernel, IsRight) {
  const SparseCase& c = GetParam();
  SCOPED_TRACE(c.spec);
  Choices choices = {{".tile", c.tile}};
  if (c.k > 0) choices[".k"] = c.k;
  if (c.stages > 0) choices[".stages"] = c.stages;
  const Workload w = workload(c.spec);
  const Schedule s = scheduled_wgmma_sparse(w, choices);
  const std::string text = text_of(s);
  EXPECT_THAT(text, HasSubstr("tw_wgmma_sp_m64n"));
  EXPECT_THAT(text, HasSubstr("tw_word_at(B_rows")) << "metadata come from registers";
  expect_right_on_gpu(w, s, hopper());
}

INSTANTIATE_TEST_SUITE_P(
    Every, GpuWgmmaSparseKernel,
    ::testing::Values(
        SparseCase{"matmul:m=16,n=64,k=256,dtype=f16,trans_b=true,w.sparse=2:4", "16x64/16", 128},
        SparseCase{"matmul:m=32,n=128,k=256,dtype=bf16,w.sparse=2:4", "32x128/16", 64, 3},
        SparseCase{"matmul:m=24,n=64,k=256,dtype=i8,w.sparse=2:4", "24x64/16", 128},
        SparseCase{"matmul:m=48,n=64,k=512,dtype=i8,trans_b=true,w.sparse=1:4", "48x64/16", 256, 2},
        SparseCase{"matmul:m=16,n=64,k=128,dtype=u8,w.sparse=2:4", "16x64/16"},
        SparseCase{"matmul:m=16,n=64,k=128,dtype=f16,w.sparse=2:8,w.vector=8", "16x64/16"},
        SparseCase{"matmul:m=16,n=64,k=256,dtype=f8e4m3,acc=f32,out=bf16,w.sparse=2:4", "16x64/16"},
        // Codes that become elements in registers.
        SparseCase{"matmul:m=16,n=64,k=256,dtype=f16,trans_b=true,w.dtype=u4,w.group=128,"
                   "w.scale=f16,w.zero=u4,w.sparse=2:4",
                   "16x64/16", 128},
        SparseCase{"matmul:m=32,n=64,k=256,dtype=bf16,w.dtype=i4,w.group=64,w.scale=bf16,"
                   "w.sparse=2:4",
                   "32x64/16"},
        SparseCase{"matmul:m=16,n=64,k=128,dtype=f16,w.dtype=f8e4m3,w.group=-1,w.sparse=2:4",
                   "16x64/16"},
        SparseCase{"matmul:m=16,n=64,k=256,dtype=i8,w.dtype=i4,w.sparse=2:4", "16x64/16"},
        SparseCase{"matmul:m=16,n=64,k=256,dtype=i8,acc=f32,w.dtype=i2,w.group=64,w.sparse=2:4",
                   "16x64/16"},
        // Partial tiles along rows, columns and k.
        SparseCase{"matmul:m=37,n=72,k=200,dtype=f16,w.sparse=2:4", "48x64/16"},
        SparseCase{"matmul:m=20,n=100,k=196,dtype=i8,w.sparse=2:4", "24x128/16"},
        SparseCase{"matmul:m=20,n=100,k=300,dtype=bf16,w.dtype=u4,w.group=64,w.zero=u4,"
                   "w.scale=bf16,w.sparse=2:4,epilogue=[bias,gelu]",
                   "24x128/16"}),
    [](const ::testing::TestParamInfo<SparseCase>& info) { return std::to_string(info.index); });

TEST(GpuWgmmaSparse, RowsMayBeDynamic) {
  const Workload w = workload("matmul:m=1..80,n=64,k=128,dtype=f16,trans_b=true,w.sparse=2:4");
  const Schedule s = scheduled_wgmma_sparse(w, {{".tile", "32x64/16"}});
  for (int64_t m : {1, 33, 80}) expect_right_on_gpu(w, s, hopper(), {{"m", m}});
}

TEST(GpuWgmmaSparse, BlocksTakeTilesInTurnOrShareThem) {
  const Target chip = hopper(3);
  const Workload w = workload("matmul:m=20,n=200,k=256,dtype=f16,w.sparse=2:4");
  for (const char* grid : {"persistent", "stream_k"}) {
    SCOPED_TRACE(grid);
    const Schedule s = scheduled_wgmma_sparse(
        w, {{".tile", "16x64/16"}, {".order", "rows"}, {".k", 64}, {".grid", grid}, {".blocks", 1}},
        chip);
    const CudaSource source = generate_cuda(s.module(), chip);
    EXPECT_THAT(source.text, HasSubstr("tw_wgmma_sp_m64n16k32"));
    EXPECT_EQ(source.launches.size(), std::string(grid) == "stream_k" ? 2u : 1u);
    expect_right_on_gpu(w, s, chip);
  }
}

TEST(GpuWgmmaSparse, EveryAnswerIsLegal) {
  for (const char* spec :
       {"matmul:m=20,n=72,k=512,dtype=f16,w.dtype=u4,w.group=128,trans_b=true,w.sparse=2:4",
        "matmul:m=200,n=320,k=512,dtype=i8,w.sparse=2:4",
        "matmul:m=64,n=64,k=256,dtype=bf16,w.sparse=1:4"}) {
    SCOPED_TRACE(spec);
    const Workload w = workload(spec);
    int by_groups = 0;
    for (uint64_t seed = 0; seed < 40; ++seed) {
      Trial trial = Trial::random(seed);
      Schedule s = apply_sketch(cuda_sketches().front(), {w, hopper(), 1}, trial);
      if (trial.config().find("wgmma_sp_") == std::string::npos) continue;
      ++by_groups;
      EXPECT_NO_THROW(lower_for_cuda(s.program(), hopper())) << trial.config();
    }
    EXPECT_GT(by_groups, 3);
  }
}

const Workload& small_wgmma_sparse() {
  static const Workload w = workload("matmul:m=16,n=64,k=256,dtype=f16,trans_b=true,w.sparse=2:4");
  return w;
}

Schedule small_schedule() {
  return scheduled_wgmma_sparse(small_wgmma_sparse(),
                                {{".tile", "16x64/16"}, {".k", 128}, {".stages", 3}});
}

// Each removed or changed call in the kernel shows.
TEST(GpuWgmmaSparse, WhatIsLeftOutIsCaught) {
  const Schedule s = small_schedule();
  auto verdict = [&](const std::string& from, const std::string& to) {
    return outcome_of_edited(small_wgmma_sparse(), s, hopper(), from, to, Places::All);
  };
  EXPECT_EQ(verdict("tw_wgmma_fence();", "tw_wgmma_fence();"), "ok");
  EXPECT_EQ(verdict("k32_f32_f16<1, ", "k32_f32_f16<0, "), "wrong") << "another selector";
  EXPECT_EQ(verdict("tw_word_at(B_rows_shared_register + (",
                    "0x44444444 + 0 * tw_word_at(B_rows_shared_register + ("),
            "wrong");
  EXPECT_EQ(
      verdict("tw_word_at(B_rows_shared_register + (", "~tw_word_at(B_rows_shared_register + ("),
      "bad-metadata");
  EXPECT_EQ(verdict(", 16, 1024, 64)", ", 16, 1024, 0)"), "wrong") << "the terms before";
  EXPECT_EQ(verdict("tw_ld<4>(B_rows_shared + (", "tw_ld<4>(B_rows_shared + (4 ^ "), "wrong")
      << "another lane's metadata";
  EXPECT_EQ(verdict("tw_wgmma_fence();", ""), "missing-fence");
  EXPECT_EQ(verdict("tw_wgmma_wait<0>();", ""), "wgmma-in-flight");
}

// The loop that is marked as an instruction.
Loop marked(const Schedule& s) {
  for (const Block& b : s.blocks()) {
    for (const Loop& l : s.loops(b)) {
      if (s.node(l).annotations.count(kInstructionKey) != 0) return l;
    }
  }
  throw std::logic_error("no loop is marked");
}

TEST(GpuWgmmaSparse, RefusesNestsOfOtherRows) {
  auto refusal = [](const std::string& row) {
    Schedule s = small_schedule();
    s.annotate(marked(s), kInstructionKey, row);
    return lowering_refusal(s, hopper());
  };
  EXPECT_EQ(refusal("sp_m64n16k32_f32_f16"), "was not refused");
  EXPECT_THAT(refusal("sp_m64n32k32_f32_f16"), HasSubstr("has another size"));
  EXPECT_THAT(refusal("sp_m64n16k16_f32_tf32"),
              HasSubstr("by those at places in registers, 4 bits each"));
  EXPECT_THAT(refusal("sp_m64n16k64_f32_e4m3"), HasSubstr("tiles of the row's types"));
  EXPECT_THAT(refusal("m64n16k16_f32_f16"), Not(HasSubstr("was not refused")));
  EXPECT_THAT(lowering_refusal(small_schedule(), Target::parse("cuda:sm_100")),
              HasSubstr("'sp_m64n16k32_f32_f16', which cuda:sm_100 does not have"));
}

// Elements outside the pattern cost no work.
TEST(GpuWgmmaSparse, TheModelCountsHalfOfTheProducts) {
  const Schedule s = small_schedule();
  const EmulatorCounters c = run_on_emulator(small_wgmma_sparse(), s, hopper()).emulated.counters;
  EXPECT_EQ(c.wgmma, 256 / 32) << "one warpgroup, every instruction along k";
  EXPECT_EQ(c.mma, 0);
  auto works = gpu_work_of(lower_for_cuda(s.program(), hopper()), hopper());
  ASSERT_EQ(works.size(), 1u);
  EXPECT_TRUE(works[0].products.is_wgmma);
  EXPECT_EQ(works[0].products.operations, static_cast<double>(c.mma_operations));
  EXPECT_EQ(works[0].products.operations, 2.0 * 64 * 16 * 256 / 2);
}

// In the model, neither a tile of warp instructions nor the weight with its zeros is as fast.
TEST(GpuWgmmaSparse, TheModelPrefersItForManyRows) {
  const Workload w = workload("matmul:m=4096,n=4096,k=4096,dtype=f16,trans_b=true,w.sparse=2:4");
  double best[2] = {1, 1};
  for (uint64_t seed = 0; seed < 60; ++seed) {
    Trial trial = Trial::random(seed);
    const Schedule s = apply_sketch(cuda_sketches().front(), {w, hopper(), 1}, trial);
    const GpuEstimate e = estimate_gpu(s.program(), hopper());
    const bool is_sparse = trial.config().find("wgmma_sp_") != std::string::npos;
    if (e.fits()) best[is_sparse] = std::min(best[is_sparse], e.seconds);
  }
  EXPECT_LT(best[1], best[0]);
}

TEST(GpuWgmmaSparse, CompilesToTheInstructionWithoutSpills) {
  if (!cuda::nvrtc_problem().empty()) GTEST_SKIP() << "NVRTC: " << cuda::nvrtc_problem();
  if (!cuda::nvrtc_accepts("sm_90a")) GTEST_SKIP() << "this NVRTC knows no sm_90a";
  for (const auto& [spec, tile, mnemonic] :
       {std::tuple{"matmul:m=256,n=4096,k=4096,dtype=f16,trans_b=true,w.sparse=2:4", "128x128/16",
                   "HGMMA.SP"},
        std::tuple{"matmul:m=192,n=4096,k=4096,dtype=bf16,w.sparse=2:4", "192x128/16", "HGMMA.SP"},
        std::tuple{"matmul:m=256,n=4096,k=4096,dtype=f16,trans_b=true,w.dtype=u4,w.group=128,"
                   "w.scale=f16,w.zero=u4,w.sparse=2:4",
                   "128x128/16", "HGMMA.SP"},
        std::tuple{"matmul:m=256,n=4096,k=4096,dtype=i8,w.sparse=2:4", "64x128/16", "IGMMA.SP"},
        std::tuple{"matmul:m=256,n=4096,k=4096,dtype=f8e4m3,acc=f32,out=bf16,w.sparse=2:4",
                   "64x128/16", "QGMMA.SP"}}) {
    SCOPED_TRACE(spec);
    const CudaSource source = generate_cuda(
        scheduled_wgmma_sparse(workload(spec),
                               {{".tile", tile}, {".k", 128}, {".store", "direct"}, {".stages", 3}})
            .module(),
        hopper());
    const cuda::CubinFacts facts = cuda::cubin_facts(
        cuda::compile_to_cubin(source.text, "kernel", "sm_90a"), source.launches.at(0).entry);
    EXPECT_GE(facts.count(mnemonic), 2) << ::testing::PrintToString(facts.instructions);
    EXPECT_EQ(facts.local_accesses(), 0) << source.text;
    EXPECT_EQ(facts.count(std::string(mnemonic).substr(0, 5)), 0) << "all of them are sparse";
    EXPECT_GT(facts.count("LDGSTS"), 0);
  }
}

// A persistent block keeps the places of its stores for all its tiles: a few, at constant distances.
TEST(GpuWgmmaSparse, PersistentBlocksOfWideTilesDoNotSpill) {
  const Workload w =
      workload("matmul:m=4096,n=4096,k=4096,dtype=f16,trans_b=true,out=f16,w.sparse=2:4");
  for (const char* copies : {"roles", "tensor"}) {
    SCOPED_TRACE(copies);
    const Schedule s = scheduled_wgmma_sparse(w, {{".tile", "256x128/16"},
                                                  {".copies?", copies},
                                                  {".store", "tensor"},
                                                  {".order", "hilbert"},
                                                  {".grid", "persistent"}});
    const CudaSource source = generate_cuda(s.module(), hopper());
    EXPECT_THAT(source.text,
                HasSubstr("C_shared[(warpgroup * 16384 + C_ax0_0 * 512) + tw_swizzle"));
    if (!cuda::nvrtc_accepts("sm_90a")) GTEST_SKIP() << "NVRTC: " << cuda::nvrtc_problem();
    const cuda::CubinFacts facts = cuda::cubin_facts(
        cuda::compile_to_cubin(source.text, "kernel", "sm_90a"), source.launches.at(0).entry);
    EXPECT_EQ(facts.local_accesses(), 0) << source.text;
  }
}

}  // namespace
}  // namespace tilewright
