#include "ir/text/lexer.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "base/error.h"
#include "ir/type.h"

namespace tilewright {
bool is_digit(char c) { return c >= '0' && c <= '9'; }

namespace {

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_word(char c) { return is_letter(c) || is_digit(c); }
bool is_space(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

// Longest first, so that a prefix never matches first.
constexpr std::array<std::string_view, 27> kPunctuation = {
    "<-async", "->", "..", "<=", ">=", "==", "!=", "&&", "||", "(", ")", "[", "]", "{",
    "}",       "<",  ">",  "+",  "-",  "*",  "/",  "=",  "!",  ",", ":", "@", ";"};

size_t skip_while(std::string_view text, size_t i, bool (*fn)(char)) {
  while (i < text.size() && fn(text[i])) ++i;
  return i;
}

// The end of the name that begins at `begin`: words joined by single dots, as in "B.scale".
size_t name_end(std::string_view text, size_t begin) {
  size_t i = skip_while(text, begin, is_word);
  while (i + 1 < text.size() && text[i] == '.' && is_word(text[i + 1])) {
    i = skip_while(text, i + 1, is_word);
  }
  return i;
}

std::string escape(std::string_view text, char quote) {
  std::string out(1, quote);
  for (char c : text) {
    if (c == '\n') {
      out += "\\n";
    } else {
      if (c == quote || c == '\\') out += '\\';
      out += c;
    }
  }
  return out + quote;
}

}  // namespace

TokenStream::TokenStream(std::string_view text) : text_(text) { tokenize(); }

void TokenStream::tokenize() {
  bool first_in_line = true;
  for (size_t i = 0; i < text_.size();) {
    if (is_space(text_[i])) {
      first_in_line |= text_[i++] == '\n';
      continue;
    }
    Token token = lex(i);
    token.first_in_line = first_in_line;
    first_in_line = false;
    i = token.end;
    tokens_.push_back(std::move(token));
  }
  Token end;
  end.begin = end.end = text_.find_last_not_of(" \t\r\n") + 1;
  tokens_.push_back(end);
}

Token TokenStream::lex(size_t begin) const {
  char c = text_[begin];
  if (is_letter(c)) return lex_name(begin);
  if (is_digit(c)) return lex_number(begin);
  if (c == '"' || c == '`') return lex_quoted(begin, c);
  return lex_punctuation(begin);
}

Token TokenStream::lex_name(size_t begin) const {
  Token token{Token::Kind::Name, "", begin, name_end(text_, begin)};
  token.text = text_.substr(begin, token.end - begin);
  return token;
}

Token TokenStream::lex_quoted(size_t begin, char quote) const {
  Token token{quote == '"' ? Token::Kind::String : Token::Kind::Name, "", begin, begin + 1};
  token.quoted = true;
  for (size_t i = begin + 1; i < text_.size(); ++i) {
    if (text_[i] == quote) {
      token.end = i + 1;
      return token;
    }
    if (text_[i] == '\\' && i + 1 < text_.size()) {
      ++i;
      token.text += text_[i] == 'n' ? '\n' : text_[i];
    } else {
      token.text += text_[i];
    }
  }
  fail(token, fmt::format("the closing {} is missing", quote));
}

// Digits, a fraction, an exponent, and the element type: "3", "3i32", "0.5f32", "1e+22f64". The
// type is matched first, since "1.0e8m0" is a 1 of type e8m0.
Token TokenStream::lex_number(size_t begin) const {
  size_t i = skip_while(text_, begin, is_digit);
  if (i + 1 < text_.size() && text_[i] == '.' && is_digit(text_[i + 1])) {
    i = skip_while(text_, i + 1, is_digit);
  }
  size_t word_end = skip_while(text_, i, is_word);
  bool typed = parse_elem_type(std::string_view(text_).substr(i, word_end - i)).has_value();
  if (i < text_.size() && text_[i] == 'e' && !typed) {
    size_t digits = i + 1;
    if (digits < text_.size() && (text_[digits] == '+' || text_[digits] == '-')) ++digits;
    i = skip_while(text_, digits, is_digit);
  }
  i = skip_while(text_, i, is_word);
  return {Token::Kind::Number, text_.substr(begin, i - begin), begin, i};
}

Token TokenStream::lex_punctuation(size_t begin) const {
  std::string_view rest = std::string_view(text_).substr(begin);
  for (std::string_view p : kPunctuation) {
    if (rest.substr(0, p.size()) == p) {
      return {Token::Kind::Punctuation, std::string(p), begin, begin + p.size()};
    }
  }
  Token token{Token::Kind::Punctuation, std::string(rest.substr(0, 1)), begin, begin + 1};
  fail(token, fmt::format("{} begins no token", describe(token)));
}

const Token& TokenStream::peek(size_t ahead) const {
  return tokens_[std::min(position_ + ahead, tokens_.size() - 1)];
}

Token TokenStream::next() {
  Token token = peek();
  if (position_ + 1 < tokens_.size()) ++position_;
  return token;
}

bool TokenStream::at(std::string_view text, size_t ahead) const {
  const Token& token = peek(ahead);
  bool word = token.kind == Token::Kind::Punctuation || token.kind == Token::Kind::Name;
  return word && !token.quoted && token.text == text;
}

bool TokenStream::at_adjacent(std::string_view first, std::string_view second) const {
  return at(first) && at(second, 1) && peek().end == peek(1).begin;
}

bool TokenStream::accept(std::string_view text) {
  if (!at(text)) return false;
  next();
  return true;
}

Token TokenStream::expect(std::string_view text, std::string_view where) {
  if (at(text)) return next();
  fail(fmt::format("expected '{}'{}{}, got {}", text, where.empty() ? "" : " ", where,
                   describe(peek())));
}

Token TokenStream::expect_name(std::string_view what) {
  if (peek().kind == Token::Kind::Name) return next();
  fail(fmt::format("expected {}, got {}", what, describe(peek())));
}

int64_t TokenStream::expect_integer(std::string_view what) {
  Token start = peek();
  std::string digits = accept("-") ? "-" : "";
  Token token = peek();
  digits += token.text;
  int64_t value = 0;
  auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  bool whole = end == digits.data() + digits.size();
  if (token.kind != Token::Kind::Number || error != std::errc() || !whole) {
    fail(start, fmt::format("expected {}, an integer, got {}", what, describe(token)));
  }
  next();
  return value;
}

void TokenStream::fail(const Token& token, const std::string& message) const {
  size_t begin = std::min(token.begin, text_.size());
  size_t line_begin = begin == 0 ? 0 : text_.rfind('\n', begin - 1) + 1;  // npos + 1 is 0
  size_t line_end = std::min(text_.find('\n', begin), text_.size());
  auto line = 1 + std::count(text_.begin(), text_.begin() + static_cast<long>(line_begin), '\n');
  size_t column = begin - line_begin;
  throw IrError(fmt::format("{}:{}: {}\n{}\n{}^", line, column + 1, message,
                            text_.substr(line_begin, line_end - line_begin),
                            std::string(column, ' ')));
}

Nesting::Nesting(TokenStream& tokens) : tokens_(tokens) {
  constexpr int kMaxDepth = 1000;
  if (tokens_.depth_ >= kMaxDepth) {
    tokens_.fail(fmt::format("the text nests more than {} deep", kMaxDepth));
  }
  ++tokens_.depth_;
}

std::string describe(const Token& token) {
  if (token.kind == Token::Kind::End) return "the end of the text";
  if (token.kind == Token::Kind::String) return quote_string(token.text);
  return "'" + token.text + "'";
}

std::string quote_name(std::string_view name) {
  bool bare = !name.empty() && is_letter(name[0]) && name_end(name, 0) == name.size() &&
              name != "true" && name != "false";
  return bare ? std::string(name) : escape(name, '`');
}

std::string quote_string(std::string_view text) { return escape(text, '"'); }

}  // namespace tilewright
