// Structural equality.
#pragma once

#include "ir/stmt.h"

namespace tilewright {

// Same structure with the same variables and buffers (by identity).
bool equal(const Expr& a, const Expr& b);
// The same for lists, element by element.
bool equal_all(const std::vector<Expr>& a, const std::vector<Expr>& b);
// Same structure up to a consistent renaming of the variables that the statements bind, and of
// buffers that agree in name, type, shape and scope. Names of blocks and annotations count.
bool equal(const Stmt& a, const Stmt& b);
// Names of programs and of dimensions count too.
bool equal(const Program& a, const Program& b);
bool equal(const Module& a, const Module& b);

}  // namespace tilewright
