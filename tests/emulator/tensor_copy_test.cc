// Bulk and tensor copies: what they move, and the kernels that use them wrongly.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "emulator/emulate_program.h"
#include "runtime/tensor/element.h"
#include "tests/kernels/async_kernels.h"
#include "tests/kernels/cuda_kernels.h"

namespace tilewright {
namespace {

using test::kTensorPipeline;
using test::matrix_map;
using test::replaced;
using test::run_pipeline;
using testing::HasSubstr;
using LaunchBuffer = EmulatedLaunch::Buffer;
using Tensor = EmulatedLaunch::Tensor;

// The fault's report, which must be of this kind.

TEST(TensorPipeline, MultipliesExactlyInEveryOrder) {
  for (uint64_t seed : {0, 1, 2, 3}) {
    auto run = run_pipeline(kTensorPipeline, 128, 64, 448, seed);
    ASSERT_TRUE(run.result.ok()) << run.result.fault->to_string();
    EXPECT_EQ(run.c, run.want);
    EXPECT_EQ(run.result.counters.bulk_copies, 4 * (2 * 7 + 1));
    EXPECT_EQ(run.result.counters.bulk_bytes, 4 * (7 * 12288 + 8192));
    EXPECT_EQ(run.result.counters.bank_conflicts(), 4 * 4 * 4 * 4 * 7);  // of Cs alone
  }
}

TEST(TensorPipeline, ReadsZerosBeyondTheOperandsAndWritesNothingThere) {
  auto run = run_pipeline(kTensorPipeline, 100, 40, 200);
  ASSERT_TRUE(run.result.ok()) << run.result.fault->to_string();
  EXPECT_EQ(run.c, run.want);
}

TEST(TensorPipeline, RunsAsItIsDescribed) {
  Var k("k");
  CudaDescription d;
  d.source.text = kTensorPipeline;
  d.source.target = "cuda:sm_90a";
  d.source.params = {{"A", ElemType::f16, {64, KernelExtent::dimension(0)}, ParamRole::Input},
                     {"B", ElemType::f16, {32, KernelExtent::dimension(0)}, ParamRole::Input},
                     {"C", ElemType::f32, {64, 32}, ParamRole::Output}};
  d.source.dims = {{k, 8, 4096}};
  CudaLaunch l;
  l.entry = "pipeline";
  l.grid = {Expr(1), Expr(1), Expr(1)};
  l.block = {test::kPipelineThreads, 1, 1};
  l.shared_bytes = test::kPipelineShared;
  l.tensor_maps = {{0, ElemType::f16, {k, Expr(64)}, {k * 2}, {64, 64}, TensorSwizzle::B128},
                   {1, ElemType::f16, {k, Expr(32)}, {k * 2}, {64, 32}, TensorSwizzle::B128},
                   {2, ElemType::f32, {Expr(32), Expr(64)}, {Expr(128)}, {32, 64}}};
  d.source.launches = {l};
  OperandSet operands({{"A", ElemType::f16, {64, 200}, ParamRole::Input},
                       {"B", ElemType::f16, {32, 200}, ParamRole::Input},
                       {"C", ElemType::f32, {64, 32}, ParamRole::Output}},
                      7);
  EmulatorResult result = emulate_program(d, operands, {200});
  ASSERT_TRUE(result.ok()) << result.fault->to_string();
  auto half = [&](const char* name, size_t i) {
    return decode_element(ElemType::f16, static_cast<uint16_t*>(operands.at(name).data())[i]);
  };
  for (size_t i = 0; i < 64 * 32; ++i) {
    double want = 0;
    for (size_t x = 0; x < 200; ++x)
      want += half("A", i / 32 * 200 + x) * half("B", i % 32 * 200 + x);
    const auto got = static_cast<double>(static_cast<float*>(operands.output().data())[i]);
    ASSERT_NEAR(got, want, 1e-3) << i;
  }
}

// A kernel that has to be wrong in every order of its threads, and the fault of the first of them.
std::string fault_of(const std::string& from, const std::string& to, FaultKind kind) {
  for (uint64_t seed : {1, 2, 3}) {
    EXPECT_FALSE(run_pipeline(replaced(kTensorPipeline, from, to), 64, 32, 448, seed).result.ok());
  }
  return test::report(run_pipeline(replaced(kTensorPipeline, from, to), 64, 32, 448).result, kind);
}

TEST(BrokenPipelines, MissingExpectTx) {
  EXPECT_THAT(fault_of("tw_mbarrier_arrive_expect_tx(full + s, 12288)",
                       "tw_mbarrier_arrive(full + s)", FaultKind::CopyInFlight),
              HasSubstr("which the asynchronous copy at line 27 writes: it was not waited for"));
}

TEST(BrokenPipelines, MoreBytesExpectedThanCome) {
  EXPECT_THAT(
      fault_of("full + s, 12288", "full + s, 12304", FaultKind::Deadlock),
      HasSubstr("waits at full[0] in line 36 for the end of phase 0 (parity 0), to which 1 of 1 "
                "arrivals and 12288 of 12304 bytes have come; thread 128 waits at empty[0]"));
}

TEST(BrokenPipelines, FewerBytesExpectedThanCome) {
  EXPECT_THAT(fault_of("full + s, 12288", "full + s, 8192", FaultKind::CopyInFlight),
              HasSubstr("Bs[0]"));
}

TEST(BrokenPipelines, MissingWaitForTheCopies) {
  const std::string text =
      fault_of("tw_mbarrier_wait(full + s, round & 1);", "", FaultKind::UninitializedRead);
  EXPECT_THAT(text, HasSubstr("reads As[0], which nothing has written so far"));
}

TEST(BrokenPipelines, MissingWaitForTheConsumers) {
  for (uint64_t seed : {0, 1, 2, 3}) {
    auto run =
        run_pipeline(replaced(kTensorPipeline, "tw_mbarrier_wait(empty + s, (round & 1) ^ 1);", ""),
                     64, 32, 448, seed);
    ASSERT_FALSE(run.result.ok());
    EXPECT_THAT(fault_name(run.result.fault->kind),
                testing::AnyOf("race", "copy-in-flight", "bad-barrier"));
  }
}

TEST(BrokenPipelines, WrongParity) {
  fault_of("tw_mbarrier_wait(empty + s, (round & 1) ^ 1)", "tw_mbarrier_wait(empty + s, round & 1)",
           FaultKind::Deadlock);
  fault_of("tw_mbarrier_wait(full + s, round & 1)", "tw_mbarrier_wait(full + s, round & 1 ^ 1)",
           FaultKind::UninitializedRead);
}

// Reads of lanes and writes of a copy behind a barrier are of different proxies.
TEST(BrokenPipelines, MissingFenceBehindReads) {
  const std::string problem =
      "copies to As[0], which a thread read at line 40 with no tw_fence_async()";
  EXPECT_THAT(fault_of("tw_fence_async(); __syncwarp();", "__syncwarp();", FaultKind::MissingFence),
              HasSubstr(problem));
  EXPECT_THAT(fault_of("tw_fence_async(); __syncwarp();",
                       "if (lane == 0) tw_fence_async(); __syncwarp();", FaultKind::MissingFence),
              HasSubstr("which a thread read at line 40"))
      << "each lane has read by itself";
}

TEST(BrokenPipelines, AStageReleasedBeforeItsLastUse) {
  // Only the first lane of each warp has to be past its reads.
  EXPECT_THAT(
      fault_of("__syncwarp();\n    if (lane == 0) tw", "if (lane == 0) tw", FaultKind::Race),
      HasSubstr("with no barrier between"));
}

TEST(BrokenPipelines, StoreWithoutTheFence) {
  EXPECT_THAT(
      fault_of("tw_fence_async();\n  tw_barrier_sync", "tw_barrier_sync", FaultKind::MissingFence),
      HasSubstr("copies from Cs[0], which a thread wrote at line 52 with no tw_fence_async() "
                "behind it"));
}

TEST(BrokenPipelines, StoreWithoutTheBarrier) {
  for (uint64_t seed : {0, 1, 2, 3}) {
    auto run =
        run_pipeline(replaced(kTensorPipeline, "tw_barrier_sync(1, 128);", ""), 64, 32, 448, seed);
    ASSERT_FALSE(run.result.ok());
    EXPECT_THAT(fault_name(run.result.fault->kind),
                testing::AnyOf("race", "missing-fence", "uninitialized-read"));
  }
}

TEST(BrokenPipelines, FenceBehindTheBarrier) {
  for (uint64_t seed : {0, 1, 2, 3}) {
    auto run =
        run_pipeline(replaced(kTensorPipeline, "tw_fence_async();\n  tw_barrier_sync(1, 128);",
                              "tw_barrier_sync(1, 128);\n  tw_fence_async();"),
                     64, 32, 448, seed);
    ASSERT_FALSE(run.result.ok());
    EXPECT_THAT(fault_name(run.result.fault->kind), testing::AnyOf("race", "missing-fence"));
  }
}

TEST(BrokenPipelines, StoreThatIsStillReadingAtTheEnd) {
  EXPECT_THAT(fault_of("tw_bulk_wait_read<0>();", "", FaultKind::CopyInFlight),
              HasSubstr("returns while this bulk store still reads shared memory"));
  EXPECT_THAT(fault_of("tw_bulk_wait_read<0>();", "Cs[0] = 1;", FaultKind::CopyInFlight),
              HasSubstr("writes Cs[0], which the bulk store at line 58 still reads"));
}

TEST(BrokenPipelines, MBarriersThatCopiesNeedNotSee) {
  EXPECT_THAT(
      fault_of("tw_mbarrier_fence_init();", "", FaultKind::BadBarrier),
      HasSubstr("which line 14 made an mbarrier with no tw_mbarrier_fence_init() behind it"));
}

TEST(BrokenPipelines, CopiesThatNobodyWaitsFor) {
  EXPECT_THAT(fault_of("float d[4][4]", "return; float d[4][4]", FaultKind::Deadlock),
              HasSubstr("waits at empty[0]"));
  auto run = run_pipeline(replaced(kTensorPipeline, "float d[4][4]", "return; float d[4][4]"), 64,
                          32, 192);
  EXPECT_THAT(
      test::report(run.result, FaultKind::CopyInFlight),
      HasSubstr("thread (128, 0, 0): asks for this copy to shared memory, for which no thread "
                "waits before the block ends"));
}

TEST(BrokenPipelines, WrongSwizzle) {
  for (const char* wrong : {"tw_swizzle<2, 3, 3>(ra", "tw_swizzle<3, 3, 4>(ra", "(ra"}) {
    auto run =
        run_pipeline(replaced(kTensorPipeline, "tw_swizzle<3, 3, 3>(ra", wrong), 64, 32, 128);
    ASSERT_TRUE(run.result.ok()) << run.result.fault->to_string();
    EXPECT_NE(run.c, run.want) << wrong;
  }
}

TEST(BrokenPipelines, BoxesThatLieBadly) {
  EXPECT_THAT(
      fault_of("As + s * 4096, A", "As + (s * 4096 + 32), A", FaultKind::Misaligned),
      HasSubstr("loads a TMA tile at As[32], 64 bytes into shared memory: no multiple of 128"));
  EXPECT_THAT(fault_of("As, 0, 12288)", "As, 0, 4032)", FaultKind::OutOfBounds),
              HasSubstr("copies to 4096 elements at As[0], but As has 4032 elements"));
}

// Runs "kernel(TW_TENSOR_MAP A, TW_OUT(T) C, TW_IN(T) P)" with this body in one block of 32 threads,
// whose P is A as a plain operand.
template <class T>
EmulatorResult run_map(const std::string& type, const TensorMapValues& map, std::vector<T>& a,
                       std::vector<T>& c, const std::string& body) {
  std::string text = "extern \"C\" __global__ void kernel(TW_TENSOR_MAP A, TW_OUT(" + type +
                     ") C, TW_IN(" + type + ") P) {\nconst int t = threadIdx.x;\n" + body + "\n}\n";
  EmulatedLaunch launch{
      "kernel", {1, 1, 1}, {32, 1, 1}, 16384, {Tensor{0, map}, LaunchBuffer{1}, LaunchBuffer{0}},
      0};
  auto bytes = [](const std::vector<T>& v) { return static_cast<int64_t>(v.size() * sizeof(T)); };
  return emulate(text, {launch}, {{"A", a.data(), bytes(a)}, {"C", c.data(), bytes(c), false}});
}

// Loads the box at (5, -2) of a matrix of 40 x 48 elements of 4 bytes and hands it out as it lies.
std::vector<int> box_as_it_lies(TensorSwizzle swizzle, int64_t columns) {
  std::vector<int> a(40 * 48), c(static_cast<size_t>(16 * columns));
  std::iota(a.begin(), a.end(), 1);
  const std::string body =
      "TW_SHARED(int, s, 0, 1024); TW_SHARED(unsigned long long, b, 8192, 1);\n"
      "if (t == 0) { tw_mbarrier_init(b, 1); tw_fence_async(); }\n__syncwarp();\n"
      "if (t == 0) { tw_mbarrier_arrive_expect_tx(b, " +
      std::to_string(64 * columns) +
      ");\n"
      "tw_tensor_load_2d(s, A, 5, -2, b); }\ntw_mbarrier_wait(b, 0);\n"
      "for (int i = t; i < " +
      std::to_string(16 * columns) + "; i += 32) C[i] = s[i];";
  EmulatorResult result =
      run_map("int", matrix_map(ElemType::i32, 40, 48, 16, columns, swizzle), a, c, body);
  EXPECT_TRUE(result.ok()) << result.fault->to_string();
  return c;
}

TEST(TensorCopies, LieAsTheSwizzleSays) {
  // As the manual draws the modes: which piece of 16 bytes lies where in each of the first rows.
  struct Mode {
    TensorSwizzle swizzle;
    int64_t columns;
    std::vector<std::vector<int>> pieces;
  };
  const Mode modes[] = {
      {TensorSwizzle::None, 8, {{0, 1}, {0, 1}, {0, 1}, {0, 1}, {0, 1}}},
      {TensorSwizzle::B32, 8, {{0, 1}, {0, 1}, {0, 1}, {0, 1}, {1, 0}, {1, 0}, {1, 0}, {1, 0}}},
      {TensorSwizzle::B64,
       16,
       {{0, 1, 2, 3},
        {0, 1, 2, 3},
        {1, 0, 3, 2},
        {1, 0, 3, 2},
        {2, 3, 0, 1},
        {2, 3, 0, 1},
        {3, 2, 1, 0},
        {3, 2, 1, 0}}},
      {TensorSwizzle::B128,
       32,
       {{0, 1, 2, 3, 4, 5, 6, 7},
        {1, 0, 3, 2, 5, 4, 7, 6},
        {2, 3, 0, 1, 6, 7, 4, 5},
        {3, 2, 1, 0, 7, 6, 5, 4}}},
  };
  for (const Mode& mode : modes) {
    std::vector<int> c = box_as_it_lies(mode.swizzle, mode.columns);
    for (size_t row = 0; row < mode.pieces.size(); ++row) {
      for (size_t piece = 0; piece < mode.pieces[row].size(); ++piece) {
        for (size_t e = 0; e < 4; ++e) {
          const size_t lies = row * static_cast<size_t>(mode.columns) + 4 * piece + e;
          const int column = 5 + 4 * mode.pieces[row][piece] + static_cast<int>(e);
          const int place = static_cast<int>(row) - 2;  // of a row of the operand
          EXPECT_EQ(c[lies], place < 0 ? 0 : place * 48 + column + 1)
              << static_cast<int>(mode.swizzle) << ", " << row << ", " << piece;
        }
      }
    }
  }
}

TEST(TensorCopies, GoThroughFiveDimensionsBothWays) {
  // A[2][3][4][5][16] of bytes; the box at its end reaches beyond it along three dimensions.
  TensorMapValues map;
  map.elem = ElemType::u8;
  map.rank = 5;
  map.dims = {16, 5, 4, 3, 2};
  map.strides = {0, 16, 80, 320, 960};
  map.box = {16, 2, 3, 2, 2};
  std::vector<unsigned char> a(1920), c(384);
  for (size_t i = 0; i < a.size(); ++i) a[i] = static_cast<unsigned char>(i * 7 % 251 + 1);
  std::vector<unsigned char> before = a;
  const std::string body = R"(
TW_SHARED(unsigned char, s, 0, 384);
TW_SHARED(unsigned long long, b, 8192, 1);
if (t == 0) { tw_mbarrier_init(b, 1); tw_mbarrier_fence_init(); }
__syncwarp();
if (t == 0) {
  tw_tensor_load_5d(s, A, 0, 4, 2, 2, 1, b);
  tw_mbarrier_arrive_expect_tx(b, 384);
}
tw_mbarrier_wait(b, 0);
for (int i = t; i < 384; i += 32) { C[i] = s[i]; s[i] = 255; }
tw_fence_async();
__syncwarp();
if (t == 0) {
  tw_tensor_store_5d(A, 0, 4, 2, 2, 1, s);
  tw_bulk_commit();
  tw_bulk_wait<0>();
}
)";
  EmulatorResult result = run_map("unsigned char", map, a, c, body);
  ASSERT_TRUE(result.ok()) << result.fault->to_string();
  size_t at = 0;
  for (size_t i4 = 1; i4 < 3; ++i4) {
    for (size_t i3 = 2; i3 < 4; ++i3) {
      for (size_t i2 = 2; i2 < 5; ++i2) {
        for (size_t i1 = 4; i1 < 6; ++i1) {
          for (size_t i0 = 0; i0 < 16; ++i0, ++at) {
            const bool inside = i4 < 2 && i3 < 3 && i2 < 4 && i1 < 5;
            const size_t of = i0 + 16 * i1 + 80 * i2 + 320 * i3 + 960 * i4;
            EXPECT_EQ(c[at], inside ? before[of] : 0) << at;
            if (inside) before[of] = 255;
          }
        }
      }
    }
  }
  EXPECT_EQ(a, before);
}

TEST(TensorCopies, AreThereForThoseWhoWaited) {
  // Lane 0 copies, lane 1 waits, and lane 2 reads what it has been told of by __syncwarp alone.
  const std::string body = R"(
TW_SHARED(int, s, 0, 256);
TW_SHARED(unsigned long long, b, 8192, 1);
if (t == 0) { tw_mbarrier_init(b, 1); tw_mbarrier_fence_init(); }
__syncwarp();
if (t == 0) { tw_mbarrier_arrive_expect_tx(b, 1024); tw_tensor_load_2d(s, A, 0, 0, b); }
if (t == 1) tw_mbarrier_wait(b, 0);
__syncwarp();  // told
if (t == 2) C[0] = s[0];
)";
  std::vector<int> a(256, 5), c(256);
  TensorMapValues map = matrix_map(ElemType::i32, 16, 16, 16, 16);
  EmulatorResult right = run_map("int", map, a, c, body);
  ASSERT_TRUE(right.ok()) << right.fault->to_string();
  EXPECT_EQ(c[0], 5);
  EXPECT_THAT(
      test::report(run_map("int", map, a, c, replaced(body, "__syncwarp();  // told", "")),
                   FaultKind::Race),
      HasSubstr("thread (2, 0, 0): reads s[0], which another thread writes at line 8 with no "
                "barrier between"));
}

TEST(BulkCopies, MoveRunsOfBytes) {
  std::vector<int> a(256), c(256);
  std::iota(a.begin(), a.end(), 1);
  const std::string body = R"(
TW_SHARED(int, s, 0, 256);
TW_SHARED(unsigned long long, b, 8192, 1);
if (t == 0) {
  tw_mbarrier_init(b, 1);
  tw_mbarrier_fence_init();
  tw_mbarrier_arrive_expect_tx(b, 1024);
  tw_bulk_load(s, P, 512, b);
  tw_bulk_load(s + 128, P + 128, 512, b);
  tw_mbarrier_wait(b, 0);
  tw_bulk_store(C + 64, s, 768);
  tw_bulk_commit();
  tw_bulk_store(C, s + 192, 256);
  tw_bulk_commit();
  tw_bulk_wait<0>();
}
)";
  TensorMapValues map = matrix_map(ElemType::i32, 16, 16, 16, 16);
  EmulatorResult result = run_map("int", map, a, c, body);
  ASSERT_TRUE(result.ok()) << result.fault->to_string();
  for (int i = 0; i < 256; ++i) EXPECT_EQ(c[static_cast<size_t>(i)], (i + 192) % 256 + 1);
  auto wrong = [&](const std::string& from, const std::string& to, FaultKind kind) {
    return test::report(run_map("int", map, a, c, replaced(body, from, to)), kind);
  };
  EXPECT_THAT(wrong("P, 512", "P, 520", FaultKind::BadCopy),
              HasSubstr("copies 520 bytes to s; bulk copies move multiples of 16"));
  EXPECT_THAT(
      wrong("s + 128, P + 128", "s + 128, P + 127", FaultKind::Misaligned),
      HasSubstr("copies 512 bytes by A[127], 508 bytes into the memory: no multiple of 16"));
  EXPECT_THAT(wrong("tw_bulk_wait<0>();", "tw_bulk_wait<1>();", FaultKind::CopyInFlight),
              HasSubstr("returns while this bulk store still reads shared memory"));
  EXPECT_THAT(
      wrong("tw_bulk_wait<0>();", "tw_bulk_wait_read<0>(); C[0] = 1;", FaultKind::CopyInFlight),
      HasSubstr("writes C[0], which the asynchronous copy at line 15 writes"));
  EXPECT_THAT(wrong("tw_bulk_load(s + 128, P + 128, 512, b);", "tw_bulk_load(s + 128, s, 512, b);",
                    FaultKind::BadCopy),
              HasSubstr("bulk copies go between global and shared memory"));
}

TEST(TensorMaps, ThatNoDeviceTakesAreRefused) {
  auto refused = [](auto change) {
    TensorMapValues map = matrix_map(ElemType::f16, 64, 64, 64, 64, TensorSwizzle::B128);
    change(map);
    std::vector<uint16_t> a(4096), c(64);
    EmulatorResult result = run_map("unsigned short", map, a, c, "C[t] = 0;");
    return test::report(result, FaultKind::BadLaunch);
  };
  EXPECT_EQ(refused([](TensorMapValues&) {}), "no fault");
  EXPECT_THAT(
      refused([](TensorMapValues& m) { m.box[1] = 257; }),
      HasSubstr("gets a tensor map as argument 0 that no device takes: its box has 257 elements "
                "along dimension 1; there may be 1 to 256"));
  EXPECT_THAT(refused([](TensorMapValues& m) { m.box[0] = 128; }),
              HasSubstr("a row of its box has 256 bytes, a span of its swizzle 128"));
  EXPECT_THAT(refused([](TensorMapValues& m) { m.swizzle = TensorSwizzle::None, m.box[0] = 20; }),
              HasSubstr("a row of its box has 40 bytes; it has a multiple of 16"));
  EXPECT_THAT(
      refused([](TensorMapValues& m) { m.strides[1] = 120; }),
      HasSubstr("dimension 1 has a stride of 120 bytes; it is a multiple of 16 below 2^40"));
  EXPECT_THAT(refused([](TensorMapValues& m) { m.rank = 6; }),
              HasSubstr("it has 6 dimensions; there may be 1 to 5"));
  EXPECT_THAT(refused([](TensorMapValues& m) { m.dims[0] = 0; }),
              HasSubstr("dimension 0 has 0 elements"));
  EXPECT_THAT(refused([](TensorMapValues& m) { m.elem = ElemType::u4; }),
              HasSubstr("its elements are u4; those of a part of a byte are described as u8"));
  EXPECT_THAT(tensor_map_problem(matrix_map(ElemType::f16, 64, 64, 64, 64), 0x1008),
              HasSubstr("its operand lies at 0x1008; that is to be a multiple of 16"));
}

TEST(TensorMaps, AreArgumentsOfTheirOwnKind) {
  float x[64] = {};
  EmulatedLaunch launch{"pipeline", {1, 1, 1}, {160, 1, 1}, test::kPipelineShared, {}, 0};
  launch.arguments = {LaunchBuffer{0}, LaunchBuffer{0}, LaunchBuffer{0}, int64_t{1}};
  EXPECT_THAT(
      test::report(emulate(kTensorPipeline, {launch}, {{"A", x, 256}}), FaultKind::BadLaunch),
      HasSubstr("takes a tensor map as argument 0, got a buffer"));
}

}  // namespace
}  // namespace tilewright
