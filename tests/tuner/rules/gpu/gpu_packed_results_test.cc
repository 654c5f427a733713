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
