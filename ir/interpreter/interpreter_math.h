// Scalar arithmetic of the interpreter: f64 values that stand for any element type. Internal.
#pragma once

#include "ir/expr.h"

namespace tilewright::interp {

using UnaryFn = double (*)(double);
using BinaryFn = double (*)(double, double);

UnaryFn function_of(UnaryOp op);
// FloorDiv and FloorMod by zero give NaN, which the caller reports.
BinaryFn function_of(BinaryOp op);
// Whether results of `op` on representable values may not be representable in their type.
bool needs_rounding(UnaryOp op, ElemType elem);
bool needs_rounding(BinaryOp op, ElemType elem);

}  // namespace tilewright::interp
