#include "ir/arith/interval.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <random>

namespace tilewright {
namespace {

constexpr int64_t kNegInf = Interval::kNegInf;
constexpr int64_t kPosInf = Interval::kPosInf;

int64_t floor_quotient(int64_t a, int64_t b) {
  int64_t q = a / b;
  return q * b != a && (a < 0) != (b < 0) ? q - 1 : q;
}

struct Operation {
  const char* name;
  Interval (*of_intervals)(Interval, Interval);
  std::function<int64_t(int64_t, int64_t)> of_values;
  bool divides, tight;
};

const std::vector<Operation>& operations() {
  static const std::vector<Operation> table = {
      {"add", add, std::plus<int64_t>(), false, true},
      {"sub", sub, std::minus<int64_t>(), false, true},
      {"mul", mul, std::multiplies<int64_t>(), false, true},
      {"min", min, [](int64_t a, int64_t b) { return std::min(a, b); }, false, true},
      {"max", max, [](int64_t a, int64_t b) { return std::max(a, b); }, false, true},
      {"floordiv", floordiv, floor_quotient, true, true},
      {"floormod", floormod, [](int64_t a, int64_t b) { return a - floor_quotient(a, b) * b; },
       true, false},
  };
  return table;
}

// The hull of all results, by trying every pair of values.
std::optional<Interval> brute_force(const Operation& op, Interval a, Interval b) {
  std::optional<Interval> hull;
  for (int64_t x = a.min; x <= a.max; ++x) {
    for (int64_t y = b.min; y <= b.max; ++y) {
      if (op.divides && y == 0) continue;
      Interval point = Interval::point(op.of_values(x, y));
      hull = hull ? unite(*hull, point) : point;
    }
  }
  return hull;
}

TEST(Interval, OperationsHoldEveryResultAndNoMore) {
  std::mt19937_64 random(7);
  auto draw = [&] {
    int64_t low = static_cast<int64_t>(random() % 41) - 20;
    return Interval{low, low + static_cast<int64_t>(random() % 12)};
  };
  for (int round = 0; round < 2000; ++round) {
    Interval a = draw(), b = draw();
    for (const Operation& op : operations()) {
      auto expected = brute_force(op, a, b);
      if (!expected) continue;
      Interval got = op.of_intervals(a, b);
      std::string what = std::string(op.name) + " of [" + std::to_string(a.min) + ", " +
                         std::to_string(a.max) + "] and [" + std::to_string(b.min) + ", " +
                         std::to_string(b.max) + "]";
      EXPECT_LE(got.min, expected->min) << what;
      EXPECT_GE(got.max, expected->max) << what;
      if (op.tight) {
        EXPECT_EQ(got, *expected) << what;
      }
    }
  }
}

TEST(Interval, RestsByOneDivisorAreTightWithinOnePeriod) {
  EXPECT_EQ(floormod(Interval{17, 20}, Interval::point(16)), (Interval{1, 4}));
  EXPECT_EQ(floormod(Interval{-3, -1}, Interval::point(16)), (Interval{13, 15}));
  EXPECT_EQ(floormod(Interval{15, 16}, Interval::point(16)), (Interval{0, 15}));
  EXPECT_EQ(floormod(Interval{0, 5}, Interval{8, 9}), (Interval{0, 5}));
}

TEST(Interval, MissingBoundsStayMissing) {
  Interval from_two{2, kPosInf}, to_two{kNegInf, 2};
  EXPECT_EQ(add(from_two, Interval::point(3)), (Interval{5, kPosInf}));
  EXPECT_EQ(sub(from_two, from_two), Interval::everything());
  EXPECT_EQ(mul(from_two, Interval::point(-1)), (Interval{kNegInf, -2}));
  EXPECT_EQ(mul(Interval::everything(), Interval::point(0)), Interval::point(0));
  EXPECT_EQ(floordiv(to_two, Interval::point(2)), (Interval{kNegInf, 1}));
  EXPECT_EQ(floordiv(Interval{0, 10}, from_two), (Interval{0, 5}));
  EXPECT_EQ(floormod(Interval::everything(), Interval::point(4)), (Interval{0, 3}));
  EXPECT_EQ(floormod(Interval::everything(), Interval::point(0)), Interval::everything());
  EXPECT_FALSE(from_two.is_bounded());
}

TEST(Interval, SumsAndProductsSaturate) {
  Interval large{kPosInf - 2, kPosInf - 1};
  EXPECT_EQ(add(large, Interval::point(5)).max, kPosInf);
  EXPECT_EQ(mul(large, Interval::point(3)).max, kPosInf);
  EXPECT_EQ(mul(large, Interval::point(-3)).min, kNegInf);
}

TEST(Interval, IntersectionKeepsTheFirstWhereNothingIsShared) {
  EXPECT_EQ(intersect(Interval{0, 9}, Interval{4, 20}), (Interval{4, 9}));
  EXPECT_EQ(intersect(Interval{0, 9}, Interval{10, 20}), (Interval{0, 9}));
}

}  // namespace
}  // namespace tilewright
