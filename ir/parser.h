// Reads the text that ir/printer.h writes.
#pragma once

#include <string>
#include <string_view>

#include "ir/stmt.h"

namespace tilewright {

// Throws IrError with "line:column: message" and the line with a caret.
Program parse_program(std::string_view text);
Module parse_module(std::string_view text);

}  // namespace tilewright
