// Launches that may start before the one ahead of them has ended.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/kernels/cuda_kernels.h"

namespace tilewright {
namespace {

using test::numbers;
using test::replaced;
using testing::HasSubstr;
using LaunchBuffer = EmulatedLaunch::Buffer;

constexpr int kThreads = 64;

// S = 2 A, and C = S + A behind it.
const char* const kTwoLaunches = R"(
extern "C" __global__ void first(TW_IN(float) A, TW_OUT(float) S) {
  tw_grid_launch_dependents();
  S[threadIdx.x] = 2 * A[threadIdx.x];
}
extern "C" __global__ void second(TW_IN(float) A, TW_MADE(float) S, TW_OUT(float) C) {
  TW_SHARED(float, s, 0, 64);
  const int t = threadIdx.x;
  s[t] = 1;
  tw_grid_wait();
  tw_cp_async<4>(s + t, S + t);
  tw_cp_async_commit();
  tw_cp_async_wait<0>();
  C[t] = s[t] + A[t];
}
)";

struct TwoRuns {
  std::vector<float> a, c;
  EmulatorResult result;
};

TwoRuns run(const std::string& text, bool dependent = true) {
  TwoRuns run{numbers(kThreads, 1), std::vector<float>(kThreads), {}};
  std::vector<float> s(kThreads);
  EmulatedLaunch first{"first", {1, 1, 1}, {kThreads, 1, 1}, 0, {LaunchBuffer{0}, LaunchBuffer{1}}};
  EmulatedLaunch second{"second",
                        {1, 1, 1},
                        {kThreads, 1, 1},
                        256,
                        {LaunchBuffer{0}, LaunchBuffer{1}, LaunchBuffer{2}}};
  second.dependent = dependent;
  const int64_t bytes = 4 * kThreads;
  run.result = emulate(text, {first, second},
                       {{"A", run.a.data(), bytes},
                        {"S", s.data(), bytes, false},
                        {"C", run.c.data(), bytes, false}},
                       {});
  return run;
}

// The emulator's report of an early access; "" where it reports nothing.
std::string report(const TwoRuns& run) {
  if (!run.result.fault) return "";
  EXPECT_EQ(fault_name(run.result.fault->kind), "early-access") << run.result.fault->to_string();
  return run.result.fault->to_string();
}

TEST(DependentLaunches, SeeWhatTheLaunchBeforeHasWritten) {
  for (bool dependent : {true, false}) {
    TwoRuns right = run(kTwoLaunches, dependent);
    ASSERT_EQ(report(right), "");
    for (size_t i = 0; i < kThreads; ++i) EXPECT_EQ(right.c[i], 3 * right.a[i]) << i;
  }
}

TEST(DependentLaunches, TouchNoGlobalMemoryBeforeTheyHaveWaited) {
  const std::string without = replaced(kTwoLaunches, "tw_grid_wait();", "");
  EXPECT_THAT(report(run(without)),
              HasSubstr("reads S[0] before tw_grid_wait(): the launch before may not have ended"));
  EXPECT_EQ(report(run(without, false)), "") << "a launch behind the other's end waits for nothing";
}

TEST(DependentLaunches, WaitAThreadForItself) {
  const std::string alone =
      replaced(kTwoLaunches, "tw_grid_wait();", "if (t == 0) tw_grid_wait();\n__syncthreads();");
  EXPECT_THAT(report(run(alone)), HasSubstr("reads S[1] before tw_grid_wait()"));
}

// The launch before may still read what this one writes.
TEST(DependentLaunches, DoNotWriteEither) {
  const std::string early = replaced(kTwoLaunches, "s[t] = 1;", "C[t] = 1;");
  EXPECT_THAT(report(run(early)), HasSubstr("writes C[0] before tw_grid_wait()"));
}

}  // namespace
}  // namespace tilewright
