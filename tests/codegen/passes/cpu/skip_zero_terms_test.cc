// Branches skip terms that padding makes zero, outside the loops that do not change their
// conditions.
#include <gtest/gtest.h>

#include "codegen/lowering.h"
#include "ir/ops/spec.h"
#include "ir/text/parser.h"
#include "ir/text/printer.h"
#include "ir/visitor.h"
#include "schedule/schedule.h"
#include "tests/codegen/support.h"

namespace tilewright {
namespace {

// A convolution that reads its padding in place, with `rows` outputs of one row in registers.
Program convolution(const std::string& spec, int rows) {
  Schedule s(lower(make_workload(parse_spec(spec))));
  s.compute_inline(s.block("X_pad"));
  Block y = s.block("Y");
  std::vector<Loop> l = s.loops(y);  // n oh ow co kh kw ci
  std::vector<Loop> ow = s.split(l[2], {-1, rows});
  std::vector<Loop> co = s.split(l[3], {-1, 16});
  s.reorder({l[0], l[1], ow[0], co[0], l[4], l[5], l[6], ow[1], co[1]});
  s.decompose_reduction(y, l[4]);
  s.unroll(ow[1]);
  s.vectorize(co[1]);
  return s.program();
}

constexpr const char* kPadded = "conv2d:n=1,h=5,w=4,ci=3,co=16,kernel=3,pad=1";

Program lowered(const Program& p, bool skip = true) {
  LoweringOptions options;
  if (!skip) options.without = {"skip_zero_terms"};
  return lower_for_cpu(p, Target::parse("avx512"), options);
}

int selects(const Program& p) {
  int count = 0;
  for_each_expr(p.body, [&](const Expr& e) { count += e.as<SelectNode>() != nullptr; });
  return count;
}

TEST(SkipZeroTerms, KeepsTheMeaning) {
  for (int rows : {1, 2, 4}) {
    SCOPED_TRACE(rows);
    test::expect_same_meaning(convolution(kPadded, rows));
  }
  test::expect_same_meaning(
      convolution("conv2d:n=1,h=7,w=9,ci=2,co=20,kernel=3,stride=2,pad=1", 3));
  test::expect_same_meaning(
      convolution("conv2d_transpose:n=1,h=3,w=3,ci=2,co=4,kernel=4,stride=2,pad=1", 2));
}

TEST(SkipZeroTerms, PaddingIsBranchedAround) {
  Program p = convolution(kPadded, 4);
  EXPECT_GT(selects(lowered(p, false)), 0);
  EXPECT_EQ(selects(lowered(p)), 0);
}

// The rows of the filter that lie outside are checked once, around the loops over the filter's
// columns and the channels.
TEST(SkipZeroTerms, BranchesLeaveTheLoopsThatDoNotChangeThem) {
  std::string text = to_string(lowered(convolution(kPadded, 4)));
  size_t rows = text.find("for kh"), branch = text.find("if (", rows);
  size_t columns = text.find("for kw", rows);
  ASSERT_NE(columns, std::string::npos) << text;
  EXPECT_LT(branch, columns) << text;
  std::string condition = text.substr(branch, text.find("\n", branch) - branch);
  EXPECT_NE(condition.find("kh"), std::string::npos) << condition;
  EXPECT_EQ(condition.find("kw"), std::string::npos) << condition;
}

int branches(const Program& p) {
  int count = 0;
  for_each_stmt(p.body, [&](const Stmt& s) { count += s.as<IfNode>() != nullptr; });
  return count;
}

// A body of text in a loop over x, with skip_zero_terms and nothing else.
Program skipped(const std::string& body) {
  return skip_zero_terms(parse_program(
      "program p(A: f32[64] input, Y: f32[64] output) {\n  allocate s: f32[4] local {\n"
      "  for x in 0..8 {\n" +
      body + "  }\n  }\n}"));
}

std::string term(int place, const std::string& condition, int from) {
  const std::string at = "s[" + std::to_string(place) + "]";
  return "    " + at + " = " + at + " + select((" + condition + "), A[" + std::to_string(from) +
         "], 0.0f32) * A[x]\n";
}

// Copies of an unrolled loop take turns in two conditions: each is asked once. What adds to one place
// keeps its order.
TEST(SkipZeroTerms, StatementsOfOneConditionStandTogether) {
  std::string body;
  for (int copy = 0; copy < 3; ++copy) {
    body += term(0, "x < 3", copy * 2) + term(1, "x < 5", copy * 2 + 1);
  }
  const Program p = skipped(body);
  EXPECT_EQ(branches(p), 2) << to_string(p);
  const std::string text = to_string(p);
  EXPECT_LT(text.find("A[0]"), text.find("A[2]")) << text;
  EXPECT_LT(text.find("A[2]"), text.find("A[4]")) << text;
}

// The same place under two conditions in turns, a place that another statement reads, and places that
// overlap: the order decides the result.
TEST(SkipZeroTerms, StatementsThatDependOnTheirOrderStay) {
  const std::string turns = term(0, "x < 3", 0) + term(0, "x < 5", 1) + term(0, "x < 3", 2);
  EXPECT_EQ(branches(skipped(turns)), 3);
  const std::string read = term(0, "x < 3", 0) + "    s[1] = s[0]\n" + term(0, "x < 3", 2);
  EXPECT_EQ(branches(skipped(read)), 2);
  const std::string moving =
      term(0, "x < 3", 0) + "    s[floormod(x, 4)] = 1.0f32\n" + term(1, "x < 3", 2);
  EXPECT_EQ(branches(skipped(moving)), 2);
}

// A branch around many statements costs little, and their loads serve the statements around it.
TEST(SkipZeroTerms, LongBranchesStayWhereTheyAre) {
  std::string body;
  for (int copy = 0; copy < 2; ++copy) {
    for (int place = 0; place < 4; ++place) {
      body += term(place, copy == 0 ? "x < 3" : "x < 5", copy * 4 + place);
    }
    for (int place = 0; place < 4; ++place) body += term(place, "x < 3", 16 + copy * 4 + place);
  }
  EXPECT_EQ(branches(skipped(body)), 3) << to_string(skipped(body));
}

Program free_expression(const std::string& expr, const std::string& dims) {
  return lower(make_workload(parse_spec("expr:expr=\"" + expr + "\"," + dims)));
}

// max(…, 0) is no sum, and a select whose other side is not zero must stay. So must a condition on
// data, which no branch predicts.
TEST(SkipZeroTerms, OtherStatementsStay) {
  for (const char* expr :
       {"Y[i] max= select(k >= 2, X[i,k], 0)", "Y[i] += select(k >= 2, X[i,k], 1) * W[k]",
        "Y[i] += select(M[i,k] > 0, X[i,k], 0) * W[k]"}) {
    SCOPED_TRACE(expr);
    Program p = free_expression(expr, "dims.i=4,dims.k=4");
    EXPECT_GT(selects(lowered(p)), 0);
    test::expect_same_meaning(p);
  }
}

TEST(SkipZeroTerms, BothFactorsMayBeGuarded) {
  Program p = free_expression("Y[i] += select(k >= 2, X[i,k], 0) * select(i >= 1, W[k], 0)",
                              "dims.i=4,dims.k=4");
  EXPECT_EQ(selects(lowered(p)), 0);
  test::expect_same_meaning(p);
}

TEST(SkipZeroTerms, LooksThroughConversions) {
  Program p = convolution("conv2d:n=1,h=5,w=4,ci=3,co=16,kernel=3,pad=1,dtype=bf16,out=f32", 4);
  EXPECT_GT(selects(lowered(p, false)), 0);
  EXPECT_EQ(selects(lowered(p)), 0);
}

}  // namespace
}  // namespace tilewright
