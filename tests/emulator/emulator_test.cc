// Right kernels give right results, whatever the order of their threads.
#include "emulator/emulator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "runtime/error.h"
#include "runtime/tensor/element.h"
#include "tests/kernels/cuda_kernels.h"
#include "tests/runtime/support.h"

namespace tilewright {
namespace {

using test::numbers;
using test::replaced;
using testing::HasSubstr;
using LaunchBuffer = EmulatedLaunch::Buffer;

std::string fault_text(const EmulatorResult& result) {
  return result.fault ? result.fault->to_string() : "";
}

TEST(Emulator, AddsVectorsAndStopsAtTheirEnd) {
  std::vector<float> a = numbers(150, 1), b = numbers(150, 2), c(150, -1);
  EmulatedLaunch launch{"add", {3, 1, 1}, {64, 1, 1}, 0, {}};
  launch.arguments = {LaunchBuffer{0}, LaunchBuffer{1}, LaunchBuffer{2}, int64_t{150}};
  EmulatorResult result =
      emulate(test::kAdd, {launch},
              {{"A", a.data(), 600}, {"B", b.data(), 600}, {"C", c.data(), 600, false}});
  EXPECT_EQ(fault_text(result), "");
  for (size_t i = 0; i < 150; ++i) EXPECT_EQ(c[i], a[i] + b[i]) << i;
  // Five warps of 32 lanes, the last of 22: 6 warps start, one of them has nothing to do.
  EXPECT_EQ(result.counters.global_loads, 10);
  EXPECT_EQ(result.counters.global_stores, 5);
  EXPECT_EQ(result.counters.store_bytes, 600);
  EXPECT_EQ(result.counters.store_sectors, 4 * 4 + 3);
}

TEST(Emulator, MultipliesThroughSharedMemoryInAnyOrderOfThreads) {
  for (const char* kernel : {test::kTiled, test::kPipelined}) {
    for (uint64_t seed : {0, 1, 2}) {
      test::MatmulRun run = test::run_matmul(kernel, seed);
      EXPECT_EQ(fault_text(run.result), "") << seed;
      EXPECT_EQ(run.c, run.want) << seed;
      EXPECT_EQ(run.result.counters.block_barriers, 4 * 8) << seed;
    }
  }
}

TEST(Emulator, CountsAreThoseOfWarpsWhateverTheOrder) {
  EmulatorCounters first = test::run_matmul(test::kPipelined).result.counters;
  EmulatorCounters shuffled = test::run_matmul(test::kPipelined, 7).result.counters;
  // 4 blocks of 8 warps copy 4 tiles of two operands.
  EXPECT_EQ(first.async_copies, 4 * 8 * 4 * 2);
  EXPECT_EQ(shuffled.async_copies, first.async_copies);
  EXPECT_EQ(shuffled.shared_passes, first.shared_passes);
  EXPECT_EQ(shuffled.load_sectors, first.load_sectors);
}

TEST(Emulator, SumsByShuffles) {
  std::vector<float> a = numbers(512, 3), c(2, -1);
  EmulatedLaunch launch{"sum", {2, 1, 1}, {64, 1, 1}, 8, {LaunchBuffer{0}, LaunchBuffer{1}}};
  EmulatorResult result =
      emulate(test::kSum, {launch}, {{"A", a.data(), 2048}, {"C", c.data(), 8, false}});
  EXPECT_EQ(fault_text(result), "");
  for (size_t block = 0; block < 2; ++block) {
    float want = 0;
    for (size_t i = 0; i < 256; ++i) want += a[block * 256 + i];
    EXPECT_EQ(c[block], want);
  }
  EXPECT_EQ(result.counters.shuffles, 2 * 2 * 5);
}

TEST(Emulator, LaterLaunchesReadWhatEarlierOnesWrote) {
  std::vector<float> a = numbers(64, 1), t(64), c(64);
  EmulatedLaunch one{"add", {1, 1, 1}, {64, 1, 1}, 0, {}};
  one.arguments = {LaunchBuffer{0}, LaunchBuffer{0}, LaunchBuffer{1}, int64_t{64}};
  EmulatedLaunch two = one;
  two.arguments = {LaunchBuffer{1}, LaunchBuffer{1}, LaunchBuffer{2}, int64_t{64}};
  EmulatorResult result =
      emulate(test::kAdd, {one, two},
              {{"A", a.data(), 256}, {"T", t.data(), 256, false}, {"C", c.data(), 256, false}});
  EXPECT_EQ(fault_text(result), "");
  for (size_t i = 0; i < 64; ++i) EXPECT_EQ(c[i], 4 * a[i]) << i;
}

// The result of mma_kernel, and the expected product.
struct MmaRun {
  std::vector<double> c, want;
  EmulatorResult result;
};

MmaRun run_mma(const Instruction& row, const std::string& text) {
  const int k = 2 * 64 * 8 / row.operand_bits();
  const ElemType ta = row.operand, tb = row.b_operand();
  auto size = [&](int count, ElemType elem) {
    return static_cast<size_t>(count * bits_of(elem) / 8);
  };
  std::vector<float> a = numbers(static_cast<size_t>(16 * k), 1);
  std::vector<float> b = numbers(static_cast<size_t>(8 * k), 2);
  auto fit = [](std::vector<float>& values, ElemType type) {
    for (float& v : values) {
      if (type == ElemType::u8) v += 200;
      if (type == ElemType::u4) v += 6;
      if (type == ElemType::u1) v = v < 0 ? 1 : 0;
    }
  };
  fit(a, ta);
  fit(b, tb);
  std::vector<char> stored_a(size(16 * k, ta)), stored_b(size(8 * k, tb));
  std::vector<char> stored_c(size(16 * 8, row.acc));
  for (int i = 0; i < 16 * k; ++i) store_element(ta, stored_a.data(), i, a[i]);
  for (int i = 0; i < 8 * k; ++i) store_element(tb, stored_b.data(), i, b[i]);
  EmulatedLaunch launch{"mma", {1, 1, 1}, {32, 1, 1}, 1536, {}};
  launch.arguments = {LaunchBuffer{0}, LaunchBuffer{1}, LaunchBuffer{2},
                      int64_t{row.operand_bits() < 8 ? 128 : k}};
  MmaRun run;
  run.result = emulate(text, {launch},
                       {{"A", stored_a.data(), static_cast<int64_t>(stored_a.size())},
                        {"B", stored_b.data(), static_cast<int64_t>(stored_b.size())},
                        {"C", stored_c.data(), static_cast<int64_t>(stored_c.size()), false}});
  for (int i = 0; i < 16; ++i) {
    for (int j = 0; j < 8; ++j) {
      double sum = 0;
      for (int l = 0; l < k; ++l) {
        double x = load_element(ta, stored_a.data(), i * k + l);
        double y = load_element(tb, stored_b.data(), j * k + l);
        sum += row.computes == kCountsXor ? std::abs(x - y) : x * y;
      }
      run.want.push_back(sum);
      run.c.push_back(load_element(row.acc, stored_c.data(), i * 8 + j));
    }
  }
  return run;
}

class EveryMma : public testing::TestWithParam<const char*> {};

TEST_P(EveryMma, MultipliesWhatLdmatrixLoaded) {
  const Instruction* row = find_instruction(GetParam());
  ASSERT_NE(row, nullptr);
  MmaRun run = run_mma(*row, test::mma_kernel(*row));
  EXPECT_EQ(fault_text(run.result), "");
  EXPECT_EQ(run.c, run.want);
  EXPECT_EQ(run.result.counters.mma, 4);
  EXPECT_EQ(run.result.counters.ldmatrix, 8);
  EXPECT_EQ(run.result.counters.bank_conflicts(), 0);
}

TEST_P(EveryMma, NoticesFragmentsInTheWrongPlace) {
  const Instruction* row = find_instruction(GetParam());
  ASSERT_NE(row, nullptr);
  std::string text = test::mma_kernel(*row);
  for (auto [right, wrong] : {std::pair{"int row = lane % 16, chunk = 2 * s + lane / 16;",
                                        "int row = lane / 2, chunk = 2 * s + lane % 2;"},
                              std::pair{"const int row = lane / 4, column = lane % 4 * 2;",
                                        "const int row = lane % 8, column = lane / 8 * 2;"}}) {
    MmaRun run = run_mma(*row, replaced(text, right, wrong));
    EXPECT_EQ(fault_text(run.result), "");
    EXPECT_NE(run.c, run.want) << wrong;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Rows, EveryMma,
    testing::Values("m16n8k16_f32_f16", "m16n8k16_f32_bf16", "m16n8k8_f32_tf32", "m16n8k32_s32_s8",
                    "m16n8k32_s32_u8", "m16n8k32_f32_e4m3", "m16n8k32_f32_e5m2", "m16n8k16_f16_f16",
                    "m16n8k32_s32_u8_s8", "m16n8k32_s32_s8_u8", "m16n8k32_f32_e4m3_e5m2",
                    "m16n8k32_f32_e5m2_e4m3", "m16n8k64_s32_s4", "m16n8k64_s32_u4",
                    "m16n8k64_s32_u4_s4", "m16n8k64_s32_s4_u4", "m16n8k256_s32_b1_xor",
                    "m16n8k256_s32_b1_and"),
    [](const auto& info) { return std::string(info.param); });

TEST(Emulator, NoticesASwizzleThatLoadsDoNotShare) {
  const Instruction& row = *find_instruction("m16n8k16_f32_f16");
  std::string text = test::mma_kernel(row);
  MmaRun run = run_mma(
      row, replaced(text, "tw_ldmatrix_x4(a, As + (row * 4 + (chunk ^ (row / 2 % 4))) * kChunk);",
                    "tw_ldmatrix_x4(a, As + (row * 4 + chunk) * kChunk);"));
  EXPECT_EQ(fault_text(run.result), "");
  EXPECT_NE(run.c, run.want);
}

TEST(Emulator, CountsTheBankConflictsOfRowsWithoutASwizzle) {
  const Instruction& row = *find_instruction("m16n8k16_f32_f16");
  std::string text = test::mma_kernel(row);
  for (size_t at; (at = text.find("(chunk ^ (row / 2 % 4))")) != std::string::npos;) {
    text.replace(at, 23, "chunk");
  }
  MmaRun run = run_mma(row, text);
  EXPECT_EQ(run.c, run.want);
  // Eight rows of 64 bytes: each bank four times in a matrix of ldmatrix, of which there are 24.
  EXPECT_EQ(run.result.counters.bank_conflicts(), 24 * 3);
}

TEST(Emulator, KernelsOfOneNameDoNotMeet) {
  float x[2] = {1, 2};
  EmulatedLaunch launch{"one", {1, 1, 1}, {1, 1, 1}, 0, {LaunchBuffer{0}}};
  const std::string one = "extern \"C\" __global__ void one(TW_INOUT(float) A) { A[0] = 5; }";
  const std::string two =
      "extern \"C\" __global__ void one(TW_INOUT(float) A, int i) { A[i] = 6; }";
  EXPECT_EQ(fault_text(emulate(one, {launch}, {{"A", x, 8}})), "");
  launch.arguments = {LaunchBuffer{0}, int64_t{1}};
  EXPECT_EQ(fault_text(emulate(two, {launch}, {{"A", x, 8}})), "");
  EXPECT_THAT(x, testing::ElementsAre(5, 6));
}

TEST(Emulator, TextThatDoesNotCompileIsQuotedWithItsKernelAndLine) {
  EmulatedLaunch launch{"add", {1, 1, 1}, {64, 1, 1}, 0, {}};
  std::string text = replaced(test::kAdd, "C[i] = A[i] + B[i];", "C[i] = A[i] + X[i];");
  std::string message = test::error_of<CompileError>([&] { emulate(text, {launch}, {}); });
  EXPECT_THAT(message, HasSubstr("add.cu:6:"));
  EXPECT_THAT(message, testing::ContainsRegex("X.* was not declared"));
}

}  // namespace
}  // namespace tilewright
