// online_softmax: what is weighed with exp(x - maximum), in one loop.
#include <cmath>

#include <fmt/format.h>

#include "ir/interpreter.h"
#include "ir/ops/spec.h"
#include "ir/printer.h"
#include "ir/verify.h"
#include "tests/golden.h"
#include "tests/schedule/programs.h"
#include "tests/schedule/rewrite_case.h"

namespace tilewright::testing {
namespace {

// Y = softmax(X) V over 5 rows, 12 keys and 3 columns: `score` is what stands for X[i, j], `weight`
// for exp(score - M[i]).
std::string program(const std::string& score = "X[{0}, {1}]",
                    const std::string& weight = "exp({2} - M[{0}])") {
  auto score_at = [&](const char* i, const char* j) {
    return fmt::format(fmt::runtime(score), i, j);
  };
  return fmt::format(
      R"(
program p(X: f32[5, 12] input, V: f32[12, 3] input, Y: f32[5, 3] output) {{
  block root() {{
    alloc M: f32[5] global
    alloc P: f32[5, 12] global
    alloc L: f32[5] global
    alloc O: f32[5, 3] global
    for i in 0..5 {{ for j in 0..12 {{
      block M(mi: spatial 5 = i, mj: reduce 12 = j) {{
        init {{ M[mi] = -inf<f32> }}
        M[mi] = max(M[mi], {})
      }}
    }}}}
    for i_1 in 0..5 {{ for j_1 in 0..12 {{
      block P(pi: spatial 5 = i_1, pj: spatial 12 = j_1) {{ P[pi, pj] = {} }}
    }}}}
    for i_2 in 0..5 {{ for j_2 in 0..12 {{
      block L(li: spatial 5 = i_2, lj: reduce 12 = j_2) {{
        init {{ L[li] = 0f32 }}
        L[li] = L[li] + P[li, lj]
      }}
    }}}}
    for i_3 in 0..5 {{ for e in 0..3 {{ for j_3 in 0..12 {{
      block O(oi: spatial 5 = i_3, oe: spatial 3 = e, oj: reduce 12 = j_3) {{
        init {{ O[oi, oe] = 0f32 }}
        O[oi, oe] = O[oi, oe] + P[oi, oj] * V[oj, oe]
      }}
    }}}}}}
    for i_4 in 0..5 {{ for e_4 in 0..3 {{
      block Y(yi: spatial 5 = i_4, ye: spatial 3 = e_4) {{ Y[yi, ye] = O[yi, ye] / L[yi] }}
    }}}}
  }}
}})",
      score_at("mi", "mj"), fmt::format(fmt::runtime(weight), "pi", "pj", score_at("pi", "pj")));
}

// Legal, replayed, and close to what it was on random operands (`scale` times those of [-1, 1)).
void check(const RewriteCase& c, const std::map<std::string, int64_t>& dims = {}, double scale = 1,
           int length = 0) {
  verify_or_throw(c.s.program(), "online_softmax");
  EXPECT_TRUE(replays(c.before, c.s));
  NdArrays want, got;
  uint64_t seed = 5;
  for (const Param& p : c.before.params) {
    if (p.role == ParamRole::Output) continue;
    std::vector<int64_t> shape;
    for (const Expr& e : p.buffer->shape) {
      shape.push_back(as_int(e) ? *as_int(e) : dims.at(e.as<VarNode>()->name));
    }
    NdArray& array = want[p.buffer->name] = NdArray::random(p.buffer->elem, shape, seed++);
    if (p.buffer->name == "N") array.data = {static_cast<double>(length)};
    if (p.buffer->name == "X") {
      for (double& x : array.data) x = round_to(ElemType::f32, x * scale);
    }
  }
  got = want;
  interpret(c.before, want, dims);
  interpret(c.s.module(), got, dims);
  const std::string& out = c.before.params.back().buffer->name;
  for (size_t i = 0; i < want.at(out).data.size(); ++i) {
    ASSERT_NEAR(got.at(out).data[i], want.at(out).data[i], 2e-6) << "element " << i;
  }
}

int64_t extent_of(const Schedule& s, const Loop& loop) { return *as_int(s.node(loop).extent); }

TEST(OnlineSoftmax, BringsSumsToEachNewMaximum) {
  RewriteCase c(program());
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
  check(c);
  check(c, {}, 1000);  // exp of these overflows
}

TEST(OnlineSoftmax, BlocksHangOver) {
  for (int64_t factor : {1, 5, 7, 12, 100}) {
    SCOPED_TRACE(factor);
    RewriteCase c(program());
    EXPECT_EQ(extent_of(c.s, c.s.online_softmax({"M"}, factor).first), (12 + factor - 1) / factor);
    check(c);
  }
}

TEST(OnlineSoftmax, WeightsMayBeReadInPlace) {
  RewriteCase c(program());
  c.s.compute_inline({"P"});
  c.s.online_softmax({"M"}, 4);
  check(c);
}

// Of products, sums, quotients and selections of weights.
TEST(OnlineSoftmax, KnowsWhatFollowsTheWeights) {
  for (const char* weight :
       {"exp({2} - M[{0}]) * V[{1}, 0] + exp({2} - M[{0}])", "(-exp({2} - M[{0}])) / 2.5f32",
        "cast<f32>(cast<bf16>(exp({2} - M[{0}])))", "select({1} < 7, exp({2} - M[{0}]), 0f32)"}) {
    SCOPED_TRACE(weight);
    RewriteCase c(program("X[{0}, {1}]", weight));
    c.s.online_softmax({"M"}, 4);
    if (std::string(weight).find("bf16") == std::string::npos) check(c);
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
  check(c);
}

// Of causal attention: later blocks of keys are left out where no row of the nest sees them.
TEST(OnlineSoftmax, EndsWithTheLastKeyThatIsSeen) {
  const std::string score = "select({1} < {0} + 2, X[{0}, {1}], -inf<f32>)";
  RewriteCase c(program(score, "select({1} < {0} + 2, exp({2} - M[{0}]), 0f32)"));
  EXPECT_EQ(extent_of(c.s, c.s.online_softmax({"M"}, 4).first), 2);  // row 4 sees 6 keys
  check(c);

  RewriteCase tiles(program(score, "select({1} < {0} + 2, exp({2} - M[{0}]), 0f32)"));
  Loop rows = tiles.s.split({"i_4"}, {-1, 2})[0];
  for (const char* block : {"O", "L", "P", "M"}) tiles.s.compute_at({block}, rows);
  Loop step = tiles.s.online_softmax({"M"}, 2).first;
  EXPECT_FALSE(as_int(tiles.s.node(step).extent)) << "it varies with the rows";
  EXPECT_GOLDEN(tiles.str());
  check(tiles);

  // Nobody says that the weights of what is not seen are 0 in a row that sees nothing.
  RewriteCase open(program(score));
  EXPECT_EQ(extent_of(open.s, open.s.online_softmax({"M"}, 4).first), 3);
  check(open);
}

// A length that is read outside of the rows' loops bounds the loop over blocks; the number of steps
// is never below 0.
TEST(OnlineSoftmax, EndsWithALengthThatIsRead) {
  const std::string seen = "{1} < {0} + cast<index>(N[0]) - 3";
  std::string text = program("select(" + seen + ", X[{0}, {1}], -inf<f32>)",
                             "select(" + seen + ", exp({2} - M[{0}]), 0f32)");
  text.replace(text.find("Y[yi, ye] = O[yi, ye] / L[yi]"), 29, "Y[yi, ye] = O[yi, ye] + L[yi]");
  text.insert(text.find("V: f32"), "N: i32[1] input, ");
  RewriteCase c(text);
  Loop step = c.s.online_softmax({"M"}, 4).first;
  EXPECT_EQ(to_string(c.s.node(step).extent),
            "max(min((floordiv(cast<index>(N[0]), 4) + 1), 3), 0)");
  for (int length : {-40, -3, 0, 2, 3, 7, 12, 15, 40}) {
    SCOPED_TRACE(length);
    check(c, {}, 1, length);
  }
}

TEST(OnlineSoftmax, RowsMaySeeNothingAtFirst) {
  RewriteCase c(program("select({1} >= {0} + 6, X[{0}, {1}], -inf<f32>)"));
  EXPECT_EQ(extent_of(c.s, c.s.online_softmax({"M"}, 2).first), 6);
  check(c);
  check(c, {}, 1000);
}

TEST(OnlineSoftmax, DynamicAxes) {
  std::string text = program();
  for (size_t at; (at = text.find("12")) != std::string::npos;) text.replace(at, 2, "n");
  text.insert(text.find(") {") + 1, " dims(n: 1..30)");
  RewriteCase c(text);
  c.s.online_softmax({"M"}, 4);
  for (int64_t n : {1, 4, 7, 30}) check(c, {{"n", n}});
}

TEST(OnlineSoftmax, TakesAttentionApart) {
  Program before =
      lower(make_workload(parse_spec("attention:heads=2,kv_heads=1,m=5,n=9,d=4,causal=true")));
  RewriteCase c(to_string(before));
  c.s.compute_inline({"S_scaled"});
  c.s.online_softmax({"S_max"}, 4);
  check(c);
}

TEST(OnlineSoftmax, Refuses) {
  auto refuses = [](const std::string& text, const char* block, int64_t factor, RefusalKind kind,
                    const std::string& message) {
    SCOPED_TRACE(message);
    RewriteCase(text).refuses([&](Schedule& s) { s.online_softmax({block}, factor); }, kind,
                              message);
  };
  refuses(program(), "M", 0, RefusalKind::BadArgument,
          "argument 'factor' of online_softmax: expected a number from 1, got 0");
  refuses(program(), "L", 4, RefusalKind::BadStructure,
          "block 'L' does not take the maximum of floats along one axis");
  refuses(kSoftmax, "M", 4, RefusalKind::Unsupported,
          "block 'Y' reads weights and their sum 'S', which is not complete by then");
  refuses(program("X[{0}, {1}]", "exp({2} - M[{0}]) * exp({2} - M[{0}])"), "M", 4,
          RefusalKind::BadStructure,
          "nothing sums up weights of block 'M': block 'P' multiplies weights with each other");
  refuses(program("X[{0}, {1}]", "exp({2} - M[{0}]) + 1f32"), "M", 4, RefusalKind::BadStructure,
          "block 'P' mixes weights with what does not follow the maximum");
  refuses(program("X[{0}, {1}]", "exp(V[{1}, 0] - M[{0}])"), "M", 4, RefusalKind::BadStructure,
          "block 'P' takes weights from 'M', which is not the maximum of what they are of");
  refuses(program("X[{0}, {1}]", "{2} - M[{0}]"), "M", 4, RefusalKind::BadStructure,
          "block 'P' uses 'M' other than in exp(x - M[…])");
  refuses(program("X[{0}, {1}]", "sqrt(exp({2} - M[{0}]))"), "M", 4, RefusalKind::BadStructure,
          "block 'P' uses 'M' other than in exp(x - M[…])");
  refuses(program("X[{0}, {1}]", "1f32 / exp({2} - M[{0}])"), "M", 4, RefusalKind::BadStructure,
          "block 'P' divides by weights");
}

TEST(OnlineSoftmax, RefusesOtherNests) {
  RewriteCase c(program());
  c.s.split({"j_1"}, {3, 4});
  c.refuses([](Schedule& s) { s.online_softmax({"M"}, 4); }, RefusalKind::BadStructure,
            "block 'P' has no loop of its own along the axis of the maximum");
  RewriteCase split(program());
  split.s.split({"j"}, {3, 4});
  split.refuses([](Schedule& s) { s.online_softmax({"M"}, 4); }, RefusalKind::BadStructure,
                "iterator 'mj' of block 'M' has no loop of its own");
  RewriteCase unrolled(program());
  unrolled.s.unroll({"i"});
  unrolled.refuses([](Schedule& s) { s.online_softmax({"M"}, 4); }, RefusalKind::BadStructure,
                   "block 'M' does not stand alone in serial loops");
}

}  // namespace
}  // namespace tilewright::testing
