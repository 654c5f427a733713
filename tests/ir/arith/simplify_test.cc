#include "ir/arith/simplify.h"

#include <gtest/gtest.h>

#include <limits>

#include "ir/buffer.h"
#include "ir/text/printer.h"

namespace tilewright {
namespace {

class Simplify : public ::testing::Test {
 protected:
  std::string text(const Expr& e) { return to_string(known.simplify(e)); }
  void bind(const Expr& var, int64_t extent) { known.bind(var, Expr(0), Expr(extent)); }

  Analyzer known;
  Var i{"i"}, j{"j"}, k{"k"}, n{"n"};
};

TEST_F(Simplify, SumsAreCollectedAndOrderedByStride) {
  EXPECT_EQ(text(j + i * 16 + j * 3 - Expr(2) + Expr(5)), "(((i * 16) + (j * 4)) + 3)");
  EXPECT_EQ(text(i - i), "0");
  EXPECT_EQ(text((i + j) * 4 - j * 4), "(i * 4)");
  EXPECT_EQ(text(Expr(3) - i), "(3 - i)");
  EXPECT_EQ(text((i + Expr(1)) * n - n), "(i * n)");
}

TEST_F(Simplify, UnchangedExpressionsComeBackAsTheSameNode) {
  Expr e = i * 16 + j;
  EXPECT_TRUE(known.simplify(e).same_as(e));
  Expr c = i * 16 + j < Expr(127);
  EXPECT_TRUE(known.simplify(c).same_as(c));
  Buffer a = make_buffer("A", ElemType::f32, {8, 8});
  Expr x = load(a, {i, floordiv(j, Expr(3))}) * make_float(ElemType::f32, 2);
  EXPECT_TRUE(known.simplify(x).same_as(x));
}

TEST_F(Simplify, FloorsOfSplitLoopsGiveTheLoopsBack) {
  bind(i, 8);
  bind(j, 16);
  EXPECT_EQ(text(floordiv(i * 16 + j, 16)), "i");
  EXPECT_EQ(text(floormod(i * 16 + j, 16)), "j");
  EXPECT_EQ(text(floordiv(i * 16 + j, 64)), "floordiv(i, 4)");
  EXPECT_EQ(text(floormod(i * 16 + j, 64)), "((floormod(i, 4) * 16) + j)");
  EXPECT_EQ(text(floordiv(i * 16 + j, 4)), "((i * 4) + floordiv(j, 4))");
  EXPECT_EQ(text(floordiv(i * 16 + j, 128)), "0");
}

TEST_F(Simplify, FloorsWithoutKnowledgeStay) {
  EXPECT_EQ(text(floordiv(i * 16 + j, 16)), "(i + floordiv(j, 16))");
  EXPECT_EQ(text(floordiv(i, j)), "floordiv(i, j)");
  EXPECT_EQ(text(floordiv(i, 0)), "floordiv(i, 0)");
}

TEST_F(Simplify, QuotientAndRestMerge) {
  EXPECT_EQ(text(floordiv(i, 16) * 16 + floormod(i, 16)), "i");
  EXPECT_EQ(text(floordiv(i + j, 6) * 12 + floormod(i + j, 6) * 2), "((i * 2) + (j * 2))");
  EXPECT_EQ(text(i - floordiv(i, 16) * 16), "floormod(i, 16)");
  EXPECT_EQ(text(i - floormod(i, 16)), "(floordiv(i, 16) * 16)");
}

TEST_F(Simplify, IndicesOfFusedLoopsMerge) {
  // fuse(a, b, c) of extents 5, 6, 7
  Expr a = floordiv(i, 42), b = floormod(floordiv(i, 7), 6), c = floormod(i, 7);
  EXPECT_EQ(text(a * 42 + b * 7 + c), "i");
  EXPECT_EQ(text(b * 7 + c), "floormod(i, 42)");
  bind(i, 210);
  EXPECT_EQ(text(floormod(floordiv(i, 42), 5)), "floordiv(i, 42)");
}

TEST_F(Simplify, NestedFloorsJoin) {
  EXPECT_EQ(text(floordiv(floordiv(i, 4), 8)), "floordiv(i, 32)");
  EXPECT_EQ(text(floormod(floormod(i, 32), 8)), "floormod(i, 8)");
  EXPECT_EQ(text(floordiv(floormod(i, 32), 8)), "floormod(floordiv(i, 8), 4)");
  EXPECT_EQ(text(floordiv(i * 6 + Expr(3), 4)), "(i + floordiv((i + 1), 2))");
}

TEST_F(Simplify, SymbolicExtentsAreUsed) {
  known.bind(n, Interval{1, 4096});
  known.bind(i, Expr(0), Expr(64));
  known.bind(j, Expr(0), n);
  EXPECT_EQ(text(floordiv(i * n + j, n)), "i");
  EXPECT_EQ(text(floormod(i * n + j, n)), "j");
  EXPECT_TRUE(known.prove(j < n));
  EXPECT_TRUE(known.prove(j + Expr(1) <= n));
  EXPECT_FALSE(known.prove(j + Expr(1) < n));
  EXPECT_EQ(known.bounds(j), (Interval{0, 4095}));
}

TEST_F(Simplify, SymbolicQuotientAndRestMerge) {
  known.bind(n, Interval{1, 4096});
  EXPECT_EQ(text(floordiv(i, n) * n + floormod(i, n)), "i");
  EXPECT_EQ(text(floordiv(i, n) * n * 3 + floormod(i, n) * 3 + j), "((i * 3) + j)");
  EXPECT_EQ(text(floordiv(i, n * 4) * 4 * n + floormod(i, n * 4)), "i");
}

TEST_F(Simplify, TailLoopsStayInsideTheirLimit) {
  known.bind(i, Expr(0), Expr(8));
  known.bind(j, Expr(0), min(Expr(16), Expr(127) - i * 16));
  EXPECT_TRUE(known.prove(i * 16 + j < Expr(127)));
  EXPECT_FALSE(known.prove(i * 16 + j < Expr(126)));
  EXPECT_EQ(known.bounds(j), (Interval{0, 15}));
}

TEST_F(Simplify, RoundedUpTilesCoverADynamicExtent) {
  known.bind(n, Interval{1, 4096});
  EXPECT_TRUE(known.prove(floordiv(n + Expr(15), 16) * 16 >= n));
  EXPECT_TRUE(known.prove(floordiv(n + Expr(15), 16) * 16 < n + Expr(16)));
  EXPECT_FALSE(known.prove(floordiv(n + Expr(15), 16) * 16 < n + Expr(15)));
}

// The number of row tiles is known only at launch; the remainder of a fused loop is one of them.
TEST_F(Simplify, RemaindersStayBelowADynamicDivisor) {
  known.bind(n, Interval{1, 4096});
  bind(j, 16);
  Expr tiles = floordiv(n + Expr(15), 16);
  known.bind(i, Expr(0), tiles * 4);
  EXPECT_TRUE(known.prove(floormod(i, tiles) * 16 + j < tiles * 16));
  EXPECT_FALSE(known.prove(floormod(i, tiles) * 16 + j < tiles * 16 - Expr(1)));
  EXPECT_TRUE(known.prove(floordiv(i, tiles) < Expr(4)));
  EXPECT_TRUE(known.prove(floordiv(i, tiles) * 16 + j < Expr(64)));
  EXPECT_FALSE(known.prove(floordiv(i, tiles) < Expr(3)));
  EXPECT_TRUE(known.prove(floordiv(i, 4) < tiles));
  EXPECT_TRUE(known.prove(floordiv(i, 2) * 8 + j < tiles * 16 + Expr(8)));
  EXPECT_FALSE(known.prove(floordiv(i, 2) < tiles));
  EXPECT_TRUE(known.prove(floormod(i, n) <= n - Expr(1)));
  EXPECT_FALSE(known.prove(floormod(i, n) < n - Expr(1)));
  // Three loops fused into one; two of them have lengths known only at launch.
  const Var m{"m"};
  known.bind(m, Interval{1, 8});
  known.bind(k, Expr(0), m * tiles * 4);
  EXPECT_TRUE(known.prove(floordiv(floordiv(k, tiles), 4) < m));
  EXPECT_FALSE(known.prove(floordiv(floordiv(k, tiles), 4) < m - Expr(1)));
  EXPECT_FALSE(known.prove(floordiv(floordiv(k, tiles), 2) < m));
  EXPECT_TRUE(known.prove(floordiv(floordiv(k, 4), tiles) < m));
  EXPECT_FALSE(known.prove(floordiv(floordiv(k, -4), tiles) < m * -1));
  // A divisor that may be negative gives negative remainders, and one that may be 0 gives none.
  known.bind(k, Interval{-4, 4});
  EXPECT_FALSE(known.prove(floormod(i, k) < k));
}

// Positions within one of a few parts whose length is known only at launch.
TEST_F(Simplify, PartsOfADynamicExtentLieWithinIt) {
  known.bind(n, Interval{1, 4096});
  const Expr part = floordiv(n + Expr(63), 64);
  bind(i, 3);
  known.bind(j, Expr(0), part);
  EXPECT_TRUE(known.prove(i * part + j < part * 3));
  EXPECT_FALSE(known.prove(i * part + j < part * 3 - Expr(1)));
  EXPECT_TRUE(known.prove(part * 2 - i * part >= Expr(0)));
  EXPECT_FALSE(known.prove(part - i * part >= Expr(0)));
  // This does not hold for lengths that may be negative.
  known.bind(k, Interval{-4, 4});
  EXPECT_FALSE(known.prove(i * k <= k * 2));
}

TEST_F(Simplify, MinAndMaxAreDecidedByBounds) {
  bind(i, 8);
  EXPECT_EQ(text(min(i, 7)), "i");
  EXPECT_EQ(text(max(i, 7)), "7");
  EXPECT_EQ(text(min(i + j, j + Expr(9))), "(i + j)");
  EXPECT_EQ(text(min(j + n, k + n)), "(n + min(j, k))");
  EXPECT_EQ(text(min(min(j, 5), 3)), "min(j, 3)");
}

TEST_F(Simplify, ComparisonsAreDecidedOrBalanced) {
  bind(i, 8);
  bind(j, 16);
  EXPECT_EQ(text(i * 16 + j < Expr(128)), "true");
  EXPECT_EQ(text(i * 16 + j >= Expr(128)), "false");
  EXPECT_EQ(text(i * 16 + j < Expr(127)), "(((i * 16) + j) < 127)");
  EXPECT_EQ(text(i * 16 + j < Expr(64)), "(i < 4)");
  EXPECT_EQ(text(floordiv(j, 4) < Expr(2)), "(j < 8)");
  EXPECT_EQ(text(Expr(3) <= j), "(j >= 3)");
  EXPECT_EQ(text(eq(i * 2, Expr(3))), "false");
  EXPECT_EQ(text(eq(i * 2, Expr(6))), "(i == 3)");
  EXPECT_EQ(text(ne(j, Expr(16))), "true");
  EXPECT_EQ(text(k < n + k), "(n >= 1)");
}

TEST_F(Simplify, ConjunctionsKeepWhatIsNeeded) {
  EXPECT_EQ(text(i < Expr(8) && i < Expr(4)), "(i < 4)");
  EXPECT_EQ(text(i < Expr(8) || i < Expr(4)), "(i < 8)");
  EXPECT_EQ(text(i < Expr(4) && i >= Expr(4)), "false");
  EXPECT_EQ(text(i < Expr(4) || i >= Expr(3)), "true");
  EXPECT_EQ(text(i < Expr(4) && make_bool(true)), "(i < 4)");
  EXPECT_EQ(text(!(i < Expr(4) && j < Expr(2))), "((i >= 4) || (j >= 2))");
  EXPECT_EQ(text(eq(i, j) && ne(i, j)), "false");
}

TEST_F(Simplify, AssumptionsBoundSumsAndVariables) {
  bind(i, 8);
  bind(j, 16);
  known.push();
  known.assume(i * 16 + j < Expr(100));
  EXPECT_TRUE(known.prove(i * 16 + j < Expr(100)));
  EXPECT_TRUE(known.prove(i * 16 + j + Expr(1) < Expr(101)));
  EXPECT_TRUE(known.prove(i * 32 + j * 2 < Expr(199)));
  EXPECT_EQ(known.bounds(i), (Interval{0, 6}));
  known.pop();
  EXPECT_FALSE(known.prove(i * 16 + j < Expr(100)));
  EXPECT_EQ(known.bounds(i), (Interval{0, 7}));
}

// A loop's tile has a name, and padding is decided by what the name stands for.
TEST_F(Simplify, FactsOfANameHoldForItsValue) {
  bind(i, 8);
  bind(j, 2);
  const Var tile("tile");
  known.push();
  known.bind_kept(tile, i * 2 + j, Expr(1));
  known.assume(tile < Expr(3));
  EXPECT_TRUE(known.prove(i * 14 + j * 7 < Expr(15)));
  EXPECT_FALSE(known.prove(i * 14 + j * 7 < Expr(14)));
  EXPECT_EQ(known.bounds(i), (Interval{0, 1}));
  known.pop();
  known.bind(tile, i * 2 + j, Expr(2));  // one of two values: no name of a form
  known.assume(tile < Expr(3));
  EXPECT_FALSE(known.prove(i * 2 + j < Expr(2)));
}

// Memory may have changed since the name was given.
TEST_F(Simplify, FactsOfANameSayNothingAboutMemory) {
  const Expr element = load(make_buffer("N", ElemType::index, {1}), {Expr(0)});
  const Var name("name");
  known.bind_kept(name, element, Expr(1));
  known.assume(name < Expr(3));
  EXPECT_TRUE(known.prove(name < Expr(3)));
  EXPECT_FALSE(known.prove(element < Expr(3)));
}

TEST_F(Simplify, AssumedFactsDecideTheSameCondition) {
  Buffer mask = make_buffer("mask", ElemType::boolean, {8});
  Expr fact = load(mask, {i});
  known.push();
  known.assume(fact && !load(mask, {j}));
  EXPECT_EQ(text(select(load(mask, {j}), i, k)), "select(mask[j], i, k)")
      << "a load that is not a comparison is looked up by itself only";
  EXPECT_EQ(text(fact && i < Expr(4)), "(mask[i] && (i < 4))");
  known.pop();
  known.push();
  known.assume(ne(i, Expr(0)));
  EXPECT_EQ(text(eq(i, Expr(0))), "false");
  known.bind(j, Expr(0), Expr(4));
  known.assume(ne(j, Expr(3)));
  EXPECT_EQ(known.bounds(j), (Interval{0, 2}));
  known.assume(eq(j, Expr(1)));
  EXPECT_EQ(text(j + k), "(k + 1)");
  known.pop();
}

TEST_F(Simplify, ChoicesKnowTheirCondition) {
  bind(i, 16);
  EXPECT_EQ(text(select(i < Expr(16), j, k)), "j");
  EXPECT_EQ(text(select(i < Expr(4), min(i, 3), i)), "i");
  Expr inside = select(j < Expr(4), select(j < Expr(8), i, k), n);
  EXPECT_EQ(text(inside), "select((j < 4), i, n)");
}

TEST_F(Simplify, RampsAreAddedAndCompared) {
  auto lanes = [](const Expr& e) { return broadcast(e, 16); };
  Expr r = ramp(0, 1, 16);
  EXPECT_EQ(text(r + lanes(i)), "ramp(i, 1, 16)");
  EXPECT_EQ(text(r * lanes(4) + r), "ramp(0, 5, 16)");
  EXPECT_EQ(text(r - r), "broadcast(0, 16)");
  EXPECT_EQ(text(r < lanes(16)), "broadcast(true, 16)");
  EXPECT_EQ(text(r < lanes(15)), "(ramp(0, 1, 16) < broadcast(15, 16))");
  EXPECT_EQ(text(r >= lanes(16)), "broadcast(false, 16)");
  EXPECT_EQ(text(floordiv(ramp(i * 16, 1, 16), lanes(16))), "broadcast(i, 16)");
  EXPECT_EQ(text(floormod(ramp(i * 16, 1, 16), lanes(16))), "ramp(0, 1, 16)");
  EXPECT_EQ(text(floordiv(ramp(i * 16, 4, 16), lanes(4))), "ramp((i * 4), 1, 16)");
  bind(j, 7);
  EXPECT_EQ(text(ramp(j * 16, 1, 16) < lanes(112)), "broadcast(true, 16)");
}

TEST_F(Simplify, FloatsAreFoldedOnlyWhereExact) {
  Expr x = Var("x", ElemType::f32);
  auto f = [](double v) { return make_float(ElemType::f32, v); };
  EXPECT_TRUE(known.simplify(x * f(1)).same_as(x));
  EXPECT_TRUE(known.simplify(x / f(1)).same_as(x));
  EXPECT_TRUE(known.simplify(x - f(0)).same_as(x));
  EXPECT_EQ(text(x + f(0)), to_string(x + f(0))) << "-0 + 0 is 0";
  EXPECT_EQ(text(x * f(0)), to_string(x * f(0))) << "an infinity times 0 is not 0";
  EXPECT_EQ(text(x - x), to_string(x - x));
  EXPECT_EQ(text(f(1.5) + f(2)), "3.5f32");
  EXPECT_EQ(text(f(16777216) + f(1)), to_string(f(16777216))) << "rounded to the type";
  EXPECT_EQ(text(f(1) / f(0)), to_string(f(1) / f(0)));
  EXPECT_EQ(text(select(i < i + Expr(1), x, f(0))), "x");
}

TEST_F(Simplify, CastsOfConstantsFold) {
  EXPECT_EQ(text(cast(ElemType::f32, Expr(3))), to_string(make_float(ElemType::f32, 3)));
  EXPECT_EQ(text(cast(ElemType::i8, make_int(ElemType::i32, 200))),
            to_string(make_int(ElemType::i8, -56)));
  EXPECT_EQ(text(cast(ElemType::i32, make_float(ElemType::f32, -2.5))),
            to_string(make_int(ElemType::i32, -2)));
  Expr too_large = cast(ElemType::i8, make_float(ElemType::f32, 1000));
  EXPECT_TRUE(known.simplify(too_large).same_as(too_large));
  Expr x = Var("x", ElemType::f16);
  EXPECT_TRUE(known.simplify(cast(ElemType::f16, cast(ElemType::f32, x))).same_as(x));
  bind(i, 8);
  EXPECT_EQ(text(cast(ElemType::index, cast(ElemType::i32, i))), "i");
  EXPECT_EQ(text(cast(ElemType::index, cast(ElemType::i32, k))),
            to_string(cast(ElemType::index, cast(ElemType::i32, k))));
}

TEST_F(Simplify, NarrowIntegersWrapWhenFolded) {
  auto c = [](int64_t v) { return make_int(ElemType::i8, v); };
  EXPECT_EQ(text(c(100) + c(100)), to_string(c(-56)));
  EXPECT_EQ(text(floordiv(c(-7), c(2))), to_string(c(-4)));
  Expr x = Var("x", ElemType::i8);
  EXPECT_TRUE(known.simplify(x + c(0)).same_as(x));
  EXPECT_EQ(text(x * c(0)), to_string(c(0)));
}

TEST_F(Simplify, CoefficientsThatOverflowLeaveTheExpression) {
  Expr huge = Expr(std::numeric_limits<int64_t>::max());
  Expr e = i * huge + i * huge;
  EXPECT_TRUE(known.simplify(e).same_as(e));
  EXPECT_FALSE(known.prove(e > i));
}

TEST_F(Simplify, ReboundVariablesForgetTheirOldRange) {
  bind(i, 4);
  EXPECT_EQ(text(floordiv(i, 4)), "0");
  bind(i, 8);
  EXPECT_EQ(text(floordiv(i, 4)), "floordiv(i, 4)");
  bind(i, 1);
  EXPECT_EQ(text(i + j), "j");
  known.bind_kept(i, Expr(0), Expr(1));
  EXPECT_EQ(text(i + j), "(i + j)");
}

}  // namespace
}  // namespace tilewright
