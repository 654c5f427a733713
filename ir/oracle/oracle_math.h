// Arithmetic of the oracle: f64 values with bounds of the error that their types' rounding makes.
#pragma once

#include "ir/oracle/oracle_code.h"

namespace tilewright::oracle {

int64_t floor_div(int64_t a, int64_t b);
int64_t floor_mod(int64_t a, int64_t b);

template <class T>
bool compare(BinaryOp op, T a, T b) {
  switch (op) {
    case BinaryOp::EQ: return a == b;
    case BinaryOp::NE: return a != b;
    case BinaryOp::LT: return a < b;
    case BinaryOp::LE: return a <= b;
    case BinaryOp::GT: return a > b;
    default: return a >= b;
  }
}

// True when every value of `from` is a value of `to`.
bool is_exact(ElemType from, ElemType to);
// A conversion rounds as the type does. Where the operand is itself only near, a right kernel may
// round to a neighbour.
Approx convert(ElemType from, ElemType to, Approx a);
// The result and its error to first order, with one rounding to a type of unit `roundoff`
// (functions that are not exactly rounded are granted four). An f32 quotient of exact operands is
// exact. Integers wrap.
Approx apply(UnaryOp op, ElemType type, double roundoff, Approx a);
Approx apply(BinaryOp op, ElemType type, double roundoff, Approx a, Approx b);
// What a code with a sign is made of where it is read with the offset that makes it unsigned:
// |q + offset| + offset, less |q|.
double apart_of_code(ElemType type, double code);
double offset_of_code(ElemType type);
double wrapped_sum(ElemType type, double a, double b);
// The magnitude below which a float type may flush to zero; 0 for integers.
double smallest_normal(ElemType type);

}  // namespace tilewright::oracle
