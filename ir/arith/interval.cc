#include "ir/arith/interval.h"

#include <algorithm>
#include <array>

namespace tilewright {
namespace {

constexpr int64_t kNegInf = Interval::kNegInf;
constexpr int64_t kPosInf = Interval::kPosInf;

bool is_infinite(int64_t v) { return v == kNegInf || v == kPosInf; }

int64_t saturate(__int128 v) {
  if (v <= kNegInf) return kNegInf;
  if (v >= kPosInf) return kPosInf;
  return static_cast<int64_t>(v);
}

int64_t negate(int64_t v) {
  if (v == kNegInf) return kPosInf;
  return v == kPosInf ? kNegInf : -v;
}

// The sum of two lower ends, or of two upper ends; `bound` is the infinity on that side.
int64_t add_ends(int64_t a, int64_t b, int64_t bound) {
  if (is_infinite(a) || is_infinite(b)) return bound;
  return saturate(static_cast<__int128>(a) + b);
}

int64_t mul_ends(int64_t a, int64_t b) {
  if (a == 0 || b == 0) return 0;
  if (is_infinite(a) || is_infinite(b)) return (a < 0) == (b < 0) ? kPosInf : kNegInf;
  return saturate(static_cast<__int128>(a) * b);
}

// Floor of a / b for b other than 0. A finite number over an infinite one tends to 0 or -1.
int64_t div_ends(int64_t a, int64_t b) {
  if (is_infinite(a)) return (a < 0) == (b < 0) ? kPosInf : kNegInf;
  if (is_infinite(b)) return a == 0 || (a < 0) == (b < 0) ? 0 : -1;
  if (b == -1) return negate(a);
  int64_t quotient = a / b;
  return quotient * b != a && (a < 0) != (b < 0) ? quotient - 1 : quotient;
}

template <size_t N>
Interval hull(const std::array<int64_t, N>& values) {
  auto [low, high] = std::minmax_element(values.begin(), values.end());
  return {*low, *high};
}

// Requires `b` on one side of 0.
Interval floordiv_signed(Interval a, Interval b) {
  return hull<4>({div_ends(a.min, b.min), div_ends(a.min, b.max), div_ends(a.max, b.min),
                  div_ends(a.max, b.max)});
}

// Requires a positive `b`.
Interval floormod_positive(Interval a, Interval b) {
  int64_t most = b.max == kPosInf ? kPosInf : b.max - 1;
  if (a.min >= 0 && a.max < b.min) return a;
  if (b.is_point() && a.is_bounded() && div_ends(a.min, b.min) == div_ends(a.max, b.min)) {
    int64_t base = div_ends(a.min, b.min) * b.min;
    return {a.min - base, a.max - base};
  }
  return {0, a.min >= 0 ? std::min(a.max, most) : most};
}

Interval negate(Interval a) { return {negate(a.max), negate(a.min)}; }

// Applies the operation to the parts of `b` on either side of 0. A divisor of 0 has no result.
template <class Negative, class Positive>
Interval by_sign(Interval b, const Negative& negative, const Positive& positive) {
  bool has_negative = b.min<0, has_positive = b.max> 0;
  if (!has_negative && !has_positive) return Interval::everything();
  if (!has_negative) return positive(Interval{std::max<int64_t>(b.min, 1), b.max});
  if (!has_positive) return negative(Interval{b.min, std::min<int64_t>(b.max, -1)});
  return unite(negative(Interval{b.min, -1}), positive(Interval{1, b.max}));
}

}  // namespace

Interval add(Interval a, Interval b) {
  return {add_ends(a.min, b.min, kNegInf), add_ends(a.max, b.max, kPosInf)};
}

Interval sub(Interval a, Interval b) { return add(a, negate(b)); }

Interval mul(Interval a, Interval b) {
  return hull<4>({mul_ends(a.min, b.min), mul_ends(a.min, b.max), mul_ends(a.max, b.min),
                  mul_ends(a.max, b.max)});
}

Interval floordiv(Interval a, Interval b) {
  auto divide = [&](Interval part) { return floordiv_signed(a, part); };
  return by_sign(b, divide, divide);
}

Interval floormod(Interval a, Interval b) {
  // floormod(a, -b) == -floormod(-a, b)
  return by_sign(
      b, [&](Interval part) { return negate(floormod_positive(negate(a), negate(part))); },
      [&](Interval part) { return floormod_positive(a, part); });
}

Interval min(Interval a, Interval b) { return {std::min(a.min, b.min), std::min(a.max, b.max)}; }
Interval max(Interval a, Interval b) { return {std::max(a.min, b.min), std::max(a.max, b.max)}; }
Interval unite(Interval a, Interval b) { return {std::min(a.min, b.min), std::max(a.max, b.max)}; }

Interval intersect(Interval a, Interval b) {
  Interval both{std::max(a.min, b.min), std::min(a.max, b.max)};
  return both.min <= both.max ? both : a;
}

}  // namespace tilewright
