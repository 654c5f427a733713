// Parses the text that ir/text/printer.h writes.
#pragma once

#include <string>
#include <string_view>

#include "ir/stmt.h"

namespace tilewright {

// Whitespace between tokens is free, with one exception: an `if` on the line of a store is the
// store's predicate. Expressions may omit parentheses by the precedence of C. A loop may also range
// over constants, as in `2..8`. Throws IrError with "line:column: message" and the line with a
// caret.
Program parse_program(std::string_view text);
Module parse_module(std::string_view text);

}  // namespace tilewright
