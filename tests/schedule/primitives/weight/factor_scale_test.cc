// widen_operand: stored codes as elements of another type. factor_scale: scales applied to sums.
#include "ir/interpreter/interpreter.h"
#include "tests/golden.h"
#include "tests/schedule/rewrite_case.h"

namespace tilewright::test {
namespace {

// 4-bit weights with a scale and a zero point per 4 elements along k.
constexpr char kGroups[] = R"(
program p(A: f32[3, 12] input, B: u4[12, 8] weight, S: f32[3, 8] weight, Z: u4[3, 8] weight,
          C: f32[3, 8] output) {
  block root() {
    for i in 0..3 { for j in 0..8 { for k in 0..12 {
      block C(vi: spatial 3 = i, vj: spatial 8 = j, vk: reduce 12 = k) {
        init { C[vi, vj] = 0f32 }
        C[vi, vj] = C[vi, vj] + A[vi, vk] * ((cast<f32>(B[vk, vj]) -
          cast<f32>(Z[floordiv(vk, 4), vj])) * S[floordiv(vk, 4), vj])
      }
    }}}
  }
})";

// 8-bit activations, no zero points.
constexpr char kFactorScaleBytes[] = R"(
program p(A: i8[3, 12] input, B: i4[12, 8] weight, S: f32[3, 8] weight, C: f32[3, 8] output) {
  block root() {
    for i in 0..3 { for j in 0..8 { for k in 0..12 {
      block C(vi: spatial 3 = i, vj: spatial 8 = j, vk: reduce 12 = k) {
        init { C[vi, vj] = 0f32 }
        C[vi, vj] = C[vi, vj] + cast<f32>(A[vi, vk]) * (cast<f32>(B[vk, vj]) *
          S[floordiv(vk, 4), vj])
      }
    }}}
  }
})";

// Scaled codes with an offset.
constexpr char kOffsets[] = R"(
program p(A: f32[3, 12] input, B: u4[12, 8] weight, S: f32[3, 8] weight, O: f16[3, 8] weight,
          C: f32[3, 8] output) {
  block root() {
    for i in 0..3 { for j in 0..8 { for k in 0..12 {
      block C(vi: spatial 3 = i, vj: spatial 8 = j, vk: reduce 12 = k) {
        init { C[vi, vj] = 0f32 }
        C[vi, vj] = C[vi, vj] + A[vi, vk] * (cast<f32>(B[vk, vj]) * S[floordiv(vk, 4), vj] +
          cast<f32>(O[floordiv(vk, 4), vj]))
      }
    }}}
  }
})";

std::string edited(std::string program, const std::string& from, const std::string& to) {
  for (size_t at = 0; (at = program.find(from, at)) != std::string::npos; at += to.size()) {
    program.replace(at, from.size(), to);
  }
  return program;
}

// Splits k at its groups, with column tiles of `columns` inside, and decomposes the reduction.
std::vector<Loop> tile(Schedule& s, int64_t columns, int64_t group = 4) {
  std::vector<Loop> k = s.split({"k"}, {-1, group}), j = s.split({"j"}, {-1, columns});
  s.reorder({{"i"}, j[0], k[0], k[1], j[1]});
  s.decompose_reduction({"C"}, k[0]);
  return {k[1], j[1]};
}

TEST(FactorScale, AppliesScaleAndZeroPointToEachGroupsSum) {
  RewriteCase c(kGroups);
  std::vector<Loop> loops = tile(c.s, 4);
  EXPECT_EQ(c.s.factor_scale({"C"}, loops[0], ElemType::f32),
            (std::vector<Block>{{"C_partial"}, {"C_partial_init"}, {"C_sum"}}));
  EXPECT_GOLDEN(c.str());
  c.check();
}

TEST(FactorScale, TakesPartsOfAGroup) {
  RewriteCase c(kGroups);
  std::vector<Loop> loops = tile(c.s, 8, 2);
  c.s.factor_scale({"C"}, loops[0], ElemType::f32);
  c.check();
}

TEST(FactorScale, KeepsTilesThatHangOver) {
  RewriteCase c(kGroups);
  std::vector<Loop> loops = tile(c.s, 3);
  c.s.factor_scale({"C"}, loops[0], ElemType::f32);
  c.check();
}

TEST(FactorScale, SumsBytesInIntegers) {
  RewriteCase c(kFactorScaleBytes);
  c.s.widen_operand("B", ElemType::u8, 8);
  std::vector<Loop> loops = tile(c.s, 4);
  EXPECT_EQ(c.s.factor_scale({"C"}, loops[0], ElemType::i32).size(), 3u);
  EXPECT_GOLDEN(c.str());
  c.check();
}

TEST(FactorScale, AppliesOffsetsThroughTheSumsOfTheOtherFactor) {
  RewriteCase c(kOffsets);
  std::vector<Loop> loops = tile(c.s, 4);
  EXPECT_EQ(c.s.factor_scale({"C"}, loops[0], ElemType::f32),
            (std::vector<Block>{{"C_partial"}, {"C_partial_init"}, {"C_sum"}}));
  EXPECT_GOLDEN(c.str());
  c.check();
}

// Codes with a sign are read with 8 added, which is taken off where the integer sums start.
TEST(FactorScale, AppliesOffsetsToSumsOfBytes) {
  RewriteCase c(
      edited(edited(kOffsets, "A: f32", "A: i8"), "A[vi, vk] *", "cast<f32>(A[vi, vk]) *"));
  std::vector<Loop> loops = tile(c.s, 4);
  c.s.factor_scale({"C"}, loops[0], ElemType::i32);
  c.check();
  RewriteCase is_signed(edited(edited(edited(kOffsets, "B: u4", "B: i4"), "A: f32", "A: i8"),
                               "A[vi, vk] *", "cast<f32>(A[vi, vk]) *"));
  is_signed.s.widen_operand("B", ElemType::u8, 8);
  loops = tile(is_signed.s, 4);
  is_signed.s.factor_scale({"C"}, loops[0], ElemType::i32);
  EXPECT_GOLDEN(is_signed.str());
  is_signed.check();
}

TEST(FactorScale, RefusesOffsetsOfTwoFactorsAndOfProducts) {
  RewriteCase two(edited(kOffsets, "A[vi, vk] *", "(A[vi, vk] + S[0, vj]) *"));
  std::vector<Loop> loops = tile(two.s, 4);
  two.refuses([&](Schedule& s) { s.factor_scale({"C"}, loops[0], ElemType::f32); },
              RefusalKind::Unsupported,
              "a factor of block 'C' that varies in loop 'k_1' is no element of a buffer");
  RewriteCase product(edited(kOffsets, "* S[floordiv(vk, 4), vj] +", "* A[vi, vk] +"));
  loops = tile(product.s, 4);
  product.refuses([&](Schedule& s) { s.factor_scale({"C"}, loops[0], ElemType::f32); },
                  RefusalKind::Unsupported,
                  "a factor of block 'C' that varies in loop 'k_1' is no element of a buffer");
}

TEST(FactorScale, NeedsNoSumsWithoutZeroPoints) {
  RewriteCase c(kFactorScaleBytes);
  std::vector<Loop> loops = tile(c.s, 8);
  EXPECT_EQ(c.s.factor_scale({"C"}, loops[0], ElemType::i32).size(), 2u);
  c.check();
}

TEST(FactorScale, TakesAGroupThatIsTheWholeColumn) {
  std::string one = kGroups;
  for (size_t at; (at = one.find("floordiv(vk, 4)")) != std::string::npos;)
    one.replace(at, 15, "0");
  RewriteCase c(one);
  c.s.reorder({{"i"}, {"k"}, {"j"}});
  c.s.decompose_reduction({"C"}, {"k"});
  c.s.factor_scale({"C"}, {"k"}, ElemType::f32);
  c.check();
}

TEST(FactorScale, Refuses) {
  RewriteCase c(kGroups);
  c.refuses([](Schedule& s) { s.factor_scale({"C"}, {"k"}, ElemType::f32); },
            RefusalKind::BadStructure, "block 'C' has an init; decompose its reduction first");
  std::vector<Loop> loops = tile(c.s, 4);
  c.refuses([&](Schedule& s) { s.factor_scale({"C"}, loops[1], ElemType::f32); },
            RefusalKind::BadStructure,
            "no loop at or under 'j_1' takes part in the reduction of block 'C'");
  c.refuses(
      [&](Schedule& s) { s.factor_scale({"C"}, loops[0], ElemType::i32); },
      RefusalKind::BadArgument,
      "argument 'type' of factor_scale: expected f32, or i32 for sums of products of integers "
      "below 2^31, got i32",
      false);
  c.refuses([](Schedule& s) { s.factor_scale({"C"}, {"k_0"}, ElemType::f32); },
            RefusalKind::Unsupported,
            "a factor of block 'C' that varies in loop 'k_0' is no element of a buffer");
  c.refuses([](Schedule& s) { s.factor_scale({"C_init"}, {"k_1"}, ElemType::f32); },
            RefusalKind::BadStructure, "loop 'k_1' does not stand around block 'C_init'");
  c.s.unroll(loops[0]);
  c.refuses([&](Schedule& s) { s.factor_scale({"C"}, loops[0], ElemType::f32); },
            RefusalKind::Unsupported, "loop 'k_1' is not serial, from 0 to a constant");
  RewriteCase plain(R"(
program p(A: f32[3, 12] input, C: f32[3] output) {
  block root() {
    for i in 0..3 {
      block I(vi: spatial 3 = i) { C[vi] = 0f32 }
    }
    for i2 in 0..3 { for k in 0..12 {
      block C(vi: spatial 3 = i2, vk: reduce 12 = k) { C[vi] = C[vi] + A[vi, vk] }
    }}
  }
})");
  plain.refuses([](Schedule& s) { s.factor_scale({"C"}, {"k"}, ElemType::f32); },
                RefusalKind::BadStructure, "no factor of block 'C' stays the same in loop 'k'");
}

// Tensor cores add these products with few bits, so f32 sums every 4 terms, without any scale.
TEST(FactorScale, FormsSumsOfSmallFloatsApart) {
  RewriteCase c(R"(
program p(A: f8e4m3[3, 12] input, B: f8e5m2[12, 8] weight, C: f32[3, 8] output) {
  block root() {
    for i in 0..3 { for j in 0..8 { for k in 0..12 {
      block C(vi: spatial 3 = i, vj: spatial 8 = j, vk: reduce 12 = k) {
        init { C[vi, vj] = 0f32 }
        C[vi, vj] = C[vi, vj] + cast<f32>(A[vi, vk]) * cast<f32>(B[vk, vj])
      }
    }}}
  }
})");
  std::vector<Loop> loops = tile(c.s, 4);
  EXPECT_EQ(c.s.factor_scale({"C"}, loops[0], ElemType::f32),
            (std::vector<Block>{{"C_partial"}, {"C_partial_init"}}));
  EXPECT_EQ(c.s.loops({"C_partial"}).size(), 5u);
  EXPECT_EQ(c.s.loops({"C"}).size(), 4u) << "once for each 4 terms";
  c.check();
}

TEST(FactorScale, RefusesIntegersThatOverflow) {
  std::string wide = kFactorScaleBytes;
  for (size_t at; (at = wide.find("12")) != std::string::npos;) wide.replace(at, 2, "4000000");
  RewriteCase c(wide.replace(wide.find("floordiv(vk, 4)"), 15, "0"));
  c.s.decompose_reduction({"C"}, {"k"});
  c.refuses([](Schedule& s) { s.factor_scale({"C"}, {"k"}, ElemType::i32); },
            RefusalKind::BadArgument, "below 2^31, got i32", false);
}

TEST(WidenOperand, PutsTheConversionInFront) {
  RewriteCase c(kFactorScaleBytes);
  EXPECT_EQ(c.s.widen_operand("B", ElemType::u8, 8).name, "B_u8");
  EXPECT_GOLDEN(c.str());
  c.check();
}

TEST(WidenOperand, IsExactForEveryCode) {
  RewriteCase c(kGroups);
  c.s.widen_operand("B", ElemType::bf16, 0);
  NdArrays before{{"A", NdArray::zeros(ElemType::f32, {3, 12})},
                  {"B", NdArray::zeros(ElemType::u4, {12, 8})},
                  {"S", NdArray::zeros(ElemType::f32, {3, 8})},
                  {"Z", NdArray::zeros(ElemType::u4, {3, 8})}};
  for (size_t i = 0; i < 36; ++i) before["A"].data[i] = static_cast<double>(i) - 18;
  for (size_t i = 0; i < 96; ++i) before["B"].data[i] = static_cast<double>(i % 16);
  for (size_t i = 0; i < 24; ++i) before["S"].data[i] = 1;
  NdArrays after = before;
  interpret(c.before, before);
  interpret(c.s.module(), after);
  EXPECT_EQ(before.at("C").data, after.at("C").data);
}

TEST(WidenOperand, Refuses) {
  RewriteCase c(kFactorScaleBytes);
  c.refuses([](Schedule& s) { s.widen_operand("B", ElemType::u8, 0); }, RefusalKind::BadArgument,
            "argument 'type' of widen_operand: expected a type that holds the value of every code "
            "of i4 plus 0, got u8",
            false);
  c.refuses([](Schedule& s) { s.widen_operand("S", ElemType::bf16, 0); }, RefusalKind::BadArgument,
            "every code of f32", false);
  c.refuses([](Schedule& s) { s.widen_operand("C", ElemType::f32, 0); }, RefusalKind::NotFound,
            "no input or weight is called 'C'", false);
  RewriteCase raw(R"(
program p(A: u4[12] input, C: u4[12] output) {
  block root() { for i in 0..12 { block C(vi: spatial 12 = i) { C[vi] = A[vi] } } }
})");
  raw.refuses([](Schedule& s) { s.widen_operand("A", ElemType::i8, 0); }, RefusalKind::Unsupported,
              "block 'C' reads 'A' other than cast to f32, f64 or i32");
}

}  // namespace
}  // namespace tilewright::test
