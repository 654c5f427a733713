// Attention on a GPU: one kernel in the emulator, compared with the oracle.
#include <gmock/gmock.h>

#include <cmath>

#include "ir/ops/spec.h"
#include "tests/tuner/gpu_check.h"

namespace tilewright {
namespace {

using ::testing::HasSubstr;

const char kGpuOnline[] = R"("S_max.softmax":"online")";

class GpuAttention : public ::testing::TestWithParam<const char*> {};

TEST_P(GpuAttention, IsRightInOneKernel) {
  const Workload w = make_workload(parse_spec(GetParam()));
  const Target target = Target::parse("cuda:sm_80");
  int kernels = 0;
  for (uint64_t seed = 1; seed < 100 && kernels < 3; ++seed) {
    Trial trial = Trial::random(seed);
    Schedule s = apply_sketch(cuda_sketches().front(), {w, target, 1}, trial);
    if (trial.config().find(kGpuOnline) == std::string::npos) continue;
    SCOPED_TRACE(trial.config());
    GpuRun run = run_on_emulator(w, s, target);
    ASSERT_TRUE(run.emulated.ok()) << run.emulated.fault->to_string() << "\n" << run.source.text;
    EXPECT_EQ(run.checked.verdict, Verdict::Ok) << run.checked.message << "\n" << run.source.text;
    // A second kernel combines the parts of split-KV.
    bool parts = false;
    for (const Decision& d : trial.decisions()) {
      parts |= d.name == "S_max.parts" && std::get<int64_t>(d.options.at(d.chosen)) > 1;
    }
    EXPECT_EQ(run.source.launches.size(), parts ? 2u : 1u);
    ++kernels;
  }
  EXPECT_EQ(kernels, 3);
}

INSTANTIATE_TEST_SUITE_P(Specs, GpuAttention,
                         ::testing::Values("attention:heads=2,m=64,n=64,d=16",
                                           "attention:heads=2,kv_heads=1,m=40,n=50,d=20,dv=12",
                                           "attention:m=70,n=70,d=16,causal=true",
                                           "attention:m=64,n=96,d=16,dtype=f16",
                                           "attention:batch=3,m=40,n=96,d=16,lengths=keys",
                                           "attention:batch=2,m=40,n=40,d=16,causal=true,"
                                           "lengths=both",
                                           "attention:batch=2,heads=2,kv_heads=1,m=20,n=48,d=16,"
                                           "lengths=keys,page=8,pages=13",
                                           "attention:batch=2,heads=8,kv_heads=1,m=1,n=80,d=16,"
                                           "lengths=keys,page=8,pages=13",
                                           "attention:heads=4,kv_heads=2,m=9,n=50,d=16"));

// Split-KV without tensor cores, with partial row tiles and with sequences that end early.
TEST(GpuAttentionParts, ArePutTogether) {
  const Target target = Target::parse("cuda:sm_80");
  const Choices choices = {
      {"S_max.softmax", "online"}, {"S_max.tile", "16x64"}, {"S_max.parts", 2}};
  for (const char* spec :
       {"attention:batch=3,heads=8,kv_heads=1,m=1,n=260,d=16,lengths=keys,page=6,pages=37",
        "attention:batch=2,m=17,n=256,d=16,causal=true,lengths=both,dtype=bf16"}) {
    SCOPED_TRACE(spec);
    const Workload w = make_workload(parse_spec(spec));
    const Schedule s = gpu_schedule(w, target, plain_with(choices));
    EXPECT_EQ(generate_cuda(s.module(), target).launches.size(), 2u);
    expect_right_on_gpu(w, s, target);
  }
}

// For f32 this kernel comes first; for narrow floats one with tensor cores
// (gpu_tensor_chain_test.cc).
TEST(GpuAttentionStages, OneKernelFirstForWideFloats) {
  const Target target = Target::parse("cuda:sm_80");
  for (const char* type : {"f32", "f16", "bf16"}) {
    const Workload w =
        make_workload(parse_spec(std::string("attention:m=64,n=64,d=32,dtype=") + type));
    Trial first = Trial::first();
    apply_sketch(cuda_sketches().front(), {w, target, 1}, first);
    EXPECT_EQ(first.config().find(kGpuOnline) != std::string::npos, std::string(type) == "f32")
        << type;
  }
}

// A batch or head dimension of one iteration still has a loop of its own.
TEST(GpuAttentionStages, MultiplyByTensorCores) {
  const Workload w = make_workload(parse_spec("attention:m=32,n=64,d=32,dtype=f16"));
  const Target target = Target::parse("cuda:sm_80");
  for (uint64_t seed = 1;; ++seed) {
    ASSERT_LT(seed, 200u);
    Trial random = Trial::random(seed);
    Schedule s = apply_sketch(cuda_sketches().front(), {w, target, 1}, random);
    const std::string config = random.config();
    if (config.find(R"("apart")") == std::string::npos) continue;
    if (config.find(R"("S.mma":"m16n8k16_f32_f16")") == std::string::npos) continue;
    GpuRun run = run_on_emulator(w, s, target);
    ASSERT_TRUE(run.emulated.ok()) << run.emulated.fault->to_string() << "\n" << run.source.text;
    EXPECT_EQ(run.checked.verdict, Verdict::Ok) << run.checked.message;
    EXPECT_THAT(run.source.text, HasSubstr("mma"));
    break;
  }
}

// Any choices give a schedule or a refusal on a target with more variants.
TEST(GpuAttentionStages, AreScheduledForHopper) {
  const Workload w = make_workload(parse_spec("attention:heads=2,m=64,n=64,d=64,dtype=f16"));
  const Target target = Target::parse("cuda:sm_90a");
  int made = 0;
  for (uint64_t seed = 1; seed < 60; ++seed) {
    try {
      generate_cuda(gpu_schedule(w, target, Trial::random(seed)).module(), target);
      ++made;
    } catch (const ScheduleError&) {
    } catch (const LoweringError&) {
    }
  }
  EXPECT_GT(made, 5);
}

// Scores far beyond the range in which float tells neighbours apart: the largest one still takes all of
// its row, whichever way its exponent rounds. Keys of the second tile raise the maximum, or do not.
TEST(GpuAttentionScores, HugeOnesKeepTheSoftmax) {
  constexpr int64_t kRows = 64, kKeys = 96, kTerms = 64;
  const Workload w = make_workload(parse_spec("attention:m=64,n=96,d=64,dtype=f16"));
  for (const char* name : {"cuda:sm_80", "cuda:sm_90a"}) {
    const Target target = Target::parse(name);
    const CudaSource source =
        generate_cuda(gpu_schedule(w, target, Trial::first()).module(), target);
    EXPECT_THAT(source.text, HasSubstr("tw_softened("));
    OperandSet operands(operands_of(w, {}), 1);
    auto query = [](int64_t i) {
      const double size = std::exp2(static_cast<double>(i) / 4);
      return round_to(ElemType::f16, i % 2 == 0 ? size : -size);
    };
    for (int64_t k = 0; k < kTerms; ++k) {
      for (int64_t i = 0; i < kRows; ++i) operands.at("Q").set(i * kTerms + k, query(i));
      for (int64_t j = 0; j < kKeys; ++j) {
        operands.at("K").set(j * kTerms + k, 32768.0 + 32.0 * static_cast<double>(j));
      }
    }
    const EmulatorResult run = emulate_program({source, {}}, operands, {}, {});
    ASSERT_TRUE(run.ok()) << run.fault->to_string();
    for (int64_t i = 0; i < kRows; ++i) {
      const int64_t largest = query(i) > 0 ? kKeys - 1 : 0;
      for (int64_t k = 0; k < kTerms; ++k) {
        const double want = operands.at("V").get(largest * kTerms + k);
        ASSERT_NEAR(operands.output().get(i * kTerms + k), want, std::abs(want) * 2e-3)
            << name << ", query " << i << " of " << query(i);
      }
    }
  }
}

// One query: one kernel per stage, which looks up keys and values page by page.
TEST(GpuAttentionStages, DecodeFromAPagedCache) {
  const Target target = Target::parse("cuda:sm_80");
  for (const char* type : {"f32", "f16"}) {
    const Workload w = make_workload(parse_spec(
        std::string("attention:batch=2,heads=4,kv_heads=2,m=1,n=40,d=32,lengths=keys,page=8,"
                    "pages=7,dtype=") +
        type));
    expect_right_on_gpu(w, gpu_schedule(w, target, Trial::first()), target);
  }
}

// One kernel per stage, by each stage's rule.
TEST(GpuAttentionStages, AreRightApart) {
  const Workload w = make_workload(parse_spec("attention:heads=2,kv_heads=1,m=20,n=33,d=16"));
  const Target target = Target::parse("cuda:sm_80");
  for (uint64_t seed = 1;; ++seed) {
    ASSERT_LT(seed, 100u);
    Trial random = Trial::random(seed);
    Schedule s = apply_sketch(cuda_sketches().front(), {w, target, 1}, random);
    if (random.config().find(R"("apart")") == std::string::npos) continue;
    expect_right_on_gpu(w, s, target);
    break;
  }
}

}  // namespace
}  // namespace tilewright
