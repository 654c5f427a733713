// split_softmax (split-KV): a softmax in parts of its axis, each with its own maximum.
#include "ir/ops/spec.h"
#include "ir/text/printer.h"
#include "tests/golden.h"
#include "tests/schedule/primitives/softmax/softmax_program.h"
#include "tests/schedule/programs.h"

namespace tilewright::test {
namespace {

// With `lengths`, only the first N[0] keys count, and rows that see none are 0.
std::string program_split_softmax(bool lengths = false) {
  SoftmaxTerms terms;
  terms.result = "select(L[yi] > 0f32, O[yi, ye] / L[yi], 0f32)";
  terms.params = "N: i32[1] input, ";
  if (lengths) {
    terms.score = "select({1} < cast<index>(N[0]), X[{0}, {1}], -inf<f32>)";
    terms.weight = "select({1} < cast<index>(N[0]), exp({2} - M[{0}]), 0f32)";
  }
  return softmax_program(terms);
}

TEST(SplitSoftmax, BringsPartsToTheMaximumOfAll) {
  RewriteCase c(program_split_softmax());
  EXPECT_EQ(c.s.split_softmax({"M"}, 3),
            (std::vector<Block>{
                {"M_part"}, {"L_part"}, {"O_part"}, {"M_all"}, {"M_scale"}, {"L_all"}, {"O_all"}}));
  EXPECT_GOLDEN(c.str());
  check_softmax(c);
  check_softmax(c, 1000);  // exp of these overflows, and exp of their differences underflows
}

TEST(SplitSoftmax, AnyDivisor) {
  for (int64_t parts : {1, 2, 4, 6, 12}) {
    SCOPED_TRACE(parts);
    RewriteCase c(program_split_softmax());
    c.s.split_softmax({"M"}, parts);
    check_softmax(c);
  }
}

// A part beyond the length has no maximum. Its sums are NaN and must add nothing.
TEST(SplitSoftmax, PartsThatSeeNothing) {
  for (int length : {0, 1, 3, 4, 5, 11, 12}) {
    SCOPED_TRACE(length);
    RewriteCase c(program_split_softmax(true));
    c.s.split_softmax({"M"}, 4);
    check_softmax(c, 1, length);
  }
  std::string text = program_split_softmax();
  text.replace(text.find("X[mi, mj]"), 9, "select(mj < 4, X[mi, mj], -inf<f32>)");
  text.replace(text.find("exp(X[pi, pj] - M[pi])"), 22,
               "exp(select(pj < 4, X[pi, pj], -inf<f32>) - M[pi])");
  RewriteCase open(text);
  open.s.split_softmax({"M"}, 3);
  check_softmax(open);
}

// Each part in one loop over blocks of its keys, with all its sums inside, followed by the rest.
TEST(SplitSoftmax, PartsMayBeOnline) {
  for (int length : {0, 2, 6, 7, 12}) {
    SCOPED_TRACE(length);
    RewriteCase c(program_split_softmax(true));
    c.s.split_softmax({"M"}, 2);
    const Loop tile = c.s.loops({"M"})[0];
    for (const char* block : {"P", "O", "L", "O_part"}) c.s.reverse_compute_at({block}, tile);
    c.s.online_softmax({"M"}, 2);
    for (const char* block : {"M_part", "L_part"}) c.s.reverse_compute_at({block}, tile);
    check_softmax(c, 1, length);
  }
}

TEST(SplitSoftmax, TakesAttentionApart) {
  RewriteCase c(to_string(
      lower(make_workload(parse_spec("attention:heads=2,kv_heads=1,m=5,n=9,d=4,causal=true")))));
  c.s.compute_inline({"S_scaled"});
  c.s.split_softmax({"S_max"}, 3);
  check_softmax(c);
}

TEST(SplitSoftmax, Refuses) {
  auto refuses = [](const std::string& text, const char* block, int64_t parts, RefusalKind kind,
                    const std::string& message) {
    SCOPED_TRACE(message);
    RewriteCase(text).refuses([&](Schedule& s) { s.split_softmax({block}, parts); }, kind, message);
  };
  refuses(
      program_split_softmax(), "M", 0, RefusalKind::BadArgument,
      "argument 'parts' of split_softmax: expected a divisor of the 12 values along 'mj', got 0");
  refuses(program_split_softmax(), "M", 5, RefusalKind::BadArgument,
          "expected a divisor of the 12 values");
  refuses(program_split_softmax(), "L", 4, RefusalKind::BadStructure,
          "block 'L' does not take the maximum of floats along one axis");
  refuses(kSoftmax, "M", 4, RefusalKind::Unsupported,
          "block 'Y' reads weights and their sum 'S', which is not complete by then");
  std::string dynamic = program_split_softmax();
  for (size_t at; (at = dynamic.find("12")) != std::string::npos;) dynamic.replace(at, 2, "n");
  dynamic.insert(dynamic.find(") {") + 1, " dims(n: 1..30)");
  refuses(dynamic, "M", 4, RefusalKind::BadArgument,
          "expected a divisor of the n values along 'mj', got 4");
}

}  // namespace
}  // namespace tilewright::test
