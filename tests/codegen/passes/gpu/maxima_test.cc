// A positive factor is taken out of a maximum, and nothing else is.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "codegen/cuda_lowering.h"
#include "ir/interpreter/interpreter.h"
#include "ir/text/printer.h"

namespace tilewright {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr double kLowest = -std::numeric_limits<double>::infinity();

Expr number(double value) { return make_float(Type(ElemType::f32), value); }

// Y = the maximum of X[i] * factor, of the first six of eight, from `start` on.
Program maximum(double factor, double start) {
  const Buffer x = make_buffer("X", ElemType::f32, {Expr(8)}, Scope::Global);
  const Buffer y = make_buffer("Y", ElemType::f32, {Expr(1)}, Scope::Global);
  const Buffer m = make_buffer("M", ElemType::f32, {Expr(1)}, Scope::Register);
  Var i("i");
  const std::vector<Expr> one = {Expr(0)};
  const Expr term = select(i < Expr(6), load(x, {i}) * number(factor), number(kLowest));
  Program p;
  p.name = "maximum";
  p.params = {{x, ParamRole::Input}, {y, ParamRole::Output}};
  p.body = make_allocate(
      m,
      make_seq({make_store(m, one, number(start)),
                make_for(i, 0, 8, ForKind::Unrolled, make_store(m, one, max(load(m, one), term))),
                make_store(y, one, load(m, one))}));
  return p;
}

double value_of(const Program& p) {
  NdArrays arrays;
  arrays["X"] = NdArray::random(ElemType::f32, {8}, 7);
  interpret(p, arrays);
  return arrays["Y"].data[0];
}

TEST(ScaleMaxima, APositiveFactorIsTakenOut) {
  const Program before = maximum(0.1, kLowest), after = scale_maxima(before);
  EXPECT_THAT(to_string(before), Not(HasSubstr("M[0] * ")));
  EXPECT_THAT(to_string(after), HasSubstr("M[0] * "));
  EXPECT_THAT(to_string(after), Not(HasSubstr("X[i] * ")));
  EXPECT_EQ(value_of(after), value_of(before)) << to_string(after);
}

TEST(ScaleMaxima, NoOtherFactorIs) {
  for (const Program& p : {maximum(-0.1, kLowest), maximum(0, kLowest), maximum(0.1, -1)}) {
    EXPECT_EQ(to_string(scale_maxima(p)), to_string(p));
  }
}

}  // namespace
}  // namespace tilewright
