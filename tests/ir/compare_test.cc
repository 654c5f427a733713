#include "ir/compare.h"

#include <gtest/gtest.h>

#include <limits>

#include "ir/text/parser.h"

namespace tilewright {
namespace {

bool same(const std::string& a, const std::string& b) {
  return equal(parse_program(a), parse_program(b));
}

std::string with_body(const std::string& body) {
  return "program p(A: f32[8] input, C: f32[8] output) {\n" + body + "\n}";
}

bool same_body(const std::string& a, const std::string& b) {
  return same(with_body(a), with_body(b));
}

TEST(Compare, LoopVariablesAndIteratorsMayBeRenamed) {
  EXPECT_TRUE(same_body("for i in 0..8 { C[i] = A[i] }", "for j in 0..8 { C[j] = A[j] }"));
  EXPECT_TRUE(same_body("for i in 0..8 { block b(v: spatial 8 = i) { C[v] = 0f32 } }",
                        "for i in 0..8 { block b(w: spatial 8 = i) { C[w] = 0f32 } }"));
  EXPECT_TRUE(same_body("let x: f32 = 1f32 { C[0] = x }", "let y: f32 = 1f32 { C[0] = y }"));
}

TEST(Compare, RenamingIsConsistent) {
  const char* straight = "for i in 0..8 { for j in 0..8 { C[i] = A[j] } }";
  EXPECT_FALSE(same_body(straight, "for i in 0..8 { for j in 0..8 { C[j] = A[i] } }"));
  EXPECT_FALSE(same_body(straight, "for i in 0..8 { for j in 0..8 { C[i] = A[i] } }"));
  EXPECT_FALSE(same_body("for i in 0..8 { for j in 0..8 { C[i] = A[i] } }", straight));
}

TEST(Compare, BuffersThatLookAlikeMayStandForEachOther) {
  const char* one = "allocate T: f32[8] local { T[0] = 1f32 }";
  EXPECT_TRUE(same_body(one, one));
  EXPECT_FALSE(same_body(one, "allocate U: f32[8] local { U[0] = 1f32 }"));
  EXPECT_FALSE(same_body(one, "allocate T: f32[8] register { T[0] = 1f32 }"));
  EXPECT_FALSE(same_body(one, "allocate T: f32[9] local { T[0] = 1f32 }"));
  EXPECT_FALSE(same_body("C[0] = A[0]", "C[0] = C[0]"));
}

TEST(Compare, EveryFieldOfAStatementCounts) {
  const char* loop = "for i in 0..8 { C[i] = 0f32 }";
  for (const char* other :
       {"for i in 0..7 { C[i] = 0f32 }", "for i in 1..1+8 { C[i] = 0f32 }",
        "for i in 0..8 unrolled { C[i] = 0f32 }", "for i in 0..8 @{a: 1} { C[i] = 0f32 }",
        "for i in 0..8 { C[i] = 0f32 if true }", "for i in 0..8 { C[i] <-async 0f32 }",
        "for i in 0..8 { C[i] = -0.0f32 }", "for i in 0..8 { C[i] = 0f32\n C[i] = 0f32 }"}) {
    EXPECT_FALSE(same_body(loop, other)) << other;
  }
  const char* block = "block b(v: spatial 8 = 0) { C[v] = 0f32 }";
  for (const char* other :
       {"block c(v: spatial 8 = 0) { C[v] = 0f32 }", "block b(v: reduce 8 = 0) { C[v] = 0f32 }",
        "block b(v: spatial 7 = 0) { C[v] = 0f32 }", "block b(v: spatial 8 = 1) { C[v] = 0f32 }",
        "block b(v: spatial 8 = 0) where true { C[v] = 0f32 }",
        "block b(v: spatial 8 = 0) @{a: \"\"} { C[v] = 0f32 }",
        "block b(v: spatial 8 = 0) { init { C[v] = 0f32 } C[v] = 0f32 }",
        "block b(v: spatial 8 = 0) { alloc T: f32[1] local C[v] = 0f32 }"}) {
    EXPECT_FALSE(same_body(block, other)) << other;
  }
  EXPECT_FALSE(
      same_body("if true { C[0] = 0f32 }", "if true { C[0] = 0f32 } else { C[0] = 0f32 }"));
}

TEST(Compare, ProgramsCompareTheirHeads) {
  const std::string p = "program p(A: f32[m] input) dims(m: 1..8) { barrier<bool>() }";
  EXPECT_TRUE(same(p, p));
  for (const char* other : {"program q(A: f32[m] input) dims(m: 1..8) { barrier<bool>() }",
                            "program p(A: f32[m] weight) dims(m: 1..8) { barrier<bool>() }",
                            "program p(A: f32[m] input) dims(m: 1..9) { barrier<bool>() }",
                            "program p(A: f32[n] input) dims(n: 1..8) { barrier<bool>() }",
                            "program p(A: f32[(m + 1)] input) dims(m: 1..8) { barrier<bool>() }",
                            "program p(A: f16[m] input) dims(m: 1..8) { barrier<bool>() }",
                            "program p() dims(m: 1..8) { barrier<bool>() }"}) {
    EXPECT_FALSE(same(p, other)) << other;
  }
}

TEST(Compare, ExpressionsCompareVariablesByIdentity) {
  Var i("i"), also_i("i");
  EXPECT_TRUE(equal(i + 1, i + 1));
  EXPECT_FALSE(equal(i + 1, also_i + 1));
  EXPECT_FALSE(equal(i + 1, i - 1));
  EXPECT_TRUE(equal(Expr(), Expr()));
  EXPECT_FALSE(equal(Expr(), i));
}

TEST(Compare, ConstantsCompareByTypeAndBits) {
  double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_TRUE(equal(make_float(ElemType::f32, nan), make_float(ElemType::f32, -nan)));
  EXPECT_FALSE(equal(make_float(ElemType::f32, 0.0), make_float(ElemType::f32, -0.0)));
  EXPECT_FALSE(equal(make_float(ElemType::f32, 1), make_float(ElemType::f64, 1)));
  EXPECT_FALSE(equal(make_int(ElemType::i32, 1), make_int(ElemType::i64, 1)));
}

}  // namespace
}  // namespace tilewright
