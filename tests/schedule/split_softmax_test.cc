// split_softmax: a softmax in parts of its axis, each with a maximum of its own.
#include <fmt/format.h>

#include "ir/interpreter.h"
#include "ir/ops/spec.h"
#include "ir/printer.h"
#include "ir/verify.h"
#include "schedule/primitives/split_softmax.h"
#include "tests/golden.h"
#include "tests/schedule/programs.h"
#include "tests/schedule/rewrite_case.h"

namespace tilewright::testing {
namespace {

// Y = softmax(X) V over 5 rows, 12 keys and 3 columns: the first N[0] of the keys where `lengths` says
// so, and rows that see none are 0.
std::string program(bool lengths = false) {
  const char* score =
      lengths ? "select({1} < cast<index>(N[0]), X[{0}, {1}], -inf<f32>)" : "X[{0}, {1}]";
  auto at = [&](const char* i, const char* j) { return fmt::format(fmt::runtime(score), i, j); };
  const std::string weight = "exp(" + at("pi", "pj") + " - M[pi])";
  return fmt::format(
      R"(
program p(X: f32[5, 12] input, N: i32[1] input, V: f32[12, 3] input, Y: f32[5, 3] output) {{
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
      block Y(yi: spatial 5 = i_4, ye: spatial 3 = e_4) {{
        Y[yi, ye] = select(L[yi] > 0f32, O[yi, ye] / L[yi], 0f32)
      }}
    }}}}
  }}
}})",
      at("mi", "mj"), lengths ? "select(pj < cast<index>(N[0]), " + weight + ", 0f32)" : weight);
}

// Legal, replayed, and close to what it was on random operands, the scores `scale` times as large.
void check(const RewriteCase& c, double scale = 1, int length = 0) {
  verify_or_throw(c.s.program(), "split_softmax");
  EXPECT_TRUE(replays(c.before, c.s));
  NdArrays want;
  uint64_t seed = 5;
  for (const Param& p : c.before.params) {
    if (p.role == ParamRole::Output) continue;
    std::vector<int64_t> shape;
    for (const Expr& e : p.buffer->shape) shape.push_back(*as_int(e));
    NdArray& array = want[p.buffer->name] = NdArray::random(p.buffer->elem, shape, seed++);
    if (p.buffer->name == "N") array.data = {static_cast<double>(length)};
    if (p.buffer->name == "X") {
      for (double& x : array.data) x = round_to(ElemType::f32, x * scale);
    }
  }
  NdArrays got = want;
  interpret(c.before, want, {});
  interpret(c.s.module(), got, {});
  const std::string& out = c.before.params.back().buffer->name;
  for (size_t i = 0; i < want.at(out).data.size(); ++i) {
    ASSERT_NEAR(got.at(out).data[i], want.at(out).data[i], 2e-6) << "element " << i;
  }
}

TEST(SplitSoftmax, BringsPartsToTheMaximumOfAll) {
  RewriteCase c(program());
  EXPECT_EQ(split_softmax(c.s, {"M"}, 3),
            (std::vector<Block>{
                {"M_part"}, {"L_part"}, {"O_part"}, {"M_all"}, {"M_scale"}, {"L_all"}, {"O_all"}}));
  EXPECT_GOLDEN(c.str());
  check(c);
  check(c, 1000);  // exp of these overflows, and of their differences underflows
}

TEST(SplitSoftmax, AnyDivisor) {
  for (int64_t parts : {1, 2, 4, 6, 12}) {
    SCOPED_TRACE(parts);
    RewriteCase c(program());
    split_softmax(c.s, {"M"}, parts);
    check(c);
  }
}

// A part behind the length has no maximum; what it sums is no number, and adds nothing.
TEST(SplitSoftmax, PartsThatSeeNothing) {
  for (int length : {0, 1, 3, 4, 5, 11, 12}) {
    SCOPED_TRACE(length);
    RewriteCase c(program(true));
    split_softmax(c.s, {"M"}, 4);
    check(c, 1, length);
  }
  std::string text = program();
  text.replace(text.find("X[mi, mj]"), 9, "select(mj < 4, X[mi, mj], -inf<f32>)");
  text.replace(text.find("exp(X[pi, pj] - M[pi])"), 22,
               "exp(select(pj < 4, X[pi, pj], -inf<f32>) - M[pi])");
  RewriteCase open(text);
  split_softmax(open.s, {"M"}, 3);
  check(open);
}

// Each part in one loop over blocks of its keys, with what it sums beside each other, then the rest.
TEST(SplitSoftmax, PartsMayBeOnline) {
  for (int length : {0, 2, 6, 7, 12}) {
    SCOPED_TRACE(length);
    RewriteCase c(program(true));
    split_softmax(c.s, {"M"}, 2);
    const Loop tile = c.s.loops({"M"})[0];
    for (const char* block : {"P", "O", "L", "O_part"}) c.s.reverse_compute_at({block}, tile);
    c.s.online_softmax({"M"}, 2);
    for (const char* block : {"M_part", "L_part"}) c.s.reverse_compute_at({block}, tile);
    check(c, 1, length);
  }
}

TEST(SplitSoftmax, TakesAttentionApart) {
  RewriteCase c(to_string(
      lower(make_workload(parse_spec("attention:heads=2,kv_heads=1,m=5,n=9,d=4,causal=true")))));
  c.s.compute_inline({"S_scaled"});
  split_softmax(c.s, {"S_max"}, 3);
  check(c);
}

TEST(SplitSoftmax, Refuses) {
  auto refuses = [](const std::string& text, const char* block, int64_t parts, RefusalKind kind,
                    const std::string& message) {
    SCOPED_TRACE(message);
    RewriteCase(text).refuses([&](Schedule& s) { split_softmax(s, {block}, parts); }, kind,
                              message);
  };
  refuses(
      program(), "M", 0, RefusalKind::BadArgument,
      "argument 'parts' of split_softmax: expected a divisor of the 12 values along 'mj', got 0");
  refuses(program(), "M", 5, RefusalKind::BadArgument, "expected a divisor of the 12 values");
  refuses(program(), "L", 4, RefusalKind::BadStructure,
          "block 'L' does not take the maximum of floats along one axis");
  refuses(kSoftmax, "M", 4, RefusalKind::Unsupported,
          "block 'Y' reads weights and their sum 'S', which is not complete by then");
  std::string dynamic = program();
  for (size_t at; (at = dynamic.find("12")) != std::string::npos;) dynamic.replace(at, 2, "n");
  dynamic.insert(dynamic.find(") {") + 1, " dims(n: 1..30)");
  refuses(dynamic, "M", 4, RefusalKind::BadArgument,
          "expected a divisor of the n values along 'mj', got 4");
}

}  // namespace
}  // namespace tilewright::testing
