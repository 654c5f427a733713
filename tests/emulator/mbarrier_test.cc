// Barriers of a part of a block: mbarriers, named barriers, and the registers that warps hand over.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/kernels/cuda_kernels.h"

namespace tilewright {
namespace {

using test::numbers;
using test::replaced;
using testing::HasSubstr;
using LaunchBuffer = EmulatedLaunch::Buffer;

struct BodyRun {
  std::vector<float> c;
  EmulatorResult result;

  // The fault's report, which must be of this kind.
  std::string report(FaultKind kind) const {
    if (!result.fault) return "no fault";
    EXPECT_EQ(fault_name(result.fault->kind), fault_name(kind)) << result.fault->to_string();
    return result.fault->to_string();
  }
  std::string problem() const { return result.fault ? result.fault->to_string() : ""; }
};

// Runs "kernel(TW_IN(float) A, TW_OUT(float) C)" with this body in one block; C has as many elements
// as the block has threads.
BodyRun run_body_mbarrier(const std::string& body, int threads = 64, uint64_t seed = 0,
                          int registers = 0) {
  BodyRun run{std::vector<float>(static_cast<size_t>(threads)), {}};
  std::vector<float> a = numbers(1024, 1);
  std::string text =
      "extern \"C\" __global__ void kernel(TW_IN(float) A, TW_OUT(float) C) {\n"
      "const int t = threadIdx.x, w = t / 32;\n" +
      body + "\n}\n";
  EmulatedLaunch launch{
      "kernel", {1, 1, 1}, {threads, 1, 1}, 2048, {LaunchBuffer{0}, LaunchBuffer{1}}, registers};
  EmulatorOptions options;
  options.seed = seed;
  run.result = emulate(text, {launch},
                       {{"A", a.data(), 4096}, {"C", run.c.data(), 4l * threads, false}}, options);
  return run;
}

// Warp 0 hands 8 tiles of 32 elements through 2 stages to warp 1: the barriers of a pipeline.
const char* const kHandOver = R"(
TW_SHARED(float, s, 0, 64);
TW_SHARED(unsigned long long, full, 1024, 2);
TW_SHARED(unsigned long long, empty, 1040, 2);
if (t == 0) {
  for (int i = 0; i < 2; ++i) {
    tw_mbarrier_init(full + i, 32);
    tw_mbarrier_init(empty + i, 32);
  }
  tw_mbarrier_fence_init();
}
__syncthreads();
float sum = 0;
if (w == 0) {
  for (int k = 0; k < 8; ++k) {
    const int stage = k % 2, round = k / 2;
    tw_mbarrier_wait(empty + stage, (round & 1) ^ 1);
    s[stage * 32 + t] = A[k * 32 + t];
    tw_mbarrier_arrive(full + stage);
  }
} else {
  for (int k = 0; k < 8; ++k) {
    const int stage = k % 2, round = k / 2;
    tw_mbarrier_wait(full + stage, round & 1);
    sum += s[stage * 32 + (t * 5 + 3) % 32];
    tw_mbarrier_arrive(empty + stage);
  }
}
C[t] = sum;
)";

TEST(MBarriers, HandStagesFromAProducerToAConsumer) {
  std::vector<float> a = numbers(1024, 1);
  for (uint64_t seed : {0, 1, 2, 3, 4, 5}) {
    BodyRun run = run_body_mbarrier(kHandOver, 64, seed);
    ASSERT_TRUE(run.result.ok()) << run.problem();
    EXPECT_EQ(run.result.counters.barrier_waits, 2 * 8 * 32);
    for (size_t t = 32; t < 64; ++t) {
      float want = 0;
      for (size_t k = 0; k < 8; ++k) want += a[k * 32 + (t * 5 + 3) % 32];
      EXPECT_EQ(run.c[t], want) << t;
    }
  }
}

TEST(MBarriers, WhoDoesNotWaitRaces) {
  for (uint64_t seed : {0, 1, 2, 3}) {
    BodyRun consumer = run_body_mbarrier(
        replaced(kHandOver, "tw_mbarrier_wait(full + stage, round & 1);", ""), 64, seed);
    ASSERT_FALSE(consumer.result.ok());
    EXPECT_THAT(fault_name(consumer.result.fault->kind),
                testing::AnyOf("race", "uninitialized-read"));
    BodyRun producer = run_body_mbarrier(
        replaced(kHandOver, "tw_mbarrier_wait(empty + stage, (round & 1) ^ 1);", ""), 64, seed);
    ASSERT_FALSE(producer.result.ok());  // it may have gone two phases ahead of whoever waits
    EXPECT_THAT(fault_name(producer.result.fault->kind), testing::AnyOf("race", "deadlock"));
  }
}

TEST(MBarriers, AStageThatIsReleasedBeforeItIsReadRaces) {
  const std::string early =
      replaced(replaced(kHandOver, "    tw_mbarrier_arrive(empty + stage);\n", ""), "sum += s[",
               "tw_mbarrier_arrive(empty + stage); sum += s[");
  for (uint64_t seed : {0, 1, 2, 3}) {
    BodyRun run = run_body_mbarrier(early, 64, seed);
    EXPECT_THAT(run.report(FaultKind::Race), HasSubstr("with no barrier between"));
  }
}

TEST(MBarriers, WrongParityHangsOrRunsAhead) {
  BodyRun never = run_body_mbarrier(replaced(kHandOver, "(round & 1) ^ 1", "round & 1"));
  std::string text = never.report(FaultKind::Deadlock);
  EXPECT_THAT(text,
              HasSubstr("thread (0, 0, 0): waits at empty[0] in line 19 for the end of phase 0 "
                        "(parity 0), to which 0 of 32 arrivals have come"));
  EXPECT_THAT(text, HasSubstr("of threads 32 to 63 each waits at full[0] in line 26"));
  BodyRun early = run_body_mbarrier(replaced(kHandOver, "tw_mbarrier_wait(full + stage, round & 1)",
                                             "tw_mbarrier_wait(full + stage, (round & 1) ^ 1)"));
  ASSERT_FALSE(early.result.ok());
  EXPECT_THAT(fault_name(early.result.fault->kind),
              testing::AnyOf("race", "uninitialized-read", "deadlock"));
}

TEST(MBarriers, TooFewArrivalsAreADeadlock) {
  std::string text = run_body_mbarrier(replaced(kHandOver, "tw_mbarrier_init(full + i, 32)",
                                                "tw_mbarrier_init(full + i, 33)"))
                         .report(FaultKind::Deadlock);
  EXPECT_THAT(text,
              HasSubstr("waits at full[0] in line 26 for the end of phase 0 (parity 0), to which "
                        "32 of 33 arrivals have come"));
}

TEST(MBarriers, TellLanesWhatOneOfThemWaitedFor) {
  // One lane waits, __syncwarp tells the others; a lane that stored before it is told of as well.
  const std::string body = R"(
TW_SHARED(float, s, 0, 64);
TW_SHARED(unsigned long long, full, 1024, 1);
if (t == 0) tw_mbarrier_init(full, 1);
__syncthreads();
if (w == 0) {
  s[t] = A[t];
  __syncwarp();
  if (t == 0) tw_mbarrier_arrive(full);
  C[t] = 0;
} else {
  if (t == 32) tw_mbarrier_wait(full, 0);
  __syncwarp();  // told
  C[t] = s[63 - t];
}
)";
  for (uint64_t seed : {0, 1, 2}) {
    BodyRun run = run_body_mbarrier(body, 64, seed);
    EXPECT_TRUE(run.result.ok()) << run.problem();
  }
  EXPECT_FALSE(run_body_mbarrier(replaced(body, "__syncwarp();  // told", "")).result.ok());
  BodyRun one =
      run_body_mbarrier(replaced(body, "  __syncwarp();\n  if (t == 0) tw", "  if (t == 0) tw"));
  EXPECT_FALSE(one.result.ok());
}

TEST(MBarriers, HaveToBeMadeAndShown) {
  const std::string bare = "TW_SHARED(unsigned long long, b, 0, 2);\n@\nC[t] = 0;";
  EXPECT_THAT(run_body_mbarrier(replaced(bare, "@", "tw_mbarrier_arrive(b + 1);"))
                  .report(FaultKind::BadBarrier),
              HasSubstr("arrives at b[1], which no tw_mbarrier_init() has made one"));
  EXPECT_THAT(run_body_mbarrier(replaced(bare, "@",
                                         "if (t == 0) tw_mbarrier_init(b, 64);\n"
                                         "tw_mbarrier_arrive(b);"))
                  .report(FaultKind::BadBarrier),
              HasSubstr("arrives at b[0], which another thread makes an mbarrier at line 4 with no "
                        "barrier between"));
  EXPECT_THAT(run_body_mbarrier(replaced(bare, "@", "if (t == 0) tw_mbarrier_init(b, 0);"))
                  .report(FaultKind::BadBarrier),
              HasSubstr("makes b[0] an mbarrier of 0 arrivals; it has 1 to 1048575"));
  EXPECT_THAT(
      run_body_mbarrier(replaced(bare, "@", "if (t == 0) { tw_mbarrier_init(b, 1); b[0] = 1; }"))
          .report(FaultKind::BadBarrier),
      HasSubstr("writes b[0], which is an mbarrier since line 4"));
  EXPECT_THAT(run_body_mbarrier(replaced(bare, "@",
                                         "if (t == 0) { tw_mbarrier_init(b, 1);\n"
                                         "tw_mbarrier_init(b, 1); }"))
                  .report(FaultKind::BadBarrier),
              HasSubstr("makes b[0] an mbarrier, which it is already"));
  EXPECT_THAT(run_body_mbarrier(replaced(bare, "@",
                                         "if (t == 0) { tw_mbarrier_init(b, 1);\n"
                                         "tw_mbarrier_expect_tx(b, 1 << 20); }"))
                  .report(FaultKind::BadBarrier),
              HasSubstr("makes b[0] wait for 1048576 bytes in a phase; it counts up to 1048575"));
  BodyRun again = run_body_mbarrier(replaced(bare, "@",
                                             "if (t == 0) { tw_mbarrier_init(b, 1);\n"
                                             "tw_mbarrier_invalidate(b); b[0] = 1;\n"
                                             "tw_mbarrier_invalidate(b + 1); }"));
  EXPECT_THAT(again.report(FaultKind::BadBarrier), HasSubstr("ends the use of b[1], which no"));
}

TEST(MBarriers, CountNoMoreArrivalsThanTheyHave) {
  const std::string body = R"(
TW_SHARED(unsigned long long, b, 0, 1);
if (t == 0) {
  tw_mbarrier_init(b, 1);
  tw_mbarrier_arrive_expect_tx(b, 64);
  tw_mbarrier_arrive(b);
}
C[t] = 0;
)";
  EXPECT_THAT(
      run_body_mbarrier(body).report(FaultKind::BadBarrier),
      HasSubstr("arrives at b[0], all of whose 1 arrivals have come in phase 0 already, while "
                "0 of 64 bytes have"));
}

// Warps 0 and 1 meet at barrier 1, warp 2 only tells them, and warp 3 takes no part.
const char* const kNamed = R"(
TW_SHARED(float, s, 0, 128);
if (w < 3) {
  s[t] = A[t];
  if (w == 2) {
    tw_barrier_arrive(1, 96);
  } else {
    tw_barrier_sync(1, 96);
    C[t] = s[95 - t] + s[t ^ 32];
    return;
  }
}
C[t] = 0;
)";

TEST(NamedBarriers, OrderTheWarpsThatMeet) {
  std::vector<float> a = numbers(1024, 1);
  for (uint64_t seed : {0, 1, 2, 3}) {
    BodyRun run = run_body_mbarrier(kNamed, 128, seed);
    ASSERT_TRUE(run.result.ok()) << run.problem();
    for (size_t t = 0; t < 64; ++t) EXPECT_EQ(run.c[t], a[95 - t] + a[t ^ 32]);
  }
  // Who only arrives is told nothing.
  BodyRun run = run_body_mbarrier(replaced(kNamed, "tw_barrier_arrive(1, 96);",
                                           "tw_barrier_arrive(1, 96); C[t] = s[t - 64]; return;"),
                                  128);
  EXPECT_THAT(run.report(FaultKind::Race), HasSubstr("with no barrier between"));
}

TEST(NamedBarriers, FaultsSayWhatABarrierIs) {
  EXPECT_THAT(
      run_body_mbarrier(replaced(kNamed, "tw_barrier_arrive(1, 96);", ""), 128)
          .report(FaultKind::Deadlock),
      HasSubstr("waits at barrier 1 in line 10, to which 64 of 96 threads have come; of threads "
                "64 to 127 each has returned"));
  EXPECT_THAT(run_body_mbarrier("tw_barrier_sync(0, 64);").report(FaultKind::BadBarrier),
              HasSubstr("comes to barrier 0; a block has 1 to 15 beside 0"));
  EXPECT_THAT(run_body_mbarrier("tw_barrier_sync(1, 40);").report(FaultKind::BadBarrier),
              HasSubstr("comes to barrier 1 of 40 threads; they come by whole warps"));
  EXPECT_THAT(
      run_body_mbarrier("if (w == 0) tw_barrier_arrive(2, 96);\nelse tw_barrier_sync(2, 64);")
          .report(FaultKind::BadBarrier),
      HasSubstr("comes to barrier 2 of 64 threads, which line 3 counts as 96"));
}

TEST(Registers, GoFromOneWarpgroupToAnother) {
  const std::string body =
      "if (t < 128) tw_registers_lower<40>(); else tw_registers_raise<232>();\n"
      "C[t] = 0;";
  BodyRun run = run_body_mbarrier(body, 384);
  ASSERT_TRUE(run.result.ok()) << run.problem();  // 168 each: 128 * 40 + 256 * 232 = 384 * 168
  EXPECT_THAT(
      run_body_mbarrier(replaced(body, "232", "240"), 384).report(FaultKind::Deadlock),
      HasSubstr("waits in line 3 for 240 registers per thread instead of 168, while the block has "
                "7168 to give; of threads 0 to 255 each has returned"));
}

TEST(Registers, AreWhatTheInstructionTakes) {
  EXPECT_THAT(
      run_body_mbarrier("tw_registers_lower<100>();", 128).report(FaultKind::BadRegisters),
      HasSubstr("asks for 100 registers per thread; they are a multiple of 8 from 24 to 256"));
  EXPECT_THAT(
      run_body_mbarrier("tw_registers_lower<64>();", 128, 0, 40).report(FaultKind::BadRegisters),
      HasSubstr("lowers the registers of a thread to 64; it has 40"));
  EXPECT_THAT(run_body_mbarrier("tw_registers_raise<64>();", 64).report(FaultKind::BadRegisters),
              HasSubstr("of a warpgroup of 128 threads; the block has 64"));
  EXPECT_THAT(run_body_mbarrier("if (t < 96) tw_registers_lower<40>();\nC[t] = 0;", 128)
                  .report(FaultKind::Deadlock),
              HasSubstr("waits in line 3 for 40 registers"));
}

}  // namespace
}  // namespace tilewright
