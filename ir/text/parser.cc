#include "ir/text/parser.h"

#include <fmt/core.h>

#include <functional>
#include <utility>

#include "base/error.h"
#include "ir/compare.h"
#include "ir/text/expr_parser.h"

namespace tilewright {
namespace {

// Restores the scope's names at the end of a body.
class ScopeGuard {
 public:
  explicit ScopeGuard(TextScope& scope) : scope_(scope), saved_(scope) {}
  ~ScopeGuard() { scope_ = std::move(saved_); }
  ScopeGuard(const ScopeGuard&) = delete;
  ScopeGuard& operator=(const ScopeGuard&) = delete;

 private:
  TextScope& scope_;
  TextScope saved_;
};

class ProgramParser {
 public:
  explicit ProgramParser(std::string_view text) : tokens_(text), expressions_(tokens_, scope_) {}

  Program program();
  bool at_end() const { return tokens_.peek().kind == Token::Kind::End; }
  void expect_end() {
    if (!at_end()) tokens_.fail("expected one program, got more text behind it");
  }

 private:
  std::vector<DimVar> dims();
  std::vector<Param> params();
  ParamRole role();
  Buffer declaration();
  Scope memory_scope();
  Annotations notes();

  Stmt braced();      // "{" stmt* "}"
  Stmt statements();  // up to "}", which is not consumed
  Stmt statement();
  Stmt for_stmt();
  Expr loop_extent(const Expr& min);
  Stmt block_stmt();
  std::vector<IterVar> block_iters();
  Stmt if_stmt();
  Stmt let_stmt();
  Stmt allocate_stmt();
  Stmt store_stmt();
  Stmt evaluate_stmt();

  bool at_keyword(std::string_view word) const { return tokens_.at(word) && !tokens_.at("[", 1); }
  template <class Fn>
  auto make(const Token& token, const Fn& fn);
  Var define(const Token& name, Type type = ElemType::index);

  TokenStream tokens_;
  TextScope scope_;
  ExprParser expressions_;
};

// Runs a constructor; adds the place of `token` to an IrError that it throws.
template <class Fn>
auto ProgramParser::make(const Token& token, const Fn& fn) {
  std::string message;
  try {
    return fn();
  } catch (const IrError& e) {
    message = e.what();
  }
  tokens_.fail(token, message);
}

Var ProgramParser::define(const Token& name, Type type) {
  Var var(name.text, type);
  scope_.vars[name.text] = var;
  return var;
}

// Reads the dimensions first: they follow the parameters, whose shapes may refer to them.
Program ProgramParser::program() {
  scope_ = {};
  tokens_.expect("program");
  Program p;
  p.name = tokens_.expect_name("the program's name").text;
  size_t params_at = tokens_.position();
  tokens_.expect("(");
  for (int depth = 1; depth > 0;) {
    if (at_end()) tokens_.fail("the ')' behind the parameters is missing");
    Token token = tokens_.peek();
    if (tokens_.at("(")) ++depth;
    if (tokens_.at(")")) --depth;
    tokens_.next();
  }
  p.dims = dims();
  size_t body_at = tokens_.position();
  tokens_.rewind(params_at);
  p.params = params();
  tokens_.rewind(body_at);
  p.body = braced();
  return p;
}

std::vector<DimVar> ProgramParser::dims() {
  std::vector<DimVar> result;
  if (!tokens_.accept("dims")) return result;
  tokens_.expect("(");
  do {
    Token name = tokens_.expect_name("a dimension's name");
    if (scope_.vars.count(name.text)) {
      tokens_.fail(name, fmt::format("a second dimension '{}'", name.text));
    }
    tokens_.expect(":");
    int64_t low = tokens_.expect_integer("the dimension's least value");
    tokens_.expect("..");
    int64_t high = tokens_.expect_integer("the dimension's greatest value");
    if (low > high) tokens_.fail(name, fmt::format("the range {}..{} is empty", low, high));
    result.push_back({define(name), low, high});
  } while (tokens_.accept(","));
  tokens_.expect(")", "or ','");
  return result;
}

std::vector<Param> ProgramParser::params() {
  std::vector<Param> result;
  tokens_.expect("(");
  if (tokens_.accept(")")) return result;
  do {
    Buffer buffer = declaration();
    result.push_back({buffer, role()});
  } while (tokens_.accept(","));
  tokens_.expect(")", "or ','");
  return result;
}

ParamRole ProgramParser::role() {
  Token token = tokens_.expect_name("input, weight or output");
  for (ParamRole r : {ParamRole::Input, ParamRole::Weight, ParamRole::Output}) {
    if (token.text == name_of(r)) return r;
  }
  tokens_.fail(token, fmt::format("expected input, weight or output, got '{}'", token.text));
}

// "A: f32[4, 8]"
Buffer ProgramParser::declaration() {
  Token name = tokens_.expect_name("a buffer's name");
  tokens_.expect(":");
  ElemType elem = expressions_.elem_type();
  tokens_.expect("[");
  std::vector<Expr> shape = expressions_.list("]");
  std::string message;
  try {
    Buffer buffer = make_buffer(name.text, elem, std::move(shape));
    scope_.buffers[name.text] = buffer;
    return buffer;
  } catch (const IrError& e) {
    message = e.what();
  }
  tokens_.fail(name, message);
}

Scope ProgramParser::memory_scope() {
  Token token = tokens_.expect_name("a memory scope");
  if (auto scope = parse_scope(token.text)) return *scope;
  std::string known;
  for (int i = 0; i <= static_cast<int>(Scope::FragmentC); ++i) {
    known += fmt::format("{}{}", i ? ", " : "", name_of(static_cast<Scope>(i)));
  }
  tokens_.fail(token, fmt::format("'{}' is no memory scope; known are {}", token.text, known));
}

Annotations ProgramParser::notes() {
  Annotations result;
  if (!tokens_.accept("@")) return result;
  tokens_.expect("{");
  if (tokens_.accept("}")) return result;
  do {
    Token key = tokens_.expect_name("an annotation's name");
    tokens_.expect(":");
    if (tokens_.peek().kind == Token::Kind::String) {
      result[key.text] = tokens_.next().text;
    } else {
      result[key.text] = tokens_.expect_integer("the annotation's value");
    }
  } while (tokens_.accept(","));
  tokens_.expect("}", "or ','");
  return result;
}

Stmt ProgramParser::braced() {
  Token open = tokens_.expect("{");
  Stmt s = statements();
  if (!s.defined()) tokens_.fail(open, "a body needs at least one statement");
  tokens_.expect("}");
  return s;
}

Stmt ProgramParser::statements() {
  std::vector<Stmt> result;
  while (!tokens_.at("}") && !at_end()) result.push_back(statement());
  return make_seq(std::move(result));
}

Stmt ProgramParser::statement() {
  Nesting nesting(tokens_);
  if (at_keyword("for")) return for_stmt();
  if (at_keyword("block")) return block_stmt();
  if (at_keyword("if")) return if_stmt();
  if (at_keyword("let")) return let_stmt();
  if (at_keyword("allocate")) return allocate_stmt();
  if (tokens_.peek().kind == Token::Kind::Name) {
    return tokens_.at("[", 1) ? store_stmt() : evaluate_stmt();
  }
  tokens_.fail(fmt::format("expected a statement, got {}", describe(tokens_.peek())));
}

Stmt ProgramParser::for_stmt() {
  ScopeGuard guard(scope_);
  Token keyword = tokens_.expect("for");
  Token name = tokens_.expect_name("the loop's variable");
  tokens_.expect("in");
  Expr min = expressions_.expr();
  tokens_.expect("..");
  Expr extent = loop_extent(min);
  ForKind kind = ForKind::Serial;
  if (tokens_.peek().kind == Token::Kind::Name) {
    Token token = tokens_.next();
    auto parsed = parse_for_kind(token.text);
    if (!parsed) {
      std::string known;
      for (int i = 0; i <= static_cast<int>(ForKind::Warp); ++i) {
        known += fmt::format("{}{}", i ? ", " : "", name_of(static_cast<ForKind>(i)));
      }
      tokens_.fail(token, fmt::format("'{}' is no kind of loop; known are {}", token.text, known));
    }
    kind = *parsed;
  }
  Annotations annotations = notes();
  Var var = define(name);
  Stmt body = braced();
  return make(keyword, [&] { return make_for(var, min, extent, kind, body, annotations); });
}

// "for i in 0..extent" and "for i in min..min+extent"; constants may also be "min..end".
Expr ProgramParser::loop_extent(const Expr& min) {
  Token token = tokens_.peek();
  Expr end = expressions_.expr();
  if (is_int(min, 0)) return end;
  auto* sum = end.as<BinaryNode>();
  if (sum && sum->op == BinaryOp::Add && equal(sum->a, min)) return sum->b;
  auto low = as_int(min), high = as_int(end);
  int64_t extent;
  if (low && high && !__builtin_sub_overflow(*high, *low, &extent)) return Expr(extent);
  if (low && high) tokens_.fail(token, "the range has more values than 64 bits count");
  tokens_.fail(token, "expected the end of the range as 'min+extent' with the same min");
}

Stmt ProgramParser::block_stmt() {
  ScopeGuard guard(scope_);
  Token keyword = tokens_.expect("block");
  std::string name = tokens_.expect_name("the block's name").text;
  std::vector<IterVar> iters = block_iters();
  Expr predicate;
  if (tokens_.accept("where")) predicate = expressions_.expr();
  Annotations annotations = notes();
  Token open = tokens_.expect("{");
  std::vector<Buffer> allocs;
  while (at_keyword("alloc")) {
    tokens_.next();
    Buffer b = declaration();
    allocs.push_back(make_buffer(b->name, b->elem, b->shape, memory_scope()));
    scope_.buffers[b->name] = allocs.back();
  }
  Stmt init;
  if (at_keyword("init")) {
    tokens_.next();
    init = braced();
  }
  Stmt body = statements();
  if (!body.defined()) tokens_.fail(open, "a block needs at least one statement");
  tokens_.expect("}");
  return make(keyword,
              [&] { return make_block(name, iters, body, init, predicate, allocs, annotations); });
}

// Defines the iterators after all bindings and extents, which refer only to what is outside.
std::vector<IterVar> ProgramParser::block_iters() {
  std::vector<IterVar> result;
  std::vector<Token> names;
  tokens_.expect("(");
  if (tokens_.accept(")")) return result;
  do {
    names.push_back(tokens_.expect_name("an iterator's name"));
    tokens_.expect(":");
    Token kind = tokens_.peek();
    bool reduce = tokens_.accept("reduce");
    if (!reduce && !tokens_.accept("spatial")) {
      tokens_.fail(kind, fmt::format("expected spatial or reduce, got {}", describe(kind)));
    }
    Expr extent = expressions_.expr();
    tokens_.expect("=");
    Expr binding = expressions_.expr();
    result.push_back(
        {Var(names.back().text), extent, reduce ? IterKind::Reduce : IterKind::Spatial, binding});
  } while (tokens_.accept(","));
  tokens_.expect(")", "or ','");
  for (const IterVar& iter : result) scope_.vars[iter.var.name()] = iter.var;
  return result;
}

Stmt ProgramParser::if_stmt() {
  Token keyword = tokens_.expect("if");
  Expr cond = expressions_.expr();
  Stmt then_case = braced();
  Stmt else_case;
  if (tokens_.accept("else")) else_case = at_keyword("if") ? statement() : braced();
  return make(keyword, [&] { return make_if(cond, then_case, else_case); });
}

Stmt ProgramParser::let_stmt() {
  ScopeGuard guard(scope_);
  Token keyword = tokens_.expect("let");
  Token name = tokens_.expect_name("the variable's name");
  tokens_.expect(":");
  Type type = expressions_.type();
  tokens_.expect("=");
  Expr value = expressions_.expr();
  Var var = define(name, type);
  Stmt body = braced();
  return make(keyword, [&] { return make_let(var, value, body); });
}

Stmt ProgramParser::allocate_stmt() {
  ScopeGuard guard(scope_);
  Token keyword = tokens_.expect("allocate");
  Buffer b = declaration();
  const Scope scope = memory_scope();
  int64_t row = 0;
  if (at_keyword("swizzled")) {
    tokens_.next();
    tokens_.expect("(");
    row = tokens_.expect_integer("the elements in a swizzled row");
    tokens_.expect(")");
  }
  const Buffer scoped =
      make(keyword, [&] { return make_buffer(b->name, b->elem, b->shape, scope, row); });
  scope_.buffers[b->name] = scoped;
  Stmt body = braced();
  return make(keyword, [&] { return make_allocate(scoped, body); });
}

// The predicate of a store stands on the store's line; an "if" on the next line is a statement.
Stmt ProgramParser::store_stmt() {
  Token name = tokens_.next();
  Buffer buffer = expressions_.buffer(name);
  tokens_.expect("[");
  std::vector<Expr> indices = expressions_.list("]");
  bool async = tokens_.accept("<-async");
  if (!async) tokens_.expect("=", "or '<-async'");
  Expr value = expressions_.expr();
  Expr predicate;
  if (tokens_.at("if") && !tokens_.peek().first_in_line) {
    tokens_.next();
    predicate = expressions_.expr();
  }
  return make(name, [&] { return make_store(buffer, indices, value, predicate, async); });
}

Stmt ProgramParser::evaluate_stmt() {
  Token token = tokens_.peek();
  bool call = tokens_.at("<", 1) && token.end == tokens_.peek(1).begin;
  if (!call) {
    tokens_.fail(token, fmt::format("expected a statement (for, block, if, let, allocate, a store "
                                    "or a call such as barrier<bool>()), got {}",
                                    describe(token)));
  }
  Expr value = expressions_.expr();
  return make(token, [&] { return make_evaluate(value); });
}

}  // namespace

Program parse_program(std::string_view text) {
  ProgramParser parser(text);
  Program p = parser.program();
  parser.expect_end();
  return p;
}

Module parse_module(std::string_view text) {
  ProgramParser parser(text);
  Module m{parser.program(), {}};
  while (!parser.at_end()) m.packs.push_back(parser.program());
  return m;
}

}  // namespace tilewright
