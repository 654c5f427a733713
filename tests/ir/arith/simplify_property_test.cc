#include <gtest/gtest.h>

#include "ir/arith/simplify.h"
#include "ir/text/printer.h"
#include "tests/ir/arith/arith_support.h"

namespace tilewright::test {
namespace {

constexpr int kAssignments = 24;

Analyzer knowing(const std::vector<RangedVar>& vars) {
  Analyzer known;
  for (const RangedVar& v : vars) known.bind(v.var, Expr(v.min), Expr(v.extent));
  return known;
}

std::string describe(uint64_t seed, const ExprGenerator& generator, const Expr& e) {
  std::string text = "seed " + std::to_string(seed) + ": " + to_string(e) + " with";
  for (const RangedVar& v : generator.vars()) {
    text += " " + v.var.name() + " in " + std::to_string(v.min) + "+" + std::to_string(v.extent);
  }
  return text;
}

// The value of `e` at `values`, or nothing where it divides by zero.
std::optional<int64_t> try_value(const Expr& e, const Assignment& values, int lane = 0) {
  try {
    return value_of(e, values, lane);
  } catch (const std::domain_error&) {
    return std::nullopt;
  }
}

void check(uint64_t seed, ExprGenerator& generator, const Expr& e, int lanes = 1) {
  std::string what = describe(seed, generator, e);
  Expr simple = knowing(generator.vars()).simplify(e);
  ASSERT_EQ(simple.type(), e.type()) << what;
  Expr again = knowing(generator.vars()).simplify(simple);
  EXPECT_TRUE(again.same_as(simple))
      << what << "\n gives " << to_string(simple) << "\n then  " << to_string(again);
  Interval bounds = lanes == 1 && e.type().elem == ElemType::index
                        ? knowing(generator.vars()).bounds(e)
                        : Interval::everything();
  for (int a = 0; a < kAssignments; ++a) {
    Assignment values = generator.assignment();
    for (int lane = 0; lane < lanes; ++lane) {
      auto value = try_value(e, values, lane);
      if (!value) continue;
      ASSERT_EQ(value_of(simple, values, lane), *value)
          << what << "\n gives " << to_string(simple) << " lane " << lane;
      ASSERT_GE(*value, bounds.min) << what;
      ASSERT_LE(*value, bounds.max) << what;
    }
  }
}

// One to four loops over a space of a * b * c points, with extents that are factors of it. The
// simplifier must prove that the flat index and its three digits are in bounds.
TEST(SimplifyNest, DigitsOfAFusedAndSplitLoopStayInside) {
  for (uint64_t seed = 0; seed < 500; ++seed) {
    ExprGenerator generator(seed);
    int64_t a = generator.number(1, 9), b = generator.number(1, 9), c = generator.number(1, 9);
    Analyzer known;
    Expr flat(0);
    int64_t rest = a * b * c;
    for (int level = 0; level < 4; ++level) {
      std::vector<int64_t> divisors;
      for (int64_t d = 1; d <= rest; ++d) {
        if (rest % d == 0) divisors.push_back(d);
      }
      auto last = static_cast<int64_t>(divisors.size()) - 1;
      auto chosen = level == 3 ? last : generator.number(0, last);
      int64_t extent = divisors[static_cast<size_t>(chosen)];
      Var loop("f" + std::to_string(level));
      known.bind(loop, 0, extent);
      flat = flat * Expr(extent) + loop;
      rest /= extent;
    }
    Expr ia = floordiv(flat, b * c), ib = floormod(floordiv(flat, c), b), ic = floormod(flat, c);
    std::string what = "seed " + std::to_string(seed) + ": " + to_string(flat) + " over " +
                       std::to_string(a) + ", " + std::to_string(b) + ", " + std::to_string(c);
    EXPECT_TRUE(known.prove(flat < Expr(a * b * c))) << what;
    EXPECT_TRUE(known.prove(ia < Expr(a) && ib < Expr(b) && ic < Expr(c))) << what;
    EXPECT_TRUE(known.prove(ia >= Expr(0) && ib >= Expr(0) && ic >= Expr(0))) << what;
  }
}

class SimplifyProperty : public ::testing::TestWithParam<int> {};

// The seeds of one test instance.
std::pair<uint64_t, uint64_t> seeds(int part) {
  constexpr uint64_t kCases = 500;
  return {static_cast<uint64_t>(part) * kCases, static_cast<uint64_t>(part + 1) * kCases};
}

TEST_P(SimplifyProperty, IndexKeepsItsValueAndIsIdempotent) {
  for (auto [seed, end] = seeds(GetParam()); seed < end; ++seed) {
    ExprGenerator generator(seed);
    Expr e = generator.index(static_cast<int>(generator.number(1, 4)));
    ASSERT_NO_FATAL_FAILURE(check(seed, generator, e));
  }
}

TEST_P(SimplifyProperty, ConditionKeepsItsValueAndIsIdempotent) {
  for (auto [seed, end] = seeds(GetParam()); seed < end; ++seed) {
    ExprGenerator generator(seed);
    Expr e = generator.condition(static_cast<int>(generator.number(1, 4)));
    ASSERT_NO_FATAL_FAILURE(check(seed, generator, e));
  }
}

TEST_P(SimplifyProperty, VectorsKeepTheirValueAndAreIdempotent) {
  constexpr int kLanes = 4;
  for (auto [seed, end] = seeds(GetParam()); seed < end; ++seed) {
    ExprGenerator generator(seed);
    int depth = static_cast<int>(generator.number(1, 3));
    Expr e = generator.index_vector(depth, kLanes);
    if (generator.number(0, 1) == 0) e = e < generator.index_vector(1, kLanes);
    ASSERT_NO_FATAL_FAILURE(check(seed, generator, e, kLanes));
  }
}

// Everything derived from an assumption holds wherever the assumption does.
TEST_P(SimplifyProperty, AssumptionsAreSound) {
  for (auto [seed, end] = seeds(GetParam()); seed < end; ++seed) {
    ExprGenerator generator(seed);
    Expr assumed = generator.condition(2), e = generator.index(3), c = generator.condition(3);
    Analyzer known = knowing(generator.vars());
    known.push();
    known.assume(assumed);
    Expr simple = known.simplify(e), simple_c = known.simplify(c);
    Interval bounds = known.bounds(e);
    known.pop();
    std::string what = describe(seed, generator, e) + "\n assuming " + to_string(assumed);
    for (int a = 0; a < kAssignments; ++a) {
      Assignment values = generator.assignment();
      auto value = try_value(e, values), truth = try_value(c, values);
      if (try_value(assumed, values) != 1) continue;
      if (value) {
        ASSERT_EQ(value_of(simple, values), *value) << what << "\n gives " << to_string(simple);
        ASSERT_GE(*value, bounds.min) << what;
        ASSERT_LE(*value, bounds.max) << what;
      }
      if (truth) {
        ASSERT_EQ(value_of(simple_c, values), *truth)
            << what << "\n of " << to_string(c) << "\n gives " << to_string(simple_c);
      }
    }
    ASSERT_TRUE(known.simplify(e).same_as(knowing(generator.vars()).simplify(e)) ||
                to_string(known.simplify(e)) == to_string(knowing(generator.vars()).simplify(e)))
        << "knowledge of a closed scope stays: " << what;
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, SimplifyProperty, ::testing::Range(0, 4));

}  // namespace
}  // namespace tilewright::test
