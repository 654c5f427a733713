// The expression part of the text form, shared by the parsers of programs and of index maps.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "ir/buffer.h"
#include "ir/text/lexer.h"

namespace tilewright {

// The meaning of each name at one place of the text.
struct TextScope {
  std::map<std::string, Expr> vars;
  std::map<std::string, Buffer> buffers;
};

// Reads expressions from `tokens`. Printed text is fully parenthesised; hand-written text may rely
// on the precedence of C. `tokens` and `scope` must outlive the parser.
class ExprParser {
 public:
  ExprParser(TokenStream& tokens, const TextScope& scope) : tokens_(tokens), scope_(scope) {}

  Expr expr();
  // Comma-separated expressions up to `close`, which is consumed.
  std::vector<Expr> list(std::string_view close);
  // The buffer of that name; throws with the names that would be accepted.
  Buffer buffer(const Token& name);
  Type type();
  ElemType elem_type();

 private:
  Expr binary_level(int level);
  Expr unary_level();
  Expr primary();
  Expr parenthesized();
  bool at_negated_literal() const;
  Expr negated_literal();
  Expr named();
  Expr number(bool negative);
  Expr non_finite(bool negative);
  Expr function(const Token& name);
  Expr typed_call(const Token& name);
  bool at_literal() const;
  // Runs a constructor; adds the place of `token` to an IrError that it throws.
  Expr make(const Token& token, const std::function<Expr()>& fn);

  TokenStream& tokens_;
  const TextScope& scope_;
  int open_ = 0;       // nesting depth of the expressions being read
  int operators_ = 0;  // operators in the outermost expression
};

}  // namespace tilewright
