// Products of gathered operands by asynchronous matrix instructions of warpgroups: weights that are
// looked up by the number of a group, and the windows of convolutions.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "ir/ops/spec.h"
#include "runtime/cuda/cubin.h"
#include "runtime/cuda/nvrtc.h"
#include "tests/tuner/gpu_check.h"

namespace tilewright {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// With so many multiprocessors, for grids that are made for the chip.
Target hopper(int sms = 0) {
  Target target = Target::parse("cuda:sm_90a");
  if (sms > 0) target.gpu.sms = sms;
  return target;
}

Workload workload(const std::string& spec) { return make_workload(parse_spec(spec)); }

std::string instruction_for(ElemType elem) {
  switch (elem) {
    case ElemType::f8e4m3: return "wgmma_f32_e4m3";
    case ElemType::i8: return "wgmma_s32_s8";
    default: return "wgmma_f32_" + std::string(to_string(elem));
  }
}

// The sketch by wgmma in tiles of this name, with these answers besides.
Schedule scheduled(const Workload& w, const Target& target, const std::string& tile,
                   const nlohmann::json& answers = {}) {
  nlohmann::json config = {{".operands", "gathered"}, {".copies", "roles"},  {".stages", 3},
                           {".pending", 1},           {".stores", "direct"}, {".group", 1},
                           {".grid", "tiles"},        {".blocks", 1},        {".k.parts", 1},
                           {".tile", tile}};
  config[".mma"] = instruction_for(w.inputs.front().buffer->elem);
  config.update(answers.is_null() ? nlohmann::json::object() : answers);
  nlohmann::json named;
  for (const auto& [name, answer] : config.items()) {
    for (const char* block : {"C", "C_acc", "Y", "Y_acc"}) named[block + name] = answer;
  }
  return gpu_schedule(w, target, Trial::mutate(named.dump(), 0, 1));
}

std::string text_of(const Schedule& s, const Target& target) {
  return generate_cuda(s.module(), target).text;
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
      Schedule s = scheduled(w, hopper(), c.tile, {{".copies", copies}});
      const std::string text = text_of(s, hopper());
      EXPECT_THAT(text, HasSubstr("tw_wgmma_m64"));
      const bool in_boxes = std::string(copies) != "cp_async";
      EXPECT_EQ(text.find("tw_tensor_load_3d") != std::string::npos, in_boxes) << text;
      expect_right_on_gpu(w, s, hopper());
    }
  }
}

// A group's number is a coordinate of the map, and is read once a tile.
TEST(GroupedWgmma, TilesLookTheirGroupUpOnce) {
  const Workload w = workload("grouped_matmul:groups=3,blocks=5,rows=64,n=96,k=200,dtype=f16");
  for (const char* copies : {"roles", "tensor"}) {
    for (const char* grid : {"persistent", "stream_k"}) {
      for (const char* stores : {"shared", "tensor"}) {
        SCOPED_TRACE(fmt::format("{}, {}, {}", copies, grid, stores));
        Schedule s = scheduled(w, hopper(4), "64x32x64/64x32",
                               {{".copies", copies}, {".grid", grid}, {".stores", stores}});
        const std::string text = text_of(s, hopper(4));
        const size_t lookup = text.find("G_at = "), loop = text.find("for (int C_acc_ax3_0", lookup);
        EXPECT_NE(lookup, std::string::npos) << text;
        EXPECT_THAT(text.substr(loop), HasSubstr(", G_at, barriers")) << text;
        EXPECT_EQ(text.find("tw_tensor_store_3d") != std::string::npos,
                  std::string(stores) == "tensor");
        expect_right_on_gpu(w, s, hopper(4));
      }
    }
  }
}

TEST(WindowsByWgmma, AreGatheredIntoItsLayout) {
  struct Case {
    const char* spec;
    const char* tile;
  };
  for (const Case& c :
       {Case{"conv2d:n=2,h=9,w=9,ci=16,co=40,kernel=3,pad=1,dtype=f16", "64x64x64/64x64"}}) {
    SCOPED_TRACE(c.spec);
    const Workload w = workload(c.spec);
    Schedule s = scheduled(w, hopper(), c.tile);
    const std::string text = text_of(s, hopper());
    EXPECT_THAT(text, HasSubstr("tw_wgmma_m64"));
    expect_right_on_gpu(w, s, hopper());
  }
}

}  // namespace
}  // namespace tilewright
