#include "ir/oracle/oracle_lane_loops.h"

#include <cmath>
#include <limits>

#include "ir/oracle/oracle_clones.h"

namespace tilewright::oracle {
namespace {

TW_ORACLE_SAME_CLONES void multiply(const double* __restrict bv, const double* __restrict be,
                                    double u, int count, double* __restrict av,
                                    double* __restrict ae) {
  for (int l = 0; l < count; ++l) {
    const double v = av[l] * bv[l];
    ae[l] = std::fabs(av[l]) * be[l] + std::fabs(bv[l]) * ae[l] + ae[l] * be[l] + u * std::fabs(v);
    av[l] = v;
  }
}

TW_ORACLE_SAME_CLONES void add(const double* __restrict bv, const double* __restrict be,
                               double sign, double u, int count, double* __restrict av,
                               double* __restrict ae) {
  for (int l = 0; l < count; ++l) {
    av[l] += sign * bv[l];
    ae[l] += be[l] + u * std::fabs(av[l]);
  }
}

TW_ORACLE_SAME_CLONES int64_t positive(const double* values, int count) {
  int64_t found = 0;
  for (int l = 0; l < count; ++l) found |= static_cast<int64_t>(values[l] > 0);
  return found;
}

TW_ORACLE_SAME_CLONES void most_of_sums(const double* av, const double* aa, const double* bv,
                                        const double* ba, int count, double* __restrict most) {
  for (int l = 0; l < count; ++l) {
    most[l] = (std::fabs(av[l]) + aa[l]) + (std::fabs(bv[l]) + ba[l]);
  }
}

TW_ORACLE_SAME_CLONES void most_of_products(const double* av, const double* aa, const double* bv,
                                            const double* ba, int count, double* __restrict most) {
  for (int l = 0; l < count; ++l) {
    const double both = (std::fabs(av[l]) + aa[l]) * (std::fabs(bv[l]) + ba[l]);
    const bool any = (aa[l] > 0) | (ba[l] > 0);
    most[l] = any ? both : 0;
  }
}

TW_ORACLE_SAME_CLONES void keep_beyond(const double* most, const double* av, int count,
                                       double* __restrict aa) {
  constexpr double kMost = std::numeric_limits<double>::max();
  for (int l = 0; l < count; ++l) {
    const double more = most[l] - std::fabs(av[l]);
    const bool counts = (more > 0) & (more <= kMost);
    aa[l] = counts ? more : 0;
  }
}

TW_ORACLE_SAME_CLONES void apart_of_codes(double offset, int count, const double* av,
                                          double* __restrict aa) {
  for (int l = 0; l < count; ++l) {
    aa[l] = std::fabs(av[l] + offset) + offset - std::fabs(av[l]);
  }
}

TW_ORACLE_SAME_CLONES void add_fields(const double* tv, const double* te, const double* ta,
                                      int count, double* __restrict v, double* __restrict e,
                                      double* __restrict magnitude, double* __restrict apart) {
  for (int l = 0; l < count; ++l) {
    magnitude[l] += std::fabs(tv[l]);
    apart[l] += ta[l];
    v[l] += tv[l];
    e[l] += te[l];
  }
}

}  // namespace

void multiply_lanes(const LaneValues& b, double u, int count, LaneValues& a) {
  multiply(b.v.data(), b.e.data(), u, count, a.v.data(), a.e.data());
}

void add_lanes(const LaneValues& b, double sign, double u, int count, LaneValues& a) {
  add(b.v.data(), b.e.data(), sign, u, count, a.v.data(), a.e.data());
}

bool any_apart(const LaneValues& values, int count) {
  return positive(values.apart.data(), count) != 0;
}

void most_apart(const LaneValues& a, const LaneValues& b, bool takes, bool product, int count,
                double* most) {
  if (takes) {
    most_of_sums(a.v.data(), a.apart.data(), b.v.data(), b.apart.data(), count, most);
  } else if (product) {
    most_of_products(a.v.data(), a.apart.data(), b.v.data(), b.apart.data(), count, most);
  } else {
    for (int l = 0; l < count; ++l) most[l] = 0;
  }
}

void keep_apart(const double* most, int count, LaneValues& a) {
  keep_beyond(most, a.v.data(), count, a.apart.data());
}

void set_apart_of_codes(double offset, int count, LaneValues& a) {
  apart_of_codes(offset, count, a.v.data(), a.apart.data());
}

void add_term(const LaneValues& term, int count, LaneValues& sum, double* magnitude,
              double* apart) {
  add_fields(term.v.data(), term.e.data(), term.apart.data(), count, sum.v.data(), sum.e.data(),
             magnitude, apart);
}

}  // namespace tilewright::oracle
