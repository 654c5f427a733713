// unscale: stored elements without the factor, which their readers apply.
#include "tests/golden.h"
#include "tests/schedule/rewrite_case.h"

namespace tilewright::test {
namespace {

// A 4-bit weight, its dequantized value, and its reader. `value` is the element's value.
std::string program_unscale(const std::string& value) {
  return R"(
program p(A: f32[3, 12] input, B: u4[10, 8] weight, S: f32[3, 8] weight, Z: u4[3, 8] weight,
          C: f32[3, 8] output) {
  block root() {
    alloc V: f32[12, 8] global
    for i in 0..12 { for j in 0..8 {
      block V(vi: spatial 12 = i, vj: spatial 8 = j) {
        V[vi, vj] = )" +
         value + R"(
      }
    }}
    for i_1 in 0..3 { for j_1 in 0..8 { for k in 0..12 {
      block C(vi: spatial 3 = i_1, vj: spatial 8 = j_1, vk: reduce 12 = k) {
        init { C[vi, vj] = 0f32 }
        C[vi, vj] = C[vi, vj] + A[vi, vk] * V[vk, vj]
      }
    }}}
  }
})";
}

constexpr char kUnscalePadded[] =
    "select(vi < 10, (cast<f32>(B[vi, vj]) - cast<f32>(Z[floordiv(vi, 4), vj])) * "
    "S[floordiv(vi, 4), vj], 0f32)";

TEST(Unscale, LeavesTheFactorToTheReader) {
  RewriteCase c(program_unscale(kUnscalePadded));
  c.s.unscale({"V"}, ElemType::f16);
  EXPECT_GOLDEN(c.str());
  c.check();
}

TEST(Unscale, ElementsWithoutAFactorChangeTheirTypeAlone) {
  RewriteCase c(program_unscale("select(vi < 10, cast<f32>(B[vi, vj]), 0f32)"));
  c.s.unscale({"V"}, ElemType::i8);
  EXPECT_EQ(c.s.program().body.as<BlockNode>()->allocs[0]->elem, ElemType::i8);
  c.check();
}

// 16-bit zero points leave differences that no narrower type holds: these keep their type.
TEST(Unscale, TheTypeOfTheValueHoldsEveryDifference) {
  std::string text = program_unscale(kUnscalePadded);
  text.replace(text.find("Z: u4"), 5, "Z: f16");
  RewriteCase c(text);
  c.s.unscale({"V"}, ElemType::f32);
  const Program& p = c.s.program();
  EXPECT_EQ(p.body.as<BlockNode>()->allocs[0]->elem, ElemType::f32);
  c.check();
  RewriteCase other(text);
  other.refuses([](Schedule& s) { s.unscale({"V"}, ElemType::f16); }, RefusalKind::BadArgument,
                "expected f32, or a type that holds every u4 less every f16 exactly, got f16");
}

// The type must hold the values that elements are rounded to first.
TEST(Unscale, ElementsMayBeRounded) {
  std::string text = program_unscale("cast<f32>(cast<f16>(B[vi, vj])) * S[floordiv(vi, 4), vj]");
  text.replace(text.find("B: u4[10, 8]"), 12, "B: nf4[12, 8]");
  RewriteCase c(text);
  c.s.unscale({"V"}, ElemType::f16);
  EXPECT_NE(c.str().find("V[vi, vj] = cast<f16>(B[vi, vj])"), std::string::npos) << c.str();
  c.check();
  RewriteCase other(text);
  other.refuses([](Schedule& s) { s.unscale({"V"}, ElemType::bf16); }, RefusalKind::BadArgument,
                "expected f32, or a type that holds every nf4 rounded to f16 exactly, got bf16");
}

TEST(Unscale, Refuses) {
  RewriteCase c(program_unscale(kUnscalePadded));
  c.refuses([](Schedule& s) { s.unscale({"V"}, ElemType::u8); }, RefusalKind::BadArgument,
            "argument 'type' of unscale: expected f32, or a type that holds every u4 less every u4 "
            "exactly, got u8");
  c.refuses([](Schedule& s) { s.unscale({"C"}, ElemType::f16); }, RefusalKind::BadStructure,
            "block 'C' is a reduction");
  RewriteCase other(program_unscale("select(vi < 10, S[0, vj] + S[1, vj], 0f32)"));
  other.refuses([](Schedule& s) { s.unscale({"V"}, ElemType::f16); }, RefusalKind::Unsupported,
                "the value of block 'V' is no element, less a zero point, times a factor");
}

}  // namespace
}  // namespace tilewright::test
