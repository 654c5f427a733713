// Back-to-back GEMM in one kernel: in the emulator, compared with the oracle.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "ir/ops/spec.h"
#include "runtime/cuda/cubin.h"
#include "runtime/cuda/nvrtc.h"
#include "tests/tuner/edited_kernel.h"
#include "tests/tuner/gpu_check.h"

namespace tilewright {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// D = between(A B) C with these sizes.
Workload chain(int m, int k, int hidden, int n, const std::string& between = "max(T[i,l], 0)",
               const std::string& type = "f16", const std::string& kept = "f16") {
  return make_workload(parse_spec(fmt::format(
      R"(expr:expr="T[i,l] += A[i,k] * B[k,l]; R[i,l] = {}; C[i,j] += R[i,l] * D[l,j]",)"
      "dims.i={},dims.k={},dims.l={},dims.j={},dtype={},dtypes.R={}",
      between, m, k, hidden, n, type, kept)));
}

// A whole gated layer: D = (silu(A B) * (A E)) C.
Workload gated(int m, int k, int hidden, int n) {
  return make_workload(parse_spec(
      fmt::format(R"(expr:expr="T[i,l] += A[i,k] * B[k,l]; S[i,l] += A[i,k] * E[k,l]; )"
                  R"(R[i,l] = T[i,l] / (1 + exp(-T[i,l])) * S[i,l]; C[i,j] += R[i,l] * D[l,j]",)"
                  "dims.i={},dims.k={},dims.l={},dims.j={},dtype=f16,dtypes.R=f16",
                  m, k, hidden, n)));
}

Choices fused(const std::string& tile, const std::string& rows, int stages) {
  return {{"T.chain", "fused"}, {"T.tile", tile}, {"T.rows", rows}, {"T.stages", stages}};
}

TEST(GpuProductChain, IsRightInOneKernel) {
  struct Case {
    Workload w;
    Choices choices;
  };
  for (const Case& c :
       {Case{chain(64, 64, 64, 32), fused("32x32/16", "registers", 2)},
        {chain(70, 40, 90, 48, "T[i,l] / (1 + exp(-T[i,l]))"), fused("32x32/16", "shared", 2)},
        {chain(64, 32, 128, 16, "exp(T[i,l])", "bf16", "bf16"), fused("64x64/16", "registers", 1)},
        {chain(128, 64, 64, 64, "T[i,l]"), fused("128x64/32", "shared", 3)},
        {gated(64, 64, 64, 32), fused("32x32/16", "registers", 2)},
        {gated(50, 40, 72, 16), fused("32x32/16", "shared", 2)}}) {
    SCOPED_TRACE(c.choices.dump());
    const Schedule s = gpu_schedule(c.w, ampere(), c.choices);
    GpuRun run = run_on_emulator(c.w, s, ampere());
    ASSERT_TRUE(run.emulated.ok()) << run.emulated.fault->to_string() << "\n" << run.source.text;
    EXPECT_EQ(run.checked.verdict, Verdict::Ok) << run.checked.message << "\n" << run.source.text;
    EXPECT_EQ(run.source.launches.size(), 1u);
    EXPECT_THAT(run.source.text, HasSubstr("tw_mma_m16n8k16"));
    EXPECT_THAT(run.source.text, Not(HasSubstr("__shared__ __half R")))
        << "nothing hidden is stored";
  }
}

// The options of the knob, or nothing if it is not asked.
std::string asked(const Workload& w) {
  std::string options;
  for (const std::string& option : options_of(gpu_trial(w, ampere()), "T.chain")) {
    options += option + " ";
  }
  return options;
}

TEST(GpuProductChain, IsAskedWhereRegistersAndInstructionsAllowIt) {
  EXPECT_EQ(asked(chain(16384, 64, 64, 64)), "fused apart ");
  EXPECT_EQ(asked(chain(64, 64, 64, 64)), "apart fused ") << "one block for all of the chip";
  EXPECT_EQ(asked(gated(16384, 64, 64, 64)), "fused apart ");
  EXPECT_EQ(asked(chain(64, 64, 64, 40)), "") << "columns of half a fragment";
  EXPECT_EQ(asked(chain(64, 64, 64, 1024)), "") << "sums of a row do not fit registers";
  EXPECT_EQ(asked(chain(64, 64, 64, 64, "T[i,l]", "f16", "f32")), "")
      << "what is hidden must be elements that instructions take";
}

// Each single error in a kernel gives a wrong result or a fault in the emulator.
TEST(GpuProductChain, BrokenKernelsAreSeen) {
  const Workload w = chain(64, 32, 96, 32);
  const Schedule s = gpu_schedule(w, ampere(), fused("32x32/16", "registers", 2));
  auto is_seen = [&](const std::string& from, const std::string& to) {
    return outcome_of_edited(w, s, ampere(), from, to, Places::All) != "ok";
  };
  EXPECT_FALSE(is_seen("__syncthreads();", "__syncthreads();"));
  EXPECT_TRUE(is_seen("__syncthreads();", ""));
  EXPECT_TRUE(is_seen("tw_cp_async_wait<0>();", ""));
}

TEST(GpuProductChain, CompilesWithSumsInRegisters) {
  if (!cuda::nvrtc_problem().empty()) GTEST_SKIP() << "NVRTC: " << cuda::nvrtc_problem();
  struct Case {
    const char* architecture;
    Workload w;
    const char* tile;
  };
  for (const Case& c : {Case{"sm_80", gated(16384, 128, 256, 128), "128x32/16"},
                        {"sm_90a", chain(16384, 128, 256, 128), "128x64/16"}}) {
    if (!cuda::nvrtc_accepts(c.architecture)) continue;
    SCOPED_TRACE(c.architecture);
    const Target target = Target::parse(std::string("cuda:") + c.architecture);
    const CudaSource source =
        generate_cuda(gpu_schedule(c.w, target, fused(c.tile, "registers", 2)).module(), target);
    cuda::CubinFacts facts = cuda::cubin_facts(
        cuda::compile_to_cubin(source.text, "kernel", c.architecture), source.launches.at(0).entry);
    EXPECT_GE(facts.count("HMMA"), 16) << source.text;
    EXPECT_EQ(facts.local_accesses(), 0) << source.text;
  }
}

}  // namespace
}  // namespace tilewright
