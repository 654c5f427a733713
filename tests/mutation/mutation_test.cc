// A seeded sample of the mutants: each is refused or correct.
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "codegen/codegen.h"
#include "ir/ops/spec.h"
#include "runtime/compile/compile.h"
#include "schedule/error.h"
#include "tests/golden.h"
#include "tests/mutation/gpu_mutants.h"
#include "tests/mutation/ir_mutator.h"
#include "tests/mutation/text_mutator.h"
#include "tuner/sketch.h"

namespace tilewright::mutation {
namespace {

// One workload per kind of operator, so that few kernels serve many mutants.
const std::vector<std::string> kFew = {
    "matmul:m=33,n=40,k=24",
    "matmul:m=1..40,n=40,k=24",
    "matmul:m=20,n=48,k=64,dtype=bf16,out=f32",
    "conv2d:n=1,h=9,w=9,ci=5,co=16,kernel=3,pad=1",
    "softmax:m=6,n=37",
    "matmul:m=3,n=48,k=128,dtype=bf16,out=f32,w.dtype=u4,w.group=32,w.zero=u4,w.scale=f16",
    "attention:heads=2,m=10,n=33,d=16",
};

TEST(Mutants, OfEveryKindAreRefusedOrRight) {
  Mutants mutants(TILEWRIGHT_BINARY_DIR);
  int made = 0;
  for (uint64_t seed = 1; seed <= kind_names().size(); ++seed) {
    const Mutant mutant = mutants.run(seed, {.kind = "", .spec = kFew[seed % kFew.size()]});
    made += mutant.outcome == Outcome::Impossible ? 0 : 1;
    EXPECT_NE(mutant.outcome, Outcome::Escaped) << describe(mutant) << "\n" << mutants.text();
  }
  EXPECT_GT(made, 40);
}

TEST(GpuMutants, OfEveryKindAreRefusedOrRight) {
  int refused = 0;
  const uint64_t count = 2 * cuda_text_kinds().size();
  for (uint64_t seed = 1; seed <= count; ++seed) {
    const Mutant mutant = run_gpu_mutant(seed);
    refused += mutant.outcome == Outcome::Refused ? 1 : 0;
    EXPECT_NE(mutant.outcome, Outcome::Escaped) << describe(mutant);
  }
  EXPECT_GT(refused, static_cast<int>(count) / 2);
}

// A few faults of a ring of stages, of a persistent grid in clusters and of an attention, on the
// instances on which such kernels are checked. The program `mutate --stored` tries all.
TEST(PipelineMutants, OfStoredKernelsAreRefusedOrRight) {
  const std::map<std::string, size_t> every = {{"hopper_u4_cluster", 6},
                                               {"hopper_attention_causal", 12},
                                               {"hopper_f16_split_k", 8},
                                               {"mma_f16", 3}};
  size_t found = 0;
  for (const StoredKernel& kernel : stored_kernels(
           (test::source_dir() / "tests" / "tuner" / "golden_gpu_kernels.json").string())) {
    auto step = every.find(kernel.name);
    if (step == every.end()) continue;
    ++found;
    int refused = 0;
    for (const Mutant& mutant : pipeline_mutants(kernel, step->second)) {
      refused += mutant.outcome == Outcome::Refused ? 1 : 0;
      EXPECT_NE(mutant.outcome, Outcome::Escaped) << describe(mutant);
    }
    EXPECT_GT(refused, 1) << kernel.name;
  }
  EXPECT_EQ(found, every.size());
}

// Without any release a ring hangs as soon as it wraps: the instance has to be long enough for that.
// A release behind the loop may be one that nobody waits for; the last mutant drops all of them.
TEST(PipelineMutants, KernelsThatNeverReleaseAStageAreRefused) {
  int tried = 0;
  for (const StoredKernel& kernel : stored_kernels(
           (test::source_dir() / "tests" / "tuner" / "golden_gpu_kernels.json").string())) {
    if (kernel.name != "hopper_u4_cluster" && kernel.name != "hopper_f16_split_k" &&
        kernel.name != "hopper_attention_causal") {
      continue;
    }
    ++tried;
    const std::vector<Mutant> mutants = pipeline_mutants(kernel, 1, "release dropped");
    ASSERT_FALSE(mutants.empty()) << kernel.name;
    for (const Mutant& mutant : mutants) {
      EXPECT_NE(mutant.outcome, Outcome::Escaped) << describe(mutant);
    }
    EXPECT_EQ(mutants.front().outcome, Outcome::Refused) << describe(mutants.front());
    EXPECT_EQ(mutants.back().outcome, Outcome::Refused) << describe(mutants.back());
  }
  EXPECT_EQ(tried, 3);
}

// Instances leave a remainder of the ring: with whole turns alone a stage that is taken for its
// neighbour is handed over later than need be, and no result is wrong.
TEST(PipelineMutants, StagesTakenForTheirNeighboursAreRefused) {
  int tried = 0;
  for (const StoredKernel& kernel : stored_kernels(
           (test::source_dir() / "tests" / "tuner" / "golden_gpu_kernels.json").string())) {
    if (kernel.name != "wgmma_bf16_tma" && kernel.name != "hopper_f16_split_k") continue;
    ++tried;
    for (const Mutant& mutant : pipeline_mutants(kernel, 1, "stage of another")) {
      EXPECT_EQ(mutant.outcome, Outcome::Refused) << describe(mutant);
    }
  }
  EXPECT_EQ(tried, 2);
}

// Visits texts and programs of the default and of a few configs of every workload.
void for_each_kernel(const std::function<void(const Module&, const KernelSource&)>& visit) {
  const Target target = Target::parse("native");
  for (const std::string& spec : workload_specs()) {
    const Workload w = make_workload(parse_spec(spec));
    for (uint64_t seed = 0; seed < 6; ++seed) {
      Trial trial = seed == 0 ? Trial::first() : Trial::random(seed);
      const Sketch& sketch = seed == 0 ? default_sketch() : cpu_sketches().front();
      try {
        const Schedule s = apply_sketch(sketch, {w, target, 2}, trial);
        visit(s.module(), generate_c(s.module(), target));
      } catch (const ScheduleError&) {
      } catch (const LoweringError&) {
      }
    }
  }
}

TEST(Mutators, EveryKindHasAPlaceInSomeKernel) {
  std::set<std::string> without(kind_names().begin(), kind_names().end());
  KernelFacts facts;
  facts.arguments = 2;
  facts.input = 0;
  facts.output = 1;
  facts.output_bytes = facts.output_row_bytes = facts.input_bytes = "64";
  for_each_kernel([&](const Module& module, const KernelSource& source) {
    for (const std::string& name : std::set<std::string>(without)) {
      const TextKind* kind = find_text_kind(name);
      const bool has = kind != nullptr ? mutate_text(source.code, *kind, facts, 1).has_value()
                                       : mutate_module(module, name, 1).has_value();
      if (has) without.erase(name);
    }
  });
  EXPECT_EQ(without, std::set<std::string>()) << "kinds that nothing can have";
}

TEST(Mutators, ASeedMakesOneMutant) {
  const std::string code =
      "enum { TW_LOCAL_tw_main = 0 };\n  C[i] = (A[i] + B[i]);\n  C[j] = (A[j] + B[j]);\n";
  const TextKind& kind = *find_text_kind("add to sub");
  std::set<std::string> seen;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    auto text = mutate_text(code, kind, {}, seed);
    ASSERT_TRUE(text);
    EXPECT_EQ(*text, *mutate_text(code, kind, {}, seed));
    seen.insert(*text);
  }
  EXPECT_EQ(seen.size(), 2);
}

// The judge of escaped mutants must itself recognize wrong kernels.
class GroundTruth : public testing::TestWithParam<const char*> {
 protected:
  Workload workload_ = make_workload(parse_spec("matmul:m=1..12,n=40,k=24"));
  KernelSource source_ = generate_c({lower(workload_), {}}, Target::parse("native"));

  Truth truth_of(const std::string& code) {
    KernelSource wrong = source_;
    wrong.code = code;
    return compare_kernels(workload_, source_.description, compile(source_).object,
                           compile(wrong).object, 1);
  }
};

TEST_F(GroundTruth, AKernelEqualsItself) {
  const Truth truth = truth_of(source_.code + "\n");
  EXPECT_TRUE(truth.equal) << truth.difference;
}

TEST_P(GroundTruth, TellsFaultsOfCalls) {
  KernelFacts facts;
  facts.arguments = 3;
  facts.input = 0;
  facts.output = 2;
  facts.input_bytes = "(dims[0] * 96)";
  facts.output_bytes = "(dims[0] * 160)";
  facts.output_row_bytes = "160";
  for (uint64_t seed = 0; seed < 12; ++seed) {
    const auto text = mutate_text(source_.code, *find_text_kind(GetParam()), facts, seed);
    ASSERT_TRUE(text);
    EXPECT_FALSE(truth_of(*text).equal) << GetParam() << ", seed " << seed;
  }
}

INSTANTIATE_TEST_SUITE_P(All, GroundTruth,
                         testing::Values("one wrong element", "one element kept", "tile of zeros",
                                         "stops computing", "wrong after some calls",
                                         "result cached", "writes out of bounds",
                                         "reads out of bounds", "writes an input"));

}  // namespace
}  // namespace tilewright::mutation
