// Weighted sums of an output's elements against its elements, one by one.
#include <gmock/gmock.h>

#include <cmath>

#include "tests/ir/ops/ops_harness.h"

namespace tilewright {
namespace {

constexpr uint64_t kSeed = 11;

// Holds each sum to those of the elements, and its error to theirs.
void expect_sums(const std::string& spec, int64_t width,
                 const std::function<void(OpRun&)>& change = {}) {
  SCOPED_TRACE(spec);
  OpRun run(spec);
  if (change) change(run);
  Oracle oracle = run.oracle();
  ASSERT_TRUE(oracle.sums_cost(width));
  const Oracle::Sums sums = oracle.sums(width, kSeed);
  ASSERT_EQ(sums.weights.size(), static_cast<size_t>(sums.extent));
  const auto per_row = static_cast<size_t>(sums.per_row());
  for (size_t number = 0; number < sums.values.size(); ++number) {
    const auto row = static_cast<int64_t>(number / per_row);
    const int64_t begin = row / sums.stride * sums.extent * sums.stride + row % sums.stride;
    double sum = 0, squares = 0, magnitude = 1, rounding = 0;
    const auto first = static_cast<int64_t>(number % per_row) * width;
    for (int64_t j = first; j < std::min(sums.extent, first + width); ++j) {
      const int w = sums.weights[static_cast<size_t>(j)];
      if (w == 0) continue;
      const Oracle::Value element = oracle.at(begin + j * sums.stride);
      sum += w * element.value;
      squares += w * w * element.error * element.error;
      magnitude += std::abs(w) * element.magnitude;
      rounding += std::abs(w) * element.error;
    }
    if (!std::isfinite(sum)) continue;
    ASSERT_NEAR(sums.values[number], sum, std::max(1e-12 * magnitude, rounding)) << number;
    // Never much less than the root of the squares, nor more than twice as much.
    const double error = static_cast<double>(sums.errors[number]);
    ASSERT_LE(error, 2 * std::sqrt(squares) + 1e-30) << number;
    if (spec.find("bf16") == std::string::npos) {
      ASSERT_GE(error, 0.9 * std::sqrt(squares) - 1e-30) << number;
    }
  }
}

TEST(OracleSums, AreThoseOfTheElements) {
  for (int64_t width : {2, 16, 128}) {
    expect_sums("matmul:m=5,n=75,k=40", width);
    expect_sums("matmul:m=5,n=75,k=40,trans_b=true", width);
    expect_sums("matmul:m=5,n=75,k=40,dtype=bf16", width);
    expect_sums("matmul:m=5,n=75,k=40,dtype=i8", width);
    expect_sums("matmul:m=6,n=40,k=64,w.dtype=u4,w.group=16,w.zero=u4", width);
    expect_sums("conv2d:n=1,h=6,w=6,ci=3,co=20,kernel=3,pad=1", width);
  }
}

TEST(OracleSums, IntegersAreExact) {
  OpRun run("matmul:m=3,n=64,k=100,dtype=i8");
  const Oracle::Sums sums = run.oracle().sums(64, kSeed);
  for (float error : sums.errors) EXPECT_EQ(error, 0);
}

TEST(OracleSums, WeightsFollowTheSeed) {
  OpRun run("matmul:m=2,n=64,k=8");
  const std::vector<int> weights = run.oracle().sums(8, 1).weights;
  EXPECT_EQ(run.oracle().sums(8, 1).weights, weights);
  EXPECT_NE(run.oracle().sums(8, 2).weights, weights);
  for (int w : weights) {
    EXPECT_GE(std::abs(w), 4);
    EXPECT_LE(std::abs(w), 7);
  }
}

// One column that is not a number leaves the sums of its neighbours alone.
TEST(OracleSums, ColumnsThatAreNoNumbersLoseTheirWeight) {
  auto spoil = [](OpRun& run) { run.in("B")(3, 9) = std::nan(""); };
  expect_sums("matmul:m=5,n=32,k=12", 16, spoil);
  OpRun run("matmul:m=5,n=32,k=12");
  spoil(run);
  const Oracle::Sums sums = run.oracle().sums(16, kSeed);
  EXPECT_EQ(std::count(sums.weights.begin(), sums.weights.end(), 0), 1);
  EXPECT_EQ(sums.weights[9], 0);
  for (double value : sums.values) EXPECT_TRUE(std::isfinite(value));
}

TEST(OracleSums, OtherOutputsHaveNone) {
  for (const char* spec : {"softmax:m=4,n=64", "matmul:m=4,n=64,k=8,epilogue=[relu]",
                           "matmul:batch=3,m=4,n=64,k=8", "matmul:m=4,n=64,k=8,dtype=i8,out=f32"}) {
    const std::optional<Oracle::WholeCost> cost = OpRun(spec).oracle().sums_cost(8);
    EXPECT_FALSE(cost) << spec;
  }
}

TEST(OracleSums, CostLessThanTheWholeTheWiderTheyAre) {
  OpRun run("matmul:m=512,n=512,k=64");
  Oracle oracle = run.oracle();
  EXPECT_LT(oracle.sums_cost(8)->seconds, oracle.whole_cost().seconds);
  EXPECT_LT(oracle.sums_cost(64)->seconds, oracle.sums_cost(8)->seconds);
}

}  // namespace
}  // namespace tilewright
