// widen_operand on 16-bit elements; factor_scale_test.cc tests codes.
#include "tests/golden.h"
#include "tests/schedule/rewrite_case.h"

namespace tilewright::test {
namespace {

constexpr char kHalves[] = R"(
program p(A: bf16[3, 4] input, B: f16[4, 5] weight, C: f32[3, 5] output) {
  block root() {
    for i in 0..3 { for j in 0..5 { for k in 0..4 {
      block C(vi: spatial 3 = i, vj: spatial 5 = j, vk: reduce 4 = k) {
        init { C[vi, vj] = 0f32 }
        C[vi, vj] = C[vi, vj] + cast<f32>(A[vi, vk]) * cast<f32>(B[vk, vj])
      }
    }}}
  }
})";

TEST(WidenHalves, MakesFloatsOfHalves) {
  RewriteCase c(kHalves);
  EXPECT_EQ(c.s.widen_operand("A", ElemType::f32, 0), (Block{"A_f32"}));
  EXPECT_EQ(c.s.widen_operand("B", ElemType::f32, 0), (Block{"B_f32"}));
  c.s.precompute({"B_f32"});
  EXPECT_GOLDEN(c.str());
  c.check();
}

TEST(WidenHalves, RefusesTypesThatHoldLess) {
  RewriteCase c(kHalves);
  c.refuses([](Schedule& s) { s.widen_operand("A", ElemType::f16, 0); }, RefusalKind::BadArgument,
            "a type that holds the value of every code of bf16 plus 0, got f16", false);
  c.refuses([](Schedule& s) { s.widen_operand("B", ElemType::bf16, 0); }, RefusalKind::BadArgument,
            "a type that holds the value of every code of f16 plus 0, got bf16", false);
  c.refuses([](Schedule& s) { s.widen_operand("B", ElemType::f32, 8); }, RefusalKind::BadArgument,
            "a type that holds the value of every code of f16 plus 8, got f32", false);
}

// Reads that are all rounded to the type use the already rounded elements.
TEST(WidenHalves, RoundsWhatAllReadersRound) {
  std::string text = kHalves;
  text.replace(text.find("B: f16"), 6, "B: nf4");
  RewriteCase exact(text);
  exact.refuses([](Schedule& s) { s.widen_operand("B", ElemType::bf16, 0); },
                RefusalKind::BadArgument,
                "a type that holds the value of every code of nf4 plus 0, got bf16", false);
  text.replace(text.find("cast<f32>(B[vk, vj])"), 20, "cast<f32>(cast<bf16>(B[vk, vj]))");
  RewriteCase c(text);
  EXPECT_EQ(c.s.widen_operand("B", ElemType::bf16, 0), (Block{"B_bf16"}));
  EXPECT_NE(c.str().find("cast<f32>(B_bf16[vk, vj])"), std::string::npos) << c.str();
  c.check();
  RewriteCase other(text);
  other.refuses([](Schedule& s) { s.widen_operand("B", ElemType::f16, 0); },
                RefusalKind::BadArgument,
                "a type that holds the value of every code of nf4 plus 0, got f16", false);
}

}  // namespace
}  // namespace tilewright::test
