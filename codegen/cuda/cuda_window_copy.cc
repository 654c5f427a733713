#include "codegen/cuda/cuda_window_copy.h"

#include <fmt/format.h>

#include <utility>

#include "base/error.h"
#include "ir/text/printer.h"
#include "ir/visitor.h"

namespace tilewright {
namespace {

bool is_digit(const BinaryNode* n) {
  return n && (n->op == BinaryOp::FloorDiv || n->op == BinaryOp::FloorMod);
}

// A term of a sum, with its factor.
using Term = std::pair<int64_t, Expr>;

void add_terms(const Expr& e, int64_t factor, std::vector<Term>& terms) {
  auto* n = e.as<BinaryNode>();
  if (n && (n->op == BinaryOp::Add || n->op == BinaryOp::Sub)) {
    add_terms(n->a, factor, terms);
    add_terms(n->b, n->op == BinaryOp::Sub ? -factor : factor, terms);
  } else if (auto by = n && n->op == BinaryOp::Mul ? as_int(n->b) : std::nullopt) {
    add_terms(n->a, factor * *by, terms);
  } else {
    terms.emplace_back(factor, e);
  }
}

class Walker {
 public:
  Walker(const ForNode& row, std::optional<int64_t> pixels, Analyzer& known,
         const std::function<void(const std::string&)>& fail)
      : row_(row), pixels_(pixels), known_(known), fail_(fail) {}

  PixelWalk run(const std::vector<Expr>& at, const std::vector<Expr>& dims) {
    walk_.first = row_.min;
    walk_.digits.resize(at.size() - 1);
    walk_.offsets.resize(at.size() - 1);
    for (size_t x = at.size(); x-- > 1;) take_dimension(at[x], x - 1);
    take_image(at[0], dims[0]);
    return walk_;
  }

 private:
  // The term that counts pixels, if there is one, and the sum of the others.
  std::pair<std::optional<Term>, Expr> split(const Expr& index) {
    std::vector<Term> terms;
    add_terms(index, 1, terms);
    std::optional<Term> counted;
    Expr rest = 0;
    for (const auto& [factor, term] : terms) {
      if (!uses_var(term, row_.var)) {
        rest = rest + term * factor;
        continue;
      }
      if (counted) fail_(fmt::format("'{}' counts pixels twice", to_string(index)));
      counted = Term(factor, term);
    }
    return {counted, known_.simplify(rest)};
  }

  // pixel / divisor, or pixel / divisor % extent; the extent is 0 without a remainder.
  PixelDigit digit_of(const Term& term) {
    PixelDigit digit{1, 0, term.first, 0};
    Expr e = term.second;
    auto* n = e.as<BinaryNode>();
    if (is_digit(n) && n->op == BinaryOp::FloorMod) {
      digit.extent = number_of(n->b);
      e = n->a;
      n = e.as<BinaryNode>();
    }
    if (is_digit(n) && n->op == BinaryOp::FloorDiv) {
      digit.divisor = number_of(n->b);
      e = n->a;
    }
    if (!e.same_as(row_.var) || digit.divisor != counted_ || is_last_) {
      fail_(fmt::format("'{}' does not go on counting pixels behind the first {}",
                        to_string(term.second), counted_));
    }
    is_last_ = digit.extent == 0;
    return digit;
  }

  int64_t number_of(const Expr& e) {
    auto number = as_int(e);
    if (!number) fail_(fmt::format("rows of {} pixels have a dynamic length", to_string(e)));
    return *number;
  }

  void take_dimension(const Expr& index, size_t x) {
    auto [counted, rest] = split(index);
    PixelDigit& digit = walk_.digits[x];
    digit.divisor = counted_;
    if (counted) digit = digit_of(*counted);
    if (digit.extent == 0) digit.extent = what_is_left();
    std::vector<Term> terms;
    add_terms(rest, 1, terms);
    Expr offset = 0;
    for (const auto& [factor, term] : terms) {
      if (auto number = as_int(term)) {
        digit.lower += factor * *number;
      } else {
        offset = offset + term * factor;
      }
    }
    walk_.offsets[x] = known_.simplify(offset);
    counted_ *= digit.extent;
  }

  // The extent of a digit without a remainder: the pixels in all, over those counted.
  int64_t what_is_left() {
    int64_t all = pixels_.value_or(0);
    if (!pixels_) {
      const int64_t last = known_.bounds(row_.var).max;
      if (last == Interval::kPosInf) fail_("it is not known how many pixels there are");
      all = last + 1;
    }
    if (all % counted_ != 0) {
      fail_(fmt::format("{} pixels are no whole rows of {}", all, counted_));
    }
    return all / counted_;
  }

  void take_image(const Expr& index, const Expr& images) {
    auto [counted, rest] = split(index);
    if (counted) {
      const PixelDigit digit = digit_of(*counted);
      if (digit.step != 1 || digit.extent != 0) {
        fail_(fmt::format("'{}' is no number of an image", to_string(index)));
      }
    } else if (!is_last_ && known_.bounds(row_.var).max >= counted_) {
      fail_(fmt::format("the image '{}' is the same for more than its {} pixels", to_string(index),
                        counted_));
    }
    walk_.image = rest;
    // Pixels behind the last one are those of an image that does not exist.
    if (!pixels_) return;
    const Expr behind = rest + Expr(*pixels_ / counted_);
    if (*pixels_ % counted_ != 0 || !known_.prove(eq(behind, images))) {
      fail_(fmt::format("its {} pixels do not end with the last image", *pixels_));
    }
  }

  const ForNode& row_;
  std::optional<int64_t> pixels_;
  Analyzer& known_;
  const std::function<void(const std::string&)>& fail_;
  int64_t counted_ = 1;  // pixels that the dimensions so far distinguish
  bool is_last_ = false;
  PixelWalk walk_;
};

}  // namespace

std::vector<Expr> PixelWalk::place(const Expr& shift) const {
  const Expr pixel = simplify(first + shift);
  const PixelDigit& outermost = digits.front();
  std::vector<Expr> at = {
      simplify(image + floordiv(pixel, Expr(outermost.divisor * outermost.extent)))};
  for (const PixelDigit& d : digits) {
    at.push_back(simplify(
        floormod(floordiv(pixel, Expr(d.divisor)), Expr(d.extent)) * Expr(d.step) + Expr(d.lower)));
  }
  return at;
}

bool runs_by_digits(const Expr& index, const Var& row) {
  bool found = false;
  for_each_expr(index, [&](const Expr& e) {
    auto* n = e.as<BinaryNode>();
    found |= is_digit(n) && uses_var(n->a, row);
  });
  return found;
}

PixelWalk pixel_walk(const std::vector<Expr>& at, const std::vector<Expr>& dims, const ForNode& row,
                     std::optional<int64_t> pixels, Analyzer& known,
                     const std::function<void(const std::string&)>& fail) {
  return Walker(row, pixels, known, fail).run(at, dims);
}

}  // namespace tilewright
