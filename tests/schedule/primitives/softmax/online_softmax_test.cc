// online_softmax: values weighted with exp(x - maximum), in one loop.
#include <cmath>

#include "ir/ops/spec.h"
#include "ir/text/printer.h"
#include "tests/golden.h"
#include "tests/schedule/primitives/softmax/softmax_program.h"
#include "tests/schedule/programs.h"

namespace tilewright::test {
namespace {

int64_t extent_of(const Schedule& s, const Loop& loop) { return *as_int(s.node(loop).extent); }

TEST(OnlineSoftmax, BringsSumsToEachNewMaximum) {
  RewriteCase c(softmax_program());
  auto [loop, made] = c.s.online_softmax({"M"}, 4);
  EXPECT_EQ(extent_of(c.s, loop), 3);
  EXPECT_EQ(made, (std::vector<Block>{{"M_init"},
                                      {"M_last"},
                                      {"M_from"},
                                      {"M_shift"},
                                      {"L_init"},
                                      {"L_rescale"},
                                      {"O_init"},
                                      {"O_rescale"}}));
  EXPECT_GOLDEN(c.str());
  check_softmax(c);
  check_softmax(c, 1000);  // exp of these overflows
}

TEST(OnlineSoftmax, BlocksHangOver) {
  for (int64_t factor : {1, 5, 7, 12, 100}) {
    SCOPED_TRACE(factor);
    RewriteCase c(softmax_program());
    EXPECT_EQ(extent_of(c.s, c.s.online_softmax({"M"}, factor).first), (12 + factor - 1) / factor);
    check_softmax(c);
  }
}

TEST(OnlineSoftmax, WeightsMayBeReadInPlace) {
  RewriteCase c(softmax_program());
  c.s.compute_inline({"P"});
  c.s.online_softmax({"M"}, 4);
  check_softmax(c);
}

// Products, sums, quotients and selections of weights.
TEST(OnlineSoftmax, KnowsWhatFollowsTheWeights) {
  for (const char* weight :
       {"exp({2} - M[{0}]) * V[{1}, 0] + exp({2} - M[{0}])", "(-exp({2} - M[{0}])) / 2.5f32",
        "cast<f32>(cast<bf16>(exp({2} - M[{0}])))", "select({1} < 7, exp({2} - M[{0}]), 0f32)"}) {
    SCOPED_TRACE(weight);
    RewriteCase c(softmax_program({.weight = weight}));
    c.s.online_softmax({"M"}, 4);
    if (std::string(weight).find("bf16") == std::string::npos) check_softmax(c);
  }
}

TEST(OnlineSoftmax, RowsOfTilesAndTheScoresBesideThem) {
  RewriteCase c(R"(
program p(Q: f32[5, 4] input, K: f32[12, 4] input, L: f32[5] output) {
  block root() {
    alloc S: f32[5, 12] global
    alloc M: f32[5] global
    alloc Z: f32[5] global
    for i in 0..5 { for j in 0..12 { for d in 0..4 {
      block S(si: spatial 5 = i, sj: spatial 12 = j, sd: reduce 4 = d) {
        init { S[si, sj] = 0f32 }
        S[si, sj] = S[si, sj] + Q[si, sd] * K[sj, sd]
      }
    }}}
    for i_1 in 0..5 { for j_1 in 0..12 {
      block M(mi: spatial 5 = i_1, mj: reduce 12 = j_1) {
        init { M[mi] = -inf<f32> }
        M[mi] = max(M[mi], S[mi, mj])
      }
    }}
    for i_2 in 0..5 { for j_2 in 0..12 {
      block Z(zi: spatial 5 = i_2, zj: reduce 12 = j_2) {
        init { Z[zi] = 0f32 }
        Z[zi] = Z[zi] + exp(S[zi, zj] - M[zi])
      }
    }}
    for i_3 in 0..5 { block L(li: spatial 5 = i_3) { L[li] = M[li] + log(Z[li]) } }
  }
})");
  Loop rows = c.s.split({"i_3"}, {-1, 2})[0];
  for (const char* block : {"Z", "M"}) c.s.compute_at({block}, rows);
  Loop step = c.s.online_softmax({"M"}, 5).first;
  c.s.compute_at({"S"}, step);
  c.s.parallel(rows);
  EXPECT_GOLDEN(c.str());
  check_softmax(c);
}

// Causal attention: later blocks of keys are omitted where no row of the nest sees them.
TEST(OnlineSoftmax, EndsWithTheLastKeyThatIsSeen) {
  const std::string score = "select({1} < {0} + 2, X[{0}, {1}], -inf<f32>)";
  RewriteCase c(softmax_program(
      {.score = score, .weight = "select({1} < {0} + 2, exp({2} - M[{0}]), 0f32)"}));
  EXPECT_EQ(extent_of(c.s, c.s.online_softmax({"M"}, 4).first), 2);  // row 4 sees 6 keys
  check_softmax(c);

  RewriteCase tiles(softmax_program(
      {.score = score, .weight = "select({1} < {0} + 2, exp({2} - M[{0}]), 0f32)"}));
  Loop rows = tiles.s.split({"i_4"}, {-1, 2})[0];
  for (const char* block : {"O", "L", "P", "M"}) tiles.s.compute_at({block}, rows);
  Loop step = tiles.s.online_softmax({"M"}, 2).first;
  EXPECT_FALSE(as_int(tiles.s.node(step).extent)) << "it varies with the rows";
  EXPECT_GOLDEN(tiles.str());
  check_softmax(tiles);

  // It is unknown whether the weights of masked elements are 0 in a row that sees nothing.
  RewriteCase open(softmax_program({.score = score}));
  EXPECT_EQ(extent_of(open.s, open.s.online_softmax({"M"}, 4).first), 3);
  check_softmax(open);
}

// A length read outside the rows' loops bounds the loop over blocks. The number of steps is never
// below 0.
TEST(OnlineSoftmax, EndsWithALengthThatIsRead) {
  const std::string seen = "{1} < {0} + cast<index>(N[0]) - 3";
  const std::string text =
      softmax_program({.score = "select(" + seen + ", X[{0}, {1}], -inf<f32>)",
                       .weight = "select(" + seen + ", exp({2} - M[{0}]), 0f32)",
                       .result = "O[yi, ye] + L[yi]",
                       .params = "N: i32[1] input, "});
  RewriteCase c(text);
  Loop step = c.s.online_softmax({"M"}, 4).first;
  EXPECT_EQ(to_string(c.s.node(step).extent),
            "max(min((floordiv(cast<index>(N[0]), 4) + 1), 3), 0)");
  for (int length : {-40, -3, 0, 2, 3, 7, 12, 15, 40}) {
    SCOPED_TRACE(length);
    check_softmax(c, 1, length);
  }
}

TEST(OnlineSoftmax, RowsMaySeeNothingAtFirst) {
  RewriteCase c(softmax_program({.score = "select({1} >= {0} + 6, X[{0}, {1}], -inf<f32>)"}));
  EXPECT_EQ(extent_of(c.s, c.s.online_softmax({"M"}, 2).first), 6);
  check_softmax(c);
  check_softmax(c, 1000);
}

// A sliding window: blocks on either side of what the rows of the nest see are omitted.
TEST(OnlineSoftmax, BeginsWithTheFirstKeyThatIsSeen) {
  auto window = [](const std::string& seen) {
    return softmax_program({.score = "select(" + seen + ", X[{0}, {1}], -inf<f32>)",
                            .weight = "select(" + seen + ", exp({2} - M[{0}]), 0f32)",
                            .result = "O[yi, ye] + L[yi]"});
  };
  for (const char* seen : {"{1} >= {0} + 6", "{0} + 5 < {1}", "{0} + 6 <= {1}"}) {
    SCOPED_TRACE(seen);
    RewriteCase late(window(seen));
    const Loop step = late.s.online_softmax({"M"}, 4).first;
    EXPECT_EQ(extent_of(late.s, step), 2);
    check_softmax(late);
  }
  RewriteCase both(window("{1} < {0} + 4 && {0} + 1 < {1}"));
  const Loop step = both.s.online_softmax({"M"}, 2).first;
  EXPECT_EQ(extent_of(both.s, step), 3) << "row 0 sees keys from 2 on, row 4 up to 7";
  check_softmax(both);

  // No step is left where the rows of a tile see nothing.
  RewriteCase beyond(window("{0} + 9 < {1}"));
  Loop rows = beyond.s.split({"i_4"}, {-1, 2})[0];
  for (const char* block : {"O", "L", "P", "M"}) beyond.s.compute_at({block}, rows);
  beyond.s.online_softmax({"M"}, 2);
  check_softmax(beyond);
}

TEST(OnlineSoftmax, DynamicAxes) {
  std::string text = softmax_program();
  for (size_t at; (at = text.find("12")) != std::string::npos;) text.replace(at, 2, "n");
  text.insert(text.find(") {") + 1, " dims(n: 1..30)");
  RewriteCase c(text);
  c.s.online_softmax({"M"}, 4);
  for (int64_t n : {1, 4, 7, 30}) check_softmax(c, 1, 0, {{"n", n}});
}

TEST(OnlineSoftmax, TakesAttentionApart) {
  Program before =
      lower(make_workload(parse_spec("attention:heads=2,kv_heads=1,m=5,n=9,d=4,causal=true")));
  RewriteCase c(to_string(before));
  c.s.compute_inline({"S_scaled"});
  c.s.online_softmax({"S_max"}, 4);
  check_softmax(c);
}

TEST(OnlineSoftmax, Refuses) {
  auto refuses = [](const std::string& text, const char* block, int64_t factor, RefusalKind kind,
                    const std::string& message) {
    SCOPED_TRACE(message);
    RewriteCase(text).refuses([&](Schedule& s) { s.online_softmax({block}, factor); }, kind,
                              message);
  };
  refuses(softmax_program(), "M", 0, RefusalKind::BadArgument,
          "argument 'factor' of online_softmax: expected a number from 1, got 0");
  refuses(softmax_program(), "L", 4, RefusalKind::BadStructure,
          "block 'L' does not take the maximum of floats along one axis");
  refuses(kSoftmax, "M", 4, RefusalKind::Unsupported,
          "block 'Y' reads weights and their sum 'S', which is not complete by then");
  refuses(softmax_program({.weight = "exp({2} - M[{0}]) * exp({2} - M[{0}])"}), "M", 4,
          RefusalKind::BadStructure,
          "nothing sums up weights of block 'M': block 'P' multiplies weights with each other");
  refuses(softmax_program({.weight = "exp({2} - M[{0}]) + 1f32"}), "M", 4,
          RefusalKind::BadStructure,
          "block 'P' mixes weights with what does not follow the maximum");
  refuses(softmax_program({.weight = "exp(V[{1}, 0] - M[{0}])"}), "M", 4, RefusalKind::BadStructure,
          "block 'P' takes weights from 'M', which is not the maximum of what they are of");
  refuses(softmax_program({.weight = "{2} - M[{0}]"}), "M", 4, RefusalKind::BadStructure,
          "block 'P' uses 'M' other than in exp(x - M[…])");
  refuses(softmax_program({.weight = "sqrt(exp({2} - M[{0}]))"}), "M", 4, RefusalKind::BadStructure,
          "block 'P' uses 'M' other than in exp(x - M[…])");
  refuses(softmax_program({.weight = "1f32 / exp({2} - M[{0}])"}), "M", 4,
          RefusalKind::BadStructure, "block 'P' divides by weights");
}

TEST(OnlineSoftmax, RefusesOtherNests) {
  RewriteCase c(softmax_program());
  c.s.split({"j_1"}, {3, 4});
  c.refuses([](Schedule& s) { s.online_softmax({"M"}, 4); }, RefusalKind::BadStructure,
            "block 'P' has no loop of its own along the axis of the maximum");
  RewriteCase split(softmax_program());
  split.s.split({"j"}, {3, 4});
  split.refuses([](Schedule& s) { s.online_softmax({"M"}, 4); }, RefusalKind::BadStructure,
                "iterator 'mj' of block 'M' has no loop of its own");
  RewriteCase unrolled(softmax_program());
  unrolled.s.unroll({"i"});
  unrolled.refuses([](Schedule& s) { s.online_softmax({"M"}, 4); }, RefusalKind::BadStructure,
                   "block 'M' does not stand alone in serial loops");
}

}  // namespace
}  // namespace tilewright::test
