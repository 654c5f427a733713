// Products of two operands of fewer than 8 bits on GPUs, with the instructions for such elements.
// In the emulator, compared with the oracle, and through NVIDIA's compiler.
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

struct FewBitsCase {
  const char* spec;
  const char* row;  // the name of the instruction
  friend void PrintTo(const FewBitsCase& c, std::ostream* out) { *out << c.spec; }
};

Workload workload(const std::string& spec) { return make_workload(parse_spec(spec)); }

class GpuFewBits : public ::testing::TestWithParam<FewBitsCase> {};

TEST_P(GpuFewBits, AreMultipliedAsTheyAreStored) {
  Workload w = workload(GetParam().spec);
  const Target target = Target::parse("cuda:sm_80");
  Schedule s = gpu_schedule(w, target, Trial::first());
  CudaSource source = generate_cuda(s.module(), target);
  EXPECT_THAT(source.text, HasSubstr("tw_mma_" + std::string(GetParam().row) + "("));
  EXPECT_THAT(source.text, Not(HasSubstr("A_value"))) << "no bytes are made of them";
  std::map<std::string, int64_t> dims;
  for (const DimVar& d : w.dims) dims[d.var.name()] = d.min + 1;
  expect_right_on_gpu(w, s, target, dims);
}

TEST_P(GpuFewBits, AreRightWhateverTheAnswers) {
  Workload w = workload(GetParam().spec);
  const Target target = Target::parse("cuda:sm_89");
  std::map<std::string, int64_t> dims;
  for (const DimVar& d : w.dims) dims[d.var.name()] = d.max;
  for (uint64_t seed : {1, 2, 3, 4}) {
    Trial trial = Trial::random(seed);
    Schedule s = apply_sketch(cuda_sketches().front(), {w, target, 1}, trial);
    SCOPED_TRACE(trial.config());
    expect_right_on_gpu(w, s, target, dims);
  }
}

TEST_P(GpuFewBits, CompileToInstructionsOnSuchElements) {
  if (!cuda::nvrtc_problem().empty()) GTEST_SKIP() << "NVRTC: " << cuda::nvrtc_problem();
  Workload w = workload(GetParam().spec);
  const bool single = GetParam().row == std::string("m16n8k256_s32_b1_and");
  std::vector<std::string> targets = {"cuda:sm_80", "cuda:sm_86", "cuda:sm_89"};
  if (single) targets.emplace_back("cuda:sm_90a");
  for (const std::string& name : targets) {
    const Target target = Target::parse(name);
    std::string arch = target.name.substr(target.name.find(':') + 1);
    if (!cuda::nvrtc_accepts(arch)) continue;
    SCOPED_TRACE(name);
    std::string text = text_of(w, gpu_schedule(w, target, Trial::first()), target);
    cuda::CubinFacts facts =
        cuda::cubin_facts(cuda::compile_to_cubin(text, "kernel", arch), "tw_matmul");
    EXPECT_GT(facts.count(single ? "BMMA" : "IMMA"), 0);
    EXPECT_GT(facts.count("LDSM"), 0);
    const bool has_turns = text.find("tw_cp_async_wait<") != std::string::npos;
    EXPECT_EQ(facts.count("LDGSTS") > 0, has_turns)
        << "a loop over one tile has nothing to copy ahead";
    EXPECT_EQ(facts.local_accesses(), 0) << text;
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, GpuFewBits,
    ::testing::Values(
        FewBitsCase{"matmul:m=20,n=40,k=192,dtype=i4", "m16n8k64_s32_s4"},
        FewBitsCase{"matmul:m=2,n=64,k=256,dtype=i4,trans_b=true", "m16n8k64_s32_s4"},
        FewBitsCase{"matmul:m=70,n=72,k=136,dtype=u4,trans_b=true", "m16n8k64_s32_u4"},
        FewBitsCase{"matmul:m=20,n=40,k=128,dtype=i4,w.dtype=u4", "m16n8k64_s32_u4_s4"},
        FewBitsCase{"matmul:m=20,n=40,k=128,dtype=u4,w.dtype=i4", "m16n8k64_s32_s4_u4"},
        FewBitsCase{"matmul:m=9,n=40,k=192,dtype=i4,w.dtype=i2,trans_b=true", "m16n8k64_s32_s4"},
        FewBitsCase{"matmul:m=9,n=40,k=192,dtype=i4,w.dtype=i1", "m16n8k64_s32_s4"},
        FewBitsCase{"matmul:m=9,n=40,k=192,dtype=u4,w.dtype=u1", "m16n8k64_s32_s4_u4"},
        FewBitsCase{"matmul:m=20,n=48,k=256,dtype=i4,out=f16,w.dtype=i4,w.group=64,w.scale=f16",
                    "m16n8k64_s32_s4"},
        FewBitsCase{"matmul:m=5,n=40,k=256,dtype=i4,acc=f32,w.dtype=u2,w.zero=u2,w.group=128",
                    "m16n8k64_s32_s4"},
        FewBitsCase{"matmul:m=33,n=40,k=128,dtype=i4,out=bf16,w.scale=bf16,epilogue=[bias,relu]",
                    "m16n8k64_s32_s4"},
        FewBitsCase{"matmul:m=1..40,n=40,k=128,dtype=i4", "m16n8k64_s32_s4"},
        FewBitsCase{"matmul:m=20,n=40,k=544,dtype=u1,trans_b=true", "m16n8k256_s32_b1_and"},
        FewBitsCase{"matmul:m=3,n=40,k=512,dtype=u1", "m16n8k256_s32_b1_and"},
        // Several tiles along k, prefetched.
        FewBitsCase{"matmul:m=20,n=40,k=1024,dtype=i4", "m16n8k64_s32_s4"},
        FewBitsCase{"matmul:m=20,n=40,k=4096,dtype=u1", "m16n8k256_s32_b1_and"}));

// Uses bytes if no instruction takes the elements as they are, if rows do not begin at 32-bit
// words, and for a single row.
TEST(GpuFewBits, AreBytesElsewhere) {
  for (auto [spec, name] : {std::pair{"matmul:m=20,n=40,k=128,dtype=i4", "cuda:sm_90a"},
                            {"matmul:m=20,n=40,k=128,dtype=i4", "cuda:sm_75"},
                            {"matmul:m=20,n=40,k=100,dtype=i4", "cuda:sm_80"},
                            {"matmul:m=3,n=21,k=23,dtype=u4,w.dtype=i2", "cuda:sm_80"},
                            {"matmul:m=1,n=64,k=256,dtype=i4,trans_b=true", "cuda:sm_80"},
                            {"matmul:m=20,n=40,k=128,dtype=i4,trans_a=true", "cuda:sm_80"},
                            {"matmul:m=4,n=40,k=64,batch=3,dtype=i4", "cuda:sm_80"},
                            {"matmul:m=20,n=40,k=128,dtype=i1", "cuda:sm_80"},
                            {"matmul:m=9,n=48,k=128,dtype=i4,w.sparse=2:4", "cuda:sm_80"}}) {
    SCOPED_TRACE(std::string(spec) + " for " + name);
    Workload w = workload(spec);
    const Target target = Target::parse(name);
    for (Trial trial : {Trial::first(), Trial::random(1)}) {
      Schedule s = gpu_schedule(w, target, trial);
      const std::string text = text_of(w, s, target);
      EXPECT_THAT(text, HasSubstr("A_value"));
      EXPECT_THAT(text, Not(HasSubstr("tw_mma_m16n8k64_s32")));
      expect_right_on_gpu(w, s, target);
    }
  }
}

TEST(GpuFewBits, MayBeBytesForOtherInstructions) {
  Workload w = workload("matmul:m=20,n=40,k=128,dtype=i4,w.dtype=i2");
  const Target target = Target::parse("cuda:sm_80");
  Schedule s = gpu_schedule(w, target, {{".A.elements", "i8"}, {".B.layout", "fragments"}});
  EXPECT_THAT(text_of(w, s, target), HasSubstr("tw_mma_m16n8k32_s32_s8("));
  expect_right_on_gpu(w, s, target);
}

// Rows of shared memory have 16 bytes of padding: no bank conflicts.
TEST(GpuFewBits, MeetNoBankTwice) {
  Workload w = workload("matmul:m=32,n=64,k=512,dtype=i4");
  const Target target = Target::parse("cuda:sm_80");
  // Results go from registers to memory, so that shared memory holds operands only.
  const Schedule s = gpu_schedule(w, target, {{".A.elements", "i4"}, {".store", "direct"}});
  GpuRun run = run_on_emulator(w, s, target);
  ASSERT_TRUE(run.emulated.ok()) << run.emulated.fault->to_string();
  EXPECT_GT(run.emulated.counters.ldmatrix, 0);
  EXPECT_EQ(run.emulated.counters.bank_conflicts(), 0) << run.source.text;
}

// Kernels with errors in unpacking elements from packed words; each is rejected.
TEST(GpuFewBits, WrongElementsAreRejected) {
  Workload w = workload("matmul:m=5,n=40,k=256,dtype=i4,acc=f32,w.dtype=u2,w.zero=u2,w.group=64");
  const Target target = Target::parse("cuda:sm_80");
  Schedule s = gpu_schedule(w, target, Trial::first());
  expect_right_on_gpu(w, s, target);
  for (const char* wrong :
       {"((tw_i4x8_u2)(w, s, z) >> 16 | (tw_i4x8_u2)(w, s, z) << 16)",
        "(tw_i4x8_u2)(w, (s) ^ 2, z)", "(tw_i4x8_u2)(w, s, 0)", "(tw_i4x8_u2)(w, s, (z) + 1)"}) {
    GpuRun run = run_on_emulator(w, s, target, {}, 1, [&](std::string& text) {
      text.insert(0, std::string("#define tw_i4x8_u2(w, s, z) ") + wrong + "\n");
    });
    EXPECT_TRUE(!run.emulated.ok() || run.checked.verdict == Verdict::Wrong) << wrong;
  }
}

}  // namespace
}  // namespace tilewright
