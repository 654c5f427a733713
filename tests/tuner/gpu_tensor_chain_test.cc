// Attention in one kernel by tensor cores: in the emulator, against the oracle.
#include <gmock/gmock.h>

#include "ir/ops/spec.h"
#include "tests/tuner/gpu_check.h"

namespace tilewright {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

Target sm80() { return Target::parse("cuda:sm_80"); }

// A config of the chain alone.
std::string config_of(const std::string& tile, const std::string& rows, int stages) {
  return R"({"S_max.rows":")" + rows + R"(","S_max.softmax":"online_mma","S_max.stages":)" +
         std::to_string(stages) + R"(,"S_max.tile":")" + tile + R"("})";
}

struct Case {
  const char* spec;
  const char* tile;
  const char* rows;
  int stages;
};

class GpuTensorChain : public ::testing::TestWithParam<Case> {};

TEST_P(GpuTensorChain, IsRightInOneKernel) {
  const Case& p = GetParam();
  const Workload w = make_workload(parse_spec(p.spec));
  Schedule s = gpu_schedule(w, sm80(), Trial::replay(config_of(p.tile, p.rows, p.stages)));
  GpuRun run = run_on_emulator(w, s, sm80());
  ASSERT_TRUE(run.emulated.ok()) << run.emulated.fault->to_string() << "\n" << run.source.text;
  EXPECT_EQ(run.checked.verdict, Verdict::Ok) << run.checked.message << "\n" << run.source.text;
  EXPECT_EQ(run.source.launches.size(), 1u);
  EXPECT_THAT(run.source.text, HasSubstr("tw_mma_m16n8k16"));
}

INSTANTIATE_TEST_SUITE_P(
    Specs, GpuTensorChain,
    ::testing::Values(Case{"attention:m=32,n=64,d=32,dtype=f16", "32x64/16", "registers", 1},
                      Case{"attention:heads=2,m=64,n=128,d=64,dtype=f16", "64x64/16", "registers",
                           2},
                      Case{"attention:heads=2,kv_heads=1,m=70,n=100,d=32,dtype=bf16", "32x32/16", "shared", 2},
                      Case{"attention:m=70,n=100,d=24,dv=32,causal=true,dtype=f16", "64x32/16", "registers", 3},
                      Case{"attention:m=128,n=128,d=80,causal=true,dtype=bf16", "128x64/32", "shared", 2}));

}  // namespace
}  // namespace tilewright
