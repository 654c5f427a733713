// Products of gathered operands with wgmma: weights selected by a group's number, and the windows
// of convolutions (im2col).
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

// The sketch with wgmma, this tile and these choices.
Schedule scheduled_gathered_wgmma(const Workload& w, const Target& target, const std::string& tile,
                                  const Choices& more = {}) {
  const Choices choices = {{".operands?", "gathered"},
                           {".parts?", 1},
                           {".mma", wgmma_for(w.inputs.front().buffer->elem)},
                           {".tile", tile},
                           {".copies?", "roles"},
                           {".stages", 3},
                           {".stores", "direct"},
                           {".group?", 1}};
  return gpu_schedule(w, target, joined_choices(choices, more));
}

TEST(GroupedWgmma, WeightsComeAsBoxesOfTheirGroup) {
  struct Case {
    const char* spec;
    const char* tile;
  };
  for (const Case& c :
       {Case{"grouped_matmul:groups=3,blocks=4,rows=64,n=64,k=136,dtype=f16", "64x64x64/64x64"},
        {"grouped_matmul:groups=2,blocks=3,rows=72,n=40,k=64,dtype=bf16,trans_b=true,"
         "epilogue=[bias,silu]",
         "64x32x64/64x32"},
        {"grouped_matmul:groups=3,blocks=2,rows=64,n=64,k=144,dtype=i8,trans_b=true",
         "64x64x128/64x64"}}) {
    for (const char* copies : {"roles", "tensor", "cp_async"}) {
      SCOPED_TRACE(fmt::format("{} by {}", c.spec, copies));
      const Workload w = workload(c.spec);
      Schedule s = scheduled_gathered_wgmma(w, hopper(), c.tile, {{".copies", copies}});
      const std::string text = text_of(s, hopper());
      EXPECT_THAT(text, HasSubstr("tw_wgmma_m64"));
      const bool in_boxes = std::string(copies) != "cp_async";
      EXPECT_EQ(text.find("tw_tensor_load_3d") != std::string::npos, in_boxes) << text;
      expect_right_on_gpu(w, s, hopper());
    }
  }
}

// A group's number is a coordinate of the tensor map, and is read once per tile.
TEST(GroupedWgmma, TilesLookTheirGroupUpOnce) {
  const Workload w = workload("grouped_matmul:groups=3,blocks=5,rows=64,n=96,k=200,dtype=f16");
  for (const char* copies : {"roles", "tensor"}) {
    for (const char* grid : {"persistent", "stream_k"}) {
      for (const char* stores : {"shared", "tensor"}) {
        SCOPED_TRACE(fmt::format("{}, {}, {}", copies, grid, stores));
        Schedule s =
            scheduled_gathered_wgmma(w, hopper(4), "64x32x64/64x32",
                                     {{".copies", copies}, {".grid", grid}, {".stores", stores}});
        const std::string text = text_of(s, hopper(4));
        const size_t lookup = text.find("G_at = "),
                     loop = text.find("for (int C_acc_ax3_0", lookup);
        EXPECT_NE(lookup, std::string::npos) << text;
        EXPECT_THAT(text.substr(loop), HasSubstr(", G_at, barriers")) << text;
        EXPECT_EQ(text.find("tw_tensor_store_3d") != std::string::npos,
                  std::string(stores) == "tensor");
        expect_right_on_gpu(w, s, hopper(4));
      }
    }
  }
}

TEST(GroupedWgmma, BlocksMayBeAsManyAsALaunchSays) {
  const Workload w = workload("grouped_matmul:groups=3,blocks=1..20,rows=40,n=72,k=136,dtype=f16");
  for (const char* copies : {"roles", "cp_async"}) {
    SCOPED_TRACE(copies);
    Schedule s = scheduled_gathered_wgmma(
        w, hopper(4), "64x64x64/64x64",
        {{".copies", copies}, {".grid", "persistent"}, {".stores", "direct"}});
    EXPECT_THAT(text_of(s, hopper(4)), HasSubstr("tw_wgmma_m64"));
    for (int64_t blocks : {1, 20}) expect_right_on_gpu(w, s, hopper(4), {{"blocks", blocks}});
  }
  const Target ampere = Target::parse("cuda:sm_80");
  Schedule s = gpu_schedule(w, ampere, Trial::first());
  EXPECT_THAT(text_of(s, ampere), HasSubstr("tw_mma_m16n8k16_f32_f16"));
  for (int64_t blocks : {1, 13}) expect_right_on_gpu(w, s, ampere, {{"blocks", blocks}});
}

// Strides, padding, dilation, channels that do not fill 16-byte vectors, groups, layouts.
TEST(WindowsByWgmma, AreGatheredIntoItsLayout) {
  struct Case {
    const char* spec;
    const char* tile;
    nlohmann::json answers = nlohmann::json::object();
  };
  for (const Case& c : std::vector<Case>{
           {"conv2d:n=2,h=9,w=9,ci=16,co=40,kernel=3,pad=1,dtype=f16", "64x64x64/64x64"},
           {"conv2d:n=2,h=13,w=11,ci=24,co=64,kernel=3,stride=2,dilation=2,pad=2,dtype=bf16,"
            "epilogue=[bias,relu]",
            "64x64x64/64x64"},
           {"conv2d:n=1,h=8,w=8,ci=72,co=32,kernel=1,dtype=f16", "64x32x64/64x32"},
           {"conv2d:n=1,h=14,w=14,ci=3,co=32,kernel=5,stride=2,pad=2,dtype=f16", "64x32x64/64x32"},
           {"conv2d:n=1,h=8,w=8,ci=32,co=64,kernel=3,groups=2,dtype=f16", "64x32x64/64x32"},
           {"conv2d:n=2,h=8,w=7,ci=16,co=40,kernel=3,pad=1,layout=nchw,dtype=f16,epilogue=[bias]",
            "64x64x64/64x64"},
           {"conv2d:n=1,h=8,w=8,ci=32,co=40,kernel=3,pad=1,dtype=i8", "64x64x128/64x64"},
           {"conv2d:n=1,h=8,w=8,ci=16,co=32,kernel=3,pad=1,dtype=f8e4m3", "64x32x128/64x32"},
           {"conv2d:n=2,h=9,w=9,ci=32,co=64,kernel=3,pad=1,dtype=f16",
            "64x64x64/64x64",
            {{".grid", "persistent"}}}}) {
    SCOPED_TRACE(c.spec);
    const Workload w = workload(c.spec);
    Schedule s = scheduled_gathered_wgmma(w, hopper(2), c.tile, c.answers);
    EXPECT_THAT(text_of(s, hopper(2)), HasSubstr("tw_wgmma_m64"));
    expect_right_on_gpu(w, s, hopper(2));
  }
}

// Whole 16-byte vectors are copied asynchronously, with zeros beyond the image.
TEST(WindowsByWgmma, ComeByAsynchronousCopies) {
  const Workload w = workload("conv2d:n=2,h=9,w=9,ci=24,co=64,kernel=3,pad=1,dtype=f16");
  const std::string text =
      text_of(scheduled_gathered_wgmma(w, hopper(), "64x64x64/64x64"), hopper());
  EXPECT_THAT(text, HasSubstr("tw_cp_async_zfill<16>"));
  EXPECT_THAT(text, Not(HasSubstr("tw_ld<")));
}

TEST(GatheredWgmma, CompilesToTheInstructionWithSumsInRegisters) {
  if (!cuda::nvrtc_problem().empty()) GTEST_SKIP() << "NVRTC: " << cuda::nvrtc_problem();
  if (!cuda::nvrtc_accepts("sm_90a")) GTEST_SKIP() << "this NVRTC knows no sm_90a";
  struct Case {
    const char* spec;
    const char* tile;
    const char* copies;
    const char* copy;
  };
  for (const Case& c : {Case{"grouped_matmul:groups=8,blocks=16,rows=128,n=1024,k=1024,dtype=f16",
                             "128x128x64/64x128", "roles", "UTMALDG"},
                        {"conv2d:n=8,h=28,w=28,ci=128,co=128,kernel=3,pad=1,dtype=f16",
                         "128x128x64/64x128", "cp_async", "LDGSTS"}}) {
    SCOPED_TRACE(c.spec);
    const Workload w = workload(c.spec);
    const CudaSource source = generate_cuda(
        scheduled_gathered_wgmma(w, hopper(), c.tile, {{".copies", c.copies}}).module(), hopper());
    const cuda::CubinFacts facts = cuda::cubin_facts(
        cuda::compile_to_cubin(source.text, "kernel", "sm_90a"), source.launches.at(0).entry);
    EXPECT_GE(facts.count("HGMMA"), 4);
    EXPECT_GE(facts.count(c.copy), 2);
    EXPECT_EQ(facts.local_accesses(), 0) << source.text;
  }
}

}  // namespace
}  // namespace tilewright
