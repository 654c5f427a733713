#include "ir/ops/expr/expr_syntax.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <string_view>

#include "ir/ops/source.h"
#include "ir/text/lexer.h"

namespace tilewright::ops {
namespace {

constexpr int kMaxNesting = 100;    // nested parentheses and calls
constexpr int kMaxOperators = 400;  // in all statements together: each may make a tree deeper

struct SyntaxToken {
  enum class Kind { Name, Number, Symbol, End };
  Kind kind = Kind::End;
  std::string_view text;  // a part of the parsed text
  size_t offset = 0;
};

[[noreturn]] void fail(size_t offset, const std::string& message) {
  throw KeyError("expr", message, offset);
}

bool starts_name(char c) { return std::isalpha(static_cast<unsigned char>(c)) || c == '_'; }
bool in_name(char c) { return starts_name(c) || is_digit(c); }

size_t end_of_number(const std::string& text, size_t at) {
  while (at < text.size() && (is_digit(text[at]) || text[at] == '.')) ++at;
  if (at < text.size() && (text[at] == 'e' || text[at] == 'E')) {
    size_t exponent = at + 1;
    if (exponent < text.size() && (text[exponent] == '+' || text[exponent] == '-')) ++exponent;
    if (exponent < text.size() && is_digit(text[exponent])) {
      at = exponent;
      while (at < text.size() && is_digit(text[at])) ++at;
    }
  }
  return at;
}

// The length of the symbol that begins at `at`; 0: there is none.
size_t length_of_symbol(std::string_view text, size_t at) {
  constexpr std::string_view kPairs = "+=<=>===!=&&||//", kSingles = "+-*/%<>=!()[],;";
  if (at + 1 < text.size()) {
    for (size_t i = 0; i < kPairs.size(); i += 2) {
      if (text[at] == kPairs[i] && text[at + 1] == kPairs[i + 1]) return 2;
    }
  }
  return kSingles.find(text[at]) != std::string_view::npos ? 1 : 0;
}

// The tokens are parts of `text`.
std::vector<SyntaxToken> tokenize(const std::string& text) {
  std::vector<SyntaxToken> tokens;
  for (size_t at = 0; at < text.size();) {
    const char c = text[at];
    const size_t begin = at;
    if (c == ' ' || c == '\t' || c == '\n' || c == '\r') {
      ++at;
      continue;
    }
    auto kind = SyntaxToken::Kind::Symbol;
    if (starts_name(c)) {
      kind = SyntaxToken::Kind::Name;
      while (at < text.size() && in_name(text[at])) ++at;
    } else if (is_digit(c) || (c == '.' && at + 1 < text.size() && is_digit(text[at + 1]))) {
      kind = SyntaxToken::Kind::Number;
      at = end_of_number(text, at);
    } else {
      at += length_of_symbol(text, at);
    }
    if (at == begin) {
      const auto byte = static_cast<unsigned char>(c);
      fail(at, byte < 0x20 || byte >= 0x7F ? fmt::format("unexpected byte 0x{:02x}", byte)
                                           : fmt::format("unexpected '{}'", c));
    }
    tokens.push_back({kind, std::string_view(text).substr(begin, at - begin), begin});
  }
  tokens.push_back({SyntaxToken::Kind::End, "", text.size()});
  return tokens;
}

struct Function {
  const char* name;
  size_t arguments;
};
constexpr Function kFunctions[] = {{"max", 2},  {"min", 2},   {"exp", 1},   {"log", 1},
                                   {"sqrt", 1}, {"rsqrt", 1}, {"tanh", 1},  {"erf", 1},
                                   {"abs", 1},  {"floor", 1}, {"round", 1}, {"select", 3}};

}  // namespace

std::vector<std::string> function_names() {
  std::vector<std::string> names;
  for (const Function& f : kFunctions) names.emplace_back(f.name);
  return names;
}

namespace {

class Parser {
 public:
  explicit Parser(const std::string& text) : tokens_(tokenize(text)) {}

  std::vector<Statement> statements() {
    std::vector<Statement> list;
    do {
      if (peek().kind == SyntaxToken::Kind::End && !list.empty()) break;
      list.push_back(statement());
    } while (accept(";"));
    if (peek().kind != SyntaxToken::Kind::End) unexpected("an operator or ';'");
    return list;
  }

 private:
  const SyntaxToken& peek() const { return tokens_[at_]; }
  bool is(std::string_view symbol) const {
    return peek().kind == SyntaxToken::Kind::Symbol && peek().text == symbol;
  }
  bool accept(std::string_view symbol) { return is(symbol) && ++at_; }
  size_t take() { return tokens_[at_++].offset; }
  void expect(std::string_view symbol) {
    if (!accept(symbol)) unexpected(fmt::format("'{}'", symbol));
  }
  [[noreturn]] void unexpected(const std::string& expected) const {
    const std::string found =
        peek().kind == SyntaxToken::Kind::End ? "the end" : fmt::format("'{}'", peek().text);
    fail(peek().offset, fmt::format("expected {}, found {}", expected, found));
  }
  SyntaxToken name(const std::string& what) {
    if (peek().kind != SyntaxToken::Kind::Name) unexpected(what);
    return tokens_[at_++];
  }

  Statement statement();
  std::vector<Syntax> list(std::string_view close);
  Syntax value() {
    return binary({"+", "-"}, [this] { return term(); });
  }
  Syntax term() {
    return binary({"*", "/", "//", "%"}, [this] { return factor(); });
  }
  Syntax factor();
  Syntax call(const SyntaxToken& function);
  Syntax cond() {
    return logic("||", [this] { return logic("&&", [this] { return test(); }); });
  }
  Syntax test();
  bool parenthesis_holds_condition() const;

  template <class Operand>
  Syntax binary(std::initializer_list<std::string_view> symbols, Operand operand) {
    Syntax left = operand();
    while (std::any_of(symbols.begin(), symbols.end(), [&](std::string_view s) { return is(s); })) {
      Syntax node{Syntax::Kind::Binary, std::string(peek().text), {}, peek().offset};
      count_operator();
      ++at_;
      node.args.push_back(std::move(left));  // a braced list would copy both trees
      node.args.push_back(operand());
      left = std::move(node);
    }
    return left;
  }
  template <class Operand>
  Syntax logic(std::string_view symbol, Operand operand) {
    Syntax left = operand();
    while (is(symbol)) {
      count_operator();
      Syntax node{Syntax::Kind::Logic, std::string(symbol), {}, take()};
      node.args.push_back(std::move(left));
      node.args.push_back(operand());
      left = std::move(node);
    }
    return left;
  }

  void count_operator() {
    if (++operators_ <= kMaxOperators) return;
    fail(peek().offset, fmt::format("more than {} operators", kMaxOperators));
  }

  // Bounds the recursion; every cycle of the grammar passes through factor() or test().
  struct Depth {
    explicit Depth(Parser& p) : parser(p) {
      if (++parser.depth_ > kMaxNesting) {
        fail(parser.peek().offset, fmt::format("expressions nest deeper than {}", kMaxNesting));
      }
    }
    ~Depth() { --parser.depth_; }
    Parser& parser;
  };

  std::vector<SyntaxToken> tokens_;
  size_t at_ = 0;
  int depth_ = 0, operators_ = 0;
};

Statement Parser::statement() {
  Statement s;
  s.offset = peek().offset;
  s.target = name("a statement such as C[i,j] += A[i,k] * B[k,j]").text;
  expect("[");
  do {
    SyntaxToken index = name("the name of an index");
    s.indices.push_back({Syntax::Kind::Name, std::string(index.text), {}, index.offset});
  } while (accept(","));
  expect("]");
  bool named =
      peek().kind == SyntaxToken::Kind::Name && (peek().text == "max" || peek().text == "min");
  if (named) {
    s.assignment = fmt::format("{}=", peek().text);
    ++at_;
    expect("=");
  } else if (is("=") || is("+=")) {
    s.assignment = tokens_[at_++].text;
  } else {
    unexpected("'=', '+=', 'max=' or 'min='");
  }
  s.value = value();
  return s;
}

std::vector<Syntax> Parser::list(std::string_view close) {
  std::vector<Syntax> items;
  do items.push_back(value());
  while (accept(","));
  expect(close);
  return items;
}

Syntax Parser::factor() {
  Depth depth(*this);
  const SyntaxToken token = peek();
  if (accept("-")) return {Syntax::Kind::Negate, "-", {factor()}, token.offset};
  if (accept("(")) {
    Syntax inner = value();
    expect(")");
    return inner;
  }
  if (token.kind == SyntaxToken::Kind::Number) {
    ++at_;
    double number = 0;
    const char* end = token.text.data() + token.text.size();
    auto [rest, error] = std::from_chars(token.text.data(), end, number);
    if (error != std::errc() || rest != end) {
      fail(token.offset, fmt::format("'{}' is not a number", token.text));
    }
    return {Syntax::Kind::Number, std::string(token.text), {}, token.offset};
  }
  name("a value");
  if (is("(")) return call(token);
  if (accept("[")) return {Syntax::Kind::Read, std::string(token.text), list("]"), token.offset};
  return {Syntax::Kind::Name, std::string(token.text), {}, token.offset};
}

Syntax Parser::call(const SyntaxToken& function) {
  const Function* known = std::ranges::find(kFunctions, function.text, &Function::name);
  if (known == std::end(kFunctions)) {
    const std::vector<std::string> names = function_names();
    fail(function.offset,
         fmt::format("no function '{}'{}; known: {}", function.text,
                     suggestion(std::string(function.text), names), fmt::join(names, ", ")));
  }
  expect("(");
  Syntax node{Syntax::Kind::Call, std::string(function.text), {}, function.offset};
  if (function.text == "select") {
    node.args.push_back(cond());
    expect(",");
  }
  for (Syntax& arg : list(")")) node.args.push_back(std::move(arg));
  if (node.args.size() != known->arguments) {
    fail(function.offset,
         fmt::format("'{}' takes {} argument{}, got {}", function.text, known->arguments,
                     known->arguments > 1 ? "s" : "", node.args.size()));
  }
  return node;
}

// True when the parenthesis at the current token groups a condition rather than a value. It does
// when a comparison or a logical operator stands inside it, nested in grouping parentheses only.
bool Parser::parenthesis_holds_condition() const {
  static constexpr std::string_view kMarks[] = {"<", "<=", ">", ">=", "==", "!=", "&&", "||", "!"};
  std::vector<bool> groups;  // per open bracket: whether it only groups
  for (size_t i = at_; i < tokens_.size(); ++i) {
    const SyntaxToken& t = tokens_[i];
    if (t.kind != SyntaxToken::Kind::Symbol) continue;
    if (t.text == "(" || t.text == "[") {
      groups.push_back(t.text == "(" &&
                       (i == at_ || tokens_[i - 1].kind != SyntaxToken::Kind::Name));
    } else if (t.text == ")" || t.text == "]") {
      groups.pop_back();
      if (groups.empty()) return false;
    } else if (std::find(std::begin(kMarks), std::end(kMarks), t.text) != std::end(kMarks) &&
               std::find(groups.begin(), groups.end(), false) == groups.end()) {
      return true;
    }
  }
  return false;
}

Syntax Parser::test() {
  Depth depth(*this);
  if (is("!")) {
    size_t offset = take();
    return {Syntax::Kind::Not, "!", {test()}, offset};
  }
  if (is("(") && parenthesis_holds_condition()) {
    ++at_;
    Syntax inner = cond();
    expect(")");
    return inner;
  }
  Syntax left = value();
  for (const std::string_view symbol : {"<", "<=", ">", ">=", "==", "!="}) {
    if (!is(symbol)) continue;
    Syntax node{Syntax::Kind::Compare, std::string(symbol), {}, take()};
    node.args.push_back(std::move(left));
    node.args.push_back(value());
    return node;
  }
  unexpected("a comparison");
}

// Precedence of a node, for spelling with few parentheses.
int level(const Syntax& s) {
  switch (s.kind) {
    case Syntax::Kind::Logic: return s.text == "||" ? 1 : 2;
    case Syntax::Kind::Compare: return 3;
    case Syntax::Kind::Binary: return s.text == "+" || s.text == "-" ? 4 : 5;
    case Syntax::Kind::Negate:
    case Syntax::Kind::Not: return 6;
    default: return 7;
  }
}

std::string spell(const Syntax& s);

std::string spell_at_least(const Syntax& s, int wanted) {
  return level(s) < wanted ? "(" + spell(s) + ")" : spell(s);
}

std::string spell_list(const std::vector<Syntax>& items) {
  std::vector<std::string> parts;
  for (const Syntax& item : items) parts.push_back(spell(item));
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string spell(const Syntax& s) {
  switch (s.kind) {
    case Syntax::Kind::Number:
    case Syntax::Kind::Name: return s.text;
    case Syntax::Kind::Read: return fmt::format("{}[{}]", s.text, spell_list(s.args));
    case Syntax::Kind::Call: return fmt::format("{}({})", s.text, spell_list(s.args));
    case Syntax::Kind::Negate: return "-" + spell_at_least(s.args[0], 6);
    case Syntax::Kind::Not:
      return s.args[0].kind == Syntax::Kind::Not ? "!" + spell(s.args[0])
                                                 : "!(" + spell(s.args[0]) + ")";
    case Syntax::Kind::Binary:
    case Syntax::Kind::Compare:
    case Syntax::Kind::Logic:
      return fmt::format("{} {} {}", spell_at_least(s.args[0], level(s)), s.text,
                         spell_at_least(s.args[1], level(s) + 1));
  }
  return "";
}

}  // namespace

void fail(const Syntax& at, const std::string& message) {
  throw KeyError("expr", message, at.offset);
}

std::vector<Statement> parse_statements(const std::string& text) {
  return Parser(text).statements();
}

std::string spell(const std::vector<Statement>& statements) {
  std::vector<std::string> lines;
  for (const Statement& s : statements) {
    lines.push_back(
        fmt::format("{}[{}] {} {}", s.target, spell_list(s.indices), s.assignment, spell(s.value)));
  }
  return fmt::format("{}", fmt::join(lines, "; "));
}

}  // namespace tilewright::ops
