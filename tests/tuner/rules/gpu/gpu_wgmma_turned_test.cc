// Products of few rows with wgmma and swapped operands (swap AB): its rows are the weight's
// columns.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "ir/ops/spec.h"
#include "runtime/cuda/cubin.h"
#include "runtime/cuda/nvrtc.h"
#include "tests/tuner/hopper.h"

namespace tilewright {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

Choices turned_choices(const Workload& w, const std::string& tile, const Choices& more) {
  Choices choices = {{".gemv?", "none"}, {".B.layout?", "none"}, {".copies?", "roles"},
                     {".stages", 3},     {".store?", "shared"},  {".parts?", 1},
                     {".tile", tile}};
  choices[".mma"] = wgmma_for(w.inputs.front().buffer->elem) + "_turned";
  return joined_choices(choices, more);
}

Schedule scheduled_wgmma_turned(const Workload& w, const Target& target, const std::string& tile,
                                const nlohmann::json& more = {}) {
  return gpu_schedule(w, target, turned_choices(w, tile, more));
}

bool is_offered(const std::string& spec, const Target& target = hopper()) {
  const Workload w = workload(spec);
  const Choices choices = {{".gemv?", "none"}, {".B.layout?", "none"}, {".parts?", 1}};
  const std::vector<std::string> ways = options_of(gpu_trial(w, target, choices), ".mma");
  return std::any_of(ways.begin(), ways.end(),
                     [](const std::string& way) { return way.ends_with("_turned"); });
}

TEST(WgmmaTurned, IsOfferedForFewRowsAlongTheTerms) {
  EXPECT_TRUE(is_offered("matmul:m=16,n=256,k=128,dtype=f16"));
  EXPECT_TRUE(is_offered("grouped_matmul:groups=2,blocks=3,rows=16,n=256,k=128,dtype=f16"));
  EXPECT_FALSE(is_offered("matmul:m=128,n=256,k=128,dtype=f16"));
  EXPECT_FALSE(is_offered("matmul:m=16,n=32,k=128,dtype=f16"));
  EXPECT_FALSE(is_offered("matmul:m=16,n=256,k=128,dtype=f16,trans_a=true"));
  EXPECT_FALSE(is_offered("matmul:m=16,n=256,k=128,dtype=f16", Target::parse("cuda:sm_80")));
}

TEST(WgmmaTurned, TypesTilesCopiesAndTails) {
  struct Case {
    const char* spec;
    const char* tile;
    nlohmann::json answers = nlohmann::json::object();
  };
  for (const Case& c : std::vector<Case>{
           {"grouped_matmul:groups=3,blocks=4,rows=16,n=128,k=200,dtype=f16", "16x128/16"},
           {"grouped_matmul:groups=3,blocks=4,rows=20,n=72,k=72,dtype=bf16,trans_b=true,"
            "epilogue=[bias,silu]",
            "24x64/16",
            {{".store", "direct"}}},
           {"grouped_matmul:groups=2,blocks=9,rows=16,n=128,k=136,dtype=f16",
            "16x64/16",
            {{".grid", "persistent"}, {".copies", "tensor"}}},
           {"grouped_matmul:groups=2,blocks=3,rows=8,n=64,k=192,dtype=f16",
            "8x64/16",
            {{".copies", "cp_async"}}},
           {"matmul:m=40,n=256,k=136,dtype=f16,epilogue=[bias,relu]", "40x128/16"},
           {"matmul:m=40,n=128,k=136,dtype=f16", "24x64/16", {{".pending", 0}}},
           {"matmul:m=16,n=64,k=640,dtype=f16,trans_b=true", "16x64/16", {{".grid", "stream_k"}}},
           {"matmul:m=32,n=128,k=272,dtype=i8,trans_b=true", "32x128/16"},
           {"matmul:m=16,n=64,k=2048,dtype=f16,trans_b=true", "16x64/16", {{".vk.parts", 4}}},
           // Parts of k = 320, not divided by tiles of 128.
           {"matmul:m=16,n=64,k=640,dtype=i8,trans_b=true",
            "16x64/16",
            {{".vk.parts", 2}, {".copies?", "cp_async"}}},
           {"matmul:m=16,n=64,k=384,dtype=f8e4m3,trans_b=true", "16x64/16", {{".promote", 128}}}}) {
    SCOPED_TRACE(c.spec);
    const Workload w = workload(c.spec);
    Schedule s = scheduled_wgmma_turned(w, hopper(4), c.tile, c.answers);
    const std::string text = text_of(s, hopper(4));
    const std::string tile = c.tile;
    EXPECT_THAT(text, HasSubstr("tw_wgmma_m64n" + tile.substr(0, tile.find('x')) + "k"));
    const bool in_boxes = c.answers.dump().find("cp_async") == std::string::npos;
    EXPECT_EQ(text.find("tw_tensor_load_") != std::string::npos, in_boxes);
    EXPECT_EQ(
        generate_cuda(s.module(), hopper(4)).launches.size(),
        c.answers.contains(".vk.parts") || c.answers.value(".grid", "") == "stream_k" ? 2u : 1u);
    expect_right_on_gpu(w, s, hopper(4));
  }
}

TEST(WgmmaTurned, RowsAndBlocksMayBeDynamic) {
  const Workload rows = workload("matmul:m=1..48,n=128,k=136,dtype=f16");
  Schedule s = scheduled_wgmma_turned(rows, hopper(), "24x64/16", {{".store", "direct"}});
  EXPECT_THAT(text_of(s, hopper()), HasSubstr("tw_wgmma_m64n24k16"));
  for (int64_t m : {1, 31, 48}) expect_right_on_gpu(rows, s, hopper(), {{"m", m}});
  const Workload blocks =
      workload("grouped_matmul:groups=3,blocks=1..9,rows=16,n=64,k=72,dtype=f16");
  Schedule t = scheduled_wgmma_turned(blocks, hopper(2), "16x64/16", {{".grid", "persistent"}});
  EXPECT_THAT(text_of(t, hopper(2)), HasSubstr("tw_wgmma_m64n16k16"));
  for (int64_t count : {1, 9}) expect_right_on_gpu(blocks, t, hopper(2), {{"blocks", count}});
}

TEST(WgmmaTurned, CompilesToTheInstructionWithSumsInRegisters) {
  if (!cuda::nvrtc_problem().empty()) GTEST_SKIP() << "NVRTC: " << cuda::nvrtc_problem();
  if (!cuda::nvrtc_accepts("sm_90a")) GTEST_SKIP() << "this NVRTC knows no sm_90a";
  const Workload w = workload("grouped_matmul:groups=8,blocks=64,rows=16,n=4096,k=1024,dtype=f16");
  const CudaSource source =
      generate_cuda(scheduled_wgmma_turned(w, hopper(), "16x128/16").module(), hopper());
  const cuda::CubinFacts facts = cuda::cubin_facts(
      cuda::compile_to_cubin(source.text, "kernel", "sm_90a"), source.launches.at(0).entry);
  EXPECT_GE(facts.count("HGMMA"), 4);
  EXPECT_GE(facts.count("UTMALDG"), 2);
  EXPECT_EQ(facts.local_accesses(), 0) << source.text;
}

}  // namespace
}  // namespace tilewright
