#include "ir/arith/index_map.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>

#include "base/ceil_div.h"
#include "base/error.h"
#include "ir/arith/mixed_radix.h"
#include "ir/arith/simplify.h"
#include "ir/text/expr_parser.h"
#include "ir/text/lexer.h"
#include "ir/text/printer.h"
#include "ir/visitor.h"

namespace tilewright {
namespace {

using mixed_radix::Analysis;
using mixed_radix::Digit;
using mixed_radix::Mark;
using mixed_radix::Number;

Expr divided(const Expr& e, int64_t divisor) { return divisor == 1 ? e : floordiv(e, divisor); }

// Finds the inputs from the outputs. Each output gives the values of its digits, and the digits of
// a mark give the mark. A mark that is a number gives its own digits in turn.
class Inverter {
 public:
  Inverter(const IndexMap& map, const std::vector<Expr>& shape)
      : map_(map), shape_(shape), analysis_(map.inputs, shape) {}

  IndexMap operator()();

 private:
  struct Known {
    Digit digit;
    Expr value;
  };
  void take_apart(const std::vector<Digit>& digits, const Expr& number);
  Expr value_of(const Mark& mark);
  std::string name_of(const Mark& mark) const;
  [[noreturn]] void fail(const std::string& reason) const;

  const IndexMap& map_;
  const std::vector<Expr>& shape_;
  Analysis analysis_;
  std::map<const Mark*, std::vector<Known>> known_;
};

void Inverter::fail(const std::string& reason) const {
  std::string shape;
  for (const Expr& e : shape_) shape += (shape.empty() ? "" : ", ") + to_string(e);
  throw IrError(
      fmt::format("index map {} has no inverse over [{}]: {}", map_.str(), shape, reason));
}

std::string Inverter::name_of(const Mark& mark) const {
  if (mark.input >= 0) return fmt::format("the input '{}'", map_.inputs[mark.input].name());
  return "a sum of inputs";
}

void Inverter::take_apart(const std::vector<Digit>& digits, const Expr& number) {
  for (size_t i = 0; i < digits.size(); ++i) {
    Expr value = divided(number, digits[i].scale);
    if (i > 0) value = floormod(value, digits[i].extent.expr);
    known_[digits[i].mark.get()].push_back({digits[i], value});
  }
}

Expr Inverter::value_of(const Mark& mark) {
  std::vector<Known>& parts = known_[&mark];
  std::sort(parts.begin(), parts.end(),
            [](const Known& a, const Known& b) { return a.digit.lower < b.digit.lower; });
  if (parts.empty() && mark.extent.is(1)) return Expr(0);
  if (parts.empty()) fail(fmt::format("{} is in none of its outputs", name_of(mark)));
  int64_t next = 1;  // 0: everything is covered
  Expr sum;
  for (const auto& [digit, value] : parts) {
    if (digit.lower < next || next == 0) {
      fail(fmt::format("a part of {} is in its outputs twice", name_of(mark)));
    }
    if (digit.lower > next) break;
    Expr term = digit.lower == 1 ? value : value * digit.lower;
    sum = sum.defined() ? term + sum : term;
    next = digit.top ? 0 : digit.lower * digit.extent.value().value();
  }
  auto extent = mark.extent.value();
  if (next != 0 && !(extent && next >= *extent)) {
    fail(fmt::format("a part of {} is in none of its outputs", name_of(mark)));
  }
  return sum;
}

IndexMap Inverter::operator()() {
  IndexMap result;
  for (size_t i = 0; i < map_.outputs.size(); ++i) {
    result.inputs.emplace_back(fmt::format("p{}", i));
    Number n = analysis_.number(map_.outputs[i]);
    if (n.offset != 0 || !is_positional(n, 1)) {
      fail(fmt::format("the output {} leaves gaps or joins values", to_string(map_.outputs[i])));
    }
    take_apart(n.digits, result.inputs.back());
  }
  const auto& marks = analysis_.marks();
  for (size_t m = marks.size(); m-- > map_.inputs.size();) {
    if (known_.count(marks[m].get())) take_apart(marks[m]->digits, value_of(*marks[m]));
  }
  for (size_t i = 0; i < map_.inputs.size(); ++i) result.outputs.push_back(value_of(*marks[i]));
  return result;
}

void check_outputs(const IndexMap& map) {
  for (const Expr& e : map.outputs) {
    if (!e.defined() || e.type() != Type(ElemType::index)) {
      throw IrError(fmt::format("index map: the output {} is not an index", to_string(e)));
    }
  }
}

}  // namespace

IndexMap IndexMap::make(int rank,
                        const std::function<std::vector<Expr>(const std::vector<Var>&)>& fn) {
  IndexMap map;
  for (int i = 0; i < rank; ++i) map.inputs.emplace_back(fmt::format("i{}", i));
  map.outputs = fn(map.inputs);
  check_outputs(map);
  return map;
}

IndexMap IndexMap::parse(const std::string& text) {
  TokenStream tokens(text);
  TextScope scope;
  IndexMap map;
  tokens.expect("(");
  if (!tokens.accept(")")) {
    do {
      Token name = tokens.expect_name("an index's name");
      Var var(name.text);
      if (!scope.vars.emplace(name.text, var).second) {
        tokens.fail(name, fmt::format("a second index '{}'", name.text));
      }
      map.inputs.push_back(var);
    } while (tokens.accept(","));
    tokens.expect(")", "or ','");
  }
  tokens.expect("->");
  Token open = tokens.expect("(");
  map.outputs = ExprParser(tokens, scope).list(")");
  if (tokens.peek().kind != Token::Kind::End) {
    tokens.fail(fmt::format("expected the end of the map, got {}", describe(tokens.peek())));
  }
  for (const Expr& e : map.outputs) {
    if (e.type() != Type(ElemType::index)) {
      tokens.fail(open, fmt::format("the output {} has type {}, not index", to_string(e),
                                    to_string(e.type())));
    }
  }
  return map;
}

std::vector<Expr> IndexMap::apply(const std::vector<Expr>& indices) const {
  if (indices.size() != inputs.size()) {
    throw IrError(fmt::format("index map {}: it takes {} indices, got {}", str(), inputs.size(),
                              indices.size()));
  }
  VarMap values;
  for (size_t i = 0; i < inputs.size(); ++i) values[inputs[i].get()] = indices[i];
  std::vector<Expr> result;
  for (const Expr& e : outputs) result.push_back(substitute(e, values));
  return result;
}

std::vector<Expr> IndexMap::image(const std::vector<Expr>& shape) const {
  Analysis analysis(inputs, shape);
  std::vector<Expr> result;
  for (const Expr& e : outputs) result.push_back(extent_of(analysis.number(e)));
  return result;
}

std::vector<std::vector<IndexMap::Digit>> IndexMap::digits(
    const std::vector<int64_t>& shape) const {
  Analysis analysis(inputs, {shape.begin(), shape.end()});
  std::vector<std::vector<Digit>> result;
  for (const Expr& e : outputs) {
    const Number number = analysis.number(e);
    std::vector<Digit>& digits = result.emplace_back();
    for (const mixed_radix::Digit& d : number.digits) {
      auto extent = d.extent.value();
      if (d.mark->input < 0 || !extent || number.offset != 0) {
        throw IrError(fmt::format("index map {}: the output {} is no sum of parts of its indices",
                                  str(), to_string(e)));
      }
      // Rounding up may have given the highest digit values that it never has.
      const int64_t most = ceil_div(shape[static_cast<size_t>(d.mark->input)], d.lower);
      const int64_t values = std::min(*extent, most);
      if (values > 1) digits.push_back({d.mark->input, d.lower, values, d.scale});
    }
  }
  return result;
}

std::vector<int64_t> IndexMap::at(const std::vector<int64_t>& point) const {
  std::vector<int64_t> result;
  for (const Expr& e : apply({point.begin(), point.end()})) {
    result.push_back(as_int(simplify(e)).value());
  }
  return result;
}

IndexMap IndexMap::inverse(const std::vector<Expr>& shape) const {
  return Inverter(*this, shape)();
}

IndexMap compose(const IndexMap& f, const IndexMap& g) { return {g.inputs, f.apply(g.outputs)}; }

bool same_digits(const IndexMap& f, const IndexMap& g, const std::vector<int64_t>& shape) {
  try {
    return f.digits(shape) == g.digits(shape);
  } catch (const IrError&) {
    return false;
  }
}

IndexMap repeat(const IndexMap& f, const std::vector<int64_t>& shape) {
  if (f.inputs.size() != shape.size()) {
    throw IrError(fmt::format("index map {}: it takes {} indices, the shape has {} dimensions",
                              f.str(), f.inputs.size(), shape.size()));
  }
  return IndexMap::make(static_cast<int>(shape.size()), [&](const std::vector<Var>& x) {
    std::vector<Expr> out, inside;
    for (size_t d = 0; d < x.size(); ++d) {
      out.push_back(floordiv(x[d], shape[d]));
      inside.push_back(floormod(x[d], shape[d]));
    }
    for (const Expr& e : f.apply(inside)) out.push_back(e);
    return out;
  });
}

std::string IndexMap::str() const {
  std::vector<Expr> vars;
  std::map<std::string, int> seen;  // repeated names get a number
  std::string names, results;
  for (const Var& v : inputs) {
    int count = seen[v.name()]++;
    std::string name = count ? fmt::format("{}_{}", v.name(), count) : v.name();
    vars.push_back(Var(name));
    names += (names.empty() ? "" : ", ") + quote_name(name);
  }
  for (const Expr& e : apply(vars)) results += (results.empty() ? "" : ", ") + to_string(e);
  return fmt::format("({}) -> ({})", names, results);
}

}  // namespace tilewright
