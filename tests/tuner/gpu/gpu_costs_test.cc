// Costs that the analytical model took from machine code and from published runs: arrivals in
// clusters, transfers, bare epilogues, special functions, clocks under load.
#include <gtest/gtest.h>

#include "codegen/cuda_lowering.h"
#include "tests/tuner/choices.h"
#include "tests/tuner/hopper.h"
#include "tuner/gpu/gpu_model.h"

namespace tilewright {
namespace {

// A warp-specialized kernel of a product by wgmma.
Program roles_program(const std::string& spec, const std::string& tile, int stages,
                      const std::string& cluster = "1x1", const std::string& grid = "tiles") {
  const Workload w = workload(spec);
  const Choices choices = {
      {".layout?", "none"},  {".parts?", 1},
      {".copies", "roles"},  {".mma", wgmma_for(w.inputs.front().buffer->elem)},
      {".tile", tile},       {".stages", stages},
      {".pending?", 0},      {".cluster?", cluster},
      {".stores", "direct"}, {".order?", "rows"},
      {".group?", 1},        {".grid?", grid},
      {".blocks?", 1}};
  return apply_sketch(cuda_sketches().front(), {w, hopper(), 1}, choices).program();
}

GpuKernelWork work_of_roles(const Program& p) {
  return gpu_work_of(lower_for_cuda(p, hopper()), hopper()).at(0);
}

constexpr const char* kBf16 = "matmul:m=4096,n=4096,k=4096,dtype=bf16,out=bf16,trans_b=true";
constexpr const char* kE4m3 = "matmul:m=4096,n=4096,k=4096,dtype=f8e4m3,out=bf16,trans_b=true";

TEST(GpuCosts, AStageOfAClusterIsFreeLater) {
  const GpuKernelWork alone = work_of_roles(roles_program(kBf16, "128x128x64/64x128", 4)),
                      pair = work_of_roles(roles_program(kBf16, "128x128x64/64x128", 4, "2x1"));
  const double waits = 4096 / 64, ahead = 3;
  EXPECT_NEAR(pair.waits.overlapped - alone.waits.overlapped, waits * kClusterLatency / 2 / ahead,
              1);
}

// Half of the shared tile is loaded by each block, and both receive all of it.
TEST(GpuCosts, TransfersCountAllBytesThatABlockReceives) {
  for (const char* cluster : {"1x1", "2x1"}) {
    const GpuKernelWork w = work_of_roles(roles_program(kBf16, "128x128x64/64x128", 4, cluster));
    const double waits = 4096 / 64, ahead = 3, transfer = waits * 2 * 128 * 64 * 2 / kPortBytes;
    const double release =
        kArrivalLatency + (std::string(cluster) == "1x1" ? 0 : kClusterLatency / 2);
    EXPECT_NEAR(w.waits.overlapped, (transfer + waits * (kGlobalLatency + release)) / ahead, 1)
        << cluster;
  }
}

// Two stages leave one to be on its way, whose transfer takes as long as the products beside it.
TEST(GpuCosts, StagesAreNotFree) {
  auto seconds = [](int stages) {
    return estimate_gpu(roles_program(kE4m3, "128x128x128/64x128", stages), hopper()).seconds;
  };
  EXPECT_GT(seconds(2), 1.15 * seconds(4));
  EXPECT_NEAR(seconds(4) / seconds(5), 1, 0.01);
}

TEST(GpuCosts, AnEpilogueStandsAloneUnlessAnotherBlockMultiplies) {
  const GpuKernelWork w = work_of_roles(roles_program(kBf16, "128x256x64/64x256", 3));
  // Every lane rounds and stores its part of the tile.
  EXPECT_GE(w.bare.instructions, 128 * 256 / 32);
  EXPECT_LT(w.bare.instructions, 0.5 * w.instructions);
  EXPECT_GE(w.bare.bytes, 128 * 256 * 2);

  GpuKernelWork block;
  block.products.row = w.products.row;
  block.products.is_wgmma = true;
  block.threads = 384;
  block.blocks = 132;
  block.products.operations = 1e8;
  block.instructions = block.bare.instructions = 4e4;
  GpuKernelWork beside = block;
  beside.bare.instructions = 0;
  std::string problem;
  auto seconds = [&](GpuKernelWork k, int64_t shared) {
    k.shared_bytes = shared;
    if (shared < 100 << 10) k.blocks *= 2;
    return estimate_kernel(k, hopper().gpu, 64, problem).seconds;
  };
  const double epilogue = 4e4 / 4 / hopper().gpu.clock;
  EXPECT_NEAR(seconds(block, 200 << 10) - seconds(beside, 200 << 10), epilogue, 0.01 * epilogue);
  EXPECT_DOUBLE_EQ(seconds(block, 90 << 10), seconds(beside, 90 << 10)) << "two blocks share an SM";
}

// Producer warps work beside the products.
TEST(GpuCosts, ProducersAreNotBare) {
  const Program p = roles_program(kBf16, "128x128x64/64x128", 4);
  const GpuKernelWork w = work_of_roles(p);
  const double transferred = 4096 / 64 * 2 * 128 * 64 * 2 / 128;  // passes of TMA tiles
  EXPECT_LE(w.bare.passes, w.shared_passes - transferred);
}

TEST(GpuCosts, NoKernelRunsAboveTheClockUnderLoad) {
  const Target target = hopper();
  const double flops = 2.0 * 4096 * 4096 * 4096;
  const double seconds =
      estimate_gpu(roles_program(kBf16, "128x256x64/64x256", 3, "2x1"), target).seconds;
  EXPECT_GT(seconds, flops / (target.gpu.sustained * target.gpu.tensor_f16));
  EXPECT_LT(seconds, 1.5 * flops / (target.gpu.sustained * target.gpu.tensor_f16));
}

// One exponential per score, and the reciprocals of the rows' sums.
TEST(GpuCosts, SoftmaxTakesTheSpecialFunctionUnits) {
  const Workload w = workload("attention:heads=16,m=4096,n=4096,d=64,dtype=f16");
  const Choices choices = {
      {".softmax", "online_wgmma"}, {".tile", "128x128/64"}, {".copies", "roles"}};
  const Program p = apply_sketch(cuda_sketches().front(), {w, hopper(), 1}, choices).program();
  const GpuKernelWork work = work_of_roles(p);
  const double exponentials = 16.0 * 4096 * 4096 / 32;
  const double counted = work.units.special * static_cast<double>(work.blocks);
  EXPECT_GT(counted, exponentials);
  EXPECT_LT(counted, 1.1 * exponentials);
  const GpuKernelEstimate e = estimate_gpu(p, hopper()).kernels.at(0);
  const double cycles = exponentials * 32 / 16 / 132;
  EXPECT_NEAR(e.of(GpuLimit::Special), cycles / hopper().gpu.clock,
              0.15 * cycles / hopper().gpu.clock);
  EXPECT_GT(e.seconds, e.of(GpuLimit::Special));
}

// Costs that depend on the chip alone.
TEST(GpuCosts, AnH100ReadsMemoryMoreSlowlyThanAnH200) {
  const Program few = roles_program("matmul:m=64,n=16384,k=16384,dtype=bf16,out=bf16,trans_b=true",
                                    "64x128x64/64x128", 5);
  const Target h100 = Target::parse("cuda:h100");
  const double slow = estimate_gpu(few, h100).seconds, fast = estimate_gpu(few, hopper()).seconds;
  EXPECT_NEAR(slow / fast, 4800.0 / 3350, 0.1);
  const Program many = roles_program(kBf16, "128x256x64/64x256", 3, "2x1");
  EXPECT_NEAR(estimate_gpu(many, h100).seconds / estimate_gpu(many, hopper()).seconds, 1, 0.02);
}

}  // namespace
}  // namespace tilewright
