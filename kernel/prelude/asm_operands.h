// Lists of operands in the inline assembly of the prelude.
#pragma once

#include <string>

namespace tilewright::asm_text {

// Operand references "%0, %1, %2" from `first` on.
inline std::string places(int first, int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += (i ? ", %" : "%") + std::to_string(first + i);
  return text;
}

// Operands of a constraint: "\"r\"(a[0]), \"r\"(a[1])".
inline std::string operands(const char* constraint, const char* array, int count) {
  std::string text;
  for (int i = 0; i < count; ++i) {
    if (i > 0) text += ", ";
    text += std::string("\"") + constraint + "\"(" + array + "[" + std::to_string(i) + "])";
  }
  return text;
}

}  // namespace tilewright::asm_text
