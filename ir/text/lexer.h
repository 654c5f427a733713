// Tokens of the IR's text form, for the parsers of programs, expressions and index maps.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tilewright {

bool is_digit(char c);

struct Token {
  enum class Kind : uint8_t { End, Name, Number, String, Punctuation };
  Kind kind = Kind::End;
  std::string text;  // names without their backquotes, strings with their escapes resolved
  size_t begin = 0;  // offsets into the text
  size_t end = 0;
  bool quoted = false;  // a name in backquotes: never a keyword
  bool first_in_line = false;
};

// A text as tokens, with a current position. Whitespace separates tokens and has no other meaning,
// except that a token knows whether it is the first of its line.
class TokenStream {
 public:
  // Throws IrError for a character that begins no token.
  explicit TokenStream(std::string_view text);

  const Token& peek(size_t ahead = 0) const;
  Token next();
  // True when the next token is this punctuation or unquoted name.
  bool at(std::string_view text, size_t ahead = 0) const;
  // True when the next two tokens are these with no space between them, as in "cast<".
  bool at_adjacent(std::string_view first, std::string_view second) const;
  bool accept(std::string_view text);
  // Consumes the next token; throws IrError "expected 'text' `where`, got …" when it is another
  // one.
  Token expect(std::string_view text, std::string_view where = "");
  // Consumes a name of any spelling; `what` says in messages what it names.
  Token expect_name(std::string_view what);
  int64_t expect_integer(std::string_view what);

  // The current position, for rewind().
  size_t position() const { return position_; }
  void rewind(size_t position) { position_ = position; }

  // Throws IrError "line:column: message" with the line and a caret under the token.
  [[noreturn]] void fail(const Token& token, const std::string& message) const;
  [[noreturn]] void fail(const std::string& message) const { fail(peek(), message); }

 private:
  void tokenize();
  Token lex(size_t begin) const;
  Token lex_name(size_t begin) const;
  Token lex_quoted(size_t begin, char quote) const;
  Token lex_number(size_t begin) const;
  Token lex_punctuation(size_t begin) const;

  std::string text_;
  std::vector<Token> tokens_;
  size_t position_ = 0;
  int depth_ = 0;
  friend class Nesting;
};

// One level of a parser's recursion. Throws IrError at a depth that no sensible text reaches, so
// that no text can exhaust the stack.
class Nesting {
 public:
  explicit Nesting(TokenStream& tokens);
  ~Nesting() { --tokens_.depth_; }
  Nesting(const Nesting&) = delete;
  Nesting& operator=(const Nesting&) = delete;

 private:
  TokenStream& tokens_;
};

// A token as messages show it: "'for'", "the end of the text".
std::string describe(const Token& token);
// `name` as the text form writes it: bare, or in backquotes where it would be read as something
// else.
std::string quote_name(std::string_view name);
// `text` in double quotes with its escapes.
std::string quote_string(std::string_view text);

}  // namespace tilewright
