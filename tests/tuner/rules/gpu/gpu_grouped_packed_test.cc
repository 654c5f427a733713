// Grouped GEMM with few-bit weights (each block of rows has its group's), and stacks of products,
// with matrix instructions.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <ostream>

#include "ir/ops/spec.h"
#include "runtime/cuda/cubin.h"
#include "runtime/cuda/nvrtc.h"
#include "tests/tuner/hopper.h"
#include "tuner/gpu/gpu_model.h"

namespace tilewright {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

Schedule scheduled_grouped_packed(const Workload& w, const Target& target, Choices choices) {
  choices[".B.layout"] = "fragments";
  return gpu_schedule(w, target, choices);
}

struct GroupedCase {
  const char* spec;
  const char* warp;   // the warp's instruction
  const char* group;  // the warpgroup's instruction
  const char* tile;
};
void PrintTo(const GroupedCase& c, std::ostream* out) { *out << c.spec; }

class GroupedPackedKernel : public ::testing::TestWithParam<GroupedCase> {};

TEST_P(GroupedPackedKernel, IsRightByEveryInstruction) {
  const GroupedCase& c = GetParam();
  SCOPED_TRACE(c.spec);
  const Workload w = workload(c.spec);
  const Target ampere = Target::parse("cuda:sm_80");
  const Schedule by_warps = scheduled_grouped_packed(w, ampere, {{".mma?", c.warp}});
  EXPECT_THAT(text_of(by_warps, ampere), HasSubstr("tw_mma_m16n8k"));
  expect_right_on_gpu(w, by_warps, ampere);
  for (const char* copies : {"roles", "cp_async"}) {
    SCOPED_TRACE(copies);
    const Schedule s = scheduled_grouped_packed(
        w, hopper(), {{".mma", c.group}, {".tile", c.tile}, {".copies", copies}});
    const std::string text = text_of(s, hopper());
    EXPECT_THAT(text, HasSubstr("tw_wgmma_m64n"));
    EXPECT_EQ(text.find("tw_bulk_load(B_packed") != std::string::npos,
              std::string(copies) == "roles")
        << text;
    expect_right_on_gpu(w, s, hopper());
  }
}

INSTANTIATE_TEST_SUITE_P(
    Every, GroupedPackedKernel,
    ::testing::Values(
        GroupedCase{"grouped_matmul:groups=3,blocks=4,rows=16,n=64,k=256,dtype=f16,trans_b=true,"
                    "w.dtype=u4,w.group=128,w.scale=f16,w.zero=u4",
                    "m16n8k16_f32_f16", "wgmma_f32_f16", "16x64/16"},
        // Partial tiles along rows, columns and k.
        GroupedCase{"grouped_matmul:groups=2,blocks=3,rows=20,n=72,k=200,dtype=bf16,w.dtype=i4,"
                    "w.group=64,w.scale=bf16,epilogue=[bias,silu]",
                    "m16n8k16_f32_bf16", "wgmma_f32_bf16", "24x64/16"},
        GroupedCase{"grouped_matmul:groups=3,blocks=2,rows=16,n=64,k=128,dtype=f16,w.dtype=nf4,"
                    "w.group=64,w.scale=f16",
                    "m16n8k16_f32_f16", "wgmma_f32_f16", "16x64/16"},
        GroupedCase{"matmul:batch=2,m=16,n=64,k=128,dtype=f16,w.dtype=u4,w.group=64,w.scale=f16",
                    "m16n8k16_f32_f16", "wgmma_f32_f16", "16x64/16"}),
    [](const ::testing::TestParamInfo<GroupedCase>& info) { return std::to_string(info.index); });

// A group's number is read once per tile.
TEST(GroupedPacked, TilesLookTheirGroupUpOnce) {
  const Workload w = workload(
      "grouped_matmul:groups=3,blocks=5,rows=16,n=128,k=256,dtype=f16,trans_b=true,w.dtype=u4,"
      "w.group=128,w.scale=f16,w.zero=u4");
  const Schedule s = scheduled_grouped_packed(w, hopper(4),
                                              {{".mma", "wgmma_f32_f16"},
                                               {".tile", "16x64/16"},
                                               {".k", 64},
                                               {".copies", "roles"},
                                               {".scales", "staged"},
                                               {".stages", 3},
                                               {".grid", "persistent"},
                                               {".blocks", 1}});
  const std::string text = text_of(s, hopper(4));
  const size_t lookup = text.find("G_at = ");
  ASSERT_NE(lookup, std::string::npos) << text;
  const std::string loop = text.substr(text.find("for (int k", lookup));
  for (const char* copy :
       {"tw_bulk_load(B_packed", "tw_bulk_load(B_zero", "tw_bulk_load(B_scale"}) {
    EXPECT_THAT(loop, HasSubstr(copy));
  }
  EXPECT_THAT(loop, Not(HasSubstr("G["))) << text;
  expect_right_on_gpu(w, s, hopper(4));
}

TEST(GroupedPacked, BlocksMayBeAsManyAsALaunchSays) {
  const Workload w = workload(
      "grouped_matmul:groups=3,blocks=1..6,rows=16,n=64,k=128,dtype=f16,w.dtype=u4,w.group=64,"
      "w.scale=f16");
  const Schedule s = scheduled_grouped_packed(
      w, hopper(), {{".mma", "wgmma_f32_f16"}, {".tile", "16x64/16"}, {".copies", "roles"}});
  EXPECT_THAT(text_of(s, hopper()), HasSubstr("tw_wgmma_m64"));
  for (int64_t blocks : {1, 6}) expect_right_on_gpu(w, s, hopper(), {{"blocks", blocks}});
}

TEST(GroupedPacked, EveryAnswerIsLegal) {
  const Workload w = workload(
      "grouped_matmul:groups=3,blocks=4,rows=48,n=200,k=256,dtype=f16,trans_b=true,w.dtype=u4,"
      "w.group=64,w.scale=f16,w.zero=u4");
  int packed = 0;
  for (uint64_t seed = 0; seed < 30; ++seed) {
    Trial trial = Trial::random(seed);
    Schedule s = apply_sketch(cuda_sketches().front(), {w, hopper(), 1}, trial);
    if (trial.config().find("\"fragments\"") == std::string::npos) continue;
    ++packed;
    EXPECT_NO_THROW(generate_cuda(s.module(), hopper())) << trial.config();
  }
  EXPECT_GT(packed, 3);
}

TEST(GroupedPacked, CompileWithoutSpills) {
  if (!cuda::nvrtc_problem().empty()) GTEST_SKIP() << "NVRTC: " << cuda::nvrtc_problem();
  if (!cuda::nvrtc_accepts("sm_90a")) GTEST_SKIP() << "this NVRTC knows no sm_90a";
  const Workload w = workload(
      "grouped_matmul:groups=64,blocks=128,rows=64,n=4096,k=2048,dtype=bf16,trans_b=true,"
      "w.dtype=u4,w.group=128,w.scale=bf16,w.zero=u4");
  const Schedule s = scheduled_grouped_packed(w, hopper(),
                                              {{".mma", "wgmma_f32_bf16"},
                                               {".tile", "64x128/16"},
                                               {".copies", "roles"},
                                               {".scales", "staged"},
                                               {".store", "direct"},
                                               {".stages", 4},
                                               {".grid", "persistent"},
                                               {".blocks", 1}});
  const CudaSource source = generate_cuda(s.module(), hopper());
  const cuda::CubinFacts facts = cuda::cubin_facts(
      cuda::compile_to_cubin(source.text, "kernel", "sm_90a"), source.launches.at(0).entry);
  EXPECT_GE(facts.count("HGMMA"), 2);
  EXPECT_EQ(facts.count("UBLKCP"), 3);
  EXPECT_GT(facts.count("UTMALDG"), 0);
  EXPECT_EQ(facts.local_accesses(), 0) << source.text;
}

}  // namespace
}  // namespace tilewright
