// Index expressions as numbers in a mixed radix, whose digits are pieces of the inputs. Index maps
// use this algebra. Internal to ir/arith/index_map.cc.
//
//   floordiv(j, 16) * 4 + i  with i < 4  is the number with the digits [floordiv(j, 16), i].
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ir/expr.h"

namespace tilewright::mixed_radix {

// The number of values of a digit: a constant where it is known.
struct Extent {
  Expr expr;
  std::optional<int64_t> value() const { return as_int(expr); }
  bool is(int64_t v) const { return is_int(expr, v); }
};

struct Mark;

// One digit: floormod(floordiv(mark, lower), extent), times `scale`. The top digit of a mark has no
// floormod. Its extent may be rounded up, and values that rounding adds lie outside the mark.
// Extents of other digits are constants.
struct Digit {
  std::shared_ptr<const Mark> mark;
  int64_t lower;
  Extent extent;
  bool top;
  int64_t scale;
};

// The source of digits: an input, or a number made of other marks' digits.
struct Mark {
  int input;  // -1 for a number
  Extent extent;
  std::vector<Digit> digits;  // the number's digits, highest first
};

// A sum of digits, highest scale first.
struct Number {
  std::vector<Digit> digits;
  int64_t offset = 0;
};

// The functions below throw IrError where a number leaves the range of 64 bits.
//
// True when the digits fit without gap or overlap, the lowest of scale `unit`.
bool is_positional(const Number& n, int64_t unit);
// The greatest value plus one.
Expr extent_of(const Number& n);

// Rewrites index expressions of `inputs` over the box `shape` as numbers.
class Analysis {
 public:
  Analysis(const std::vector<Var>& inputs, const std::vector<Expr>& shape);

  // Throws IrError that names the part of `e` that does not have this form.
  Number number(const Expr& e);
  // All marks, each after those that it refers to; the inputs come first.
  const std::vector<std::shared_ptr<const Mark>>& marks() const { return marks_; }

 private:
  struct Halves {
    Number high, low;  // n = high * divisor + low
  };
  Number divide(const Expr& e, const Expr& dividend, const Expr& divisor, bool quotient);
  std::optional<Halves> split(const Number& n, int64_t divisor);
  std::shared_ptr<const Mark> fuse(const Number& n);

  std::vector<Var> inputs_;
  std::vector<std::shared_ptr<const Mark>> marks_;
  std::map<std::string, std::shared_ptr<const Mark>> fused_;
};

}  // namespace tilewright::mixed_radix
