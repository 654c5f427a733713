#include "ir/arith/mixed_radix.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/error.h"
#include "ir/text/printer.h"

namespace tilewright::mixed_radix {
namespace {

[[noreturn]] void refuse_overflow() {
  throw IrError("index map: a number leaves the range of 64 bits");
}

int64_t add(int64_t a, int64_t b) {
  int64_t sum;
  if (__builtin_add_overflow(a, b, &sum)) refuse_overflow();
  return sum;
}

int64_t multiply(int64_t a, int64_t b) {
  int64_t product;
  if (__builtin_mul_overflow(a, b, &product)) refuse_overflow();
  return product;
}

Extent ceil_div(const Extent& extent, int64_t divisor) {
  if (divisor == 1) return extent;
  if (auto value = extent.value()) return {Expr(*value / divisor + (*value % divisor > 0))};
  return {floordiv(extent.expr + (divisor - 1), divisor)};
}

Expr times(const Expr& e, int64_t factor) {
  if (factor == 1) return e;
  if (auto value = as_int(e)) return Expr(multiply(*value, factor));
  return e * factor;
}

// Joins two adjacent digits of the same mark into one digit.
std::optional<Digit> join(const Digit& high, const Digit& low) {
  auto extent = low.extent.value();
  if (high.mark != low.mark || !extent || high.lower != multiply(low.lower, *extent) ||
      high.scale != multiply(low.scale, *extent)) {
    return std::nullopt;
  }
  Digit joined = low;
  joined.top = high.top;
  joined.extent = {times(high.extent.expr, *extent)};
  return joined;
}

// Sorts the digits, adds equal ones and joins adjacent ones. A digit that is always 0 stays, since
// a later cut may round its extent up; it sorts below other digits of its scale.
Number normalized(Number n) {
  std::vector<Digit> digits;
  std::stable_sort(n.digits.begin(), n.digits.end(), [](const Digit& a, const Digit& b) {
    if (a.scale != b.scale) return a.scale > b.scale;
    return !a.extent.is(1) && b.extent.is(1);
  });
  for (const Digit& d : n.digits) {
    if (d.scale == 0) continue;
    auto same = std::find_if(digits.begin(), digits.end(), [&](const Digit& o) {
      return o.mark == d.mark && o.lower == d.lower && o.top == d.top &&
             o.extent.value() == d.extent.value();
    });
    auto joined = digits.empty() ? std::nullopt : join(digits.back(), d);
    if (same != digits.end()) {
      same->scale = add(same->scale, d.scale);
    } else if (joined) {
      digits.back() = *joined;
    } else {
      digits.push_back(d);
    }
  }
  n.digits = std::move(digits);
  return n;
}

Number scaled(Number n, int64_t factor) {
  for (Digit& d : n.digits) d.scale = multiply(d.scale, factor);
  n.offset = multiply(n.offset, factor);
  return normalized(std::move(n));
}

Number added(Number a, const Number& b) {
  a.digits.insert(a.digits.end(), b.digits.begin(), b.digits.end());
  a.offset = add(a.offset, b.offset);
  return normalized(std::move(a));
}

[[noreturn]] void refuse(const Expr& e, const std::string& reason) {
  throw IrError(fmt::format("index map: {} {}", to_string(e), reason));
}

std::string key_of(const Number& n) {
  std::string key;
  for (const Digit& d : n.digits) {
    key += fmt::format("{}:{}:{}:{};", static_cast<const void*>(d.mark.get()), d.lower,
                       to_string(d.extent.expr), d.scale);
  }
  return key;
}

}  // namespace

bool is_positional(const Number& n, int64_t unit) {
  std::optional<int64_t> next = unit;
  for (auto d = n.digits.rbegin(); d != n.digits.rend(); ++d) {
    if (!next || d->scale != *next) return false;
    auto extent = d->extent.value();
    next = extent ? std::optional(multiply(d->scale, *extent)) : std::nullopt;
  }
  return true;
}

Expr extent_of(const Number& n) {
  if (n.digits.empty()) return Expr(add(n.offset, 1));
  if (n.offset == 0 && is_positional(n, 1)) {
    return times(n.digits[0].extent.expr, n.digits[0].scale);
  }
  int64_t constant = add(1, n.offset);
  Expr sum;
  for (const Digit& d : n.digits) {
    if (auto value = d.extent.value()) {
      constant = add(constant, multiply(d.scale, add(*value, -1)));
      continue;
    }
    Expr term = times(d.extent.expr, d.scale);
    sum = sum.defined() ? sum + term : term;
    constant = add(constant, multiply(d.scale, -1));
  }
  if (!sum.defined()) return Expr(constant);
  return constant == 0 ? sum : sum + constant;
}

Analysis::Analysis(const std::vector<Var>& inputs, const std::vector<Expr>& shape)
    : inputs_(inputs) {
  if (inputs.size() != shape.size()) {
    throw IrError(fmt::format("index map: it takes {} indices, the shape has {} dimensions",
                              inputs.size(), shape.size()));
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    marks_.push_back(std::make_shared<Mark>(Mark{static_cast<int>(i), Extent{shape[i]}, {}}));
  }
}

Number Analysis::number(const Expr& e) {
  if (auto value = as_int(e)) return {{}, *value};
  if (e.as<VarNode>()) {
    for (size_t i = 0; i < inputs_.size(); ++i) {
      if (!inputs_[i].same_as(e)) continue;
      return normalized({{Digit{marks_[i], 1, marks_[i]->extent, true, 1}}, 0});
    }
    refuse(e, "is none of the map's inputs");
  }
  auto* n = e.as<BinaryNode>();
  if (!n) refuse(e, "is not made of +, *, floordiv and floormod");
  switch (n->op) {
    case BinaryOp::Add: return added(number(n->a), number(n->b));
    case BinaryOp::Sub: {
      Number b = number(n->b);
      if (!b.digits.empty()) refuse(e, "subtracts more than a constant");
      return added(number(n->a), scaled(b, -1));
    }
    case BinaryOp::Mul: {
      Number a = number(n->a), b = number(n->b);
      if (!a.digits.empty()) std::swap(a, b);
      if (!a.digits.empty()) refuse(e, "multiplies two indices");
      if (a.offset < 0) refuse(e, "multiplies by a negative constant");
      return scaled(b, a.offset);
    }
    case BinaryOp::FloorDiv: return divide(e, n->a, n->b, true);
    case BinaryOp::FloorMod: return divide(e, n->a, n->b, false);
    default: refuse(e, "is not made of +, *, floordiv and floormod");
  }
}

Number Analysis::divide(const Expr& e, const Expr& dividend, const Expr& divisor, bool quotient) {
  auto c = as_int(divisor);
  if (!c || *c < 1) refuse(e, "divides by something that is no positive constant");
  Number n = number(dividend);
  if (n.offset % *c != 0) refuse(e, "divides a sum whose constant part is no multiple");
  int64_t offset = quotient ? n.offset / *c : 0;
  n.offset = 0;
  auto halves = split(n, *c);
  if (!halves) {
    auto mark = fuse(n);
    if (!mark) refuse(e, "divides a sum whose parts overlap or leave gaps");
    halves = split({{Digit{mark, 1, mark->extent, n.digits[0].top, 1}}, 0}, *c);
    if (!halves) refuse(e, "cuts a part of an index unevenly");
  }
  Number result = quotient ? halves->high : halves->low;
  result.offset = offset;
  return result;
}

// Splits the digits at `divisor`. Only the highest digit of all may be cut unevenly, and only when
// it is the top of its mark. Values that rounding adds then lie outside the mark.
std::optional<Analysis::Halves> Analysis::split(const Number& n, int64_t divisor) {
  Halves halves;
  bool multiple = std::all_of(n.digits.begin(), n.digits.end(),
                              [&](const Digit& d) { return d.scale % divisor == 0; });
  if (!multiple && !is_positional(n, n.digits.back().scale)) return std::nullopt;
  for (size_t i = 0; i < n.digits.size(); ++i) {
    Digit d = n.digits[i];
    if (d.scale % divisor == 0) {
      d.scale /= divisor;
      halves.high.digits.push_back(d);
      continue;
    }
    if (divisor % d.scale != 0) return std::nullopt;
    int64_t cut = divisor / d.scale;
    auto extent = d.extent.value();
    bool highest = i == 0, padded = highest && d.top;
    bool whole = extent && *extent <= cut && (highest || cut % *extent == 0);
    if (whole && !padded) {
      halves.low.digits.push_back(d);
      continue;
    }
    if (!padded && (!extent || *extent % cut != 0)) return std::nullopt;
    Digit high{d.mark, multiply(d.lower, cut), ceil_div(d.extent, cut), d.top, 1};
    Digit low{d.mark, d.lower, Extent{Expr(cut)}, false, d.scale};
    halves.high.digits.push_back(high);
    halves.low.digits.push_back(low);
  }
  halves.high = normalized(std::move(halves.high));
  halves.low = normalized(std::move(halves.low));
  return halves;
}

// Turns a number into a mark of its own, so that it can be cut anywhere; null when it is not
// positional.
std::shared_ptr<const Mark> Analysis::fuse(const Number& n) {
  if (n.digits.empty() || !is_positional(n, 1)) return nullptr;
  auto& mark = fused_[key_of(n)];
  if (!mark) {
    mark = std::make_shared<Mark>(Mark{-1, Extent{extent_of(n)}, n.digits});
    marks_.push_back(mark);
  }
  return mark;
}

}  // namespace tilewright::mixed_radix
