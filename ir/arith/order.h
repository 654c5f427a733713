// A deterministic order of expressions, for canonical forms.
#pragma once

#include "ir/expr.h"

namespace tilewright::arith {

// Negative, 0 or positive as `a` sorts before, beside or after `b`. The order depends on structure
// and names alone, never on addresses: variables come first, constants last. Different variables of
// the same name compare equal.
int order(const Expr& a, const Expr& b);

// Same structure with the same variables and buffers, by identity; floats bit by bit.
bool identical(const Expr& a, const Expr& b);

}  // namespace tilewright::arith
