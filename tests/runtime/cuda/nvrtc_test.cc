// Hand-written kernels become machine code with the instructions that they are meant to have. Skipped
// where there is no NVRTC; no GPU is needed.
#include "runtime/cuda/nvrtc.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/cuda/cubin.h"
#include "runtime/error.h"
#include "tests/kernels/cuda_kernels.h"
#include "tests/runtime/support.h"

namespace tilewright {
namespace {

using test::error_of;
using testing::HasSubstr;
using testing::Not;

const std::vector<std::string> kTargets = {"sm_75",  "sm_80",  "sm_86", "sm_89",
                                           "sm_90a", "sm_100", "sm_120"};

class Nvrtc : public testing::Test {
 protected:
  void SetUp() override {
    if (!cuda::nvrtc_problem().empty()) GTEST_SKIP() << cuda::nvrtc_problem();
  }
};

// The facts of a kernel compiled for a target.
cuda::CubinFacts facts_of(const std::string& text, const std::string& name,
                          const std::string& arch) {
  return cuda::cubin_facts(cuda::compile_to_cubin(text, name, arch), name);
}

TEST_F(Nvrtc, CompilesPlainKernelsForEveryTarget) {
  for (const std::string& arch : kTargets) {
    if (!cuda::nvrtc_accepts(arch)) continue;
    EXPECT_GT(facts_of(test::kAdd, "add", arch).registers, 0) << arch;
    cuda::CubinFacts sum = facts_of(test::kSum, "sum", arch);
    EXPECT_EQ(sum.count("SHFL"), 5) << arch;
    EXPECT_EQ(sum.count("BAR"), 1) << arch;
    EXPECT_GE(facts_of(test::kTiled, "matmul", arch).count("BAR"), 2) << arch;  // unrolled
  }
}

TEST_F(Nvrtc, CopiesAsynchronouslyWhereTheTargetDoes) {
  EXPECT_EQ(facts_of(test::kPipelined, "matmul", "sm_80").count("LDGSTS"), 4);
  EXPECT_EQ(facts_of(test::kTiled, "matmul", "sm_80").count("LDGSTS"), 0);
  if (!cuda::nvrtc_accepts("sm_75")) GTEST_SKIP() << "this NVRTC knows no sm_75";
  cuda::CubinFacts old = facts_of(test::kPipelined, "matmul", "sm_75");
  EXPECT_EQ(old.count("LDGSTS"), 0);
  EXPECT_EQ(old.count("LDG"), 4);
}

// Codes of a few bits are masked and put into a mantissa by one instruction.
TEST_F(Nvrtc, ARegisterOfCodesTakesOneOperationOnBits) {
  for (const auto& [function, bits] :
       {std::pair{"tw_f16x2_u4", 4}, std::pair{"tw_f16x2_i4", 4}, std::pair{"tw_bf16x2_i4", 4},
        std::pair{"tw_f16x2_u2", 2}, std::pair{"tw_bf16x2_i1", 1}}) {
    const int registers = 16 / bits;
    const std::string text = fmt::format(
        "extern \"C\" __global__ void unpack(TW_IN(unsigned) A, TW_OUT(unsigned) C) {{\n"
        "  const unsigned word = A[threadIdx.x];\n"
        "  #pragma unroll\n"
        "  for (int i = 0; i < {0}; ++i) C[threadIdx.x * {0} + i] = {1}(word, i * {2}, 1);\n}}\n",
        registers, function, bits);
    for (const char* arch : {"sm_80", "sm_90a"}) {
      EXPECT_EQ(facts_of(text, "unpack", arch).count("LOP3"), registers) << function << " " << arch;
    }
  }
}

// Half, quarter, integer and single-bit precision.
int matrix_instructions_nvrtc(const cuda::CubinFacts& facts) {
  return facts.count("HMMA") + facts.count("QMMA") + facts.count("IMMA") + facts.count("BMMA");
}

TEST_F(Nvrtc, MatrixRowsBecomeMatrixInstructions) {
  for (const Instruction& row : mma_rows()) {
    // Other shapes have other fragments than the kernel loads; they are compiled below.
    if (row.m != 16 || row.k * row.operand_bits() != 256) continue;
    for (const std::string& arch : kTargets) {
      if (!cuda::nvrtc_accepts(arch) || !row.runs_on(std::stoi(arch.substr(3)))) continue;
      cuda::CubinFacts facts = facts_of(test::mma_kernel(row), "mma", arch);
      EXPECT_GE(matrix_instructions_nvrtc(facts), 2) << row.name << " on " << arch;
      EXPECT_EQ(facts.count("LDSM"), 4) << row.name << " on " << arch;
      EXPECT_EQ(facts.local_accesses(), 0) << row.name << " on " << arch;
    }
  }
}

TEST_F(Nvrtc, EveryRowOfTheTableIsAnInstruction) {
  for (const Instruction& row : mma_rows()) {
    std::string arch = row.min_sm == 75 ? "sm_75" : "sm_" + std::to_string(row.min_sm);
    if (!cuda::nvrtc_accepts(arch)) continue;
    std::string acc = test::cuda_type(row.acc);
    std::string text = "extern \"C\" __global__ void one(TW_IN(unsigned) A, TW_OUT(" + acc +
                       ") C) {\n  unsigned a[" + std::to_string(row.a_registers()) + "], b[" +
                       std::to_string(row.b_registers()) + "];\n  " + acc + " d[" +
                       std::to_string(row.acc_registers()) + "] = {};\n" +
                       "  for (unsigned& x : a) x = A[threadIdx.x];\n"
                       "  for (unsigned& x : b) x = A[threadIdx.x + 32];\n  tw_mma_" +
                       std::string(row.name) + "(d, a, b, d);\n  C[threadIdx.x] = d[0];\n}\n";
    cuda::CubinFacts facts = facts_of(text, "one", arch);
    EXPECT_GE(matrix_instructions_nvrtc(facts), 1) << row.name;
  }
}

TEST_F(Nvrtc, MatricesGoBackToSharedMemoryInOneInstruction) {
  const std::string text = R"(
extern "C" __global__ void back(TW_IN(unsigned short) A, TW_OUT(unsigned short) C) {
  TW_SHARED(unsigned short, s, 0, 256);
  const int t = threadIdx.x;
  tw_st(s + tw_swizzle<1, 3, 3>(8 * t), tw_ld<8>(A + 8 * t));
  __syncwarp();
  unsigned r[4];
  tw_ldmatrix_x4(r, s + 8 * t);
  __syncwarp();
  tw_stmatrix_x4_trans(s + 8 * t, r);
  __syncwarp();
  tw_st(C + 8 * t, tw_ld<8>(s + 8 * t));
}
)";
  if (!cuda::nvrtc_accepts("sm_90a")) GTEST_SKIP() << "this NVRTC knows no sm_90a";
  cuda::CubinFacts facts = facts_of(text, "back", "sm_90a");
  EXPECT_EQ(facts.count("LDSM"), 1);
  EXPECT_EQ(facts.count("STSM"), 1);
}

TEST_F(Nvrtc, WhatTheKernelNeedsIsReadFromTheCubin) {
  // 128 values alive over a barrier do not fit 32 registers.
  const std::string spilling = R"(
extern "C" __global__ void __launch_bounds__(1024, 2) spill(TW_IN(float) A, TW_OUT(float) C) {
  __shared__ float s[33];
  float x[128];
#pragma unroll
  for (int i = 0; i < 128; ++i) x[i] = A[i * 1024 + threadIdx.x];
  s[threadIdx.x % 33] = x[5];
  __syncthreads();
#pragma unroll
  for (int i = 0; i < 128; ++i) C[i * 1024 + threadIdx.x] = x[i] * s[i % 33] + x[(i + 64) % 128];
}
)";
  cuda::CubinFacts facts = facts_of(spilling, "spill", "sm_80");
  EXPECT_LE(facts.registers, 32);
  EXPECT_EQ(facts.shared_bytes, 33 * 4);
  EXPECT_GT(facts.stack_bytes, 0);
  EXPECT_GT(facts.local_accesses(), 0);
  cuda::CubinFacts small = facts_of(test::kAdd, "add", "sm_80");
  EXPECT_EQ(small.stack_bytes, 0);
  EXPECT_EQ(small.local_accesses(), 0);
  EXPECT_EQ(small.shared_bytes, 0);
}

// A wait that does not end is an error of the kernel where the knob asks for it, and only there.
TEST_F(Nvrtc, WaitsAtBarriersTrapUnderAWatchdog) {
  if (!cuda::nvrtc_accepts("sm_90a")) GTEST_SKIP() << "this NVRTC knows no sm_90a";
  const std::string kernel =
      "extern \"C\" __global__ void wait() {\n"
      "  __shared__ unsigned long long b;\n"
      "  tw_mbarrier_wait(&b, 0);\n}\n";
  EXPECT_THAT(cuda::compile_to_ptx(kernel, "wait", "sm_90a"), Not(HasSubstr("trap")));
  test::ScopedEnv watchdog("TILEWRIGHT_CUDA_WATCHDOG", "2000");
  const std::string text = cuda::compile_to_ptx(kernel, "wait", "sm_90a");
  EXPECT_THAT(text, HasSubstr("trap;"));
  EXPECT_THAT(text, HasSubstr(", 1907;"));  // units of 2^20 nanoseconds
}

// Barriers that are compared with those of kernels on a device.
TEST_F(Nvrtc, OtherBarriersAreCompiledWhereTheyAreNamed) {
  if (!cuda::nvrtc_accepts("sm_90a")) GTEST_SKIP() << "this NVRTC knows no sm_90a";
  const std::string kernel =
      "extern \"C\" __global__ void __cluster_dims__(2, 1, 1) both() {\n"
      "  __shared__ unsigned long long b;\n"
      "  tw_mbarrier_arrive_cluster(&b, 1);\n"
      "  tw_mbarrier_wait(&b, 0);\n}\n";
  const std::string plain = cuda::compile_to_ptx(kernel, "both", "sm_90a");
  EXPECT_THAT(plain, HasSubstr("mbarrier.try_wait.parity"));
  EXPECT_THAT(plain, Not(HasSubstr("release.cluster")));
  test::ScopedEnv macros("TILEWRIGHT_CUDA_MACROS", "TW_CLUSTER_SCOPE,TW_SPIN_WAIT");
  const std::string other = cuda::compile_to_ptx(kernel, "both", "sm_90a");
  EXPECT_THAT(other, HasSubstr("mbarrier.test_wait.parity"));
  EXPECT_THAT(other, Not(HasSubstr("mbarrier.try_wait")));
  EXPECT_THAT(other, HasSubstr("mbarrier.arrive.release.cluster.shared::cluster.b64"));
}

TEST_F(Nvrtc, RefusalsNameTheKernelAndShowTheLine) {
  std::string broken = test::replaced(test::kAdd, "A[i] + B[i]", "A[i] + X[i]");
  std::string message =
      error_of<CompileError>([&] { cuda::compile_to_cubin(broken, "add", "sm_80"); });
  EXPECT_THAT(message, HasSubstr("kernel 'add' for sm_80: NVRTC"));
  EXPECT_THAT(message, HasSubstr("add.cu(6)"));
  EXPECT_THAT(message, HasSubstr("C[i] = A[i] + X[i];"));
  message = error_of<CompileError>([&] { cuda::compile_to_cubin(test::kAdd, "add", "sm_52x"); });
  EXPECT_THAT(message, HasSubstr("does not compile for 'sm_52x'; it does for sm_"));
}

TEST(Cubin, RefusesWhatIsNone) {
  auto refusal = [](const std::string& bytes) {
    return error_of<KernelError>([&] { cuda::cubin_facts(bytes, "k"); });
  };
  EXPECT_THAT(refusal("hello"), HasSubstr("no cubin: 5 bytes that are no ELF file"));
  std::string host(64, '\0');
  host.replace(0, 4, "\177ELF");
  EXPECT_THAT(refusal(host), HasSubstr("no cubin: an ELF file of machine 0"));
}

TEST_F(Nvrtc, DamagedCubinsAreRefused) {
  std::string cubin = cuda::compile_to_cubin(test::kAdd, "add", "sm_80");
  EXPECT_THAT(error_of<KernelError>([&] { cuda::cubin_facts(cubin, "sub"); }),
              HasSubstr("the cubin has no kernel 'sub'"));
  EXPECT_THAT(error_of<KernelError>([&] { cuda::cubin_facts(cubin.substr(0, 400), "add"); }),
              HasSubstr("the cubin is cut off"));
}

}  // namespace
}  // namespace tilewright
