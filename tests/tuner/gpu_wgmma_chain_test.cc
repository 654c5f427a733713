// Attention in one kernel by instructions of warpgroups: in the emulator, against the oracle.
#include <gmock/gmock.h>

#include "ir/ops/spec.h"
#include "runtime/cuda/cubin.h"
#include "runtime/cuda/nvrtc.h"
#include "tests/tuner/gpu_check.h"

namespace tilewright {
namespace {

using ::testing::HasSubstr;

Target hopper() { return Target::parse("cuda:sm_90a"); }

// A config of the chain alone.
std::string config_of(const std::string& tile, const std::string& copies, int stages) {
  return R"({"S_max.copies":")" + copies + R"(","S_max.softmax":"online_wgmma","S_max.stages":)" +
         std::to_string(stages) + R"(,"S_max.tile":")" + tile + R"("})";
}

struct Case {
  const char* spec;
  const char* tile;
  const char* copies;
  int stages;
};

Schedule scheduled(const Case& c) {
  return gpu_schedule(make_workload(parse_spec(c.spec)), hopper(),
                      Trial::replay(config_of(c.tile, c.copies, c.stages)));
}

class GpuWgmmaChain : public ::testing::TestWithParam<Case> {};

TEST_P(GpuWgmmaChain, IsRightInOneKernel) {
  const Workload w = make_workload(parse_spec(GetParam().spec));
  GpuRun run = run_on_emulator(w, scheduled(GetParam()), hopper());
  ASSERT_TRUE(run.emulated.ok()) << run.emulated.fault->to_string() << "\n" << run.source.text;
  EXPECT_EQ(run.checked.verdict, Verdict::Ok) << run.checked.message << "\n" << run.source.text;
  EXPECT_EQ(run.source.launches.size(), 1u);
  EXPECT_GT(run.emulated.counters.wgmma, 0);
  EXPECT_EQ(run.emulated.counters.mma, 0);
}

INSTANTIATE_TEST_SUITE_P(
    Specs, GpuWgmmaChain,
    ::testing::Values(
        Case{"attention:m=64,n=64,d=64,dtype=f16", "64x32/64", "cp_async", 1},
        Case{"attention:m=128,n=128,d=128,dtype=f16", "128x64/64", "cp_async", 2},
        Case{"attention:heads=2,kv_heads=1,m=70,n=100,d=32,dtype=bf16", "64x64/64", "cp_async", 2},
        Case{"attention:m=70,n=100,d=24,dv=48,causal=true,dtype=f16", "64x32/64", "cp_async", 3},
        Case{"attention:m=128,n=160,d=80,causal=true,dtype=bf16", "128x80/64", "cp_async", 2},
        Case{"attention:m=128,n=128,d=64,dtype=f16", "128x64/64", "tensor", 2},
        Case{"attention:m=64,n=192,d=64,dtype=f16", "64x64/64", "roles", 2},
        Case{"attention:heads=4,kv_heads=2,m=130,n=200,d=128,dv=64,causal=true,dtype=bf16",
             "128x64/64", "roles", 2},
        Case{"attention:m=192,n=192,d=192,dv=128,causal=true,dtype=f16", "64x64/64", "roles", 2}));

}  // namespace
}  // namespace tilewright
