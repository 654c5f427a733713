// Packed weights of wgmma products: the epilogue's ways to memory, and the tile order.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "ir/ops/spec.h"
#include "runtime/cuda/cubin.h"
#include "runtime/cuda/nvrtc.h"
#include "tests/tuner/hopper.h"
#include "tuner/gpu/gpu_model.h"

namespace tilewright {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

const char* const kPackedResultsU4 =
    "matmul:m=48,n=256,k=256,dtype=f16,trans_b=true,w.dtype=u4,w.group=128,w.scale=f16,"
    "epilogue=[bias,relu]";
const char* const kSparse = "matmul:m=32,n=128,k=256,dtype=bf16,w.sparse=2:4";

// The trial of a product with wgmma, these choices, and the first options otherwise.
Choices packed_results_choices(const Workload& w, const Choices& more) {
  Choices choices = {
      {".B.layout?", "fragments"}, {".mma", "wgmma_f32_f16"}, {".group?", 1}, {".cluster?", "1x1"}};
  if (w.weight->sparse()) choices.update({{".B.sparse", "halves"}, {".mma", "wgmma_sp_f32_bf16"}});
  return joined_choices(choices, more);
}

Schedule scheduled_packed_results(const Workload& w, const nlohmann::json& answers,
                                  const Target& target = hopper(2)) {
  return gpu_schedule(w, target, packed_results_choices(w, answers));
}

// The options of a knob, given these choices.
std::vector<std::string> offered(const Workload& w, const std::string& knob,
                                 const Choices& choices) {
  return options_of(gpu_trial(w, hopper(), packed_results_choices(w, choices)), knob);
}

TEST(PackedResults, GoThroughSharedMemoryInTheirOwnType) {
  struct Case {
    const char* spec;
    nlohmann::json answers;
    const char* function;
  };
  for (const Case& c : std::vector<Case>{
           {kPackedResultsU4,
            {{".tile", "48x128/16"}, {".store", "shared_result"}},
            "TW_SHARED(tw_f16, C"},
           {kPackedResultsU4,
            {{".tile", "16x64/16"}, {".store", "tensor"}, {".copies", "tensor"}},
            "tw_tensor_store_2d("},
           {kPackedResultsU4,
            {{".tile", "16x128/16"}, {".store", "tensor"}, {".grid", "persistent"}},
            "tw_tensor_store_2d("},
           {kSparse,
            {{".tile", "32x64/16"}, {".store", "shared_result"}, {".copies", "cp_async"}},
            "TW_SHARED(tw_bf16, C"},
           // Rows and columns that end within a tile.
           {"matmul:m=40,n=192,k=128,dtype=f16,trans_b=true,w.dtype=i4,w.group=64",
            {{".tile", "32x128/16"}, {".store", "tensor"}},
            "tw_tensor_store_2d("}}) {
    SCOPED_TRACE(c.spec + c.answers.dump());
    const Workload w = workload(c.spec);
    const Schedule s = scheduled_packed_results(w, c.answers);
    const std::string text = text_of(s, hopper(2));
    EXPECT_THAT(text, HasSubstr(c.function));
    EXPECT_THAT(text, Not(HasSubstr("TW_SHARED(float, C")));
    expect_right_on_gpu(w, s, hopper(2));
  }
  const Workload sums =
      workload("matmul:m=48,n=256,k=256,dtype=f16,out=f32,w.dtype=u4,w.group=128");
  EXPECT_THAT(offered(sums, ".store", {}), Not(Contains("shared_result")))
      << "results are their sums";
}

// A TMA store must see the tile in shared memory before it is issued.
TEST(PackedResults, ABoxThatIsStoredBehindNoFenceIsSeen) {
  const Workload w = workload(kPackedResultsU4);
  const Schedule s = scheduled_packed_results(w, {{".tile", "16x128/16"}, {".store", "tensor"}});
  const GpuRun run = run_on_emulator(w, s, hopper(2), {}, 1, [](std::string& text) {
    const std::string fence = "tw_fence_async();";
    const size_t store = text.find("tw_tensor_store_2d("), at = text.rfind(fence, store);
    ASSERT_NE(at, std::string::npos) << text;
    text.erase(at, fence.size());
  });
  ASSERT_FALSE(run.emulated.ok());
}

// Tile columns are rows of the swapped product.
TEST(PackedResults, TilesRunInGroupsAndAlongACurve) {
  const Workload w = workload(kPackedResultsU4);
  for (const nlohmann::json& answers : std::vector<nlohmann::json>{
           {{".order", "hilbert"}, {".grid", "persistent"}},
           {{".order", "hilbert"}, {".cluster", "1x2"}, {".grid", "persistent"}},
           {{".group", 4}},
           {{".group", 4}, {".cluster", "1x2"}}}) {
    SCOPED_TRACE(answers.dump());
    nlohmann::json all = answers;
    all[".tile"] = "16x64/16";
    const Schedule s = scheduled_packed_results(w, all);
    EXPECT_EQ(text_of(s, hopper(2)) ==
                  text_of(scheduled_packed_results(w, {{".tile", "16x64/16"}}), hopper(2)),
              false);
    expect_right_on_gpu(w, s, hopper(2));
  }
}

// An SM holds one block of a large tile: the pipeline is not cut to one stage to fit a second
// block.
TEST(PackedResults, LargeTilesBeginWithStagesThatRunAhead) {
  const Workload w = workload(
      "matmul:m=4096,n=4096,k=4096,dtype=f16,trans_b=true,w.dtype=u4,"
      "w.group=128,w.scale=f16");
  const std::vector<std::string> stages =
      offered(w, ".stages", {{".tile", "128x128/16"}, {".k", 128}, {".store", "shared_result"}});
  ASSERT_FALSE(stages.empty());
  EXPECT_GE(std::stoi(stages.front()), 3);
}

// Few rows wait for the weight's bytes: by the first choices an SM has as many on their way as memory
// delivers in a microsecond, 36 KB of an H200. Shorter rings stay choices.
TEST(PackedResults, FewRowsKeepMemoryBusy) {
  for (const char* format : {"f16,w.dtype=u4,w.group=128,w.scale=f16,w.zero=u4",
                             "f16,w.dtype=u4,w.group=128,w.scale=f16", "bf16,w.sparse=2:4"}) {
    const Workload w =
        workload(std::string("matmul:m=64,n=16384,k=16384,trans_b=true,dtype=") + format);
    nlohmann::json choices = {{".tile", "64x128/16"}, {".k", 128}, {".copies", "roles"}};
    const std::vector<std::string> stages = offered(w, ".stages", choices);
    ASSERT_GT(stages.size(), 2u);
    // Codes, or kept elements with their 2 bits of metadata, of 128 columns and 128 terms.
    const int bytes = w.weight->sparse() ? 128 * 64 * 18 / 8 : 128 * 128 / 2;
    const GpuFacts& gpu = hopper().gpu;
    const double wanted = gpu.bandwidth / gpu.sms * 1e-6;
    EXPECT_GE((std::stoi(stages.front()) - 1) * bytes, wanted) << format;
    EXPECT_LT((std::stoi(stages.front()) - 3) * bytes, wanted) << format;
    EXPECT_THAT(stages, Contains("2"));
  }
}

// 2:4 weights: the result leaves in its own type by TMA, from persistent clusters along a curve, and
// nothing is stored by lanes.
TEST(PackedResults, SparseOnesLeaveByTma) {
  const Choices choices = {{".tile", "64x128/16"}, {".k", 64},          {".copies", "roles"},
                           {".store", "tensor"},   {".cluster", "1x2"}, {".order", "hilbert"},
                           {".grid", "persistent"}};
  const Workload w =
      workload("matmul:m=192,n=512,k=256,dtype=bf16,out=bf16,trans_b=true,w.sparse=2:4");
  const Schedule s = scheduled_packed_results(w, choices, hopper(2));
  const std::string text = text_of(s, hopper(2));
  EXPECT_THAT(text, HasSubstr("tw_tensor_store_2d("));
  EXPECT_THAT(text, HasSubstr("__cluster_dims__"));
  EXPECT_THAT(text, Not(HasSubstr("C[")));
  expect_right_on_gpu(w, s, hopper(2));
}

// Lanes alone would store two bytes at a time: 128 instructions of the larger tile. Its TMA stores take
// more addresses than registers are left, so that a search drops them.
TEST(PackedResults, SparseOnesCompileWithoutSpills) {
  if (!cuda::nvrtc_problem().empty()) GTEST_SKIP() << "NVRTC: " << cuda::nvrtc_problem();
  if (!cuda::nvrtc_accepts("sm_90a")) GTEST_SKIP() << "this NVRTC knows no sm_90a";
  const Workload w =
      workload("matmul:m=4096,n=4096,k=4096,dtype=bf16,out=bf16,trans_b=true,w.sparse=2:4");
  struct Case {
    const char *tile, *store;
    int most_stores;
  };
  for (const Case& c : {Case{"256x128/16", "shared_result", 16}, Case{"256x64/16", "tensor", 0}}) {
    const Choices choices = {{".tile", c.tile},       {".store", c.store},   {".copies", "roles"},
                             {".cluster", "1x2"},     {".order", "hilbert"}, {".k", 64},
                             {".grid", "persistent"}, {".stages", 3},        {".blocks?", 1}};
    const CudaSource source =
        generate_cuda(scheduled_packed_results(w, choices, hopper()).module(), hopper());
    const cuda::CubinFacts facts = cuda::cubin_facts(
        cuda::compile_to_cubin(source.text, "kernel", "sm_90a"), source.launches.at(0).entry);
    EXPECT_LE(facts.count("STG"), c.most_stores) << c.tile;
    EXPECT_EQ(facts.local_accesses(), 0) << source.text;
  }
}

TEST(PackedResults, CompileWithoutSpills) {
  if (!cuda::nvrtc_problem().empty()) GTEST_SKIP() << "NVRTC: " << cuda::nvrtc_problem();
  if (!cuda::nvrtc_accepts("sm_90a")) GTEST_SKIP() << "this NVRTC knows no sm_90a";
  const Workload w = workload(
      "matmul:m=1024,n=4096,k=4096,dtype=f16,trans_b=true,w.dtype=u4,"
      "w.group=128,w.scale=f16");
  const CudaSource source = generate_cuda(scheduled_packed_results(w,
                                                                   {{".tile", "128x128/16"},
                                                                    {".store", "tensor"},
                                                                    {".order", "hilbert"},
                                                                    {".grid", "persistent"},
                                                                    {".k", 128},
                                                                    {".stages", 3}},
                                                                   hopper())
                                              .module(),
                                          hopper());
  const cuda::CubinFacts facts = cuda::cubin_facts(
      cuda::compile_to_cubin(source.text, "kernel", "sm_90a"), source.launches.at(0).entry);
  EXPECT_GE(facts.count("HGMMA"), 4);
  EXPECT_GE(facts.count("UTMASTG"), 1);
  EXPECT_EQ(facts.local_accesses(), 0) << source.text;
}

}  // namespace
}  // namespace tilewright
