// Attention in one kernel with tensor cores: in the emulator, compared with the oracle.
#include <gmock/gmock.h>

#include "ir/ops/spec.h"
#include "runtime/cuda/cubin.h"
#include "runtime/cuda/nvrtc.h"
#include "tests/tuner/edited_kernel.h"
#include "tests/tuner/gpu_check.h"

namespace tilewright {
namespace {

using ::testing::HasSubstr;

Choices choices_of_tensor_chain(const std::string& tile, const std::string& rows, int stages,
                                const Choices& more = {}) {
  const Choices choices = {{"S_max.softmax", "online_mma"},
                           {"S_max.tile", tile},
                           {"S_max.rows", rows},
                           {"S_max.stages", stages}};
  return plain_with(joined_choices(choices, more));
}

struct TensorChainCase {
  const char* spec;
  const char* tile;
  const char* rows;
  int stages;
  Choices more = {};
};

class GpuTensorChain : public ::testing::TestWithParam<TensorChainCase> {};

TEST_P(GpuTensorChain, IsRightInOneKernel) {
  const TensorChainCase& p = GetParam();
  const Workload w = make_workload(parse_spec(p.spec));
  Schedule s = gpu_schedule(w, ampere(), choices_of_tensor_chain(p.tile, p.rows, p.stages, p.more));
  GpuRun run = run_on_emulator(w, s, ampere());
  ASSERT_TRUE(run.emulated.ok()) << run.emulated.fault->to_string() << "\n" << run.source.text;
  EXPECT_EQ(run.checked.verdict, Verdict::Ok) << run.checked.message << "\n" << run.source.text;
  // A second kernel combines the parts of split-KV.
  const bool parts = p.more.contains("S_max.parts");
  EXPECT_EQ(run.source.launches.size(), parts ? 2u : 1u);
  EXPECT_THAT(run.source.text, HasSubstr("tw_mma_m16n8k16"));
}

INSTANTIATE_TEST_SUITE_P(
    Specs, GpuTensorChain,
    ::testing::Values(
        TensorChainCase{"attention:m=32,n=64,d=32,dtype=f16", "32x64/16", "registers", 1},
        TensorChainCase{"attention:heads=2,m=64,n=128,d=64,dtype=f16", "64x64/16", "registers", 2},
        TensorChainCase{"attention:heads=2,kv_heads=1,m=70,n=100,d=32,dtype=bf16", "32x32/16",
                        "shared", 2},
        TensorChainCase{"attention:m=70,n=100,d=24,dv=32,causal=true,dtype=f16", "64x32/16",
                        "registers", 3},
        TensorChainCase{"attention:m=128,n=128,d=80,causal=true,dtype=bf16", "128x64/32", "shared",
                        2},
        TensorChainCase{"attention:batch=3,heads=2,m=40,n=100,d=32,lengths=keys,dtype=f16",
                        "32x32/16", "registers", 2},
        TensorChainCase{"attention:batch=4,m=40,n=100,d=32,causal=true,lengths=both,dtype=bf16",
                        "64x32/16", "shared", 3},
        // Pages smaller than a tile of keys, pages with several tiles, and neither.
        TensorChainCase{
            "attention:batch=2,heads=2,m=20,n=96,d=32,lengths=keys,page=16,pages=17,dtype=f16",
            "32x32/16", "registers", 2},
        TensorChainCase{"attention:batch=2,heads=2,m=20,n=100,d=32,page=64,pages=5,dtype=bf16",
                        "32x32/16", "shared", 3},
        TensorChainCase{
            "attention:batch=2,m=20,n=50,d=24,dv=16,lengths=keys,page=6,pages=19,dtype=f16",
            "32x16/16", "registers", 1},
        // Decoding: heads that share keys are rows of one tile.
        TensorChainCase{
            "attention:batch=3,heads=16,kv_heads=2,m=1,n=100,d=32,lengths=keys,page=16,pages=30,"
            "dtype=f16",
            "16x32/16", "registers", 2},
        TensorChainCase{
            "attention:batch=2,heads=6,kv_heads=2,m=3,n=80,d=32,causal=true,lengths=both,dtype="
            "bf16",
            "16x16/16",
            "shared",
            2,
            {{"S_max.heads", "packed"}}},
        // Split-KV; sequences may end before a part or inside it.
        TensorChainCase{
            "attention:batch=4,heads=8,kv_heads=2,m=1,n=256,d=32,lengths=keys,page=16,pages=30,"
            "dtype=f16",
            "16x32/16",
            "registers",
            2,
            {{"S_max.parts", 4}}},
        TensorChainCase{
            "attention:batch=3,heads=2,m=20,n=190,d=32,causal=true,lengths=both,dtype=bf16",
            "32x16/16",
            "shared",
            2,
            {{"S_max.parts", 3}}},
        TensorChainCase{"attention:heads=4,kv_heads=2,m=5,n=128,d=32,dtype=f16",
                        "32x32/16",
                        "registers",
                        1,
                        {{"S_max.heads", "packed"}, {"S_max.parts", 2}}}));

// Each single error in a kernel gives a wrong result or a fault in the emulator.
TEST(GpuTensorChainBroken, IsSeen) {
  const Workload w = make_workload(parse_spec("attention:m=64,n=96,d=32,causal=true,dtype=f16"));
  const Schedule s = gpu_schedule(w, ampere(), choices_of_tensor_chain("32x32/16", "registers", 2));
  // Whether replacing `from` by `to` shows.
  auto is_seen = [&](const std::string& from, const std::string& to) {
    return outcome_of_edited(w, s, ampere(), from, to, Places::All) != "ok";
  };
  EXPECT_FALSE(is_seen("distance = 2;", "distance = 2;"));
  EXPECT_TRUE(is_seen("distance = 2;", "distance = 1;"));
  EXPECT_TRUE(is_seen("tw_cp_async_wait<0>();", ""));
  EXPECT_TRUE(is_seen("__syncthreads();", ""));
  EXPECT_TRUE(is_seen("ldmatrix_x4_trans", "ldmatrix_x4"));
  // Sums are rescaled to the new maximum.
  EXPECT_TRUE(is_seen("expf((S_max_last", "1 + 0 * expf((S_max_last"));
}

// The same for sequence lengths, page tables, and split-KV.
TEST(GpuTensorChainBroken, LengthsPagesAndPartsAreSeen) {
  const Workload w =
      make_workload(parse_spec("attention:batch=3,heads=4,kv_heads=2,m=1,n=96,d=32,lengths=keys,"
                               "page=16,pages=20,dtype=f16"));
  const Schedule s = gpu_schedule(
      w, ampere(), choices_of_tensor_chain("16x32/16", "registers", 2, {{"S_max.parts", 3}}));
  auto is_seen = [&](const std::string& from, const std::string& to) {
    return outcome_of_edited(w, s, ampere(), from, to, Places::All) != "ok";
  };
  EXPECT_FALSE(is_seen("(int)(N[", "(int)(N["));
  EXPECT_TRUE(is_seen("(int)(N[", "1 + (int)(N["));
  EXPECT_TRUE(is_seen("(int)(T[", "1 - (int)(T["));
  // Parts are rescaled to the total maximum.
  EXPECT_TRUE(is_seen("expf((S_max_part", "1 + 0 * expf((S_max_part"));
}

// Blocks of keys that all rows of a tile see are not masked: one branch decides that (peeled masked
// iterations).
TEST(GpuTensorChainMasks, StandApart) {
  const Workload w = make_workload(parse_spec("attention:m=128,n=128,d=16,causal=true,dtype=f16"));
  const Schedule s = gpu_schedule(w, ampere(), choices_of_tensor_chain("32x32/16", "registers", 2));
  LoweringOptions all_masked;
  all_masked.without = {"set_masks_apart"};
  const std::string text = generate_cuda(s.module(), ampere()).text,
                    masked = generate_cuda(s.module(), ampere(), all_masked).text;
  auto branches = [](const std::string& t) {
    int count = 0;
    for (size_t at = t.find("} else {"); at != std::string::npos; at = t.find("} else {", at + 1)) {
      ++count;
    }
    return count;
  };
  EXPECT_EQ(branches(masked), 0) << masked;
  EXPECT_EQ(branches(text), 2) << text;  // for the maximum and for the weights
  // A branch that lets all blocks through shows rows what they must not see.
  GpuRun run = run_on_emulator(w, s, ampere(), {}, 1, [](std::string& t) {
    for (size_t at = t.find("} else {"); at != std::string::npos; at = t.find("} else {", at + 1)) {
      const size_t open = t.rfind("\n    if (", at) + 9;
      t.replace(open, t.find(") {", open) - open, "true");
    }
  });
  ASSERT_TRUE(run.emulated.ok()) << run.emulated.fault->to_string();
  EXPECT_EQ(run.checked.verdict, Verdict::Wrong) << run.source.text;
}

bool is_first(const std::string& spec, const Target& target) {
  return choice_of(gpu_trial(make_workload(parse_spec(spec)), target), "S_max.softmax") ==
         "online_mma";
}

TEST(GpuTensorChainSketch, ComesFirstWhereThereIsAnInstruction) {
  EXPECT_TRUE(is_first("attention:m=64,n=64,d=64,dtype=f16", ampere()));
  // With wgmma, and enough rows for it, wgmma comes first.
  EXPECT_TRUE(is_first("attention:m=48,n=64,d=64,dtype=bf16", Target::parse("cuda:sm_90a")));
  EXPECT_FALSE(is_first("attention:m=64,n=64,d=64,dtype=bf16", Target::parse("cuda:sm_90a")));
  EXPECT_TRUE(is_first("attention:m=64,n=64,d=64,dtype=bf16", Target::parse("cuda:sm_100")));
  EXPECT_FALSE(is_first("attention:m=64,n=64,d=64,dtype=f16", Target::parse("cuda:sm_75")));
  EXPECT_FALSE(is_first("attention:m=64,n=64,d=64,dtype=f32", ampere()));
  EXPECT_FALSE(is_first("attention:m=64,n=64,d=64,dv=24,dtype=f16", ampere()));
}

// With few query tiles split-KV comes first; with many there is no knob.
TEST(GpuTensorChainSketch, PartsOfKeysComeFirstWhereTilesAreFew) {
  auto parts = [](const std::string& spec) {
    return choice_of(gpu_trial(make_workload(parse_spec(spec)), ampere()), "S_max.parts");
  };
  EXPECT_EQ(parts("attention:batch=8,heads=32,kv_heads=8,m=1,n=4096,d=128,dtype=f16"), "4");
  EXPECT_EQ(parts("attention:heads=8,kv_heads=1,m=1,n=16384,d=128,dtype=f16"), "64");
  EXPECT_EQ(parts("attention:batch=16,heads=16,m=2048,n=2048,d=64,dtype=f16"), "not asked");
  EXPECT_EQ(parts("attention:heads=8,kv_heads=1,m=1,n=20,d=64,dtype=f16"), "not asked");
}

TEST(GpuTensorChainCompiled, KeepsScoresAndSumsInRegisters) {
  if (!cuda::nvrtc_problem().empty()) GTEST_SKIP() << "NVRTC: " << cuda::nvrtc_problem();
  for (const char* arch : {"sm_80", "sm_90a", "sm_120"}) {
    if (!cuda::nvrtc_accepts(arch)) continue;
    const Target target = Target::parse(std::string("cuda:") + arch);
    for (const char* d : {"64", "128"}) {
      SCOPED_TRACE(std::string(arch) + ", d=" + d);
      const Workload w = make_workload(parse_spec(
          std::string("attention:heads=16,m=2048,n=2048,causal=true,dtype=bf16,d=") + d));
      const bool has_wgmma = target.gpu.compute_capability == 90;  // wgmma comes first there
      const Schedule s = gpu_schedule(
          w, target, has_wgmma ? choices_of_tensor_chain("128x64/16", "registers", 2) : Choices());
      CudaSource source = generate_cuda(s.module(), target);
      cuda::CubinFacts facts = cuda::cubin_facts(
          cuda::compile_to_cubin(source.text, "kernel", arch), source.launches.at(0).entry);
      EXPECT_GE(facts.count("HMMA"), 64) << source.text;
      EXPECT_EQ(facts.local_accesses(), 0) << source.text;
      EXPECT_EQ(facts.stack_bytes, 0);
    }
  }
}

// A decoding step from pages: 16-byte copies, everything else in registers.
TEST(GpuTensorChainCompiled, DecodesFromPagesWithNoSpills) {
  if (!cuda::nvrtc_problem().empty()) GTEST_SKIP() << "NVRTC: " << cuda::nvrtc_problem();
  const Workload w = make_workload(
      parse_spec("attention:batch=8,heads=64,kv_heads=8,m=1,n=4096,d=128,lengths=keys,page=16,"
                 "pages=2048,dtype=bf16"));
  for (const char* arch : {"sm_80", "sm_90a"}) {
    if (!cuda::nvrtc_accepts(arch)) continue;
    SCOPED_TRACE(arch);
    const Target target = Target::parse(std::string("cuda:") + arch);
    CudaSource source = generate_cuda(gpu_schedule(w, target, Trial::first()).module(), target);
    EXPECT_THAT(source.text, HasSubstr("tw_cp_async<16>(K_seq"));
    ASSERT_EQ(source.launches.size(), 2u);
    cuda::CubinFacts facts = cuda::cubin_facts(cuda::compile_to_cubin(source.text, "kernel", arch),
                                               source.launches.at(0).entry);
    EXPECT_GE(facts.count("HMMA"), 64) << source.text;
    EXPECT_EQ(facts.local_accesses(), 0) << source.text;
    EXPECT_EQ(facts.stack_bytes, 0);
  }
}

}  // namespace
}  // namespace tilewright
