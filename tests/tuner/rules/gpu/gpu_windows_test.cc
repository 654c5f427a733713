// Convolutions loaded by im2col tensor maps: from the sketch to the machine code.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "ir/ops/spec.h"
#include "runtime/cuda/cubin.h"
#include "runtime/cuda/nvrtc.h"
#include "tests/tuner/edited_kernel.h"
#include "tests/tuner/hopper.h"
#include "tuner/gpu/gpu_model.h"

namespace tilewright {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

// A convolution with wgmma, this tile and these choices; otherwise plain tiles that warps of their own
// copy.
Choices choices_of_windows(const Workload& w, const std::string& tile, const Choices& more) {
  const Choices windows = {{".operands?", "gathered"}, {".copies?", "roles"}, {".cluster?", "1x1"}};
  return joined_choices(joined_choices(plain_wgmma(w, tile), windows), more);
}

Schedule scheduled_windows(const Workload& w, const Target& target, const std::string& tile,
                           const Choices& more = {}) {
  return gpu_schedule(w, target, choices_of_windows(w, tile, more));
}

// A warp of its own copies ("roles"), and learns from the others when they have read a tile; or a
// thread of theirs does ("tensor").
void expect_copies(const std::string& text, const std::string& copies) {
  EXPECT_EQ(text.find("tw_mbarrier_arrive(") != std::string::npos, copies == "roles") << text;
}

// Strides, padding, dilation; rows that end within a tile, images smaller than a tile; 1-D and 3-D.
TEST(Windows, ComeByIm2colMaps) {
  struct Case {
    const char* spec;
    const char* tile;
    const char* copies;
    const char* function;
    Choices choices = {};
  };
  for (const Case& c : std::vector<Case>{
           {"conv2d:n=2,h=9,w=9,ci=64,co=40,kernel=3,pad=1,dtype=f16", "64x64x64/64x64", "roles",
            "tw_tensor_im2col_4d"},
           {"conv2d:n=2,h=13,w=11,ci=64,co=64,kernel=3,stride=2,dilation=2,pad=2,dtype=bf16,"
            "epilogue=[bias,relu]",
            "64x64x64/64x64", "tensor", "tw_tensor_im2col_4d"},
           {"conv2d:n=3,h=7,w=7,ci=128,co=64,kernel=3,pad=1,dtype=f16", "128x64x64/64x64", "roles",
            "tw_tensor_im2col_4d"},
           {"conv2d:n=1,h=14,w=10,ci=64,co=32,kernel=3,stride=2,pad=1,dtype=f16", "64x32x64/64x32",
            "roles", "tw_tensor_im2col_4d"},
           {"conv2d:n=2,h=9,w=9,ci=64,co=32,kernel=1,stride=2,dtype=f16", "64x32x64/64x32", "roles",
            "tw_tensor_im2col_4d"},
           {"conv2d:n=1,h=8,w=16,ci=64,co=32,kernel=1x3,dtype=f16", "64x32x64/64x32", "tensor",
            "tw_tensor_im2col_4d"},
           {"conv2d:n=1,h=10,w=8,ci=128,co=64,kernel=3,groups=2,dtype=f16", "64x32x64/64x32",
            "roles", "tw_tensor_im2col_4d"},
           {"conv1d:n=3,l=50,ci=64,co=32,kernel=5,stride=2,pad=2,dtype=f16", "64x32x64/64x32",
            "roles", "tw_tensor_im2col_3d"},
           {"conv3d:n=2,d=4,h=5,w=6,ci=64,co=32,kernel=2,pad=1,dtype=f16", "64x32x64/64x32",
            "roles", "tw_tensor_im2col_5d"},
           {"conv2d:n=2,h=16,w=16,ci=64,co=128,kernel=3,pad=1,dtype=f16",
            "64x64x64/64x64",
            "roles",
            "tw_tensor_im2col_4d",
            {{".grid", "persistent"}, {".order", "hilbert"}}}}) {
    SCOPED_TRACE(c.spec);
    const Workload w = workload(c.spec);
    const Schedule s =
        scheduled_windows(w, hopper(2), c.tile, joined_choices(c.choices, {{".copies", c.copies}}));
    const std::string text = text_of(s, hopper(2));
    expect_copies(text, c.copies);
    EXPECT_EQ(text.find("_turn") != std::string::npos, c.choices.contains(".grid"));
    EXPECT_EQ(text.find("tile_index") != std::string::npos, c.choices.contains(".order"));
    EXPECT_THAT(text, HasSubstr("tw_wgmma_m64"));
    EXPECT_THAT(text, HasSubstr(c.function));
    EXPECT_THAT(text, Not(HasSubstr("tw_cp_async")));
    expect_right_on_gpu(w, s, hopper(2));
  }
}

// If the channels are not a multiple of 128 bytes, a tile has several TMA tiles. Each holds one
// element of the filter, in swizzle atoms of 64 or 32 bytes. The last tile may extend beyond the
// filter in k.
TEST(Windows, OfFewChannelsComeInSpansOfNarrowSwizzles) {
  struct Case {
    const char* spec;
    const char* tile;
    const char* copies;
    int64_t span;  // bytes of a swizzle atom
    Choices choices = {};
  };
  for (const Case& c : std::vector<Case>{
           {"conv2d:n=2,h=9,w=9,ci=32,co=64,kernel=3,pad=1,dtype=f16", "64x64x64/64x64", "roles",
            64},
           {"conv2d:n=4,h=11,w=9,ci=96,co=40,kernel=3,stride=2,pad=1,dtype=bf16", "128x64x64/64x64",
            "tensor", 64},
           {"conv2d:n=1,h=9,w=9,ci=48,co=32,kernel=3,dtype=f16", "64x32x64/64x32", "roles", 32},
           // Tiles with more rows than an atom has elements. One has whole rows and k beyond the
           // filter; the other has whole k and rows beyond the last image.
           {"conv2d:n=2,h=8,w=8,ci=96,co=64,kernel=3,pad=1,dtype=f16", "128x64x64/64x64", "roles",
            64},
           {"conv2d:n=3,h=8,w=8,ci=32,co=64,kernel=2x4,dtype=f16", "128x64x64/64x64", "tensor", 64},
           {"conv1d:n=3,l=50,ci=16,co=32,kernel=5,dilation=2,pad=2,dtype=f16", "64x32x64/64x32",
            "roles", 32},
           {"conv2d:n=2,h=8,w=8,ci=64,co=64,kernel=3,pad=1,groups=2,dtype=f16",
            "64x32x64/64x32",
            "roles",
            64,
            {{".grid", "persistent"}}}}) {
    SCOPED_TRACE(c.spec);
    const Workload w = workload(c.spec);
    const Schedule s =
        scheduled_windows(w, hopper(2), c.tile, joined_choices(c.choices, {{".copies", c.copies}}));
    const std::string text = text_of(s, hopper(2));
    expect_copies(text, c.copies);
    EXPECT_EQ(text.find("_turn") != std::string::npos, c.choices.contains(".grid"));
    EXPECT_EQ(text.find("tile_index") != std::string::npos, c.choices.contains(".order"));
    EXPECT_THAT(text, HasSubstr(fmt::format("tw_wgmma_operand<{}>(", c.span)));
    EXPECT_THAT(text, HasSubstr("tw_tensor_im2col_"));
    EXPECT_THAT(text, Not(HasSubstr("tw_cp_async")));
    expect_right_on_gpu(w, s, hopper(2));
  }
}

// Bytes must be contiguous along k: the weight is transposed at load.
TEST(Windows, OfBytesStandBesideWeightsThatWereTurned) {
  for (const char* spec : {"conv2d:n=2,h=9,w=9,ci=128,co=64,kernel=3,pad=1,dtype=i8",
                           "conv2d:n=1,h=9,w=9,ci=96,co=64,kernel=3,pad=1,dtype=i8",
                           "conv2d:n=2,h=15,w=13,ci=128,co=40,kernel=3,stride=2,dtype=f8e4m3"}) {
    SCOPED_TRACE(spec);
    const Workload w = workload(spec);
    const bool is_float = w.inputs.front().buffer->elem != ElemType::i8;
    Choices choices = {{".W.layout", "turned"}};
    const Schedule s = scheduled_windows(w, hopper(), "64x64x128/64x64", choices);
    const std::string text = text_of(s, hopper());
    EXPECT_THAT(text, HasSubstr("tw_tensor_im2col_4d"));
    EXPECT_THAT(text, HasSubstr("tw_tensor_load_2d"));
    EXPECT_EQ(s.module().packs.size(), 1u);
    expect_right_on_gpu(w, s, hopper());
    EXPECT_THAT(text,
                HasSubstr(is_float ? "tw_wgmma_m64n64k32_f32_e4m3" : "tw_wgmma_m64n64k32_s32_s8"));
    choices[".W.layout"] = "none";
    EXPECT_THAT(text_of(scheduled_windows(w, hopper(), "64x64x128/64x64", choices), hopper()),
                Not(HasSubstr("tw_tensor_")));
  }
}

// Result rows are numbered across all images: the result is a matrix, and its tiles are stored like
// those of products.
TEST(Windows, OfResultsAreTilesOfAMatrix) {
  struct Case {
    const char* spec;
    const char* stores;
    const char* function;
    Choices choices = {};
  };
  for (const Case& c : std::vector<Case>{
           {"conv2d:n=2,h=9,w=9,ci=64,co=64,kernel=3,pad=1,dtype=f16",
            "tensor",
            "tw_tensor_store_2d",
            {{".grid", "persistent"}}},
           {"conv2d:n=2,h=8,w=8,ci=64,co=128,kernel=3,pad=1,dtype=bf16,epilogue=[bias,relu]",
            "stmatrix_tensor", "tw_tensor_store_2d"},
           {"conv2d:n=1,h=8,w=8,ci=64,co=64,kernel=3,pad=1,dtype=f16", "stmatrix", "tw_stmatrix_"},
           {"conv1d:n=3,l=50,ci=64,co=40,kernel=5,stride=2,pad=2,dtype=f16,epilogue=[add]",
            "shared", "tw_tensor_im2col_3d"},
           {"conv2d:n=2,h=9,w=7,ci=72,co=64,kernel=1,dtype=f16", "tensor", "tw_tensor_store_2d"}}) {
    SCOPED_TRACE(c.spec);
    const Workload w = workload(c.spec);
    const Schedule s = scheduled_windows(w, hopper(2), "64x64x64/64x64",
                                         joined_choices(c.choices, {{".stores", c.stores}}));
    const std::string text = text_of(s, hopper(2));
    EXPECT_THAT(text, HasSubstr(c.function));
    EXPECT_EQ(text.find("tw_stmatrix_") != std::string::npos,
              std::string(c.stores).starts_with("stmatrix"));
    EXPECT_EQ(text.find("_turn") != std::string::npos, c.choices.contains(".grid"));
    expect_right_on_gpu(w, s, hopper(2));
  }
}

// With groups, and with channels first, results are not a matrix.
TEST(Windows, OfResultsThatAreNoMatrixAreStoredByLanes) {
  for (const char* spec : {"conv2d:n=2,h=8,w=8,ci=128,co=128,kernel=3,pad=1,groups=2,dtype=f16",
                           "conv2d:n=2,h=9,w=9,ci=64,co=64,kernel=3,pad=1,layout=nchw,dtype=f16"}) {
    SCOPED_TRACE(spec);
    const Workload w = workload(spec);
    const Choices choices = choices_of_windows(w, "64x64x64/64x64", {});
    EXPECT_THAT(options_of(gpu_trial(w, hopper(), choices), ".stores"), ElementsAre("direct"));
    const Schedule s = gpu_schedule(w, hopper(), choices);
    const std::string text = text_of(s);
    EXPECT_THAT(text, HasSubstr("tw_wgmma_m64"));
    EXPECT_THAT(text, Not(HasSubstr("tw_tensor_store")));
    EXPECT_THAT(text, Not(HasSubstr("tw_stmatrix")));
    expect_right_on_gpu(w, s, hopper());
  }
}

// In a cluster each block loads half of the shared data: the weight's rows, or the pixels.
TEST(Windows, AreSharedByBlocksOfACluster) {
  const Workload w = workload("conv2d:n=2,h=9,w=9,ci=64,co=128,kernel=3,pad=1,dtype=f16");
  for (const char* cluster : {"2x1", "1x2"}) {
    SCOPED_TRACE(cluster);
    const Schedule s = scheduled_windows(w, hopper(), "64x64x64/64x64", {{".cluster", cluster}});
    const std::string text = text_of(s, hopper());
    const bool shares_windows = std::string(cluster) == "1x2";
    EXPECT_THAT(text, HasSubstr(shares_windows ? "tw_tensor_im2col_multicast_4d"
                                               : "tw_tensor_multicast_2d"));
    EXPECT_THAT(text, HasSubstr(shares_windows ? "tw_tensor_load_2d" : "tw_tensor_im2col_4d"));
    expect_right_on_gpu(w, s, hopper());
  }
}

TEST(Windows, WrongOffsetsPlacesAndCornersAreNoticed) {
  const Workload w = workload("conv2d:n=2,h=9,w=9,ci=64,co=32,kernel=3,pad=1,dtype=f16");
  const Schedule s = scheduled_windows(w, hopper(), "64x32x64/64x32");
  // `change` gets the arguments of the im2col copy: array, map, four coordinates, two offsets.
  auto verdict = [&](const std::function<void(std::vector<std::string>&)>& change) {
    const GpuRun run = run_on_emulator(w, s, hopper(), {}, 1, [&](std::string& text) {
      const std::string call = "tw_tensor_im2col_4d(";
      const size_t begin = text.find(call) + call.size(), end = text.find(");", begin);
      std::vector<std::string> arguments;
      size_t depth = 0, from = begin;
      for (size_t i = begin; i <= end; ++i) {
        depth += text[i] == '(' ? 1 : text[i] == ')' && i < end ? -1 : 0;
        if (i < end && (text[i] != ',' || depth > 0)) continue;
        arguments.push_back(text.substr(from, i - from));
        from = i + 1;
      }
      ASSERT_EQ(arguments.size(), 9u);
      change(arguments);
      text.replace(begin, end - begin, fmt::format("{}", fmt::join(arguments, ",")));
    });
    return outcome_of(run);
  };
  EXPECT_EQ(verdict([](auto&) {}), "ok");
  EXPECT_EQ(verdict([](auto& a) { std::swap(a[6], a[7]); }), "wrong");
  EXPECT_EQ(verdict([](auto& a) { a[6] = "0"; }), "wrong");
  EXPECT_EQ(verdict([](auto& a) { a[3] += " + 9"; }), "bad-copy");  // beyond the box's last pixel
  EXPECT_EQ(verdict([](auto& a) { a[5] += " + 1"; }), "wrong");
}

// Padding costs threads as much as TMA tiles, so that the search compares both fairly.
TEST(Windows, TheModelCountsWhatThreadsAndBoxesCopyAlike) {
  for (int channels : {64, 96}) {
    SCOPED_TRACE(channels);
    const Workload w = workload(
        fmt::format("conv2d:n=32,h=56,w=56,ci={},co=64,kernel=3,pad=1,dtype=f16", channels));
    auto estimate = [&](const char* copies) {
      const GpuEstimate e = estimate_gpu(
          scheduled_windows(w, hopper(), "128x64x64/64x64", {{".copies", copies}, {".stages", 5}})
              .program(),
          hopper());
      EXPECT_TRUE(e.fits()) << e.refusal;
      return e;
    };
    const GpuEstimate boxes = estimate("roles"), threads = estimate("cp_async");
    EXPECT_NEAR(threads.kernels[0].l2_bytes / boxes.kernels[0].l2_bytes, 1, 0.08);
    EXPECT_LT(boxes.kernels[0].of(GpuLimit::Issue), threads.kernels[0].of(GpuLimit::Issue));
    EXPECT_LT(boxes.seconds, threads.seconds);
  }
}

TEST(Windows, ThreadsMayCopyWhatAMapDescribes) {
  const Workload w = workload("conv2d:n=4,h=28,w=28,ci=64,co=128,kernel=3,pad=1,dtype=f16");
  const Schedule s =
      scheduled_windows(w, hopper(), "64x64x64/64x64",
                        {{".copies", "cp_async"}, {".stages", 4}, {".order", "hilbert"}});
  const std::string text = text_of(s, hopper());
  EXPECT_THAT(text, HasSubstr("tw_cp_async_zfill<16>"));
  EXPECT_THAT(text, Not(HasSubstr("im2col")));
}

// Chunks of k that are not whole channels of one filter element, or that are apart in memory.
TEST(Windows, ThatNoMapDescribesAreCopiedByThreads) {
  for (const char* spec : {"conv2d:n=2,h=9,w=9,ci=72,co=64,kernel=3,pad=1,dtype=f16",
                           "conv2d:n=2,h=9,w=9,ci=24,co=64,kernel=3,pad=1,dtype=f16",
                           "conv2d:n=2,h=9,w=9,ci=64,co=64,kernel=3,pad=1,layout=nchw,dtype=f16",
                           "conv2d:n=2,h=40,w=40,ci=64,co=64,kernel=3,stride=9,dtype=f16"}) {
    SCOPED_TRACE(spec);
    const Workload w = workload(spec);
    const Schedule s = scheduled_windows(w, hopper(), "64x64x64/64x64");
    EXPECT_THAT(text_of(s, hopper()), Not(HasSubstr("tw_tensor_")));
  }
}

TEST(Windows, CompileToTensorCopiesWithSumsInRegisters) {
  if (!cuda::nvrtc_problem().empty()) GTEST_SKIP() << "NVRTC: " << cuda::nvrtc_problem();
  if (!cuda::nvrtc_accepts("sm_90a")) GTEST_SKIP() << "this NVRTC knows no sm_90a";
  struct Case {
    const char* spec;
    const char* tile;
    const char* cluster;
    const char* copy;
    const char* stores = "direct";
  };
  for (const Case& c :
       {Case{"conv2d:n=32,h=28,w=28,ci=128,co=128,kernel=3,pad=1,dtype=f16", "128x128x64/64x128",
             "1x1", "UTMALDG.IM2COL"},
        {"conv2d:n=64,h=28,w=28,ci=128,co=256,kernel=3,stride=2,pad=1,dtype=bf16",
         "128x128x64/64x128", "1x2", "UTMALDG.IM2COL.MULTICAST"},
        {"conv2d:n=32,h=56,w=56,ci=96,co=192,kernel=3,pad=1,dtype=f16", "128x128x64/64x128", "1x1",
         "UTMALDG.IM2COL", "tensor"},
        {"conv2d:n=32,h=28,w=28,ci=48,co=256,kernel=3,pad=1,dtype=f16", "128x128x64/64x128", "1x2",
         "UTMALDG.IM2COL.MULTICAST", "stmatrix_tensor"}}) {
    SCOPED_TRACE(c.spec);
    const Workload w = workload(c.spec);
    const CudaSource source = generate_cuda(
        scheduled_windows(w, hopper(), c.tile,
                          {{".grid", "persistent"}, {".cluster", c.cluster}, {".stores", c.stores}})
            .module(),
        hopper());
    const cuda::CubinFacts facts = cuda::cubin_facts(
        cuda::compile_to_cubin(source.text, "kernel", "sm_90a"), source.launches.at(0).entry);
    EXPECT_GE(facts.count("HGMMA"), 4);
    EXPECT_GE(facts.count(c.copy), 1);
    EXPECT_GE(facts.count("UTMALDG"), 1) << "of the weight";
    EXPECT_EQ(facts.count("LDGSTS"), 0);
    EXPECT_EQ(facts.count("UTMASTG") > 0, std::string(c.stores) != "direct");
    EXPECT_EQ(facts.local_accesses(), 0) << source.text;
  }
}

// One filter element at every pixel: rows of a matrix.
TEST(Windows, OfOnePixelAreBoxes) {
  const Workload w = workload("conv2d:n=2,h=7,w=9,ci=72,co=32,kernel=1,dtype=f16");
  const Schedule s = scheduled_windows(w, hopper(), "64x32x64/64x32");
  const std::string text = text_of(s, hopper());
  EXPECT_THAT(text, HasSubstr("tw_tensor_load_2d"));
  EXPECT_THAT(text, Not(HasSubstr("im2col")));
  expect_right_on_gpu(w, s, hopper());
}

}  // namespace
}  // namespace tilewright
