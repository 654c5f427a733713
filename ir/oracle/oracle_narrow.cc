#include "ir/oracle/oracle_narrow.h"

#include <algorithm>
#include <cmath>

namespace tilewright::oracle {
namespace {

constexpr int kTermsOfStep = 32;
constexpr double kGranted = 4;

}  // namespace

void NarrowError::add(double term) {
  terms_.push_back(term);
  if (static_cast<int64_t>(terms_.size()) == how_.terms) close();
}

double NarrowError::error() {
  close();
  return kGranted * std::sqrt(squares_);
}

void NarrowError::close() {
  double top = 0, sum = 0;
  for (double term : terms_) {
    sum += term;
    top = std::max({top, std::abs(term), std::abs(sum)});
  }
  if (top > 0 && std::isfinite(top)) {
    const double unit = std::ldexp(1.0, std::ilogb(top) - how_.fraction_bits);
    for (double term : terms_) {
      const double lost = std::fmod(term, unit);
      squares_ += lost * lost;
    }
    const double steps = std::ceil(static_cast<double>(terms_.size()) / kTermsOfStep);
    squares_ += steps * steps * unit * unit;  // always toward zero, so that they do not even out
  }
  terms_.clear();
}

}  // namespace tilewright::oracle
