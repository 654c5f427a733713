// Operands and sizes by themselves: element types as DLPack calls them, elements of a few bits as
// bytes, extents that follow from others, sizes of launches.
#include "serving/operand.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "serving/size_value.h"
#include "serving/status.h"
#include "tests/runtime/support.h"

namespace tilewright::serving {
namespace {

using test::error_of;

Operand operand_of(ElemType elem, std::vector<KernelExtent> shape) {
  Operand operand;
  operand.name = "B";
  operand.elem = elem;
  operand.shape = std::move(shape);
  return operand;
}

alignas(64) char memory[64] = {};

std::string refusal(const Operand& operand, DLDataType type, std::vector<int64_t> shape,
                    const int64_t* dims = nullptr) {
  DLTensor tensor = {
      memory, {kDLCPU, 0}, static_cast<int32_t>(shape.size()), type, shape.data(), nullptr, 0};
  try {
    check_kind(operand, tensor, {});
    check_layout(operand, tensor, dims, {"m"}, {});
  } catch (const ServingError& e) {
    return e.what();
  }
  return "";
}

TEST(ServingOperand, ElementTypesHaveTheCodesOfDLPack) {
  const auto is = [](ElemType elem, int code, int bits) {
    DLDataType type = dl_type(elem);
    return type.code == code && type.bits == bits && type.lanes == 1;
  };
  EXPECT_TRUE(is(ElemType::f32, kDLFloat, 32));
  EXPECT_TRUE(is(ElemType::bf16, kDLBfloat, 16));
  EXPECT_TRUE(is(ElemType::f8e4m3, kDLFloat8_e4m3fn, 8));
  EXPECT_TRUE(is(ElemType::f8e5m2, kDLFloat8_e5m2, 8));
  EXPECT_TRUE(is(ElemType::e8m0, kDLFloat8_e8m0fnu, 8));
  EXPECT_TRUE(is(ElemType::f4e2m1, kDLFloat4_e2m1fn, 4));
  EXPECT_TRUE(is(ElemType::nf4, kDLUInt, 4));
  EXPECT_TRUE(is(ElemType::i2, kDLInt, 2));
  EXPECT_TRUE(is(ElemType::boolean, kDLBool, 8));
  EXPECT_EQ(dl_type_name({kDLFloat4_e2m1fn, 4, 1}), "f4e2m1");
  EXPECT_EQ(dl_type_name({kDLComplex, 64, 1}), "DLPack type code 5 of 64 bits in 1 lanes");
}

TEST(ServingOperand, ElementsOfAFewBitsMayComeAsBytes) {
  const Operand codes = operand_of(ElemType::u4, {4, 6});
  EXPECT_EQ(refusal(codes, {kDLUInt, 4, 1}, {4, 6}), "");
  EXPECT_EQ(refusal(codes, {kDLUInt, 8, 1}, {4, 3}), "");
  EXPECT_EQ(refusal(codes, {kDLUInt, 8, 1}, {4, 6}),
            "operand 'B': dimension 1 is 6; expected 3 of [4, 6]");
  EXPECT_EQ(refusal(codes, {kDLInt, 8, 1}, {4, 3}), "operand 'B': element type i8; expected u4");
  EXPECT_EQ(refusal(operand_of(ElemType::u4, {4, 5}), {kDLUInt, 8, 1}, {4, 3}),
            "operand 'B': given as bytes, but a row of 5 u4 fills no whole bytes");
  EXPECT_EQ(refusal(operand_of(ElemType::i8, {4, 6}), {kDLUInt, 8, 1}, {4, 6}),
            "operand 'B': element type u8; expected i8");
}

TEST(ServingOperand, ExtentsFollowFromDimensions) {
  KernelExtent halves = KernelExtent::dimension(0);  // (m + 1) / 2
  halves.offset = 1;
  halves.divisor = 2;
  const Operand operand = operand_of(ElemType::f32, {halves});
  const int64_t dims[] = {7};
  EXPECT_EQ(extent_at(halves, dims), 4);
  EXPECT_EQ(refusal(operand, {kDLFloat, 32, 1}, {4}, dims), "");
  EXPECT_EQ(refusal(operand, {kDLFloat, 32, 1}, {3}, dims),
            "operand 'B': dimension 0 is 3; expected 4 of [(m + 1) / 2]");
  KernelExtent below = KernelExtent::dimension(0);  // floor((m - 8) / 2)
  below.offset = -8;
  below.divisor = 2;
  EXPECT_EQ(extent_at(below, dims), -1);
  EXPECT_EQ(extent_at(below, dims), below.at({7}));
}

TEST(ServingSizes, AreComputedFromDimensions) {
  const Var m("m");
  const std::vector<DimVar> dims = {{m, 1, 4096}};
  const int64_t values[] = {100};
  const auto at = [&](const Expr& e) { return size_value(e, dims, values); };
  EXPECT_EQ(at(Expr(12)), 12);
  EXPECT_EQ(at(m), 100);
  EXPECT_EQ(at(floordiv(m + Expr(63), Expr(64)) * Expr(3)), 6);
  EXPECT_EQ(at(floordiv(m - Expr(129), Expr(64))), -1);
  EXPECT_EQ(at(floormod(m - Expr(129), Expr(64))), 35);
  EXPECT_EQ(at(min(m, Expr(7)) + max(m, Expr(200))), 207);
  EXPECT_EQ(at(select(m < Expr(64), Expr(1), Expr(2))), 2);
  EXPECT_EQ(error_of<Error>([&] { at(Var("n")); }),
            "a size of a GPU kernel depends on what is no dimension of it");
  EXPECT_EQ(error_of<Error>([&] { at(floordiv(m, Expr(0))); }),
            "a size of a GPU kernel divides by zero");
  EXPECT_EQ(error_of<Error>([&] { at(unary(UnaryOp::Abs, m)); }),
            "a size of a GPU kernel is more than integer arithmetic");
}

}  // namespace
}  // namespace tilewright::serving
