// convert_operand: factors in another type, with a correction for the offset. precompute: moves
// computations on a weight alone to its load.
#include "ir/interpreter/interpreter.h"
#include "tests/golden.h"
#include "tests/schedule/rewrite_case.h"

namespace tilewright::test {
namespace {

constexpr char kConvertOperandBytes[] = R"(
program p(A: i8[3, 8] input, B: i8[8, 5] weight, C: i32[3, 5] output) {
  block root() {
    for i in 0..3 { for j in 0..5 { for k in 0..8 {
      block C(vi: spatial 3 = i, vj: spatial 5 = j, vk: reduce 8 = k) {
        init { C[vi, vj] = 0i32 }
        C[vi, vj] = C[vi, vj] + cast<i32>(A[vi, vk]) * cast<i32>(B[vk, vj])
      }
    }}}
  }
})";

TEST(ConvertOperand, TakesTheOffsetBack) {
  RewriteCase c(kConvertOperandBytes);
  std::vector<Block> made = c.s.convert_operand({"C"}, "A", ElemType::u8, 128);
  EXPECT_EQ(made, (std::vector<Block>{{"A_u8"}, {"C_offset"}}));
  EXPECT_GOLDEN(c.str());
  c.check();
}

// Covers the types' whole range, where sums and products are largest.
TEST(ConvertOperand, IsExactForAllBytes) {
  RewriteCase c(kConvertOperandBytes);
  c.s.convert_operand({"C"}, "A", ElemType::u8, 128);
  NdArrays before{{"A", NdArray::zeros(ElemType::i8, {3, 8})},
                  {"B", NdArray::zeros(ElemType::i8, {8, 5})}};
  for (size_t i = 0; i < 24; ++i) before["A"].data[i] = static_cast<double>(i * 11) - 128;
  for (size_t i = 0; i < 40; ++i) before["B"].data[i] = i % 2 == 0 ? -128 : 127;
  NdArrays after = before;
  interpret(c.before, before);
  interpret(c.s.module(), after);
  EXPECT_EQ(before.at("C").data, after.at("C").data);
}

TEST(ConvertOperand, WidensWithoutACorrection) {
  RewriteCase c(kConvertOperandBytes);
  EXPECT_EQ(c.s.convert_operand({"C"}, "B", ElemType::i16, 0).size(), 1u);
  c.s.precompute({"B_i16"});
  EXPECT_EQ(c.s.program().params.at(1).buffer->elem, ElemType::i16);
  c.check();
}

TEST(ConvertOperand, Refuses) {
  RewriteCase c(kConvertOperandBytes);
  c.refuses([](Schedule& s) { s.convert_operand({"C"}, "A", ElemType::u8, 0); },
            RefusalKind::BadArgument,
            "argument 'type' of convert_operand: expected an integer type that holds all values of "
            "i8 plus 0, got u8",
            false);
  c.refuses([](Schedule& s) { s.convert_operand({"C"}, "A", ElemType::f32, 0); },
            RefusalKind::BadArgument, "expected an integer type", false);
  c.refuses([](Schedule& s) { s.convert_operand({"C"}, "X", ElemType::u8, 128); },
            RefusalKind::NotFound, "no factor of the product in block 'C' is 'X', cast to i32");
  c.s.split({"k"}, {2, 4});
  c.refuses([](Schedule& s) { s.convert_operand({"C"}, "A", ElemType::u8, 128); },
            RefusalKind::BadStructure, "convert its operands before it is scheduled");
  Schedule floats(matmul());
  EXPECT_REFUSED(floats.convert_operand({"C"}, "A", ElemType::u8, 128), Unsupported,
                 "does not sum a product of integers");
}

// The conversion computes with every element of its buffer, and the padding of a layout has no
// values.
TEST(ConvertOperand, RefusesThePaddingOfALayout) {
  RewriteCase c(kConvertOperandBytes);
  c.s.cache_read({"C"}, "A", Scope::Global);
  c.s.transform_layout("A_global",
                       IndexMap::parse("(i, k) -> (i, floordiv(k, 4), floormod(k, 4))"));
  RewriteCase padded(kConvertOperandBytes);
  padded.s.cache_read({"C"}, "A", Scope::Global);
  padded.s.transform_layout("A_global",
                            IndexMap::parse("(i, k) -> (i, floordiv(k, 3), floormod(k, 3))"));
  c.s.convert_operand({"C"}, "A_global", ElemType::u8, 128);  // 8 elements in tiles of 4
  c.check();
  padded.refuses([](Schedule& s) { s.convert_operand({"C"}, "A_global", ElemType::u8, 128); },
                 RefusalKind::Unsupported,
                 "the layout of 'A_global' has padding that no block writes");
}

TEST(Precompute, MovesTheCorrectionToTheLoad) {
  RewriteCase c(kConvertOperandBytes);
  c.s.convert_operand({"C"}, "A", ElemType::u8, 128);
  c.s.precompute({"C_offset"});
  EXPECT_GOLDEN(c.str());
  c.check();
  EXPECT_EQ(c.s.program().params.size(), 4u);  // B is still read
}

TEST(Precompute, WorksOutWhatAPackProgramMakes) {
  RewriteCase c(kConvertOperandBytes);
  c.s.pad_einsum({"C"}, {1, 4, 3});
  c.s.precompute({"B_pad"});
  c.s.convert_operand({"C"}, "A_pad", ElemType::u8, 128);
  c.s.precompute({"C_offset"});
  ASSERT_EQ(c.s.module().packs.size(), 2u);
  for (const Program& pack : c.s.module().packs) EXPECT_EQ(pack.params[0].buffer->name, "B");
  c.s.prepack("B_pad", IndexMap::parse("(k, j) -> (floordiv(j, 4), k, floormod(j, 4))"));
  c.check();
}

TEST(Precompute, DropsAPackProgramThatNobodyNeeds) {
  RewriteCase c(kConvertOperandBytes);
  c.s.pad_einsum({"C"}, {1, 4, 3});
  c.s.precompute({"B_pad"});
  c.s.convert_operand({"C"}, "B_pad", ElemType::i16, 0);
  c.s.precompute({"B_pad_i16"});
  ASSERT_EQ(c.s.module().packs.size(), 1u);
  c.check();
}

TEST(Precompute, Refuses) {
  RewriteCase c(kConvertOperandBytes);
  c.refuses([](Schedule& s) { s.precompute({"C"}); }, RefusalKind::BadStructure,
            "its values are needed outside", false);
  c.s.convert_operand({"C"}, "A", ElemType::u8, 128);
  c.refuses([](Schedule& s) { s.precompute({"A_u8"}); }, RefusalKind::BadArgument,
            "block 'A_u8' reads 'A', which is no weight: it cannot be computed at load");
  c.s.split(c.s.loops({"C_offset"})[0], {-1, 2});
  c.refuses([](Schedule& s) { s.precompute({"C_offset"}); }, RefusalKind::BadStructure,
            "precompute it before it is scheduled");
  RewriteCase sums(kConvertOperandBytes);
  sums.s.convert_operand({"C"}, "A", ElemType::u8, 128);
  sums.s.precompute({"C_offset"});
  sums.s.cache_read({"C"}, "C_offset", Scope::Global);
  sums.refuses([](Schedule& s) { s.precompute({"C_offset_global"}); }, RefusalKind::Unsupported,
               "'C_offset' is computed at load by a reduction");
  RewriteCase turned(kConvertOperandBytes);
  turned.s.cache_read({"C"}, "B", Scope::Global);
  turned.s.cache_read({"C"}, "B_global", Scope::Local);
  turned.s.transform_block_layout({"B_global"}, IndexMap::parse("(k, j) -> (j, k)"));
  turned.s.precompute({"B_global"});
  turned.refuses([](Schedule& s) { s.precompute({"B_global_local"}); }, RefusalKind::Unsupported,
                 "'B_global' is computed at load by a reduction, or otherwise than each element at "
                 "the iterators of one block");
  RewriteCase padded(kConvertOperandBytes);
  padded.s.convert_operand({"C"}, "A", ElemType::u8, 128);
  padded.s.transform_layout("C_offset", IndexMap::make(1, [](const auto& x) {
                              return std::vector<Expr>{floordiv(x[0], 2), floormod(x[0], 2)};
                            }));
  padded.refuses([](Schedule& s) { s.precompute({"C_offset"}); }, RefusalKind::Unsupported,
                 "the layout of 'C_offset' has padding that block 'C_offset' does not write");
}

}  // namespace
}  // namespace tilewright::test
