#include "codegen/reserved_words.h"

#include <cctype>

namespace tilewright {

const std::set<std::string>& reserved_words() {
  static const std::set<std::string> words = {
      // C, C++, and GCC
      "alignas", "alignof", "and", "and_eq", "asm", "auto", "bitand", "bitor", "bool", "break",
      "case", "catch", "char", "char8_t", "char16_t", "char32_t", "class", "co_await", "co_return",
      "co_yield", "compl", "concept", "const", "consteval", "constexpr", "constinit", "const_cast",
      "continue", "decltype", "default", "delete", "do", "double", "dynamic_cast", "else", "enum",
      "explicit", "export", "extern", "false", "float", "for", "friend", "goto", "if", "inline",
      "int", "long", "mutable", "namespace", "new", "noexcept", "not", "not_eq", "nullptr",
      "operator", "or", "or_eq", "private", "protected", "public", "register", "reinterpret_cast",
      "requires", "restrict", "return", "short", "signed", "sizeof", "static", "static_assert",
      "static_cast", "struct", "switch", "template", "this", "thread_local", "throw", "true", "try",
      "typedef", "typeid", "typename", "typeof", "union", "unsigned", "using", "virtual", "void",
      "volatile", "wchar_t", "while", "xor", "xor_eq",
      // headers, functions and macros
      "NULL", "assert", "i386", "int8_t", "int16_t", "int32_t", "int64_t", "linux", "main", "max",
      "min", "printf", "size_t", "uint8_t", "uint16_t", "uint32_t", "uint64_t", "unix", "abs",
      "ceil", "ceilf", "erf", "erff", "exp", "expf", "fabs", "fabsf", "floor", "floorf", "fma",
      "fmaf", "fmax", "fmaxf", "fmin", "fminf", "log", "logf", "rint", "rintf", "round", "roundf",
      "sqrt", "sqrtf", "tanh", "tanhf",
      // CUDA
      "blockDim", "blockIdx", "dim3", "gridDim", "threadIdx", "uint3", "warpSize"};
  return words;
}

std::string identifier_of(const std::string& name) {
  std::string text;
  for (char c : name) text += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  const bool begins = !text.empty() && !std::isdigit(static_cast<unsigned char>(text[0]));
  const bool is_ours = text.rfind("tw_", 0) == 0 || text.rfind("TW_", 0) == 0;
  return begins && !is_ours ? text : "v" + text;
}

}  // namespace tilewright
