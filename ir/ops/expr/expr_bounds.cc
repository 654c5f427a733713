#include "ir/ops/expr/expr_bounds.h"

#include <algorithm>
#include <charconv>

namespace tilewright::ops {
namespace {

// No tensor that is allowed needs a coefficient or constant beyond this.
constexpr int64_t kLimit = int64_t{1} << 41;

std::optional<int64_t> whole_number(const Syntax& s) {
  if (s.kind != Syntax::Kind::Number) return std::nullopt;
  int64_t value = 0;
  const char* end = s.text.data() + s.text.size();
  auto [rest, error] = std::from_chars(s.text.data(), end, value);
  if (error != std::errc() || rest != end || value > kLimit) return std::nullopt;
  return value;
}

int64_t floor_quotient(int64_t a, int64_t b) {
  return a / b - ((a % b != 0) && (a < 0) != (b < 0));
}

}  // namespace

std::optional<Linear> add_scaled(Linear a, const Linear& b, int64_t factor) {
  auto fits = [](__int128 v) { return v <= kLimit && v >= -kLimit; };
  __int128 constant = a.constant + static_cast<__int128>(b.constant) * factor;
  if (!fits(constant)) return std::nullopt;
  a.constant = static_cast<int64_t>(constant);
  for (const auto& [name, coefficient] : b.terms) {
    __int128 sum = a.terms[name] + static_cast<__int128>(coefficient) * factor;
    if (!fits(sum)) return std::nullopt;
    a.terms[name] = static_cast<int64_t>(sum);
    if (sum == 0) a.terms.erase(name);
  }
  return a;
}

std::optional<Linear> linear_form(const Syntax& s) {
  if (s.kind == Syntax::Kind::Name) return Linear{0, {{s.text, 1}}};
  if (auto value = whole_number(s)) return Linear{*value, {}};
  if (s.kind == Syntax::Kind::Negate) {
    auto a = linear_form(s.args[0]);
    return a ? add_scaled({}, *a, -1) : std::nullopt;
  }
  if (s.kind != Syntax::Kind::Binary) return std::nullopt;
  auto a = linear_form(s.args[0]), b = linear_form(s.args[1]);
  if (!a || !b) return std::nullopt;
  if (s.text == "+") return add_scaled(*a, *b, 1);
  if (s.text == "-") return add_scaled(*a, *b, -1);
  if (s.text != "*") return std::nullopt;
  if (a->terms.empty()) return add_scaled({}, *b, a->constant);
  if (b->terms.empty()) return add_scaled({}, *a, b->constant);
  return std::nullopt;
}

bool is_index_arithmetic(const Syntax& s) {
  switch (s.kind) {
    case Syntax::Kind::Name: return true;
    case Syntax::Kind::Number: return whole_number(s).has_value();
    case Syntax::Kind::Negate:
    case Syntax::Kind::Binary:
      return s.text != "/" && std::all_of(s.args.begin(), s.args.end(), is_index_arithmetic);
    default: return false;
  }
}

void IndexBounds::push(const Syntax& condition, bool holds) {
  std::vector<Linear> facts;
  collect(condition, holds, facts);
  facts_.push_back(std::move(facts));
}

void IndexBounds::collect(const Syntax& c, bool holds, std::vector<Linear>& facts) const {
  if (c.kind == Syntax::Kind::Not) return collect(c.args[0], !holds, facts);
  if (c.kind == Syntax::Kind::Logic) {
    // If a && b holds, or a || b fails, each side gives facts.
    if ((c.text == "&&") != holds) return;
    for (const Syntax& side : c.args) collect(side, holds, facts);
    return;
  }
  if (c.kind != Syntax::Kind::Compare) return;
  auto a = linear_form(c.args[0]), b = linear_form(c.args[1]);
  if (!a || !b) return;
  // small <= big - gap, as big - small - gap >= 0.
  auto add = [&](const Linear& big, const Linear& small, int64_t gap) {
    if (auto difference = add_scaled(big, small, -1)) {
      difference->constant -= gap;
      facts.push_back(*difference);
    }
  };
  std::string op = c.text;
  if (!holds) {
    static const std::map<std::string, std::string> kOpposite = {
        {"<", ">="}, {">=", "<"}, {">", "<="}, {"<=", ">"}, {"==", "!="}, {"!=", "=="}};
    op = kOpposite.at(op);
  }
  if (op == "<" || op == "<=") add(*b, *a, op == "<");
  if (op == ">" || op == ">=") add(*a, *b, op == ">");
  if (op == "==") add(*a, *b, 0), add(*b, *a, 0);
  if (op != "!=") return;
  // `a != b` is a fact only where the two can be equal just at an end of the difference's range.
  // Then they differ by at least one.
  auto difference = add_scaled(*a, *b, -1);
  Interval range = difference ? linear_bounds(*difference) : Interval::everything();
  if (range.min == 0) add(*a, *b, 1);
  if (range.max == 0) add(*b, *a, 1);
}

Interval IndexBounds::range_of(const std::string& name) const {
  auto it = dims_.find(name);
  if (it == dims_.end()) return Interval::everything();
  Interval range{0, it->second.max - 1};
  for (const auto& scope : facts_) {
    for (const Linear& fact : scope) {
      if (fact.terms.size() != 1 || fact.terms.begin()->first != name) continue;
      int64_t c = fact.terms.begin()->second;
      if (c > 0) range.min = std::max(range.min, -floor_quotient(fact.constant, c));
      if (c < 0) range.max = std::min(range.max, floor_quotient(fact.constant, -c));
    }
  }
  return range;
}

Interval IndexBounds::linear_bounds(const Linear& l) const {
  Interval sum = Interval::point(l.constant);
  for (const auto& [name, coefficient] : l.terms) {
    sum = add(sum, mul(range_of(name), Interval::point(coefficient)));
  }
  for (const auto& scope : facts_) {
    for (const Linear& fact : scope) {
      auto difference = add_scaled(l, fact, -1), total = add_scaled(l, fact, 1);
      if (difference && difference->terms.empty())
        sum.min = std::max(sum.min, difference->constant);
      if (total && total->terms.empty()) sum.max = std::min(sum.max, total->constant);
    }
  }
  return sum;
}

Interval IndexBounds::bounds(const Syntax& s) const {
  if (auto l = linear_form(s)) return linear_bounds(*l);
  if (s.kind == Syntax::Kind::Negate) return sub(Interval::point(0), bounds(s.args[0]));
  if (s.kind != Syntax::Kind::Binary) return Interval::everything();
  Interval a = bounds(s.args[0]), b = bounds(s.args[1]);
  if (s.text == "+") return add(a, b);
  if (s.text == "-") return sub(a, b);
  if (s.text == "*") return mul(a, b);
  if (s.text == "//") return floordiv(a, b);
  if (s.text == "%") return floormod(a, b);
  return Interval::everything();
}

}  // namespace tilewright::ops
