// A pass on program text: what comes out, and what it refuses.
#pragma once

#include <functional>
#include <string>

#include "codegen/lowering.h"
#include "ir/text/parser.h"
#include "ir/text/printer.h"

namespace tilewright::test {

using PassOnText = std::function<Program(const Program&)>;

inline std::string text_after(const PassOnText& pass, const std::string& program) {
  return to_string(pass(parse_program(program)));
}

/// The message with which the pass refuses the program.
inline std::string refusal_of(const PassOnText& pass, const std::string& program) {
  try {
    pass(parse_program(program));
  } catch (const LoweringError& e) {
    return e.what();
  }
  return "was not refused";
}

}  // namespace tilewright::test
