// Epilogues that store results a subtile after another, through two arrays of shared memory.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "codegen/codegen.h"
#include "runtime/cuda/cubin.h"
#include "runtime/cuda/nvrtc.h"
#include "tests/tuner/edited_kernel.h"
#include "tests/tuner/hopper.h"

namespace tilewright {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

Choices with_subtiles(const std::string& tile, const std::string& stores, int64_t stages = 2) {
  return {{".mma", "wgmma_f32_f16"},
          {".tile", tile},
          {".copies", "roles"},
          {".stages", stages},
          {".pending?", 0},
          {".cluster?", "1x1"},
          {".stores", stores},
          {".order?", "rows"},
          {".group?", 1},
          {".parts?", 1},
          {".grid?", "tiles"},
          {".blocks?", 1}};
}

TEST(GpuSubtiles, AreOfferedWhereMoreThanTwoMakeATile) {
  const Workload w = workload("matmul:m=512,n=512,k=512,dtype=f16,trans_b=true,out=f16");
  auto offered = [&](const char* tile, int64_t stages) {
    Choices choices = with_subtiles(tile, "direct", stages);
    return options_of(gpu_trial(w, hopper(), choices), ".stores");
  };
  EXPECT_THAT(offered("128x256x64/64x256", 3),
              AllOf(Contains("stmatrix_tensor"), Contains("tensor_subtiles"),
                    Contains("stmatrix_tensor_subtiles")));
  EXPECT_EQ(offered("128x256x64/64x256", 4),
            (std::vector<std::string>{"direct", "tensor_subtiles", "stmatrix_tensor_subtiles"}))
      << "64 KB of results fit beside three stages, 32 KB beside four";
  EXPECT_THAT(offered("128x128x64/64x128", 3), Not(Contains("tensor_subtiles")))
      << "two arrays hold the whole tile";
  EXPECT_THAT(offered("128x256x64/128x128", 3), Not(Contains("tensor_subtiles")))
      << "a subtile would be one warpgroup's";
}

TEST(GpuSubtiles, StoreTheSameResults) {
  const std::string elements = "tensor_subtiles", matrices = "stmatrix_tensor_subtiles";
  struct Case {
    const char* spec;
    const char* tile;
    std::vector<std::string> stores;
    Choices more = {};
  };
  for (const Case& c :
       std::vector<Case>{{"matmul:m=128,n=256,k=128,dtype=f16,trans_b=true,out=f16",
                          "128x256x64/64x256",
                          {elements, matrices}},
                         {"matmul:m=200,n=320,k=72,dtype=f16,out=f16,epilogue=[bias,relu]",
                          "64x256x64/64x256",
                          {elements},
                          {{".grid?", "persistent"}}},
                         {"matmul:m=128,n=256,k=64,dtype=f16,trans_b=true,out=f32",
                          "64x128x64/64x128",
                          {elements}},
                         {"matmul:m=128,n=512,k=128,dtype=f16,trans_b=true,out=f16",
                          "64x256x64/64x256",
                          {elements, matrices},
                          {{".cluster?", "2x1"}, {".grid?", "persistent"}}},
                         {"conv2d:n=1,h=8,w=8,ci=64,co=256,kernel=1,dtype=f16,out=f16",
                          "64x256x64/64x256",
                          {elements, matrices},
                          {{".operands?", "gathered"}}}}) {
    const Workload w = workload(c.spec);
    for (const std::string& stores : c.stores) {
      SCOPED_TRACE(fmt::format("{} {}", c.spec, stores));
      const Schedule s =
          gpu_schedule(w, hopper(2), joined_choices(with_subtiles(c.tile, stores), c.more));
      EXPECT_THAT(text_of(s, hopper(2)),
                  AllOf(HasSubstr("tw_bulk_wait_read<1>"), HasSubstr("tw_tensor_store_")));
      expect_right_on_gpu(w, s, hopper(2));
    }
  }
}

// A subtile's array is written again when the store of the subtile before the last has read it.
TEST(GpuSubtiles, WaitForTheStoresThatReadTheirArray) {
  const Workload w = workload("matmul:m=128,n=256,k=64,dtype=f16,trans_b=true,out=f16");
  const Schedule s =
      gpu_schedule(w, hopper(), with_subtiles("128x256x64/64x256", "stmatrix_tensor_subtiles"));
  auto outcome = [&](const char* from, const char* to) {
    return outcome_of_edited(w, s, hopper(), from, to, Places::All);
  };
  EXPECT_EQ(outcome("tw_bulk_wait_read<1>", "tw_bulk_wait_read<0>"), "ok");
  EXPECT_EQ(outcome("tw_bulk_wait_read<1>", "tw_bulk_wait_read<2>"), "copy-in-flight");
  EXPECT_EQ(
      outcome("tw_fence_async();\n      tw_barrier_sync(1, 256);", "tw_barrier_sync(1, 256);"),
      "missing-fence");
  EXPECT_EQ(outcome("tw_fence_async();\n      tw_barrier_sync(1, 256);", "tw_fence_async();"),
            "race");
  EXPECT_EQ(outcome("_ax1_0 % 2", "_ax1_0 * 0"), "copy-in-flight");
}

// More stages fit beside two arrays of a subtile each; the kernel takes no more registers.
TEST(GpuSubtiles, LeaveRoomForAStageInMachineCode) {
  if (!cuda::nvrtc_problem().empty()) GTEST_SKIP() << "NVRTC: " << cuda::nvrtc_problem();
  const Workload w = workload("matmul:m=4096,n=4096,k=4096,dtype=bf16,trans_b=true,out=bf16");
  Choices choices = with_subtiles("128x256x64/64x256", "stmatrix_tensor_subtiles", 4);
  choices[".mma"] = "wgmma_f32_bf16";
  choices[".pending?"] = 1;
  choices[".grid?"] = "persistent";
  const CudaSource source = generate_cuda(gpu_schedule(w, hopper(), choices).module(), hopper());
  EXPECT_LE(source.launches.at(0).shared_bytes, hopper().gpu.shared_per_block);
  const cuda::CubinFacts facts = cuda::cubin_facts(
      cuda::compile_to_cubin(source.text, "kernel", "sm_90a"), source.launches.at(0).entry);
  EXPECT_EQ(facts.stack_bytes, 0);
  EXPECT_EQ(facts.count("STSM"), 128 * 256 / (4 * 64) / 8) << "each of 8 warps";
  EXPECT_EQ(facts.count("UTMASTG"), 4) << "one per subtile";
}

}  // namespace
}  // namespace tilewright
