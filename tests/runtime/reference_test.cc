#include "runtime/reference.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "runtime/element.h"

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

Tolerance f32_tolerance() { return {ElemType::f32, 0x1p-24, 0}; }

CheckResult compare_one(ElemType elem, const Tolerance& tolerance, double got, Oracle::Value want) {
  HostArray output("C", elem, {1});
  output.set(0, got);
  return compare(output, {{0}, {want}, tolerance});
}

TEST(Compare, TakesRoundingAndRefusesMore) {
  Oracle::Value want{1.0, 100.0, 100};
  double bound = f32_tolerance().bound(want);
  EXPECT_GT(bound, 0);
  EXPECT_LT(bound, 1e-3);
  EXPECT_EQ(compare_one(ElemType::f32, f32_tolerance(), 1 + bound / 2, want).verdict, Verdict::Ok);
  CheckResult off = compare_one(ElemType::f32, f32_tolerance(), 1 + bound * 2, want);
  EXPECT_EQ(off.verdict, Verdict::Wrong);
  EXPECT_EQ(off.index, 0);
  EXPECT_THAT(off.message, HasSubstr("C[0] is 1.0"));
  EXPECT_THAT(off.message, HasSubstr("should be 1 within"));
}

// Sums of f32 in the order of the index and in eight lanes, against f64: the bound is kept, and a
// term that is left out breaks it.
TEST(Compare, BoundFitsRealSums) {
  for (int64_t n : {1, 10, 100, 1000, 10000}) {
    SeededValues a(1, "A", ElemType::f32), b(2, "B", ElemType::f32);
    double exact = 0, magnitude = 0;
    float in_order = 0, lanes[8] = {};
    for (int64_t i = 0; i < n; ++i) {
      double term = a.at(i) * b.at(i);
      exact += term;
      magnitude += std::abs(term);
      in_order += static_cast<float>(a.at(i)) * static_cast<float>(b.at(i));
      lanes[i % 8] += static_cast<float>(a.at(i)) * static_cast<float>(b.at(i));
    }
    float by_lanes = 0;
    for (float lane : lanes) by_lanes += lane;
    double bound = f32_tolerance().bound({exact, magnitude, n});
    EXPECT_LE(std::abs(in_order - exact), bound) << n;
    EXPECT_LE(std::abs(by_lanes - exact), bound) << n;
    EXPECT_LT(bound, magnitude / static_cast<double>(n)) << n;
  }
}

TEST(Compare, IntegersAreExact) {
  Tolerance exact{ElemType::i32, 0, 0};
  EXPECT_EQ(compare_one(ElemType::i32, exact, 12345, {12345, 1e6, 1000}).verdict, Verdict::Ok);
  EXPECT_EQ(compare_one(ElemType::i32, exact, 12346, {12345, 1e6, 1000}).verdict, Verdict::Wrong);
}

TEST(Compare, IntegersMadeFromFloatsMayRoundTheOtherWay) {
  Tolerance quantized{ElemType::i8, 0x1p-24, 0};
  EXPECT_EQ(compare_one(ElemType::i8, quantized, 6, {5, 5, 1}).verdict, Verdict::Ok);
  EXPECT_EQ(compare_one(ElemType::i8, quantized, 8, {5, 5, 1}).verdict, Verdict::Wrong);
}

TEST(Compare, NotANumberMustBeOne) {
  EXPECT_EQ(compare_one(ElemType::f32, f32_tolerance(), kNaN, {kNaN, 1, 1}).verdict, Verdict::Ok);
  EXPECT_EQ(compare_one(ElemType::f32, f32_tolerance(), 1, {kNaN, 1, 1}).verdict, Verdict::Wrong);
  EXPECT_EQ(compare_one(ElemType::f32, f32_tolerance(), kNaN, {1, 1, 1}).verdict, Verdict::Wrong);
}

TEST(Compare, InfinityOnlyWhereTheTypeOverflows) {
  Tolerance f16{ElemType::f16, 0x1p-24, 0};
  EXPECT_EQ(compare_one(ElemType::f16, f16, kInf, {70000, 70000, 1}).verdict, Verdict::Ok);
  EXPECT_EQ(compare_one(ElemType::f16, f16, -kInf, {70000, 70000, 1}).verdict, Verdict::Wrong);
  EXPECT_EQ(compare_one(ElemType::f16, f16, kInf, {60000, 60000, 1}).verdict, Verdict::Wrong);
  EXPECT_EQ(compare_one(ElemType::f32, f32_tolerance(), kInf, {kInf, kInf, 1}).verdict, Verdict::Ok);
  EXPECT_EQ(compare_one(ElemType::f32, f32_tolerance(), -kInf, {kInf, kInf, 1}).verdict,
            Verdict::Wrong);
}

TEST(Compare, ReportsTheFirstWrongElementAndTheLargestError) {
  HostArray output("C", ElemType::f32, {2, 3});
  for (int64_t i = 0; i < 6; ++i) output.set(i, 1);
  output.set(4, 1.5);
  output.set(5, 3);
  Reference reference = make_reference({2, 3}, f32_tolerance(), 96, 1, [](int64_t) {
    return Oracle::Value{1, 1, 1};
  });
  CheckResult result = compare(output, reference);
  EXPECT_EQ(result.index, 4);
  EXPECT_THAT(result.message, HasSubstr("C[1, 1] is 1.5"));
  EXPECT_EQ(result.max_rel_error, 2);
  EXPECT_EQ(result.compared, 6);
}

Stage sum_stage(const Buffer& a, const Buffer& c) {
  Var i("i"), k("k");
  return {c, {i}, {{k, Expr(8)}}, Reducer::Sum, load(a, {i, k})};
}

TEST(ToleranceOf, FollowsTheTypesOfTheArithmetic) {
  Workload w;
  Buffer a = make_buffer("A", ElemType::f32, {Expr(4), Expr(8)});
  Buffer c = make_buffer("C", ElemType::f32, {Expr(4)});
  w.inputs = {{a, ParamRole::Input}};
  w.stages = {sum_stage(a, c)};
  EXPECT_EQ(tolerance_of(w).arithmetic, 0x1p-24);
  EXPECT_EQ(tolerance_of(w).storage, 0);
  Buffer narrow = make_buffer("Y", ElemType::bf16, {Expr(4)});
  Var i("i");
  Expr rounded = cast(ElemType::bf16, load(c, {i}));
  w.stages.push_back({narrow, {i}, {}, Reducer::None, rounded});
  EXPECT_EQ(tolerance_of(w).arithmetic, 0x1p-24) << "the last rounding is the output's own";
  EXPECT_EQ(tolerance_of(w).storage, 0);
  EXPECT_EQ(tolerance_of(w).out, ElemType::bf16);
  Buffer more = make_buffer("Z", ElemType::bf16, {Expr(4)});
  Var j("j");
  w.stages.push_back({more, {j}, {}, Reducer::None, load(narrow, {j})});
  EXPECT_EQ(tolerance_of(w).storage, 0x1p-8) << "now an intermediate value is rounded";
}

TEST(ToleranceOf, IntegersAreExact) {
  Workload w;
  Buffer a = make_buffer("A", ElemType::i32, {Expr(4), Expr(8)});
  Buffer c = make_buffer("C", ElemType::i32, {Expr(4)});
  w.inputs = {{a, ParamRole::Input}};
  w.stages = {sum_stage(a, c)};
  EXPECT_TRUE(tolerance_of(w).exact());
  EXPECT_EQ(tolerance_of(w).bound({5, 1e9, 8}), 0);
}

}  // namespace
}  // namespace tilewright
