// Constant folding and neutral elements, outside index expressions.
#pragma once

#include "ir/arith/knowledge.h"
#include "ir/expr.h"

namespace tilewright::arith {

// Each gives a simpler expression of the same value, or undefined when there is none. Operands are
// in canonical form. Floats are folded only where the result is the same for every input, signed
// zeros and NaNs included; integers wrap.
Expr fold_cast(Type type, const Expr& value, Knowledge& known);
Expr fold_unary(UnaryOp op, const Expr& a);
Expr fold_binary(BinaryOp op, const Expr& a, const Expr& b);

}  // namespace tilewright::arith
