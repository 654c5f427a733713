#include "ir/oracle/oracle_products.h"

#include <cmath>

#include "ir/oracle/oracle_clones.h"

namespace tilewright::oracle {
namespace {

// value[l] += sum over four k of x[k] * y[k][l].
TW_ORACLE_CLONES void add_four(const double* x, int64_t x_step, const double* y, int64_t y_step,
                               int64_t lanes, double* __restrict value,
                               double* __restrict magnitude) {
  const double x0 = x[0], x1 = x[x_step], x2 = x[2 * x_step], x3 = x[3 * x_step];
  const double *y0 = y, *y1 = y + y_step, *y2 = y + 2 * y_step, *y3 = y + 3 * y_step;
  for (int64_t l = 0; l < lanes; ++l) {
    const double p0 = x0 * y0[l], p1 = x1 * y1[l], p2 = x2 * y2[l], p3 = x3 * y3[l];
    value[l] += (p0 + p1) + (p2 + p3);
    magnitude[l] += (std::fabs(p0) + std::fabs(p1)) + (std::fabs(p2) + std::fabs(p3));
  }
}

TW_ORACLE_CLONES void add_one(const double* x, int64_t x_lane, const double* y, int64_t y_lane,
                              int64_t lanes, double* __restrict value,
                              double* __restrict magnitude) {
  for (int64_t l = 0; l < lanes; ++l) {
    const double p = x[l * x_lane] * y[l * y_lane];
    value[l] += p;
    magnitude[l] += std::fabs(p);
  }
}

// The same, and error[l] += sum over four k of |x[k]| * e[k][l].
TW_ORACLE_CLONES void add_four_bounded(const double* x, int64_t x_step, const double* y,
                                       const double* e, int64_t y_step, int64_t lanes,
                                       double* __restrict value, double* __restrict error) {
  const double x0 = x[0], x1 = x[x_step], x2 = x[2 * x_step], x3 = x[3 * x_step];
  const double a0 = std::fabs(x0), a1 = std::fabs(x1), a2 = std::fabs(x2), a3 = std::fabs(x3);
  const double *y0 = y, *y1 = y + y_step, *y2 = y + 2 * y_step, *y3 = y + 3 * y_step;
  const double *e0 = e, *e1 = e + y_step, *e2 = e + 2 * y_step, *e3 = e + 3 * y_step;
  for (int64_t l = 0; l < lanes; ++l) {
    value[l] += (x0 * y0[l] + x1 * y1[l]) + (x2 * y2[l] + x3 * y3[l]);
    error[l] += (a0 * e0[l] + a1 * e1[l]) + (a2 * e2[l] + a3 * e3[l]);
  }
}

TW_ORACLE_CLONES void add_one_bounded(const double* x, int64_t x_lane, const double* y,
                                      const double* e, int64_t y_lane, int64_t lanes,
                                      double* __restrict value, double* __restrict error) {
  for (int64_t l = 0; l < lanes; ++l) {
    const double factor = x[l * x_lane];
    value[l] += factor * y[l * y_lane];
    error[l] += std::fabs(factor) * e[l * y_lane];
  }
}

// sum[l] += sum over four k of |x[k] * y[k][l]|.
TW_ORACLE_CLONES void add_four_magnitudes(const double* x, int64_t x_step, const double* y,
                                          int64_t y_step, int64_t lanes, double* __restrict sum) {
  const double x0 = std::fabs(x[0]), x1 = std::fabs(x[x_step]);
  const double x2 = std::fabs(x[2 * x_step]), x3 = std::fabs(x[3 * x_step]);
  const double *y0 = y, *y1 = y + y_step, *y2 = y + 2 * y_step, *y3 = y + 3 * y_step;
  for (int64_t l = 0; l < lanes; ++l) {
    sum[l] += (x0 * std::fabs(y0[l]) + x1 * std::fabs(y1[l])) +
              (x2 * std::fabs(y2[l]) + x3 * std::fabs(y3[l]));
  }
}

TW_ORACLE_CLONES void add_magnitudes(const double* x, int64_t x_lane, const double* y,
                                     int64_t y_lane, int64_t lanes, double* __restrict sum) {
  for (int64_t l = 0; l < lanes; ++l) sum[l] += std::fabs(x[l * x_lane]) * y[l * y_lane];
}

// What a second field makes of products: |x| dy + |y| dx + dx dy.
void add_second(const ProductOperand& x, const double* dx, const ProductOperand& y,
                const double* dy, int64_t inner, std::vector<double>& sums) {
  const auto lanes = static_cast<int64_t>(sums.size());
  auto add = [&](const double* a, const ProductOperand& as, const double* b,
                 const ProductOperand& bs) {
    if (a == nullptr || b == nullptr) return;
    int64_t k = 0;
    // Errors are not negative, so either one may be the vector.
    const bool swap = as.lane_step != 0;
    const ProductOperand &one = swap ? bs : as, &vector = swap ? as : bs;
    const double *x_at = swap ? b : a, *y_at = swap ? a : b;
    for (; one.lane_step == 0 && vector.lane_step == 1 && k + 4 <= inner; k += 4) {
      add_four_magnitudes(x_at + k * one.inner_step, one.inner_step, y_at + k * vector.inner_step,
                          vector.inner_step, lanes, sums.data());
    }
    for (; k < inner; ++k) {
      add_magnitudes(a + k * as.inner_step, as.lane_step, b + k * bs.inner_step, bs.lane_step,
                     lanes, sums.data());
    }
  };
  add(x.v, x, dy, y);
  add(y.v, y, dx, x);
  add(dx, x, dy, y);
}

// The products of an exact operand and one whose errors are whole.
void add_bounded(const ProductOperand& x, const ProductOperand& y, int64_t inner,
                 ProductSums& sums) {
  const auto lanes = static_cast<int64_t>(sums.value.size());
  double *value = sums.value.data(), *error = sums.error.data();
  int64_t k = 0;
  for (; x.lane_step == 0 && y.lane_step == 1 && k + 4 <= inner; k += 4) {
    add_four_bounded(x.v + k * x.inner_step, x.inner_step, y.v + k * y.inner_step,
                     y.e + k * y.inner_step, y.inner_step, lanes, value, error);
  }
  for (; k < inner; ++k) {
    add_one_bounded(x.v + k * x.inner_step, x.lane_step, y.v + k * y.inner_step,
                    y.e + k * y.inner_step, y.lane_step, lanes, value, error);
  }
}

constexpr double kOne = 1;

}  // namespace

void ProductSums::clear(int64_t lanes) {
  for (std::vector<double>* v : {&value, &magnitude, &error, &apart}) {
    v->assign(static_cast<size_t>(lanes), 0);
  }
}

void ProductSums::add(std::span<const ProductOperand> operands, int64_t inner) {
  const auto lanes = static_cast<int64_t>(value.size());
  ProductOperand x = operands.size() > 1 ? operands[1] : ProductOperand{.v = &kOne};
  ProductOperand y = operands[0];
  if (x.whole) std::swap(x, y);
  if (y.whole) return add_bounded(x, y, inner, *this);
  if (y.lane_step == 0) std::swap(x, y);
  int64_t k = 0;
  if (x.lane_step == 0 && y.lane_step == 1) {
    for (; k + 4 <= inner; k += 4) {
      add_four(x.v + k * x.inner_step, x.inner_step, y.v + k * y.inner_step, y.inner_step, lanes,
               value.data(), magnitude.data());
    }
  }
  for (; k < inner; ++k) {
    add_one(x.v + k * x.inner_step, x.lane_step, y.v + k * y.inner_step, y.lane_step, lanes,
            value.data(), magnitude.data());
  }
  add_second(x, x.e, y, y.e, inner, error);
  add_second(x, x.apart, y, y.apart, inner, apart);
}

}  // namespace tilewright::oracle
