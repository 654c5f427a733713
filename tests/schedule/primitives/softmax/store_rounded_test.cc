// store_rounded: intermediates in the type that their values are rounded to.
#include "tests/golden.h"
#include "tests/schedule/rewrite_case.h"

namespace tilewright::test {
namespace {

std::string program_store_rounded(const std::string& value) {
  return R"(
program p(X: f32[3, 12] input, V: f16[12, 8] input, C: f32[3, 8] output) {
  block root() {
    alloc P: f32[3, 12] global
    for i in 0..3 { for j in 0..12 {
      block P(vi: spatial 3 = i, vj: spatial 12 = j) {
        P[vi, vj] = )" +
         value + R"(
      }
    }}
    for i_1 in 0..3 { for e in 0..8 { for j_1 in 0..12 {
      block C(vi: spatial 3 = i_1, ve: spatial 8 = e, vj: reduce 12 = j_1) {
        init { C[vi, ve] = 0f32 }
        C[vi, ve] = C[vi, ve] + P[vi, vj] * cast<f32>(V[vj, ve])
      }
    }}}
  }
})";
}

TEST(StoreRounded, KeepsTheNumbers) {
  RewriteCase c(program_store_rounded("cast<f32>(cast<f16>(X[vi, vj] * 0.1f32))"));
  c.s.store_rounded({"P"});
  EXPECT_GOLDEN(c.str());
  EXPECT_EQ(c.s.program().body.as<BlockNode>()->allocs[0]->elem, ElemType::f16);
  c.check();
}

TEST(StoreRounded, Refuses) {
  RewriteCase c(program_store_rounded("X[vi, vj] * 0.1f32"));
  c.refuses([](Schedule& s) { s.store_rounded({"P"}); }, RefusalKind::Unsupported,
            "the value of block 'P' is not converted to f32 from a narrower float");
  c.refuses([](Schedule& s) { s.store_rounded({"C"}); }, RefusalKind::BadStructure,
            "block 'C' is a reduction");
}

}  // namespace
}  // namespace tilewright::test
