// Gated layers with few-bit weights: gate and up in one kernel (dual GEMM), from the sketch to
// machine code.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "ir/ops/spec.h"
#include "runtime/cuda/cubin.h"
#include "runtime/cuda/nvrtc.h"
#include "tests/tuner/gpu_check.h"
#include "tests/tuner/hopper.h"

namespace tilewright {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

// One kernel with these choices, by the last instruction on offer if `by_warpgroups`.
Schedule joined(const Workload& w, const Target& target, Choices choices, bool by_warpgroups) {
  choices[".products"] = "joined";
  if (by_warpgroups) choices[".mma"] = wgmma_for(w.inputs[0].buffer->elem);
  return gpu_schedule(w, target, choices);
}

TEST(GpuPackedSiblings, AreJoinedFirstOfManyRows) {
  auto ways = [](const std::string& more) {
    return options_of(gpu_trial(workload("gated_mlp:n=64,k=64," + more), ampere()),
                      "C_gate.products");
  };
  EXPECT_THAT(ways("m=64,dtype=f16,w.dtype=i4"), ElementsAre("joined", "apart"));
  EXPECT_THAT(ways("m=16,dtype=f16,w.dtype=i4"), ElementsAre("apart", "joined"))
      << "few rows are bound by the weights";
  EXPECT_THAT(ways("m=64,dtype=f16,w.sparse=2:4"), IsEmpty()) << "patterns have ways of their own";
  EXPECT_THAT(ways("m=64,w.dtype=i4"), IsEmpty()) << "no instruction takes f32 from registers";
}

struct JoinedCase {
  const char* spec;
  nlohmann::json answers;
  bool by_warpgroups = true;
};

class GpuPackedSiblingsKernel : public ::testing::TestWithParam<JoinedCase> {};

TEST_P(GpuPackedSiblingsKernel, IsRight) {
  const JoinedCase& c = GetParam();
  SCOPED_TRACE(c.spec);
  const Workload w = workload(c.spec);
  const Target target = c.by_warpgroups ? hopper() : ampere();
  const Schedule s = joined(w, target, c.answers, c.by_warpgroups);
  const CudaSource source = generate_cuda(s.module(), target);
  EXPECT_EQ(source.launches.size(), 1u);
  EXPECT_THAT(source.text, HasSubstr("G_packed_shared"));
  EXPECT_THAT(source.text, HasSubstr("U_packed_shared"));
  EXPECT_THAT(source.text, Not(HasSubstr("A_shared_1"))) << "one copy of A for both products";
  EXPECT_THAT(source.text, HasSubstr(c.by_warpgroups ? "tw_wgmma_m64n" : "tw_mma_"));
  std::map<std::string, int64_t> dims;
  if (!w.dims.empty()) dims = {{"m", 21}};
  expect_right_on_gpu(w, s, target, dims);
}

INSTANTIATE_TEST_SUITE_P(
    ByWarps, GpuPackedSiblingsKernel,
    ::testing::Values(
        JoinedCase{
            "gated_mlp:m=33,n=64,k=128,dtype=f16,w.dtype=u4,w.group=32,w.zero=u4,w.scale=f16",
            {{".tile", "32x64/16"}, {".store", "shared"}, {".scales", "staged"}},
            false},
        // Partial tiles; column scales that are read where they are needed.
        JoinedCase{"gated_mlp:m=20,n=40,k=70,dtype=bf16,trans_b=true,w.dtype=i2,act=gelu",
                   {{".store", "direct"}},
                   false},
        JoinedCase{"gated_mlp:m=9,n=40,k=64,dtype=f16,w.dtype=nf4,w.group=32", {}, false},
        JoinedCase{
            "gated_mlp:m=9,n=40,k=64,dtype=f16,w.dtype=nf4,w.values=f16,w.group=32", {}, false},
        JoinedCase{
            "gated_mlp:m=17,n=40,k=96,dtype=i8,acc=f32,out=f16,w.dtype=i4,w.group=32", {}, false},
        JoinedCase{"gated_mlp:m=1..40,n=64,k=64,dtype=f16,w.dtype=i4,w.group=32", {}, false}),
    [](const auto& info) { return std::to_string(info.index); });

INSTANTIATE_TEST_SUITE_P(
    ByWarpgroups, GpuPackedSiblingsKernel,
    ::testing::Values(
        JoinedCase{"gated_mlp:m=16,n=128,k=256,dtype=f16,trans_b=true,w.dtype=u4,w.group=128,"
                   "w.scale=f16,w.zero=u4",
                   {{".tile", "16x64/16"},
                    {".k", 64},
                    {".copies", "roles"},
                    {".stages", 3},
                    {".scales", "staged"},
                    {".store", "shared"},
                    {".cluster", "1x2"}}},
        JoinedCase{
            "gated_mlp:m=32,n=128,k=256,dtype=f16,w.dtype=i4,w.scale=f16",
            {{".tile", "32x128/16"}, {".k", 128}, {".copies", "tensor"}, {".store", "direct"}}},
        // Partial tiles along rows, columns and k.
        JoinedCase{"gated_mlp:m=37,n=72,k=200,dtype=bf16,w.dtype=f4e2m1,w.group=32,w.scale=e8m0",
                   {{".tile", "48x64/16"}, {".copies", "cp_async"}, {".stages", 2}}},
        JoinedCase{"gated_mlp:m=16,n=64,k=128,dtype=f16,w.dtype=nf4,w.group=64",
                   {{".copies", "roles"}}},
        JoinedCase{"gated_mlp:m=16,n=64,k=128,dtype=bf16,w.dtype=nf4,w.values=bf16,w.group=64",
                   {{".copies", "roles"}}},
        JoinedCase{"gated_mlp:m=24,n=64,k=256,dtype=f8e4m3,out=bf16,w.dtype=f8e4m3,w.group=128",
                   {{".tile", "24x64/16"}, {".copies", "roles"}}},
        JoinedCase{"gated_mlp:m=24,n=64,k=256,dtype=i8,out=f16,w.dtype=i8,w.scale=f16",
                   {{".tile", "24x64/16"}, {".copies", "roles"}}},
        JoinedCase{"gated_mlp:m=1..40,n=64,k=128,dtype=f16,w.dtype=i4,w.group=64",
                   {{".tile", "32x64/16"}, {".copies", "roles"}}}),
    [](const auto& info) { return std::to_string(info.index); });

// Each product has its own scales, and only the gate is the activation's argument.
TEST(GpuPackedSiblings, TheEmulatorNoticesWeightsInEachOthersPlace) {
  const Workload w =
      workload("gated_mlp:m=16,n=64,k=128,dtype=f16,w.dtype=i4,w.group=64,w.scale=f16");
  const Schedule s = joined(
      w, hopper(), {{".tile", "16x64/16"}, {".copies", "roles"}, {".scales", "direct"}}, true);
  expect_right_on_gpu(w, s, hopper());
  for (const auto& [from, to] : {std::pair{"U_scale[", "G_scale["}, {"G_scale[", "U_scale["}}) {
    SCOPED_TRACE(from);
    GpuRun run = run_on_emulator(w, s, hopper(), {}, 1, [&](std::string& text) {
      const size_t at = text.find(from);
      ASSERT_NE(at, std::string::npos) << text;
      text.replace(at, std::string(from).size(), to);
    });
    EXPECT_TRUE(!run.emulated.ok() || run.checked.verdict == Verdict::Wrong);
  }
}

// Registers hold the accumulators of both products, those of a group, and the elements unpacked
// meanwhile.
TEST(GpuPackedSiblings, CompileWithSumsInRegisters) {
  if (!cuda::nvrtc_problem().empty()) GTEST_SKIP() << "NVRTC: " << cuda::nvrtc_problem();
  struct Case {
    const char *architecture, *mnemonic, *tile;
    int64_t rows;
  };
  for (const Case& c : {Case{"sm_80", "HMMA", "64x128/16", 4096},
                        {"sm_90a", "HGMMA", "64x128/16", 4096},
                        {"sm_90a", "HGMMA", "16x64/16", 16}}) {
    SCOPED_TRACE(fmt::format("{} {}", c.architecture, c.tile));
    if (!cuda::nvrtc_accepts(c.architecture)) continue;
    const Target target = Target::parse(std::string("cuda:") + c.architecture);
    const bool by_warpgroups = std::string(c.mnemonic) == "HGMMA";
    const Workload w = workload(fmt::format(
        "gated_mlp:m={},n=14336,k=4096,dtype=f16,w.dtype=u4,w.group=128,w.zero=u4,w.scale=f16",
        c.rows));
    nlohmann::json answers = {{".tile", c.tile}, {".k", 64}, {".stages", 3}};
    if (by_warpgroups) answers[".copies"] = "roles";
    const CudaSource source =
        generate_cuda(joined(w, target, answers, by_warpgroups).module(), target);
    ASSERT_EQ(source.launches.size(), 1u);
    const cuda::CubinFacts facts = cuda::cubin_facts(
        cuda::compile_to_cubin(source.text, "kernel", c.architecture), source.launches[0].entry);
    EXPECT_GE(facts.count(c.mnemonic), 8) << source.text;
    EXPECT_EQ(facts.local_accesses(), 0) << source.text;
    EXPECT_GT(facts.count(by_warpgroups ? "UBLKCP" : "LDGSTS"), 0) << source.text;
  }
}

}  // namespace
}  // namespace tilewright
