// Buffers of constant indices, which become variables of the generated C.
#pragma once

#include <cstdint>
#include <map>

#include "ir/stmt.h"

namespace tilewright {

bool holds_parallel(const Stmt& s);

// The elements of a buffer as variables: first index -> lanes. Empty unless every access is at a
// constant index and accesses of different widths do not overlap.
std::map<int64_t, int> as_variables(const Buffer& buffer, const Stmt& body);

// Whether a store writes only the lanes that its predicate enables. Such a store merges new lanes
// with the old value of a variable. Where the variable was never set, the compiler may drop the new
// lanes as well.
bool stored_in_part(const Buffer& buffer, const Stmt& body);

// Whether an intrinsic takes elements of the buffer.
bool is_dot_operand(const Buffer& buffer, const Stmt& body);

}  // namespace tilewright
