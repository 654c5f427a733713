#include "ir/text/expr_parser.h"

#include <fmt/core.h>

#include <array>
#include <charconv>
#include <limits>
#include <optional>

#include "base/error.h"
#include "ir/call_table.h"

namespace tilewright {
namespace {

struct InfixOperator {
  BinaryOp op;
  int level;
};

// Infix operators with their precedence.
constexpr std::array<InfixOperator, 12> kInfixOperators = {{
    {BinaryOp::Or, 0},
    {BinaryOp::And, 1},
    {BinaryOp::EQ, 2},
    {BinaryOp::NE, 2},
    {BinaryOp::LE, 3},
    {BinaryOp::GE, 3},
    {BinaryOp::LT, 3},
    {BinaryOp::GT, 3},
    {BinaryOp::Add, 4},
    {BinaryOp::Sub, 4},
    {BinaryOp::Mul, 5},
    {BinaryOp::Div, 5},
}};

constexpr std::array<BinaryOp, 4> kBinaryFunctions = {BinaryOp::Min, BinaryOp::Max,
                                                      BinaryOp::FloorDiv, BinaryOp::FloorMod};
constexpr std::array<UnaryOp, 9> kUnaryFunctions = {UnaryOp::Exp,   UnaryOp::Log,   UnaryOp::Sqrt,
                                                    UnaryOp::Rsqrt, UnaryOp::Tanh,  UnaryOp::Erf,
                                                    UnaryOp::Abs,   UnaryOp::Floor, UnaryOp::Round};
template <class Op, size_t N>
std::optional<Op> find_by_name(const std::array<Op, N>& ops, std::string_view name) {
  for (Op op : ops) {
    if (name_of(op) == name) return op;
  }
  return std::nullopt;
}

std::optional<CallOp> call_by_name(std::string_view name) {
  for (const CallRow& row : call_rows()) {
    if (row.name == name) return row.op;
  }
  return std::nullopt;
}

std::string known_functions() {
  std::string text = "select, ramp, broadcast, cast<T>";
  for (BinaryOp op : kBinaryFunctions) text += fmt::format(", {}", name_of(op));
  for (UnaryOp op : kUnaryFunctions) text += fmt::format(", {}", name_of(op));
  for (const CallRow& row : call_rows()) text += fmt::format(", {}<T>", row.name);
  return text;
}

template <class Map>
std::string names_in(const Map& map) {
  std::string text;
  for (const auto& [name, value] : map) text += (text.empty() ? "" : ", ") + name;
  return text.empty() ? "none" : text;
}

template <class T>
bool read_whole(std::string_view text, T* value) {
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *value);
  return error == std::errc() && end == text.data() + text.size();
}

// The offset of the element type in a number's text; npos when it has none.
size_t suffix_of(std::string_view text) {
  for (size_t i = 1; i < text.size(); ++i) {
    bool letter =
        (text[i] >= 'a' && text[i] <= 'z') || (text[i] >= 'A' && text[i] <= 'Z') || text[i] == '_';
    if (letter && parse_elem_type(text.substr(i))) return i;
  }
  return std::string_view::npos;
}

}  // namespace

Expr ExprParser::make(const Token& token, const std::function<Expr()>& fn) {
  std::string message;
  try {
    return fn();
  } catch (const IrError& e) {
    message = e.what();
  }
  tokens_.fail(token, message);
}

Expr ExprParser::expr() {
  if (open_ == 0) operators_ = 0;
  ++open_;
  Expr e = binary_level(0);
  --open_;
  return e;
}

std::vector<Expr> ExprParser::list(std::string_view close) {
  std::vector<Expr> items;
  if (tokens_.accept(close)) return items;
  do {
    items.push_back(expr());
  } while (tokens_.accept(","));
  tokens_.expect(close, "or ','");
  return items;
}

// A chain of operators that bind at least as tightly as `level`.
Expr ExprParser::binary_level(int level) {
  Expr left = unary_level();
  while (true) {
    const InfixOperator* found = nullptr;
    for (const InfixOperator& o : kInfixOperators) {
      if (o.level >= level && tokens_.at(name_of(o.op))) found = &o;
    }
    if (!found) return left;
    Token token = tokens_.next();
    // Each operator makes the tree deeper, even in a chain without parentheses. The printer adds
    // parentheses to each, so this limit stands well below that of nesting.
    constexpr int kMaxOperators = 500;
    if (++operators_ > kMaxOperators) {
      tokens_.fail(token, fmt::format("the expression has more than {} operators", kMaxOperators));
    }
    Expr right = binary_level(found->level + 1);
    left = make(token, [&] { return binary(found->op, left, right); });
  }
}

// A number, or an infinity or NaN, written "inf<f32>" and "nan<f32>".
bool ExprParser::at_literal() const {
  return tokens_.peek().kind == Token::Kind::Number || tokens_.at_adjacent("inf", "<") ||
         tokens_.at_adjacent("nan", "<");
}

Expr ExprParser::unary_level() {
  Nesting nesting(tokens_);
  Token token = tokens_.peek();
  if (tokens_.accept("-")) {
    if (!at_literal()) {
      Expr a = unary_level();
      return make(token, [&] { return unary(UnaryOp::Neg, a); });
    }
    return tokens_.peek().kind == Token::Kind::Number ? number(true) : non_finite(true);
  }
  if (tokens_.accept("!")) {
    Expr a = unary_level();
    return make(token, [&] { return unary(UnaryOp::Not, a); });
  }
  return primary();
}

Expr ExprParser::primary() {
  Token token = tokens_.peek();
  if (token.kind == Token::Kind::Number) return number(false);
  if (tokens_.at("(")) return parenthesized();
  if (token.kind == Token::Kind::Name) return named();
  tokens_.fail(fmt::format("expected an expression, got {}", describe(token)));
}

Expr ExprParser::parenthesized() {
  tokens_.expect("(");
  Expr e = at_negated_literal() ? negated_literal() : expr();
  if (tokens_.at("if")) {
    Token where = tokens_.next();
    auto* n = e.as<LoadNode>();
    if (!n || n->predicate.defined()) {
      tokens_.fail(where, "only a load may have a predicate, as in (A[i] if p)");
    }
    Expr predicate = expr();
    e = make(where, [&] { return load(n->buffer, n->indices, predicate); });
  }
  tokens_.expect(")");
  return e;
}

// "(-3)" is a negated constant, while the -3 of "(-3 + x)" is a constant: the next token decides.
bool ExprParser::at_negated_literal() const {
  if (!tokens_.at("-")) return false;
  if (tokens_.peek(1).kind == Token::Kind::Number) return tokens_.at(")", 2);
  bool non_finite = tokens_.at("inf", 1) || tokens_.at("nan", 1);  // inf<f32>)
  return non_finite && tokens_.at("<", 2) && tokens_.at(")", 5);
}

Expr ExprParser::negated_literal() {
  Token token = tokens_.next();
  Expr a = primary();
  return make(token, [&] { return unary(UnaryOp::Neg, a); });
}

Expr ExprParser::number(bool negative) {
  Token token = tokens_.next();
  std::string_view text = token.text;
  size_t suffix = suffix_of(text);
  std::string digits = (negative ? "-" : "") + std::string(text.substr(0, suffix));
  ElemType elem = ElemType::index;
  if (suffix != std::string_view::npos) elem = *parse_elem_type(text.substr(suffix));
  return make(token, [&] {
    int64_t i = 0;
    double d = 0;
    if (is_float(elem)) {
      if (read_whole(digits, &d)) return make_float(elem, d);
    } else if (read_whole(digits, &i)) {
      return make_int(elem, i);
    } else if (digits.find_first_of(".e") != std::string::npos && read_whole(digits, &d)) {
      throw IrError(fmt::format("'{}' is no {} constant; a float names its type, as in 0.5f32",
                                token.text, to_string(elem)));
    }
    throw IrError(fmt::format(
        "'{}' is no number: expected digits that fit in 64 bits, then one of {}, or nothing for "
        "an index",
        token.text, elem_type_names()));
  });
}

Expr ExprParser::non_finite(bool negative) {
  Token token = tokens_.next();
  tokens_.expect("<");
  ElemType elem = elem_type();
  tokens_.expect(">");
  double value = token.text == "inf" ? std::numeric_limits<double>::infinity()
                                     : std::numeric_limits<double>::quiet_NaN();
  return make(token, [&] { return make_float(elem, negative ? -value : value); });
}

ElemType ExprParser::elem_type() {
  Token token = tokens_.expect_name("an element type");
  if (auto elem = parse_elem_type(token.text)) return *elem;
  tokens_.fail(token,
               fmt::format("'{}' is no element type; known are {}", token.text, elem_type_names()));
}

Type ExprParser::type() {
  Token token = tokens_.expect_name("a type");
  size_t x = token.text.rfind('x');  // "f32x16"; "index" also has one
  auto elem = parse_elem_type(token.text);
  if (elem) return *elem;
  int lanes = 0;
  if (x != std::string::npos) elem = parse_elem_type(token.text.substr(0, x));
  if (elem && read_whole(token.text.substr(x + 1), &lanes) && lanes >= 1) return {*elem, lanes};
  tokens_.fail(token, fmt::format("'{}' is no type; expected one of {}, with lanes as in f32x16",
                                  token.text, elem_type_names()));
}

Buffer ExprParser::buffer(const Token& name) {
  auto it = scope_.buffers.find(name.text);
  if (it != scope_.buffers.end()) return it->second;
  tokens_.fail(name, fmt::format("no buffer '{}' is known here; known are {}", name.text,
                                 names_in(scope_.buffers)));
}

Expr ExprParser::named() {
  if (tokens_.at_adjacent("inf", "<") || tokens_.at_adjacent("nan", "<")) return non_finite(false);
  Token token = tokens_.next();
  if (!token.quoted) {
    if (token.text == "true" || token.text == "false") return make_bool(token.text == "true");
    bool typed = token.text == "cast" || call_by_name(token.text);
    if (typed && tokens_.at("<") && tokens_.peek().begin == token.end) return typed_call(token);
    if (tokens_.at("(")) return function(token);
  }
  if (tokens_.accept("[")) {
    Buffer b = buffer(token);
    std::vector<Expr> indices = list("]");
    return make(token, [&] { return load(b, indices); });
  }
  auto it = scope_.vars.find(token.text);
  if (it != scope_.vars.end()) return it->second;
  tokens_.fail(token, fmt::format("no variable '{}' is known here; known are {}", token.text,
                                  names_in(scope_.vars)));
}

Expr ExprParser::typed_call(const Token& name) {
  tokens_.expect("<");
  Type t = type();
  tokens_.expect(">");
  tokens_.expect("(");
  std::vector<Expr> args = list(")");
  return make(name, [&] {
    if (auto op = call_by_name(name.text)) return call(t, *op, args);
    if (args.size() != 1) {
      throw IrError(fmt::format("cast: expected 1 argument, got {}", args.size()));
    }
    return cast(t, args[0]);
  });
}

Expr ExprParser::function(const Token& name) {
  tokens_.expect("(");
  std::vector<Expr> args = list(")");
  auto want = [&](size_t count) {
    if (args.size() == count) return;
    throw IrError(fmt::format("{}: expected {} arguments, got {}", name.text, count, args.size()));
  };
  auto lanes = [&](const Expr& e) {
    auto value = as_int(e);
    if (!value || *value < 1 || *value > 4096) {
      throw IrError(fmt::format("{}: the lanes must be a constant in 1..4096", name.text));
    }
    return static_cast<int>(*value);
  };
  return make(name, [&] {
    if (auto op = find_by_name(kBinaryFunctions, name.text)) {
      want(2);
      return binary(*op, args[0], args[1]);
    }
    if (auto op = find_by_name(kUnaryFunctions, name.text)) {
      want(1);
      return unary(*op, args[0]);
    }
    if (name.text == "select" || name.text == "ramp") {
      want(3);
      return name.text == "select" ? select(args[0], args[1], args[2])
                                   : ramp(args[0], args[1], lanes(args[2]));
    }
    if (name.text == "broadcast") {
      want(2);
      return broadcast(args[0], lanes(args[1]));
    }
    throw IrError(
        fmt::format("no function '{}' is known; known are {}", name.text, known_functions()));
  });
}

}  // namespace tilewright
