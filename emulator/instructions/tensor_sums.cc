#include "emulator/instructions/tensor_sums.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "ir/bits.h"

namespace tilewright::emulator {
namespace {

constexpr int kNone = -10000;  // the exponent of zero, below those of all products
constexpr int kLeastOfSums = -126;
constexpr int kFractionBits = 52;  // of f64

// That of the least number that is stored with a leading one.
int least_exponent(const Instruction& row, ElemType type) {
  if (row.tf32) return kLeastOfSums;
  switch (type) {
    case ElemType::f16:
    case ElemType::f8e5m2: return -14;
    case ElemType::f8e4m3: return -6;
    default: return kLeastOfSums;
  }
}

int exponent_from(double x, int least) { return x == 0 ? kNone : std::max(exponent_of(x), least); }

// `x` cut behind so many bits of its fraction, toward zero.
double cut(double x, int bits) {
  if (std::abs(x) < power_of_two(kLeastOfSums)) {
    const double unit = power_of_two(kLeastOfSums - bits);
    return std::trunc(x / unit) * unit;
  }
  const int rest = kFractionBits - bits;
  return std::bit_cast<double>(std::bit_cast<uint64_t>(x) >> rest << rest);
}

}  // namespace

SumsOfProducts::SumsOfProducts(const Instruction& row, const TensorSums& how, Matrix& a, Matrix& b)
    : how_(how), k_(row.k), is_cut_(!how.is_exact()) {
  auto take = [&](Operand& operand, double value, int least) {
    operand.values.push_back(value);
    if (!is_cut_) return;
    operand.exponents.push_back(exponent_from(value, least));
    is_cut_ = std::isfinite(value);
  };
  a_.reserve(static_cast<size_t>(row.m) * static_cast<size_t>(k_));
  b_.reserve(static_cast<size_t>(row.n) * static_cast<size_t>(k_));
  for (int i = 0; i < row.m; ++i) {
    for (int k = 0; k < k_; ++k) {
      take(a_, a.at({i, k}), least_exponent(row, row.operand));
    }
  }
  for (int j = 0; j < row.n; ++j) {
    for (int k = 0; k < k_; ++k) {
      take(b_, b.at({k, j}), least_exponent(row, row.b_operand()));
    }
  }
  if (row.acc == ElemType::f16) how_.kept_bits = 0;  // rounded to nearest where it is stored
}

double SumsOfProducts::add_to(double sum, int i, int j) const {
  const size_t a = static_cast<size_t>(i) * static_cast<size_t>(k_);
  const size_t b = static_cast<size_t>(j) * static_cast<size_t>(k_);
  if (!is_cut_ || !std::isfinite(sum)) {
    for (size_t k = 0; k < static_cast<size_t>(k_); ++k) sum += a_.values[a + k] * b_.values[b + k];
    return sum;
  }
  const int terms = k_ / how_.parts;
  for (int part = 0; part < how_.parts; ++part) {
    const size_t from = static_cast<size_t>(part) * static_cast<size_t>(terms);
    sum = add_part(sum, a + from, b + from, terms);
  }
  return sum;
}

double SumsOfProducts::add_part(double sum, size_t a, size_t b, int terms) const {
  const auto end = static_cast<size_t>(terms);
  int top = exponent_from(sum, kLeastOfSums);
  for (size_t k = 0; k < end; ++k) {
    top = std::max(top, a_.exponents[a + k] + b_.exponents[b + k]);
  }
  if (top <= kNone / 2) return sum;
  const double scale = power_of_two(how_.fraction_bits - top);
  auto aligned = static_cast<int64_t>(sum * scale);
  for (size_t k = 0; k < end; ++k) {
    aligned += static_cast<int64_t>(a_.values[a + k] * b_.values[b + k] * scale);
  }
  const double exact = static_cast<double>(aligned) / scale;
  return how_.kept_bits == 0 ? exact : cut(exact, how_.kept_bits);
}

}  // namespace tilewright::emulator
