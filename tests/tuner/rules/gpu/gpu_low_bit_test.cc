// Few-bit weights on GPUs, compared with the oracle in the emulator, and through NVIDIA's compiler.
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

// Every stored type, read code by code, in f32 products.
const std::vector<std::string>& plain_specs() {
  static const std::vector<std::string> list = {
      "matmul:m=5,n=48,k=64,w.dtype=i8",
      "matmul:m=5,n=48,k=64,w.dtype=u8,w.zero=u8",
      "matmul:m=5,n=48,k=64,w.dtype=i4,w.group=32",
      "matmul:m=5,n=48,k=64,w.dtype=u4,w.group=16,w.zero=u4",
      "matmul:m=5,n=48,k=64,w.dtype=i2,w.group=32,w.scale=bf16",
      "matmul:m=5,n=48,k=64,w.dtype=u2,w.group=32,w.zero=u2,w.scale=f16",
      "matmul:m=5,n=48,k=64,w.dtype=i1,w.group=64",
      "matmul:m=5,n=48,k=64,w.dtype=u1,w.group=32,w.zero=u1",
      "matmul:m=5,n=48,k=64,w.dtype=nf4,w.group=64",
      "matmul:m=5,n=48,k=64,dtype=f16,w.dtype=nf4,w.values=bf16,w.group=64",
      "matmul:m=5,n=48,k=64,w.dtype=f4e2m1,w.group=32,w.scale=e8m0",
      "matmul:m=5,n=48,k=64,w.dtype=f4e2m1,w.group=16,w.scale=f8e4m3",
      "matmul:m=5,n=48,k=64,w.dtype=f8e4m3,w.group=-1",
      "matmul:m=5,n=48,k=64,w.dtype=f8e5m2,w.scale=none",
      "matmul:m=3,n=33,k=29,w.dtype=u4,w.group=8,w.zero=f16",
      "matmul:m=3,n=33,k=29,w.dtype=u4,w.group=8,w.offset=f16",
      "matmul:m=20,n=48,k=64,dtype=f16,w.dtype=u4,w.group=32,w.scale=f16,w.offset=f16",
      "matmul:m=5,n=48,k=64,dtype=i8,acc=f32,w.dtype=u4,w.group=32,w.offset=f32",
      "gated_mlp:m=18,n=32,k=64,dtype=f16,w.dtype=u4,w.group=32,w.scale=f16,w.offset=f16",
      "grouped_matmul:groups=2,blocks=3,rows=16,n=32,k=64,dtype=f16,w.dtype=u4,w.group=32,"
      "w.offset=f32",
      "matmul:m=1,n=37,k=50,w.dtype=i4,w.group=16,w.scale=f16",
      "matmul:m=1,n=37,k=192,w.dtype=i4,w.group=16,trans_b=true",
      "matmul:m=3,n=21,k=23,w.dtype=u2,w.group=7,w.zero=u4",
      "matmul:m=3,n=19,k=11,w.dtype=i1,trans_b=true",
      "matmul:m=4,n=18,k=12,batch=3,w.dtype=i4,w.group=5,trans_a=true",
      "matmul:m=3,n=40,k=30,w.dtype=i4,w.group=10,epilogue=[bias,relu]",
      "matmul:m=5,n=33,k=40,dtype=f64,w.dtype=i4,w.group=8",
      "matmul:m=5,n=33,k=40,dtype=u8,w.dtype=u4,w.zero=u4,w.group=8",
      "conv2d:n=1,h=6,w=6,ci=5,co=18,kernel=3,pad=1,w.dtype=i4,w.group=9",
      "depthwise_conv2d:n=1,h=6,w=6,c=20,kernel=3,w.dtype=i8",
      "matmul:m=5,n=48,k=64,w.sparse=2:4",
      "matmul:m=5,n=33,k=45,w.dtype=u4,w.group=8,w.zero=u4,w.sparse=4:8",
  };
  return list;
}

// Weights that matrix instructions take from registers.
const std::vector<std::string>& packed_specs() {
  static const std::vector<std::string> list = {
      "matmul:m=1,n=64,k=256,dtype=f16,trans_b=true,w.dtype=u4,w.group=128,w.scale=f16,w.zero=u4",
      "matmul:m=1,n=40,k=300,dtype=f16,w.dtype=u4,w.group=32,w.scale=f16,w.zero=u4",
      "matmul:m=5,n=70,k=128,dtype=f16,trans_b=true,w.dtype=i2,w.group=-1,w.scale=f16",
      "matmul:m=17,n=48,k=64,dtype=f16,w.dtype=i4,w.group=16,w.scale=f32",
      "matmul:m=40,n=72,k=96,dtype=f16,w.dtype=u2,w.group=32,w.zero=u2",
      "matmul:m=9,n=40,k=128,dtype=f16,w.dtype=i1,w.group=64,w.scale=bf16",
      "matmul:m=9,n=40,k=128,dtype=bf16,w.dtype=i1,w.group=64",
      "matmul:m=9,n=40,k=128,dtype=bf16,w.dtype=u4,w.group=64,w.zero=u4,w.scale=bf16",
      "matmul:m=7,n=33,k=70,dtype=bf16,w.dtype=i2,w.group=-1",
      "matmul:m=7,n=40,k=64,dtype=f16,w.dtype=f4e2m1,w.group=32,w.scale=e8m0",
      "matmul:m=7,n=40,k=64,dtype=bf16,w.dtype=f4e2m1,w.group=16,w.scale=f8e4m3",
      "matmul:m=7,n=40,k=64,dtype=f16,w.dtype=f8e4m3,w.group=-1",
      "matmul:m=7,n=40,k=64,dtype=bf16,w.dtype=f8e4m3,w.group=32",
      "matmul:m=7,n=40,k=64,dtype=f16,w.dtype=f8e5m2,w.scale=none",
      "matmul:m=7,n=40,k=64,dtype=f16,w.dtype=i8,w.group=32",
      "matmul:m=7,n=40,k=64,dtype=f16,w.dtype=u8,w.group=32,w.zero=u8",
      "matmul:m=7,n=40,k=64,dtype=bf16,w.dtype=i8,w.group=32",
      "matmul:m=7,n=40,k=96,dtype=i8,w.dtype=i4",
      "matmul:m=7,n=40,k=96,dtype=i8,w.dtype=i2,trans_b=true",
      "matmul:m=7,n=40,k=128,dtype=i8,w.dtype=i1",
      "matmul:m=7,n=40,k=128,dtype=i8,w.dtype=u1",
      "matmul:m=9,n=40,k=128,dtype=f16,w.dtype=u1,w.group=64,w.zero=u1",
      "matmul:m=7,n=40,k=96,dtype=i8,acc=f32,w.dtype=i4,w.group=32",
      "matmul:m=7,n=40,k=96,dtype=i8,w.dtype=u4,w.zero=u4,w.group=32",
      "matmul:m=7,n=40,k=96,dtype=i8,acc=f32,w.dtype=i8,w.group=-1",
      "matmul:m=1,n=64,k=256,dtype=f16,trans_b=true,w.dtype=nf4,w.group=64,w.scale=f16",
      "matmul:m=7,n=40,k=100,dtype=f16,w.dtype=nf4,w.group=-1",
      "matmul:m=7,n=40,k=100,dtype=f16,w.dtype=nf4,w.values=f16,w.group=-1",
      "matmul:m=37,n=72,k=128,dtype=bf16,trans_b=true,w.dtype=nf4,w.group=64,w.scale=bf16",
      "matmul:m=3,n=48,k=64,dtype=f16,a.dtype=i8,w.dtype=i4,w.group=32,w.scale=f16",
      "matmul:m=20,n=40,k=64,dtype=f16,w.dtype=i4,w.group=32,epilogue=[bias,gelu]",
      "matmul:m=16,n=48,k=128,dtype=f16,trans_b=true,w.dtype=i4,w.group=64,w.scale=f16,"
      "w.sparse=2:4",
  };
  return list;
}

class GpuLowBit : public ::testing::TestWithParam<std::string> {};

TEST_P(GpuLowBit, IsRightWhateverTheAnswers) {
  Workload w = make_workload(parse_spec(GetParam()));
  Target target = Target::parse("cuda:sm_80");
  expect_right_on_gpu(w, gpu_schedule(w, target, Trial::first()), target);
  for (uint64_t seed : {1, 2}) {
    SCOPED_TRACE(seed);
    expect_right_on_gpu(w, gpu_schedule(w, target, Trial::random(seed)), target);
  }
}

TEST_P(GpuLowBit, CompilesForEachTarget) {
  if (!cuda::nvrtc_problem().empty()) GTEST_SKIP() << "NVRTC: " << cuda::nvrtc_problem();
  Workload w = make_workload(parse_spec(GetParam()));
  for (const char* name : {"cuda:sm_75", "cuda:sm_90a"}) {
    Target target = Target::parse(name);
    std::string arch = target.name.substr(target.name.find(':') + 1);
    if (!cuda::nvrtc_accepts(arch)) continue;
    CudaSource source = generate_cuda(gpu_schedule(w, target, Trial::first()).module(), target);
    EXPECT_NO_THROW(cuda::compile_to_cubin(source.text, "kernel", arch)) << source.text;
  }
}

INSTANTIATE_TEST_SUITE_P(Plain, GpuLowBit, ::testing::ValuesIn(plain_specs()), name_of_case);
INSTANTIATE_TEST_SUITE_P(Packed, GpuLowBit, ::testing::ValuesIn(packed_specs()), name_of_case);

class GpuPacked : public ::testing::TestWithParam<std::string> {};

TEST_P(GpuPacked, GoesToMatrixInstructionsThroughRegisters) {
  std::string text = first_text(GetParam(), Target::parse("cuda:sm_80"));
  EXPECT_THAT(text, HasSubstr("tw_mma_"));
  EXPECT_THAT(text, HasSubstr("tw_word_at(")) << "codes are taken out of words";
}

INSTANTIATE_TEST_SUITE_P(All, GpuPacked, ::testing::ValuesIn(packed_specs()), name_of_case);

// Sizes of language models, whose first choices must fit the registers.
struct MachineCase {
  const char* spec;
  const char* instruction;
  friend void PrintTo(const MachineCase& c, std::ostream* out) { *out << c.spec; }
};

class GpuPackedCode : public ::testing::TestWithParam<MachineCase> {};

TEST_P(GpuPackedCode, KeepsEverythingInRegisters) {
  if (!cuda::nvrtc_problem().empty()) GTEST_SKIP() << "NVRTC: " << cuda::nvrtc_problem();
  Workload w = make_workload(parse_spec(GetParam().spec));
  for (const char* name : {"cuda:sm_80", "cuda:sm_90a"}) {
    Target target = Target::parse(name);
    std::string arch = target.name.substr(target.name.find(':') + 1);
    if (!cuda::nvrtc_accepts(arch)) continue;
    SCOPED_TRACE(name);
    std::string text = generate_cuda(gpu_schedule(w, target, Trial::first()).module(), target).text;
    std::string cubin = cuda::compile_to_cubin(text, "kernel", arch);
    cuda::CubinFacts facts = cuda::cubin_facts(cubin, "tw_matmul");
    EXPECT_GT(facts.count(GetParam().instruction), 0);
    EXPECT_GT(facts.count("LDSM"), 0);
    EXPECT_GT(facts.count("LDGSTS"), 0);
    EXPECT_EQ(facts.local_accesses(), 0) << text;
    RecordProperty(arch + "_registers", facts.registers);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Sizes, GpuPackedCode,
    ::testing::Values(
        MachineCase{"matmul:m=1,n=16384,k=16384,dtype=f16,trans_b=true,w.dtype=u4,w.group=128,"
                    "w.scale=f16,w.zero=u4",
                    "HMMA"},
        MachineCase{"matmul:m=1,n=8192,k=28672,dtype=f16,trans_b=true,w.dtype=i2,w.group=-1,"
                    "w.scale=f16",
                    "HMMA"},
        MachineCase{"matmul:m=16,n=8192,k=8192,dtype=bf16,trans_b=true,w.dtype=u4,w.group=128,"
                    "w.scale=bf16,w.zero=u4",
                    "HMMA"},
        MachineCase{"matmul:m=1,n=16384,k=16384,dtype=f16,trans_b=true,w.dtype=nf4,w.group=64,"
                    "w.scale=f16",
                    "SHFL"},
        MachineCase{"matmul:m=1024,n=8192,k=8192,dtype=bf16,trans_b=true,w.dtype=nf4,w.group=64,"
                    "w.scale=bf16",
                    "HMMA"},
        MachineCase{"matmul:m=64,n=16384,k=16384,dtype=f16,trans_b=true,w.dtype=u4,w.group=128,"
                    "w.scale=f16,w.zero=u4",
                    "HMMA"},
        MachineCase{"matmul:m=4096,n=16384,k=16384,dtype=f16,trans_b=true,w.dtype=u4,w.group=128,"
                    "w.scale=f16,w.zero=u4",
                    "HMMA"},
        MachineCase{"matmul:m=1024,n=8192,k=8192,dtype=i8,w.dtype=i2,trans_b=true", "IMMA"}));

// Kernels with errors in reading a packed weight; each is rejected.
TEST(GpuPackedMutants, AreRejected) {
  Workload w = make_workload(
      parse_spec("matmul:m=5,n=40,k=512,dtype=f16,w.dtype=u4,w.group=128,w.scale=f16,w.zero=u4"));
  Target target = Target::parse("cuda:sm_80");
  Schedule s = gpu_schedule(w, target, Trial::first());
  expect_right_on_gpu(w, s, target);
  // A macro with a function's name replaces it by a wrong function.
  const std::string decode = "#define tw_f16x2_u4(w, s, z) ";
  const std::string right = "(tw_f16x2_u4)(w, s, z)";
  std::vector<std::pair<std::string, std::function<void(std::string&)>>> mutants;
  auto defined = [&](const std::string& name, const std::string& as) {
    mutants.emplace_back(name, [=](std::string& text) { text.insert(0, decode + as + "\n"); });
  };
  auto replaced = [&](const std::string& name, const std::string& from, const std::string& to) {
    mutants.emplace_back(name, [=](std::string& text) {
      size_t at = text.find(from);
      ASSERT_NE(at, std::string::npos) << name << "\n" << text;
      text.replace(at, from.size(), to);
    });
  };
  defined("swapped codes of a register", "(" + right + " >> 16 | " + right + " << 16)");
  defined("the next register's codes", "(tw_f16x2_u4)(w, (s) ^ 4, z)");
  defined("no zero point", "(tw_f16x2_u4)(w, s, 0)");
  defined("zero point off by one", "(tw_f16x2_u4)(w, s, (z) + 1)");
  replaced("scale of another group", "B_scale[", "B_scale[0 * ");
  replaced("no wait for copies", "tw_cp_async_wait<",
           "tw_cp_async_wait<7>(), tw_cp_async_wait<2 + ");
  replaced("dropped tail", "k_1_0 < 4;", "k_1_0 < 3;");
  for (const auto& [name, edit] : mutants) {
    GpuRun run = run_on_emulator(w, s, target, {}, 1, edit);
    EXPECT_TRUE(!run.emulated.ok() || run.checked.verdict == Verdict::Wrong) << name << "\n"
                                                                             << run.source.text;
  }
}

// Both halves of a table's number count, each at its own position.
TEST(GpuPackedMutants, HalvesOfTableNumbersAreRejectedInEachOthersPlace) {
  Workload w = make_workload(
      parse_spec("matmul:m=5,n=40,k=256,dtype=f16,w.dtype=nf4,w.group=64,w.scale=f16"));
  Target target = Target::parse("cuda:sm_80");
  Schedule s = gpu_schedule(w, target, Trial::first());
  expect_right_on_gpu(w, s, target);
  for (const char* wrong : {"#define tw_f16x2_nf4_low(w, s) (tw_f16x2_nf4_high)(w, s)\n",
                            "#define tw_f16x2_nf4_high(w, s) (tw_f16x2_nf4_high)(w, (s) ^ 4)\n"}) {
    GpuRun run =
        run_on_emulator(w, s, target, {}, 1, [&](std::string& text) { text.insert(0, wrong); });
    EXPECT_TRUE(!run.emulated.ok() || run.checked.verdict == Verdict::Wrong) << wrong;
  }
}

// Rounded to the activations' type, a code is one element, and half as much is multiplied.
TEST(GpuPacked, RoundedValuesAreOneElementEach) {
  const Target target = Target::parse("cuda:sm_80");
  const std::string spec = "matmul:m=5,n=64,k=256,dtype=f16,w.dtype=nf4,w.group=64";
  const std::string exact = first_text(spec, target),
                    rounded = first_text(spec + ",w.values=f16", target);
  EXPECT_THAT(exact, HasSubstr("_nf4_low("));
  EXPECT_THAT(rounded, Not(HasSubstr(" ? tw_f16x2_nf4_high(")));
  EXPECT_THAT(rounded, HasSubstr("tw_mma_"));
  EXPECT_THAT(rounded, HasSubstr("= tw_f16x2_nf4(tw_word_at("));
  // Numbers of another type have no table.
  EXPECT_THAT(first_text(spec + ",w.values=bf16", target), Not(HasSubstr("tw_f16x2_nf4")));
}

// A tile's scales and zero points come to shared memory with its codes.
TEST(GpuPacked, ScalesComeAheadWithTheCodes) {
  Target target = Target::parse("cuda:sm_80");
  Workload w = make_workload(parse_spec(
      "matmul:m=5,n=64,k=512,dtype=f16,trans_b=true,w.dtype=u4,w.group=128,w.scale=f16,w.zero=u4"));
  auto text = [&](const char* scales) {
    Schedule s = gpu_schedule(w, target, {{"C_acc.scales", scales}});
    expect_right_on_gpu(w, s, target);
    return generate_cuda(s.module(), target).text;
  };
  const std::string staged = text("staged"), direct = text("direct");
  EXPECT_THAT(staged, HasSubstr("tw_cp_async<16>(B_scale_shared"));
  EXPECT_THAT(staged, HasSubstr("tw_cp_async<16>(B_zero_shared"));
  EXPECT_THAT(direct, Not(HasSubstr("B_scale_shared")));
  EXPECT_THAT(direct, HasSubstr("B_scale["));
}

}  // namespace
}  // namespace tilewright
