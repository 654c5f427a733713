#include "ir/oracle/oracle_math.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "ir/oracle/evaluate.h"

namespace tilewright {

double unit_roundoff(ElemType elem) {
  switch (elem) {
    case ElemType::f64: return 0x1p-53;
    case ElemType::f32: return 0x1p-24;
    case ElemType::f16: return 0x1p-11;
    case ElemType::bf16: return 0x1p-8;
    case ElemType::f8e4m3: return 0x1p-4;
    case ElemType::f8e5m2: return 0x1p-3;
    case ElemType::f4e2m1:
    case ElemType::nf4: return 0x1p-2;
    case ElemType::e8m0: return 0x1p-1;
    default: return 0;
  }
}

namespace oracle {
namespace {

constexpr double kFunctionRoundings = 4;  // of exp, tanh and the like in a library or by a series

// Integers that 64-bit arithmetic holds wrap exactly; f64 alone would lose low bits of products.
Approx integer_result(BinaryOp op, ElemType type, double x, double y) {
  auto a = static_cast<__int128>(x), b = static_cast<__int128>(y);
  __int128 r = 0;
  switch (op) {
    case BinaryOp::Add: r = a + b; break;
    case BinaryOp::Sub: r = a - b; break;
    case BinaryOp::Mul: r = a * b; break;
    case BinaryOp::FloorDiv: r = floor_div(static_cast<int64_t>(a), static_cast<int64_t>(b)); break;
    case BinaryOp::FloorMod: r = floor_mod(static_cast<int64_t>(a), static_cast<int64_t>(b)); break;
    case BinaryOp::Min: r = std::min(a, b); break;
    case BinaryOp::Max: r = std::max(a, b); break;
    default: break;
  }
  const int bits = bits_of(type);
  if (bits < 64) {
    __int128 modulus = __int128{1} << bits;
    r &= modulus - 1;
    if (info(type).kind == ElemKind::Int && r >= modulus / 2) r -= modulus;
  }
  return {static_cast<double>(r), 0};
}

// Discontinuous functions: an error that may cross a step makes an error of one.
double step_error(double low, double high) { return low == high ? 0 : std::abs(high - low); }

}  // namespace

int64_t floor_div(int64_t a, int64_t b) {
  if (b == 0) return 0;
  return a / b - ((a % b != 0) && ((a % b < 0) != (b < 0)));
}

int64_t floor_mod(int64_t a, int64_t b) { return b == 0 ? 0 : a - floor_div(a, b) * b; }

double smallest_normal(ElemType type) {
  switch (type) {
    case ElemType::f64: return 0x1p-1022;
    case ElemType::f32:
    case ElemType::bf16: return 0x1p-126;
    case ElemType::f16: return 0x1p-24;  // its smallest subnormal: conversions keep these
    default: return 0;
  }
}

bool is_exact(ElemType from, ElemType to) {
  if (from == to || to == ElemType::f64) return from != ElemType::i64 && from != ElemType::u64;
  if (to == ElemType::f32) {
    return is_float(from) ? from != ElemType::f64 : bits_of(from) <= 16;
  }
  if (is_float(from) || is_float(to)) return false;
  bool from_signed = info(from).kind == ElemKind::Int, to_signed = info(to).kind == ElemKind::Int;
  if (from_signed == to_signed) return bits_of(from) <= bits_of(to);
  return to_signed && bits_of(from) < bits_of(to);
}

Approx convert(ElemType from, ElemType to, Approx a) {
  if (is_exact(from, to) || to == ElemType::f64) return a;
  double rounded = round_to(to, a.v);
  if (a.e == 0) return {rounded, 0};
  if (!is_float(to)) return {rounded, step_error(std::trunc(a.v - a.e), std::trunc(a.v + a.e))};
  // Half a unit for each of the two roundings; below the normal range units stop shrinking.
  double unit = std::max(std::abs(rounded) * unit_roundoff(to), smallest_normal(to));
  return {rounded, a.e + 2 * unit};
}

Approx apply(UnaryOp op, ElemType type, double roundoff, Approx a) {
  double fuzz = kFunctionRoundings * roundoff;
  switch (op) {
    case UnaryOp::Neg:
      return is_float(type) ? Approx{-a.v, a.e} : integer_result(BinaryOp::Sub, type, 0, a.v);
    case UnaryOp::Not: return {a.v == 0 ? 1.0 : 0.0, 0};
    case UnaryOp::Abs:
      if (!is_float(type) && a.v < 0) return integer_result(BinaryOp::Sub, type, 0, a.v);
      return {std::abs(a.v), a.e};
    case UnaryOp::Exp: {
      double v = std::exp(a.v);
      // Kernels may give 0 in place of a subnormal number, also where types are narrower and computed in f32.
      const double normal = std::min(smallest_normal(type), smallest_normal(ElemType::f32));
      const double flushed = v * std::exp(-a.e) < normal ? v : 0;
      return {v, std::max(flushed, v * (std::expm1(a.e) + fuzz))};
    }
    case UnaryOp::Log: {
      double v = std::log(a.v);
      return {v, a.e / std::abs(a.v) + fuzz * std::abs(v)};
    }
    case UnaryOp::Sqrt: {
      double v = std::sqrt(a.v);
      double moved = a.e > 0 ? std::min(a.e / (2 * v), std::sqrt(a.e)) : 0;
      return {v, moved + fuzz * v};
    }
    case UnaryOp::Rsqrt: {
      double v = 1 / std::sqrt(a.v);
      return {v, (a.e > 0 ? v * a.e / (2 * a.v) : 0) + fuzz * v};
    }
    case UnaryOp::Tanh: {
      double v = std::tanh(a.v);
      return {v, a.e * (1 - v * v) + fuzz * std::abs(v)};
    }
    case UnaryOp::Erf: {
      double v = std::erf(a.v);
      return {v, a.e * 1.1283791670955126 * std::exp(-a.v * a.v) + fuzz * std::abs(v)};
    }
    case UnaryOp::Floor:
      return {std::floor(a.v), step_error(std::floor(a.v - a.e), std::floor(a.v + a.e))};
    case UnaryOp::Round:
      return {std::nearbyint(a.v),
              step_error(std::nearbyint(a.v - a.e), std::nearbyint(a.v + a.e))};
  }
  return a;
}

Approx apply(BinaryOp op, ElemType type, double roundoff, Approx a, Approx b) {
  if (!is_float(type)) return integer_result(op, type, a.v, b.v);
  double v = 0, e = 0;
  switch (op) {
    case BinaryOp::Add: v = a.v + b.v, e = a.e + b.e; break;
    case BinaryOp::Sub: v = a.v - b.v, e = a.e + b.e; break;
    case BinaryOp::Mul:
      v = a.v * b.v, e = std::abs(a.v) * b.e + std::abs(b.v) * a.e + a.e * b.e;
      break;
    case BinaryOp::Div:
      v = a.v / b.v;
      // Nothing is fused with a division, and an f64 quotient of f32 numbers that is rounded again
      // is the f32 quotient: of exact numbers it is known to the bit.
      if (type == ElemType::f32 && a.e == 0 && b.e == 0) return {round_to(type, v), 0};
      // Of a divisor that no f64 holds, as exp(1000) is, no type leaves more than this.
      if (std::isinf(b.v) && std::isfinite(a.v)) return {v, smallest_normal(type)};
      e = (a.e + std::abs(v) * b.e) / std::abs(b.v);
      // A divisor that f32 may not hold, as exp(89) is, may be an infinity: then nothing is left of v.
      if (type != ElemType::f64 && std::abs(b.v) + b.e > std::numeric_limits<float>::max())
        e = std::max(e, std::abs(v));
      break;
    case BinaryOp::Min: return {std::min(a.v, b.v), std::max(a.e, b.e)};
    case BinaryOp::Max: return {std::max(a.v, b.v), std::max(a.e, b.e)};
    default: break;
  }
  return {v, e + roundoff * std::abs(v)};
}

double offset_of_code(ElemType type) {
  return static_cast<double>(uint64_t{1} << (bits_of(type) - 1));
}

double apart_of_code(ElemType type, double code) {
  const double offset = offset_of_code(type);
  return std::abs(code + offset) + offset - std::abs(code);
}

double wrapped_sum(ElemType type, double a, double b) {
  return integer_result(BinaryOp::Add, type, a, b).v;
}

}  // namespace oracle
}  // namespace tilewright
