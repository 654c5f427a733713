// Broken kernels: each fault is caught, and the report says what, where and who.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/kernels/cuda_kernels.h"

namespace tilewright {
namespace {

using test::numbers;
using test::replaced;
using test::run_matmul;
using testing::HasSubstr;
using LaunchBuffer = EmulatedLaunch::Buffer;

// Runs "kernel(TW_IN(float) A, TW_INOUT(float) C)" with this body in blocks of 64 threads on 64
// elements each.
EmulatorResult run_body_faults(const std::string& body, int blocks = 1,
                               EmulatorOptions options = {}, bool initialized = true) {
  std::vector<float> a = numbers(64, 1), c = numbers(64, 2);
  std::string text =
      "extern \"C\" __global__ void kernel(TW_IN(float) A, TW_INOUT(float) C) {\n"
      "const int t = threadIdx.x;\n" +
      body + "\n}\n";
  EmulatedLaunch launch{
      "kernel", {blocks, 1, 1}, {64, 1, 1}, 1024, {LaunchBuffer{0}, LaunchBuffer{1}}};
  return emulate(text, {launch}, {{"A", a.data(), 256}, {"C", c.data(), 256, initialized}},
                 options);
}

// The fault's report, which must be of this kind.

TEST(EmulatorFaults, MissingBarrierAfterAStore) {
  // In the order of their indices, the first thread runs ahead of all stores but its own.
  std::string broken = replaced(test::kTiled, "__syncthreads();  // loaded", "");
  EXPECT_THAT(test::report(run_matmul(broken).result, FaultKind::UninitializedRead),
              HasSubstr("kernel 'matmul', block (0, 0, 0), thread (0, 0, 0): reads As[1], which "
                        "nothing has written so far"));
}

TEST(EmulatorFaults, MissingBarrierBeforeTheNextStore) {
  auto run = run_matmul(replaced(test::kTiled, "__syncthreads();  // used", ""));
  std::string text = test::report(run.result, FaultKind::Race);
  EXPECT_THAT(text, HasSubstr("thread (1, 0, 0): reads As[0], which another thread writes at line "
                              "10 with no barrier between"));
  EXPECT_THAT(text, HasSubstr("line 13: for (int i = 0; i < 16; ++i) sum += As[y * 16 + i]"));
}

TEST(EmulatorFaults, MissingBarrierIsFoundInEveryOrder) {
  for (uint64_t seed : {1, 2, 3, 4}) {
    auto run = run_matmul(replaced(test::kTiled, "__syncthreads();  // loaded", ""), seed);
    ASSERT_TRUE(run.result.fault);
    EXPECT_THAT(fault_name(run.result.fault->kind), testing::AnyOf("race", "uninitialized-read"));
  }
}

TEST(EmulatorFaults, MissingWait) {
  auto run = run_matmul(replaced(test::kPipelined, "tw_cp_async_wait<1>();", ""));
  EXPECT_THAT(test::report(run.result, FaultKind::CopyInFlight),
              HasSubstr("reads As[0], which the asynchronous copy at line 10 writes: it was not "
                        "waited for"));
}

TEST(EmulatorFaults, WaitForTooFewGroups) {
  auto run =
      run_matmul(replaced(test::kPipelined, "tw_cp_async_wait<1>();", "tw_cp_async_wait<2>();"));
  EXPECT_THAT(test::report(run.result, FaultKind::CopyInFlight),
              HasSubstr("it was not waited for"));
}

TEST(EmulatorFaults, WaitWithoutABarrierIsOnlyForOnesOwnCopies) {
  auto run = run_matmul(replaced(test::kPipelined, "__syncthreads();  // landed", ""));
  ASSERT_TRUE(run.result.fault);
  EXPECT_THAT(fault_name(run.result.fault->kind),
              testing::AnyOf("race", "copy-in-flight", "uninitialized-read"));
}

TEST(EmulatorFaults, OutOfBoundsInGlobalMemory) {
  std::vector<float> a(150), b(150), c(150);
  EmulatedLaunch launch{"add", {3, 1, 1}, {64, 1, 1}, 0, {}};
  launch.arguments = {LaunchBuffer{0}, LaunchBuffer{1}, LaunchBuffer{2}, int64_t{150}};
  EmulatorResult result =
      emulate(replaced(test::kAdd, "if (i < n)", "if (i <= n)"), {launch},
              {{"A", a.data(), 600}, {"B", b.data(), 600}, {"C", c.data(), 600, false}});
  ASSERT_TRUE(result.fault);
  EXPECT_THAT(result.fault->to_string(),
              testing::MatchesRegex("out-of-bounds: kernel 'add', block \\(2, 0, 0\\), thread "
                                    "\\(22, 0, 0\\): reads [AB]\\[150\\], but [AB] has 150 "
                                    "elements\n  line 6: C\\[i\\] = A\\[i\\] \\+ B\\[i\\];"));
  EXPECT_EQ(result.fault->index, 150);
}

TEST(EmulatorFaults, OutOfBoundsInSharedMemory) {
  auto run = run_matmul(
      replaced(test::kTiled, "TW_SHARED(float, As, 0, 256);", "TW_SHARED(float, As, 0, 240);"));
  EXPECT_THAT(test::report(run.result, FaultKind::OutOfBounds),
              HasSubstr("thread (0, 15, 0): writes As[240], but As has 240 elements"));
}

TEST(EmulatorFaults, NegativeIndex) {
  EXPECT_THAT(test::report(run_body_faults("C[t - 1] = 0;"), FaultKind::OutOfBounds),
              HasSubstr("writes C[-1], but C has 64 elements"));
}

TEST(EmulatorFaults, SharedArrayBeyondTheLaunch) {
  auto run = run_matmul(test::kTiled, 0, 1024);
  EXPECT_THAT(test::report(run.result, FaultKind::OutOfBounds),
              HasSubstr("places Bs at bytes 1024 to 2048 of shared memory, of which the launch "
                        "gives 1024"));
}

TEST(EmulatorFaults, UninitializedReads) {
  std::string body =
      "TW_SHARED(float, s, 0, 64); if (t != 5) s[t] = 1; __syncthreads();"
      "C[t] = s[63 - t];";
  EXPECT_THAT(test::report(run_body_faults(body), FaultKind::UninitializedRead),
              HasSubstr("thread (58, 0, 0): reads s[5], which nothing has written so far"));
  EXPECT_THAT(
      test::report(run_body_faults("C[t] += 1;", 1, {}, false), FaultKind::UninitializedRead),
      HasSubstr("reads C[0], which nothing has written so far"));
}

TEST(EmulatorFaults, TwoWriters) {
  std::string text =
      test::report(run_body_faults("TW_SHARED(float, s, 0, 64); s[t / 2] = t;"), FaultKind::Race);
  EXPECT_THAT(text, HasSubstr("thread (1, 0, 0): writes s[0], which another thread writes at line "
                              "3 with no barrier between"));
  EXPECT_THAT(text, HasSubstr("the other: block (0, 0, 0), thread (0, 0, 0)"));
}

TEST(EmulatorFaults, BlocksThatWriteTheSameElement) {
  EXPECT_THAT(test::report(run_body_faults("C[t] = blockIdx.x;", 2), FaultKind::Race),
              HasSubstr("block (1, 0, 0), thread (0, 0, 0): writes C[0], which another thread of "
                        "another block writes at line 3 with no launch between"));
}

TEST(EmulatorFaults, LanesOfAWarpNeedABarrierToo) {
  std::string body = "TW_SHARED(float, s, 0, 64); s[t] = 1;\n@ C[t] = s[t ^ 1];";
  EmulatorResult right = run_body_faults(replaced(body, "@", "__syncwarp();"));
  EXPECT_FALSE(right.fault) << right.fault->to_string();
  test::report(run_body_faults(replaced(body, "@", ""), 1, {}), FaultKind::UninitializedRead);
  std::string after =
      "TW_SHARED(float, s, 0, 64); s[t] = 1; __syncwarp(); float v = s[t ^ 1];\n"
      "@ s[t] = v; C[t] = v;";
  right = run_body_faults(replaced(after, "@", "__syncwarp();"));
  EXPECT_FALSE(right.fault) << right.fault->to_string();
  EXPECT_THAT(test::report(run_body_faults(replaced(after, "@", "")), FaultKind::Race),
              HasSubstr("with no barrier between"));
}

TEST(EmulatorFaults, WarpsReadWhileAnotherWrites) {
  // All threads read s[0], thread 0 then writes it: its own read is no fault, those of others are.
  std::string body =
      "TW_SHARED(float, s, 0, 64); s[t] = 1; __syncthreads(); float v = s[0];\n"
      "if (t == 0) s[0] = 2; C[t] = v;";
  EmulatorOptions last_first;
  for (last_first.seed = 0; last_first.seed < 4; ++last_first.seed) {
    test::report(run_body_faults(body, 1, last_first), FaultKind::Race);
  }
}

TEST(EmulatorFaults, DivergentBarrier) {
  EXPECT_THAT(
      test::report(run_body_faults("if (t < 32) __syncthreads();"), FaultKind::DivergentBarrier),
      HasSubstr("thread (0, 0, 0): waits at __syncthreads in line 3; thread (32, 0, 0) has "
                "returned"));
  EXPECT_THAT(
      test::report(run_body_faults("if (t < 7) {\n__syncthreads();\n} else {\n__syncthreads();\n}"),
                   FaultKind::DivergentBarrier),
      HasSubstr("waits at __syncthreads in line 4; thread (7, 0, 0) waits at __syncthreads "
                "in line 6"));
}

TEST(EmulatorFaults, DivergentCollectives) {
  EXPECT_THAT(test::report(
                  run_body_faults("float v = t; if (t != 3) v = __shfl_xor_sync(0xffffffffu, v, 1);"
                                  "C[t] = v;"),
                  FaultKind::DivergentCollective),
              HasSubstr("waits at shuffle in line 3; thread (3, 0, 0) has returned"));
  EXPECT_THAT(test::report(run_body_faults("if (t < 16) __syncwarp(0xff00u);"),
                           FaultKind::DivergentCollective),
              HasSubstr("lane 0 calls __syncwarp with the mask 0xff00, which lacks it"));
  EXPECT_THAT(test::report(run_body_faults("if (t < 16) C[t] = __shfl_sync(0xffffu, 1.0f, 20);"),
                           FaultKind::DivergentCollective),
              HasSubstr("lane 0 takes the value of lane 20, which takes no part"));
}

TEST(EmulatorFaults, MisalignedVectors) {
  EXPECT_THAT(test::report(run_body_faults("tw_vec<float, 4> v = tw_ld<4>(A + 1); C[t] = v[0];"),
                           FaultKind::Misaligned),
              HasSubstr("reads 16 bytes at A[1], 4 bytes into the memory: no multiple of 16"));
  EXPECT_THAT(test::report(run_body_faults("TW_SHARED(float, s, 2, 4);"), FaultKind::Misaligned),
              HasSubstr("places s, of elements of 4 bytes, at byte 2 of shared memory"));
}

TEST(EmulatorFaults, RowsOfLdmatrixAreThoseOfTheirLanes) {
  const std::string body =
      "TW_SHARED(float, s, 0, 64); s[t] = t; __syncthreads();\n"
      "unsigned r[1]; tw_ldmatrix_x1(r, s + (t % 32 == 5 ? @ : t % 8 * 4)); C[t] = r[0];";
  EXPECT_THAT(test::report(run_body_faults(replaced(body, "@", "64")), FaultKind::OutOfBounds),
              HasSubstr("thread (5, 0, 0): reads 4 elements at s[64], but s has 64 elements"));
  EXPECT_THAT(test::report(run_body_faults(replaced(body, "@", "22")), FaultKind::Misaligned),
              HasSubstr("thread (5, 0, 0): reads 16 bytes at s[22]"));
  EXPECT_THAT(test::report(run_body_faults("unsigned r[1]; tw_ldmatrix_x1(r, A); C[t] = r[0];"),
                           FaultKind::BadLaunch),
              HasSubstr("ldmatrix reads A, which is not in shared memory"));
  EXPECT_THAT(test::report(run_body_faults("unsigned r[1] = {0}; tw_stmatrix_x1(C, r);"),
                           FaultKind::BadLaunch),
              HasSubstr("stmatrix writes C, which is not in shared memory"));
}

TEST(EmulatorFaults, KernelsThatNeverEnd) {
  EmulatorOptions options;
  options.step_limit = 1000;
  EXPECT_THAT(
      test::report(run_body_faults("while (A[t] == A[t]) {}", 1, options), FaultKind::StepLimit),
      HasSubstr("has not ended after 1000 operations of all threads"));
}

TEST(EmulatorFaults, LaunchesThatDoNotFit) {
  auto launched = [](EmulatedLaunch launch) {
    float x[4] = {};
    return test::report(emulate(test::kSum, {launch}, {{"A", x, 16}}), FaultKind::BadLaunch);
  };
  EXPECT_THAT(launched({"sum", {1, 1, 1}, {64, 1, 1}, 8, {LaunchBuffer{0}}}),
              HasSubstr("takes 2 arguments, got 1"));
  EXPECT_THAT(launched({"sum", {1, 1, 1}, {64, 1, 1}, 8, {LaunchBuffer{0}, int64_t{1}}}),
              HasSubstr("takes a buffer as argument 1, got a number"));
  EXPECT_THAT(launched({"sum", {1, 1, 1}, {64, 1, 1}, 8, {LaunchBuffer{0}, LaunchBuffer{1}}}),
              HasSubstr("gets buffer 1 as argument 1, of 1 buffers"));
  EXPECT_THAT(launched({"sum", {1, 1, 1}, {64, 32, 1}, 8, {LaunchBuffer{0}, LaunchBuffer{0}}}),
              HasSubstr("in blocks of (64, 32, 1) threads; they have 1 to 1024"));
  EXPECT_THAT(launched({"sum", {0, 1, 1}, {64, 1, 1}, 8, {LaunchBuffer{0}, LaunchBuffer{0}}}),
              HasSubstr("is launched on a grid of (0, 1, 1)"));
}

}  // namespace
}  // namespace tilewright
