#include "ir/interpreter/interpreter_math.h"

#include <cmath>
#include <limits>

namespace tilewright::interp {
namespace {

bool exact_in_f64(double a) { return std::abs(a) < 0x1p53; }

double floor_div(double a, double b) {
  if (b == 0) return std::numeric_limits<double>::quiet_NaN();
  if (!exact_in_f64(a) || !exact_in_f64(b)) return std::floor(a / b);
  auto x = static_cast<int64_t>(a), y = static_cast<int64_t>(b);
  int64_t q = x / y;
  bool below = x % y != 0 && (x < 0) != (y < 0);
  return static_cast<double>(below ? q - 1 : q);
}

double floor_mod(double a, double b) { return a - b * floor_div(a, b); }

}  // namespace

UnaryFn function_of(UnaryOp op) {
  switch (op) {
    case UnaryOp::Neg: return [](double a) { return -a; };
    case UnaryOp::Not: return [](double a) { return a != 0 ? 0.0 : 1.0; };
    case UnaryOp::Exp: return [](double a) { return std::exp(a); };
    case UnaryOp::Log: return [](double a) { return std::log(a); };
    case UnaryOp::Sqrt: return [](double a) { return std::sqrt(a); };
    case UnaryOp::Rsqrt: return [](double a) { return 1 / std::sqrt(a); };
    case UnaryOp::Tanh: return [](double a) { return std::tanh(a); };
    case UnaryOp::Erf: return [](double a) { return std::erf(a); };
    case UnaryOp::Abs: return [](double a) { return std::abs(a); };
    case UnaryOp::Floor: return [](double a) { return std::floor(a); };
    case UnaryOp::Round: return [](double a) { return std::nearbyint(a); };  // ties to even
  }
  return nullptr;
}

BinaryFn function_of(BinaryOp op) {
  switch (op) {
    case BinaryOp::Add: return [](double a, double b) { return a + b; };
    case BinaryOp::Sub: return [](double a, double b) { return a - b; };
    case BinaryOp::Mul: return [](double a, double b) { return a * b; };
    case BinaryOp::Div: return [](double a, double b) { return a / b; };
    case BinaryOp::FloorDiv: return floor_div;
    case BinaryOp::FloorMod: return floor_mod;
    case BinaryOp::Min: return [](double a, double b) { return b < a ? b : a; };
    case BinaryOp::Max: return [](double a, double b) { return a < b ? b : a; };
    case BinaryOp::And: return [](double a, double b) { return a != 0 && b != 0 ? 1.0 : 0.0; };
    case BinaryOp::Or: return [](double a, double b) { return a != 0 || b != 0 ? 1.0 : 0.0; };
    case BinaryOp::EQ: return [](double a, double b) { return a == b ? 1.0 : 0.0; };
    case BinaryOp::NE: return [](double a, double b) { return a != b ? 1.0 : 0.0; };
    case BinaryOp::LT: return [](double a, double b) { return a < b ? 1.0 : 0.0; };
    case BinaryOp::LE: return [](double a, double b) { return a <= b ? 1.0 : 0.0; };
    case BinaryOp::GT: return [](double a, double b) { return a > b ? 1.0 : 0.0; };
    case BinaryOp::GE: return [](double a, double b) { return a >= b ? 1.0 : 0.0; };
  }
  return nullptr;
}

bool needs_rounding(UnaryOp op, ElemType elem) {
  if (elem == ElemType::f64 || elem == ElemType::index || op == UnaryOp::Not) return false;
  bool closed = op == UnaryOp::Neg || op == UnaryOp::Abs;  // not for integers, nf4 or e8m0
  bool symmetric = is_float(elem) && elem != ElemType::nf4 && elem != ElemType::e8m0;
  return !(closed && symmetric);
}

bool needs_rounding(BinaryOp op, ElemType elem) {
  bool arithmetic = op == BinaryOp::Add || op == BinaryOp::Sub || op == BinaryOp::Mul ||
                    op == BinaryOp::Div || op == BinaryOp::FloorDiv || op == BinaryOp::FloorMod;
  return arithmetic && elem != ElemType::f64 && elem != ElemType::index;
}

}  // namespace tilewright::interp
