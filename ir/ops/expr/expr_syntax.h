// The text of the `expr` operator as a tree.
//
//   program   = statement (";" statement)* ";"?
//   statement = NAME "[" INDEX ("," INDEX)* "]" ("=" | "+=" | "max=" | "min=") value
//   value     = term (("+" | "-") term)*
//   term      = factor (("*" | "/" | "//" | "%") factor)*
//   factor    = "-" factor | NUMBER | "(" value ")" | INDEX | NAME "[" value ("," value)* "]"
//             | FUNCTION "(" value ("," value)* ")" | "select" "(" cond "," value "," value ")"
//   cond      = both ("||" both)*
//   both      = test ("&&" test)*
//   test      = "!" test | value ("<" | "<=" | ">" | ">=" | "==" | "!=") value | "(" cond ")"
//
// `//` and `%` round toward minus infinity and stand only between indices and whole numbers.
#pragma once

#include <string>
#include <vector>

namespace tilewright::ops {

struct Syntax {
  enum class Kind { Number, Name, Read, Negate, Binary, Call, Compare, Logic, Not };
  Kind kind = Kind::Number;
  std::string text;          // number, name, operator or function
  std::vector<Syntax> args;  // the indices of a Read
  size_t offset = 0;         // in the expression's text
};

struct Statement {
  std::string target;
  std::vector<Syntax> indices;  // names
  std::string assignment;       // "=", "+=", "max=", "min="
  Syntax value;
  size_t offset = 0;
};

// Throws KeyError of the key `expr` at the offset of that syntax.
[[noreturn]] void fail(const Syntax& at, const std::string& message);

// Throws KeyError of the key `expr` at the first invalid character.
std::vector<Statement> parse_statements(const std::string& text);
// Functions that a text may call.
std::vector<std::string> function_names();
// The statements in one canonical spelling: equal trees give equal texts, which parse to the same
// trees.
std::string spell(const std::vector<Statement>& statements);

}  // namespace tilewright::ops
