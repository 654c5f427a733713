#include "runtime/check/reference.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "runtime/tensor/element.h"

namespace tilewright {
namespace {

using testing::Contains;
using testing::HasSubstr;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

TEST(SampleIndices, HoldCornersAndEndsAndSpread) {
  std::vector<int64_t> shape = {30, 40, 50};
  std::vector<int64_t> indices = sample_indices(shape, 96, 7);
  EXPECT_TRUE(std::is_sorted(indices.begin(), indices.end()));
  EXPECT_GE(indices.size(), 80u);
  EXPECT_LE(indices.size(), 96u);
  for (int64_t a : {0, 29}) {
    for (int64_t b : {0, 39}) {
      for (int64_t c : {0, 49}) EXPECT_THAT(indices, Contains((a * 40 + b) * 50 + c));
    }
  }
  EXPECT_THAT(indices, Contains(59998));
  for (int64_t tenth = 0; tenth < 10; ++tenth) {
    auto in_tenth = [&](int64_t i) { return i / 6000 == tenth; };
    EXPECT_GE(std::count_if(indices.begin(), indices.end(), in_tenth), 4);
  }
}

TEST(SampleIndices, AreAllOfASmallArrayAndDependOnTheSeed) {
  EXPECT_EQ(sample_indices({3, 2}, 96, 1), (std::vector<int64_t>{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(sample_indices({}, 96, 1), (std::vector<int64_t>{0}));
  EXPECT_EQ(sample_indices({1000}, 50, 1), sample_indices({1000}, 50, 1));
  EXPECT_NE(sample_indices({1000}, 50, 1), sample_indices({1000}, 50, 2));
}

TEST(SampleIndices, ManyDimensionsKeepTheLastCorner) {
  std::vector<int64_t> indices = sample_indices({2, 3, 2, 3, 2, 3, 2}, 64, 1);
  EXPECT_THAT(indices, Contains(431));
  EXPECT_LE(indices.size(), 64u);
}

CheckResult compare_one(ElemType elem, double got, Oracle::Value want) {
  HostArray output("C", elem, {1});
  output.set(0, got);
  return compare(output, make_reference(elem, {1}, 1, 1, [&](int64_t) { return want; }));
}

// An error that overflowed, times zero: any number is near enough, but none is not.
TEST(Compare, TakesAnyNumberWhereNoErrorIsKnown) {
  const Oracle::Value want{1, 1, 1, kNaN};
  EXPECT_EQ(allowed_error(ElemType::f32, want), kInf);
  EXPECT_EQ(compare_one(ElemType::f32, 5, want).verdict, Verdict::Ok);
  EXPECT_EQ(compare_one(ElemType::f32, kNaN, want).verdict, Verdict::Wrong);
}

TEST(Compare, TakesRoundingAndRefusesMore) {
  Oracle::Value want{1.0, 100.0, 100, 1e-5};
  double bound = allowed_error(ElemType::f32, want);
  EXPECT_NEAR(bound, 2e-5, 1e-6);
  EXPECT_EQ(compare_one(ElemType::f32, 1 + bound / 2, want).verdict, Verdict::Ok);
  CheckResult off = compare_one(ElemType::f32, 1 + bound * 2, want);
  EXPECT_EQ(off.verdict, Verdict::Wrong);
  EXPECT_EQ(off.index, 0);
  EXPECT_THAT(off.message, HasSubstr("C[0] is 1.0"));
  EXPECT_THAT(off.message, HasSubstr("should be 1 within"));
}

// C[0] = sum of A[k] * B[k], as the oracle sees it.
Workload dot(int64_t n) {
  Buffer a = make_buffer("A", ElemType::f32, {Expr(n)});
  Buffer b = make_buffer("B", ElemType::f32, {Expr(n)});
  Buffer c = make_buffer("C", ElemType::f32, {Expr(1)});
  Var i("i"), k("k");
  Workload w;
  w.op = "dot";
  w.inputs = {{a, ParamRole::Input}, {b, ParamRole::Input}};
  w.stages = {{c, {i}, {{k, Expr(n)}}, Reducer::Sum, load(a, {k}) * load(b, {k})}};
  return w;
}

// Sums of f32 in the order of the index and in eight lanes, against f64: the bound is kept, and a
// term that is left out breaks it.
TEST(Compare, BoundFitsRealSums) {
  for (int64_t n : {1, 10, 100, 1000, 10000}) {
    SeededValues a(1, "A", ElemType::f32), b(1, "B", ElemType::f32);
    float in_order = 0, lanes[8] = {};
    double magnitude = 0;
    for (int64_t i = 0; i < n; ++i) {
      float term = static_cast<float>(a.at(i)) * static_cast<float>(b.at(i));
      in_order += term;
      lanes[i % 8] += term;
      magnitude += std::abs(term);
    }
    float by_lanes = 0;
    for (float lane : lanes) by_lanes += lane;
    Workload w = dot(n);
    Oracle oracle(
        w, {{"A", [&](int64_t i) { return a.at(i); }}, {"B", [&](int64_t i) { return b.at(i); }}});
    Oracle::Value want = oracle.at(0);
    double bound = allowed_error(ElemType::f32, want);
    EXPECT_LE(std::abs(in_order - want.value), bound) << n;
    EXPECT_LE(std::abs(by_lanes - want.value), bound) << n;
    EXPECT_LT(bound, magnitude / static_cast<double>(n)) << n;
  }
}

TEST(Compare, WithoutRoundingTheValueMustBeEqual) {
  EXPECT_EQ(compare_one(ElemType::i32, 12345, {12345, 1e6, 1000, 0}).verdict, Verdict::Ok);
  EXPECT_EQ(compare_one(ElemType::i32, 12346, {12345, 1e6, 1000, 0}).verdict, Verdict::Wrong);
  EXPECT_EQ(compare_one(ElemType::f32, 0.5, {0.5, 1, 1, 0}).verdict, Verdict::Ok);
  EXPECT_EQ(compare_one(ElemType::f32, 0.5 + 0x1p-24, {0.5, 1, 1, 0}).verdict, Verdict::Wrong);
}

// The oracle's value is that of f64; the output's type may not hold it.
TEST(Compare, WantedValueIsRoundedToTheOutputsType) {
  EXPECT_EQ(compare_one(ElemType::bf16, 1.0, {1.001, 1, 1, 0}).verdict, Verdict::Ok);
  EXPECT_EQ(compare_one(ElemType::bf16, 1.0078125, {1.001, 1, 1, 0}).verdict, Verdict::Wrong);
}

TEST(Compare, IntegersMadeFromFloatsMayRoundTheOtherWay) {
  EXPECT_EQ(compare_one(ElemType::i8, 6, {5, 5, 1, 1e-3}).verdict, Verdict::Ok);
  EXPECT_EQ(compare_one(ElemType::i8, 7, {5, 5, 1, 1e-3}).verdict, Verdict::Wrong);
}

TEST(Compare, NotANumberMustBeOne) {
  EXPECT_EQ(compare_one(ElemType::f32, kNaN, {kNaN, 1, 1, 1e-6}).verdict, Verdict::Ok);
  EXPECT_EQ(compare_one(ElemType::f32, 1, {kNaN, 1, 1, 1e-6}).verdict, Verdict::Wrong);
  EXPECT_EQ(compare_one(ElemType::f32, kNaN, {1, 1, 1, 1e-6}).verdict, Verdict::Wrong);
}

TEST(Compare, InfinityOnlyWhereTheTypeOverflows) {
  EXPECT_EQ(compare_one(ElemType::f16, kInf, {70000, 70000, 1, 1e-3}).verdict, Verdict::Ok);
  EXPECT_EQ(compare_one(ElemType::f16, -kInf, {70000, 70000, 1, 1e-3}).verdict, Verdict::Wrong);
  EXPECT_EQ(compare_one(ElemType::f16, kInf, {60000, 60000, 1, 1e-3}).verdict, Verdict::Wrong);
  EXPECT_EQ(compare_one(ElemType::f32, kInf, {kInf, kInf, 1, 1e-3}).verdict, Verdict::Ok);
  EXPECT_EQ(compare_one(ElemType::f32, -kInf, {kInf, kInf, 1, 1e-3}).verdict, Verdict::Wrong);
}

TEST(Compare, ReportsTheFirstWrongElementAndTheLargestError) {
  HostArray output("C", ElemType::f32, {2, 3});
  for (int64_t i = 0; i < 6; ++i) output.set(i, 1);
  output.set(4, 1.5);
  output.set(5, 3);
  Reference reference = make_reference(ElemType::f32, {2, 3}, 96, 1, [](int64_t) {
    return Oracle::Value{1, 1, 1, 1e-6};
  });
  CheckResult result = compare(output, reference);
  EXPECT_EQ(result.index, 4);
  EXPECT_THAT(result.message, HasSubstr("C[1, 1] is 1.5"));
  EXPECT_EQ(result.max_rel_error, 2);
  EXPECT_EQ(result.compared, 6);
}

}  // namespace
}  // namespace tilewright
