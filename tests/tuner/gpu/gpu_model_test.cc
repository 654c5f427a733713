// The analytical GPU model orders kernels by their cost.
#include "tuner/gpu/gpu_model.h"
#include "tests/tuner/a100.h"
#include "tests/tuner/choices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "codegen/codegen.h"
#include "codegen/cuda_lowering.h"
#include "ir/ops/spec.h"
#include "tuner/measure/emulated_check.h"
#include "tuner/sketch.h"

namespace tilewright {
namespace {

using ::testing::HasSubstr;

Program program_of(const Workload& w, const Target& target, const Choices& choices) {
  return apply_sketch(cuda_sketches().front(), {w, target, 1}, choices).program();
}

GpuEstimate estimate(const std::string& spec, const Choices& choices,
                     const Target& target = a100()) {
  GpuEstimate e = estimate_gpu(program_of(parse_workload(spec), target, choices), target);
  EXPECT_TRUE(e.fits()) << e.refusal;
  return e;
}

// An f16 matmul with matrix instructions.
std::string matmul(int64_t m, int64_t n, int64_t k) {
  return "matmul:m=" + std::to_string(m) + ",n=" + std::to_string(n) + ",k=" + std::to_string(k) +
         ",dtype=f16";
}
Choices tile(const std::string& size, int stages, const Choices& more = {}) {
  return joined_choices(
      plain_with(
          {{"C_acc.mma", "m16n8k16_f32_f16"}, {"C_acc.tile", size}, {"C_acc.stages", stages}}),
      more);
}

TEST(GpuModel, LargeTilesServeALargeProductBetterThanTinyOnes) {
  double large = estimate(matmul(4096, 4096, 1024), tile("128x128x32/64x32", 3)).seconds;
  double small = estimate(matmul(4096, 4096, 1024), tile("32x32x32/32x16", 3)).seconds;
  EXPECT_LT(large * 1.5, small);
}

TEST(GpuModel, SmallTilesReachMoreMultiprocessorsWhereThereIsLittleWork) {
  double large = estimate(matmul(128, 512, 4096), tile("128x128x32/64x32", 3)).seconds;
  double small = estimate(matmul(128, 512, 4096), tile("32x32x32/32x16", 3)).seconds;
  EXPECT_LT(small * 1.5, large) << "four blocks for 108 multiprocessors";
}

TEST(GpuModel, CopyingAheadHidesLatency) {
  double one = estimate(matmul(1024, 1024, 1024), tile("128x128x32/64x32", 1)).seconds;
  double two = estimate(matmul(1024, 1024, 1024), tile("128x128x32/64x32", 2)).seconds;
  double four = estimate(matmul(1024, 1024, 1024), tile("128x128x32/64x32", 4)).seconds;
  EXPECT_LT(two * 1.2, one);
  EXPECT_LT(four, 1.01 * two);
}

TEST(GpuModel, AKernelThatStandsReadyIsLaunchedInLessTime) {
  auto launches = [](const char* name) {
    const Target target = Target::parse(name);
    const Workload w = parse_workload(matmul(64, 64, 4096));
    const GpuEstimate e = estimate_gpu(program_of(w, target, {}), target);
    EXPECT_EQ(e.kernels.size(), 2u) << e.refusal;
    double seconds = e.seconds;
    for (const GpuKernelEstimate& k : e.kernels) seconds -= k.seconds;
    return seconds;
  };
  EXPECT_LT(launches("cuda:sm_90a"), 0.9 * launches("cuda:sm_89"));
}

TEST(GpuModel, ABlockBeyondAWaveCostsAsMuchAsMany) {
  auto seconds = [](int64_t m) {
    return estimate(matmul(m, 4096, 4096), tile("128x128x32/64x32", 3)).kernels[0];
  };
  GpuKernelEstimate first = seconds(128);
  const int64_t resident = int64_t{108} * first.blocks_per_sm;
  GpuKernelEstimate whole = seconds(resident / 32 * 128), more = seconds((resident / 32 + 1) * 128);
  EXPECT_LE(whole.waves, 1);
  EXPECT_GT(more.waves, 1);
  EXPECT_GT(more.seconds, 1.2 * whole.seconds) << "the tail is a wave of its own";
}

TEST(GpuModel, MatrixInstructionsBeatFusedMultiplyAdds) {
  GpuEstimate mma = estimate(matmul(2048, 2048, 2048), {{"C_acc.mma", "m16n8k16_f32_f16"}});
  Workload w = parse_workload(matmul(2048, 2048, 2048));
  Program fma = program_of(
      w, a100(),
      plain_with({{"C_acc.mma", "none"}, {"C_acc.tile", "128x128x16/8x8"}, {"C_acc.stages", 3}}));
  GpuEstimate plain = estimate_gpu(fma, a100());
  EXPECT_TRUE(plain.fits()) << plain.refusal;
  EXPECT_GT(plain.seconds, 3 * mma.seconds);
}

TEST(GpuModel, TrafficIsThatOfTheTiles) {
  GpuKernelEstimate e = estimate(matmul(4096, 4096, 4096), tile("128x128x32/64x32", 3)).kernels[0];
  // Each of 32 x 32 blocks reads 128 rows of A and 128 columns of B, and writes its tile.
  const double reads = 32.0 * 32 * 2 * 128 * 4096 * 2, writes = 4096.0 * 4096 * 2;
  EXPECT_NEAR(e.l2_bytes, reads + writes, 0.02 * (reads + writes));
  EXPECT_GE(e.dram_bytes, 3 * writes) << "each operand once";
  EXPECT_LT(e.dram_bytes, 6 * writes) << "blocks of a wave share what they read";
  EXPECT_EQ(e.blocks, 32 * 32);
  EXPECT_EQ(e.threads, 256);
}

// The work counted from the program equals what the emulator counts.
TEST(GpuWork, CountsWhatTheEmulatorCounts) {
  for (const char* spec : {"matmul:m=256,n=256,k=128,dtype=f16", "matmul:m=128,n=128,k=64",
                           "elementwise:shape=64x4096,fn=relu"}) {
    SCOPED_TRACE(spec);
    Workload w = parse_workload(spec);
    const Schedule s = apply_sketch(cuda_sketches().front(), {w, a100(), 1}, Choices());
    EmulatorCounters c = run_emulated(w, generate_cuda(s.module(), a100()), {}, 1).counters;
    auto works = gpu_work_of(lower_for_cuda(s.program(), a100()), a100());
    ASSERT_EQ(works.size(), 1u);
    const GpuKernelWork& work = works[0];
    const auto blocks = static_cast<double>(work.blocks);
    double sectors = 0;
    for (const GlobalAccess& a : work.global) sectors += a.bytes / 32 * blocks;
    auto near = [](double got, int64_t want) {
      EXPECT_NEAR(got, static_cast<double>(want), 0.25 * static_cast<double>(want));
    };
    near(sectors, c.load_sectors + c.store_sectors);
    near(work.shared_passes * blocks, c.shared_passes);
    EXPECT_EQ(work.products.operations * blocks, static_cast<double>(c.mma_operations));
  }
}

// The lanes of a warp read half a sector of scales per turn, and the other half in the next turn.
// In the other shape, the warp with the next k elements reads it.
TEST(GpuWork, TheFirstLevelCacheHasTheRestOfASector) {
  Workload w = parse_workload(
      "matmul:m=1,n=1024,k=8192,dtype=f16,trans_b=true,w.dtype=u4,w.group=128,w.scale=f16");
  for (const char* shape : {"8x1/1/32", "4x2/1/32"}) {
    SCOPED_TRACE(shape);
    Program p = program_of(w, a100(), {{"C_acc.B.layout", "words"}, {"C_acc.gemv", shape}});
    double scales = 0;
    for (const GpuKernelWork& work : gpu_work_of(lower_for_cuda(p, a100()), a100())) {
      for (const GlobalAccess& a : work.global) {
        bool is_scale = a.buffer->name.starts_with("B.scale");
        if (is_scale) scales += a.bytes * static_cast<double>(work.blocks);
      }
    }
    const double once = 1024.0 * 8192 / 128 * 2;
    EXPECT_NEAR(scales, once, 0.01 * once);
  }
}

// A zero point for all codes of a group is read once for the codes that are unpacked together.
TEST(GpuWork, CountsARepeatedReadOnce) {
  auto passes = [](const std::string& zero) {
    Workload w = parse_workload(
        "matmul:m=16,n=1024,k=1024,dtype=f16,trans_b=true,w.dtype=u4,w.group=128,w.scale=f16,w."
        "zero=" +
        zero);
    Program p =
        program_of(w, a100(), {{"C_acc.B.layout", "fragments"}, {"C_acc.scales", "staged"}});
    return gpu_work_of(lower_for_cuda(p, a100()), a100())[0].shared_passes;
  };
  EXPECT_LT(passes("u4"), 1.25 * passes("none"));
}

TEST(GpuModel, AStreamIsBoundByDram) {
  GpuKernelEstimate e = estimate("elementwise:shape=8192x8192,fn=relu", {}).kernels[0];
  EXPECT_EQ(e.bound_by, GpuLimit::Dram);
  const double bytes = 2.0 * 8192 * 8192 * 4;
  EXPECT_NEAR(e.dram_bytes, bytes, 0.01 * bytes);
  EXPECT_GT(e.seconds, bytes / a100().gpu.bandwidth);
  EXPECT_LT(e.seconds, 1.5 * bytes / a100().gpu.bandwidth);
}

TEST(GpuModel, NothingIsFasterThanTheDataSheetAllows) {
  for (const Target& target : cuda_targets()) {
    if (target.gpu.compute_capability < 80) continue;
    GpuEstimate e = estimate(matmul(4096, 4096, 4096), {}, target);
    EXPECT_GT(e.seconds, 2.0 * 4096 * 4096 * 4096 / target.gpu.tensor_f16) << target.name;
  }
}

TEST(GpuModel, EveryKindOfKernelHasATime) {
  for (const char* spec :
       {"softmax:m=4096,n=1000", "layer_norm:m=64,n=768", "reduce:shape=1000000,axes=0,kind=max",
        "gather:rows=2000,cols=300,index=700", "matmul:m=1,n=4096,k=4096",
        "matmul:m=1,n=4096,k=4096,trans_b=true", "matmul:m=1..64,n=256,k=256",
        "conv2d:n=1,h=28,w=28,ci=64,co=64,kernel=3,pad=1",
        "depthwise_conv2d:n=1,h=28,w=28,c=64,kernel=3,pad=1"}) {
    for (const Target& target : cuda_targets()) {
      SCOPED_TRACE(spec + (" for " + target.name));
      GpuEstimate e = estimate(spec, {}, target);
      EXPECT_GT(e.seconds, 0);
      EXPECT_LT(e.seconds, 0.1);
      for (const GpuKernelEstimate& k : e.kernels) {
        EXPECT_GT(k.of(k.bound_by), 0);
        EXPECT_GT(k.l2_bytes, 0) << "each kernel reads or writes";
        EXPECT_LE(k.occupancy, 1);
      }
    }
  }
}

TEST(GpuModel, BankConflictsCost) {
  GpuKernelWork work;
  work.blocks = 108;
  work.threads = 128;
  work.shared_passes = 1e6;
  std::string problem;
  double even = estimate_kernel(work, a100().gpu, 64, problem).seconds;
  work.shared_passes *= 4;
  EXPECT_GT(estimate_kernel(work, a100().gpu, 64, problem).seconds, 3.5 * even);
}

TEST(GpuModel, SwizzledRowsAreAsFreeOfConflictsAsPaddedOnes) {
  auto passes = [](const char* rows) {
    Program p = program_of(parse_workload(matmul(1024, 1024, 1024)), a100(),
                           tile("128x128x32/64x32", 3, {{"C_acc.rows", rows}}));
    return gpu_work_of(lower_for_cuda(p, a100()), a100()).at(0).shared_passes;
  };
  EXPECT_LE(passes("swizzled"), passes("padded"));
}

TEST(GpuModel, WhatDoesNotFitIsRefused) {
  auto refusal = [](int threads, int64_t shared, int registers) {
    GpuKernelWork work;
    work.threads = threads;
    work.shared_bytes = shared;
    std::string problem;
    EXPECT_EQ(estimate_kernel(work, a100().gpu, registers, problem).blocks_per_sm, 0);
    return problem;
  };
  EXPECT_THAT(refusal(2048, 0, 32), HasSubstr("a block has 2048 threads; a block of A100 SXM4 80GB "
                                              "has at most 1024"));
  EXPECT_THAT(refusal(128, 200000, 32), HasSubstr("a block takes 200000 bytes of shared memory; a "
                                                  "block of A100 SXM4 80GB has at most 166912"));
  EXPECT_THAT(refusal(128, 0, 300), HasSubstr("128 threads of 300 registers"));
  EXPECT_THAT(refusal(1024, 0, 128), HasSubstr("has 255 for a thread and 65536 for all"));
}

TEST(GpuModel, WhatCannotBeLoweredIsRefusedWithTheReason) {
  Program program = lower(parse_workload("matmul:m=64,n=64,k=64"));  // loops bound to nothing
  Schedule s(program);
  s.parallel(s.loops(s.blocks().front())[0]);
  GpuEstimate e = estimate_gpu(s.program(), a100());
  EXPECT_FALSE(e.fits());
  EXPECT_THAT(e.refusal, HasSubstr("is parallel, which no GPU kernel is made of"));
}

TEST(GpuModel, ACompilersRegistersDecideTheOccupancy) {
  Program p =
      program_of(parse_workload(matmul(4096, 4096, 1024)), a100(), tile("64x64x32/32x32", 2));
  GpuKernelEstimate few = estimate_gpu(p, a100(), {{64}}).kernels[0];
  GpuKernelEstimate many = estimate_gpu(p, a100(), {{250}}).kernels[0];
  EXPECT_EQ(few.registers, 64);
  EXPECT_GT(few.occupancy, many.occupancy);
}

// A config of attention with tensor cores.
Choices chain_of(int parts) {
  return plain_with({{"S_max.softmax", "online_mma"},
                     {"S_max.tile", "16x32/16"},
                     {"S_max.rows", "registers"},
                     {"S_max.stages", 2},
                     {"S_max.parts", parts}});
}

// Tiles of queries that see more keys than others count in proportion to their number, for any
// number of heads.
TEST(GpuModel, CausalTilesCountAtTheirAverage) {
  auto seconds_of = [](const std::string& heads) {
    const Workload w =
        parse_workload("attention:m=4096,n=4096,d=64,causal=true,dtype=f16,heads=" + heads);
    const double seconds = estimate(w.canonical, {}).seconds;
    EXPECT_GT(seconds, w.flops / a100().gpu.tensor_f16) << "no chip is faster";
    return seconds;
  };
  // With few heads the longest tiles, which run last, leave more of the chip idle.
  EXPECT_GT(seconds_of("32"), 2.5 * seconds_of("8"));
}

// Lengths are data: sequences count at their maximum length, whether or not the kernel reads their
// lengths.
TEST(GpuModel, LengthsCountAtTheirLongest) {
  const std::string decode = "attention:batch=8,heads=32,kv_heads=8,m=1,n=4096,d=128,dtype=f16";
  const GpuEstimate all = estimate(decode, chain_of(4)),
                    read = estimate(decode + ",lengths=keys", chain_of(4));
  EXPECT_NEAR(read.seconds / all.seconds, 1, 0.1);
  EXPECT_NEAR(read.kernels.at(0).dram_bytes / all.kernels.at(0).dram_bytes, 1, 0.05);
}

// A decoding step with few sequences keeps more of a GPU busy with split-KV.
TEST(GpuModel, PartsOfKeysServeADecodeStep) {
  for (const char* spec : {"attention:batch=2,heads=32,kv_heads=8,m=1,n=8192,d=128,dtype=f16",
                           "attention:batch=2,heads=32,kv_heads=8,m=1,n=8192,d=128,lengths=keys,"
                           "page=16,pages=1024,dtype=f16"}) {
    EXPECT_LT(estimate(spec, chain_of(8)).seconds * 2, estimate(spec, chain_of(1)).seconds) << spec;
  }
}

}  // namespace
}  // namespace tilewright
