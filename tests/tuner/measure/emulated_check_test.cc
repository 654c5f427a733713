// Configs are checked on smaller instances of their workloads.
#include "tuner/measure/emulated_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "codegen/codegen.h"
#include "ir/ops/spec.h"
#include "tests/tuner/choices.h"
#include "tests/tuner/golden_kernels.h"
#include "tuner/measure/emulated_instances.h"

namespace tilewright {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;

// The config of plain tiles with these choices.
std::string config_of_emulated(const Workload& w, const Target& target, const Choices& choices) {
  return applied_trial(cuda_sketches().front(), {w, target, 1}, plain_with(choices)).config();
}

std::string shrunk_spec(const std::string& spec, int64_t limit) {
  auto w = shrunk(parse_workload(spec), limit);
  return w ? spec_to_inline(parse_spec(w->canonical)) : "none";
}

TEST(EmulatedCheck, SizesShrinkAndKeepTheirRemainders) {
  EXPECT_EQ(shrunk_spec("matmul:m=4096,n=4100,k=300", 128), "matmul:m=128,n=132,k=172");
  EXPECT_EQ(shrunk_spec("matmul:m=200,n=7,k=128", 128), "matmul:m=200,n=7,k=128");
  EXPECT_EQ(shrunk_spec("matmul:m=16..4096,n=512,k=64", 64), "matmul:m=16..64,n=64,k=64");
  EXPECT_EQ(shrunk_spec("elementwise:shape=1000x4x999,fn=relu", 100),
            "elementwise:shape=[100,4,199],fn=relu");
}

TEST(EmulatedCheck, SizesThatDoNotGoTogetherAnyMoreAreNotTaken) {
  // 96 channels in 3 groups; 8 + 96 % 8 is not divisible by 3.
  EXPECT_EQ(shrunk_spec("conv2d:n=1,h=9,w=9,ci=96,co=96,kernel=3,groups=3", 8), "none");
}

TEST(EmulatedCheck, AKernelIsCheckedOnALargeWorkloadsSmallInstance) {
  Workload w = parse_workload("matmul:m=4096,n=4096,k=4096,dtype=f16");
  Target target = Target::parse("cuda:sm_80");
  const Sketch& sketch = cuda_sketches().front();
  Trial trial = Trial::first();
  apply_sketch(sketch, {w, target, 1}, trial);
  EmulatedCheck check = check_emulated(w, target, sketch, trial.config());
  EXPECT_TRUE(check.passed()) << check.run.problem;
  EXPECT_EQ(check.instance, "matmul:m=256,n=256,k=256,dtype=f16");
  EXPECT_GT(check.run.counters.mma, 0);
}

TEST(EmulatedCheck, InstancesAreMadeOnceForAllConfigs) {
  const Target target = Target::parse("cuda:sm_80");
  const Sketch& sketch = cuda_sketches().front();
  EmulatedInstances instances(parse_workload("matmul:m=512,n=64,k=64,dtype=f16"));
  Trial trial = Trial::first();
  apply_sketch(sketch, {instances.workload(), target, 1}, trial);
  const Workload* made = instances.all().data();
  const EmulatedCheck check = check_emulated(instances, target, sketch, trial.config());
  EXPECT_TRUE(check.passed()) << check.run.problem;
  EXPECT_EQ(check.instance,
            emulated_instance(instances.workload(), target, sketch, trial.config()));
  EXPECT_EQ(instances.all().data(), made);
  EXPECT_EQ(instances.all().size(), emulated_instances(instances.workload()).size());
}

// The kernel takes the weight in the layout of its packing program, not in the workload's.
TEST(EmulatedCheck, WeightsAreLaidOutForTheKernel) {
  Workload w = parse_workload("matmul:m=64,n=4096,k=4096,dtype=f16,w.dtype=u4,w.group=128");
  Target target = Target::parse("cuda:sm_80");
  const Sketch& sketch = cuda_sketches().front();
  Trial trial = Trial::first();
  Schedule schedule = apply_sketch(sketch, {w, target, 1}, trial);
  ASSERT_FALSE(schedule.module().packs.empty());
  EmulatedCheck check = check_emulated(w, target, sketch, trial.config());
  EXPECT_TRUE(check.passed()) << check.run.problem;
  EXPECT_GT(check.run.counters.mma, 0);
}

// A typical first choice of the model for large products: wide tiles in groups of sixteen tile
// rows.
TEST(EmulatedCheck, WideTilesInLongGroupsAreChecked) {
  Workload w = parse_workload("matmul:m=4096,n=4096,k=4096,dtype=f16,trans_b=true");
  const Target target = Target::parse("cuda:sm_90a");
  EmulatedCheck check = check_emulated(w, target, cuda_sketches().front(),
                                       config_of_emulated(w, target,
                                                          {{"C_acc.mma", "wgmma_f32_f16"},
                                                           {"C_acc.tile", "128x256x64/64x256"},
                                                           {"C_acc.copies", "roles"},
                                                           {"C_acc.stages", 3},
                                                           {"C_acc.pending", 1},
                                                           {"C_acc.stores", "shared"},
                                                           {"C_acc.group", 16},
                                                           {"C_acc.grid", "persistent"},
                                                           {"C_acc.blocks", 1}}));
  EXPECT_TRUE(check.passed()) << check.run.problem;
  EXPECT_THAT(check.instance, HasSubstr("m=2048,n=256"));
}

// Groups of tiles need many rows, and split-K needs a long k.
TEST(EmulatedCheck, WhatTakesOneLongSizeIsCheckedOnSuchAnInstance) {
  Target target = Target::parse("cuda:sm_80");
  const Sketch& sketch = cuda_sketches().front();
  auto instance = [&](const char* spec, const char* answer) {
    Workload w = parse_workload(spec);
    Trial trial = Trial::first();
    apply_sketch(sketch, {w, target, 1}, trial);
    EXPECT_THAT(trial.config(), HasSubstr(answer));
    EmulatedCheck check = check_emulated(w, target, sketch, trial.config());
    EXPECT_TRUE(check.passed()) << check.instance << check.run.problem << trial.config();
    return check.instance;
  };
  EXPECT_THAT(instance("matmul:m=4096,n=8192,k=4096,dtype=f16", R"("C_acc.group":8)"),
              HasSubstr("m=1024"));
  EXPECT_THAT(instance("matmul:m=128,n=512,k=4096,dtype=f16", ".parts"), HasSubstr("k="));
}

// Stacks and images are cut to a few, so that the remaining sizes fill wide tiles.
TEST(EmulatedCheck, StacksShrinkBeforeTheirMatrices) {
  const Target target = Target::parse("cuda:sm_90a");
  auto instance = [&](const char* spec, const Choices& choices) {
    const Workload w = parse_workload(spec);
    return emulated_instance(w, target, cuda_sketches().front(),
                             config_of_emulated(w, target, choices));
  };
  EXPECT_THAT(
      instance("matmul:batch=16,m=512,n=512,k=64,dtype=f16", {{"C_acc.mma", "wgmma_f32_f16"},
                                                              {"C_acc.tile", "128x256x64/64x256"},
                                                              {"C_acc.copies", "roles"},
                                                              {"C_acc.stages", 3},
                                                              {"C_acc.pending", 1},
                                                              {"C_acc.stores", "tensor"},
                                                              {"C_acc.group", 4}}),
      HasSubstr("m=512,n=512,k=64,batch=2"));
  EXPECT_THAT(instance("conv2d:n=8,h=28,w=28,ci=128,co=128,kernel=3,pad=1,dtype=f16",
                       {{"Y_acc.operands", "gathered"},
                        {"Y_acc.mma", "wgmma_f32_f16"},
                        {"Y_acc.tile", "64x128x64/64x128"},
                        {"Y_acc.stages", 3},
                        {"Y_acc.pending", 1}}),
              HasSubstr("co=128"));
  // Slower instances come last, the smallest of them first.
  double last = 0;
  for (const Workload& w : emulated_instances(parse_workload("matmul:batch=16,m=512,n=512,k=64"))) {
    EXPECT_LE(w.flops, 6 << 27) << w.canonical;
    if (last > 1 << 27) {
      EXPECT_GE(w.flops, last) << w.canonical;
    }
    last = w.flops;
  }
  EXPECT_GT(last, 1 << 27);
  // Groups of eight tile rows, which no smaller image has.
  EXPECT_THAT(instance("conv2d:n=32,h=56,w=56,ci=96,co=192,kernel=3,pad=1,dtype=f16",
                       {{"Y_acc.operands", "gathered"},
                        {"Y_acc.mma", "wgmma_f32_f16"},
                        {"Y_acc.tile", "128x192x64/64x192"},
                        {"Y_acc.copies", "roles"},
                        {"Y_acc.stages", 3},
                        {"Y_acc.pending", 0},
                        {"Y_acc.stores", "shared"},
                        {"Y_acc.group", 8}}),
              HasSubstr("co=192"));
}

// Query heads shrink with key heads: two of each leave room for long sequences.
TEST(EmulatedCheck, SizesThatGoTogetherShrinkTogether) {
  auto has = [](const std::string& spec, const std::string& part) {
    for (const Workload& i : emulated_instances(parse_workload(spec))) {
      if (spec_to_inline(parse_spec(i.canonical)).find(part) != std::string::npos) return true;
    }
    return false;
  };
  EXPECT_TRUE(has("attention:heads=16,m=4096,n=4096,d=128,dtype=f16", "m=256,n=256,d=128,heads=2"));
  EXPECT_TRUE(has("attention:heads=32,kv_heads=8,m=4096,n=4096,d=128,dtype=f16",
                  "d=128,heads=8,kv_heads=2"));
  EXPECT_TRUE(has("attention:heads=128,m=4096,n=4096,d=128,dtype=f16", "d=128,heads=2"));
}

TEST(EmulatedCheck, SizesKnownOnlyAtLaunchAreGivenToTheKernel) {
  Workload w = parse_workload("softmax:m=1..64,n=40");
  Target target = Target::parse("cuda:sm_80");
  Trial trial = Trial::first();
  CudaSource source =
      generate_cuda(apply_sketch(cuda_sketches().front(), {w, target, 1}, trial).module(), target);
  for (int64_t m : {1, 37, 64}) EXPECT_EQ(run_emulated(w, source, {{"m", m}}, 1).problem, "");
}

TEST(EmulatedCheck, AParameterThatIsNoOperandIsTold) {
  Workload w = parse_workload("matmul:m=16,n=16,k=16");
  CudaSource source;
  source.params = {{"packed", ElemType::f32, {16, 16}, ParamRole::Weight}};
  EXPECT_EQ(run_emulated(w, source, {}, 1).problem,
            "kernel parameter 'packed' is no operand of the workload, and nothing packs it");
}

TEST(EmulatedCheck, AWrongKernelIsFound) {
  Workload w = parse_workload("matmul:m=64,n=64,k=64,dtype=f16");
  Target target = Target::parse("cuda:sm_80");
  Trial trial = Trial::first();
  Schedule s = apply_sketch(cuda_sketches().front(), {w, target, 1}, trial);
  CudaSource source = generate_cuda(s.module(), target);
  EXPECT_EQ(run_emulated(w, source, {}, 1).problem, "");
  const std::string barrier = "__syncthreads();";
  for (size_t at = source.text.find(barrier); at != std::string::npos;
       at = source.text.find(barrier)) {
    source.text.erase(at, barrier.size());
  }
  // The order of threads decides which one shows first.
  EXPECT_THAT(run_emulated(w, source, {}, 1).problem,
              AnyOf(HasSubstr("race"), HasSubstr("which nothing has written so far")));
}

TEST(EmulatedCheck, WhatNoSmallInstanceTakesIsNotChecked) {
  Workload w = parse_workload("matmul:m=4096,n=4096,k=4096,dtype=f16");
  EmulatedCheck check = check_emulated(w, Target::parse("cuda:sm_80"), cuda_sketches().front(),
                                       R"({"no such question": 1})");
  EXPECT_FALSE(check.passed());
  EXPECT_EQ(check.instance, "");
}

Exercise exercise_of_stored(const GoldenKernel& k) {
  Trial trial = Trial::replay(k.config);
  const Workload w = parse_workload(k.spec);
  return exercise_of(apply_sketch(cuda_sketches().front(), {w, k.target, 1}, trial).program());
}

// Rings wrap twice and leave a remainder, persistent blocks go on to a second tile, and curves turn, so
// that a stage that is never released, or is taken for its neighbour, hangs there, too. Where the kernel itself
// does less of that, its instance does as much.
TEST(EmulatedCheck, InstancesExerciseThePipelineOfStoredKernels) {
  int rings = 0, persistent = 0, curves = 0;
  std::vector<std::string> short_ones;
  for (const GoldenKernel& k : golden_gpu_kernels()) {
    EmulatedInstances instances(parse_workload(k.spec));
    const auto small = small_instance_for(instances, k.target, cuda_sketches().front(), k.config);
    ASSERT_TRUE(small) << k.name;
    const Exercise& e = small->exercise;
    if (!e.is_whole()) {
      EXPECT_LE(e.missing(), exercise_of_stored(k).missing())
          << k.name << " on " << small->workload.canonical;
      short_ones.push_back(k.name);
      continue;
    }
    if (e.stages > 0) {
      EXPECT_GE(e.iterations, 2 * e.stages + 1) << k.name;
      EXPECT_NE(e.iterations % e.stages, 0) << k.name;
      EXPECT_GT(e.remainder, 0) << k.name;
    }
    if (e.turns > 0) {
      EXPECT_GE(e.turns, 2) << k.name;
    }
    rings += e.stages > 0 ? 1 : 0;
    persistent += e.turns > 0 ? 1 : 0;
    curves += e.curve_rows > 1 && e.curve_columns > 1 ? 1 : 0;
  }
  EXPECT_THAT(short_ones, ::testing::UnorderedElementsAre("attention_wgmma_cp_async",
                                                          "mma_stream_k", "mma_conv_gathered",
                                                          "mma_back_to_back", "mma_gated_layer"));
  EXPECT_GE(rings, 40);
  EXPECT_GE(persistent, 3);
  EXPECT_GE(curves, 3);
}

// A ring of eight stages needs 17 iterations. Two of them are a group of the weight, so it gets 18.
TEST(EmulatedCheck, RingsOfGroupsGetMoreIterations) {
  const auto stored = golden_gpu_kernels();
  const auto k = std::ranges::find(stored, "wgmma_packed_bulk", &GoldenKernel::name);
  ASSERT_NE(k, stored.end());
  EmulatedInstances instances(parse_workload(k->spec));
  const auto small = small_instance_for(instances, k->target, cuda_sketches().front(), k->config);
  ASSERT_TRUE(small);
  EXPECT_EQ(small->exercise.stages, 8);
  EXPECT_EQ(small->exercise.iterations, 18);
}

TEST(EmulatedCheck, OneSizeGrowsAtATime) {
  const Workload large = parse_workload("matmul:m=100,n=4096,k=4100,dtype=f16");
  std::vector<std::string> specs;
  for (const LongerInstance& i :
       longer_instances(parse_workload("matmul:m=100,n=512,k=260,dtype=f16"), large)) {
    specs.push_back(spec_to_inline(parse_spec(i.workload.canonical)));
  }
  EXPECT_THAT(specs, ::testing::UnorderedElementsAre("matmul:m=100,n=768,k=260,dtype=f16",
                                                     "matmul:m=100,n=1024,k=260,dtype=f16",
                                                     "matmul:m=100,n=512,k=516,dtype=f16"));
}

// A ring of four stages and tiles of 64 takes nine iterations, not the next power of two.
TEST(EmulatedCheck, ARingGetsJustEnoughIterations) {
  EmulatedInstances instances(parse_workload("matmul:m=2048,n=2048,k=4096,dtype=f16,trans_b=true"));
  const auto small = small_instance_for(
      instances, Target::parse("cuda:sm_90a"), cuda_sketches().front(),
      R"({"C_acc.B.layout": "none", "C_acc.mma": "wgmma_f32_f16", "C_acc.tile": "64x64x64/64x64",
          "C_acc.copies": "roles", "C_acc.stages": 4, "C_acc.pending": 0, "C_acc.cluster": "1x1",
          "C_acc.stores": "direct", "C_acc.order": "rows", "C_acc.group": 1, "C_acc.grid": "tiles"})");
  ASSERT_TRUE(small);
  EXPECT_EQ(small->exercise.stages, 4);
  EXPECT_EQ(small->exercise.iterations, 9);
  EXPECT_EQ(small->exercise.remainder, 1);
}

// Blocks of a persistent grid count stages on, so all of their tiles together leave the remainder.
TEST(Exercise, CountsTheRemainderOfAllTilesOfABlock) {
  Exercise e{.stages = 2, .iterations = 5, .remainder = 1};
  EXPECT_TRUE(e.is_whole());
  EXPECT_EQ(e.next_iterations(), 7);
  e.remainder = 0;
  EXPECT_FALSE(e.is_whole());
  e = {.stages = 3, .iterations = 6};
  EXPECT_EQ(e.next_iterations(), 7);
  e.iterations = 8;
  EXPECT_EQ(e.next_iterations(), 10);
}

}  // namespace
}  // namespace tilewright
