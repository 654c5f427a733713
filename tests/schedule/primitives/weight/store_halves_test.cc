// store_halves: numbers as two of a narrower type, both of which enter the sums.
#include "tests/golden.h"
#include "tests/schedule/rewrite_case.h"

namespace tilewright::test {
namespace {

std::string program_store_halves(const std::string& value, const std::string& term) {
  return R"(
program p(A: f32[3, 12] input, B: f32[10, 8] weight, C: f32[3, 8] output) {
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
        C[vi, vj] = C[vi, vj] + )" +
         term + R"(
      }
    }}}
  }
})";
}

constexpr char kStoreHalvesPadded[] = "select(vi < 10, B[vi, vj], 0f32)";
constexpr char kProduct[] = "A[vi, vk] * V[vk, vj]";

TEST(StoreHalves, SumsTheProductsOfBoth) {
  RewriteCase c(program_store_halves(kStoreHalvesPadded, kProduct));
  c.s.store_halves({"V"}, ElemType::f16);
  EXPECT_GOLDEN(c.str());
  c.check();
}

// 257 has one bit more than bf16 holds, which must not be lost.
TEST(StoreHalves, KeepTwiceTheDigits) {
  for (ElemType type : {ElemType::f16, ElemType::bf16}) {
    RewriteCase c(
        program_store_halves("select(vi < 10, B[vi, vj] * 0f32 + 257f32, 0f32)", kProduct));
    c.s.store_halves({"V"}, type);
    c.check();
  }
}

TEST(StoreHalves, AFactorOfTheProductMayBeScaled) {
  RewriteCase c(program_store_halves(kStoreHalvesPadded, "A[vi, vk] * (V[vk, vj] * 2f32)"));
  c.s.store_halves({"V"}, ElemType::bf16);
  c.check();
}

TEST(StoreHalves, Refuses) {
  RewriteCase c(program_store_halves(kStoreHalvesPadded, kProduct));
  c.refuses([](Schedule& s) { s.store_halves({"V"}, ElemType::i8); }, RefusalKind::BadArgument,
            "argument 'type' of store_halves: expected f16 or bf16, got i8");
  c.refuses([](Schedule& s) { s.store_halves({"C"}, ElemType::f16); }, RefusalKind::BadStructure,
            "block 'C' is a reduction");
  RewriteCase square(program_store_halves(kStoreHalvesPadded, "V[vk, vj] * V[vk, vj]"));
  square.refuses([](Schedule& s) { s.store_halves({"V"}, ElemType::f16); },
                 RefusalKind::Unsupported,
                 "block 'C' does not sum products with 'V' as one factor");
  RewriteCase shifted(program_store_halves(kStoreHalvesPadded, "A[vi, vk] * (V[vk, vj] + 1f32)"));
  shifted.refuses([](Schedule& s) { s.store_halves({"V"}, ElemType::f16); },
                  RefusalKind::Unsupported,
                  "block 'C' does not sum products with 'V' as one factor");
}

}  // namespace
}  // namespace tilewright::test
