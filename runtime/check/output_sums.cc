#include "runtime/check/output_sums.h"

#include <algorithm>
#include <cmath>
#include <mutex>

namespace tilewright {
namespace {

constexpr double kOwnRoundings = 4;
// Sums with an infinity, which may be right where the output's type overflows: they come last.
constexpr double kOverflow = 1e-300;

// A sum that is off; those that are off the farthest come first.
struct Off {
  double excess;
  int64_t number;

  bool operator<(const Off& other) const {
    return excess != other.excess ? excess > other.excess : number < other.number;
  }
};

struct Weighed {
  double sum = 0, squares = 0;
};

Weighed weigh(std::span<const double> elements, std::span<const int> weights) {
  Weighed w;
  for (size_t j = 0; j < elements.size(); ++j) {
    if (weights[j] == 0) continue;
    const double term = weights[j] * elements[j];
    w.sum += term;
    w.squares += term * term;
  }
  return w;
}

// How many times farther off the sum lies than it may; 0: it is right, or nothing is known of it.
double excess_of(ElemType elem, const Weighed& got, double want, double error) {
  if (!std::isfinite(want)) return 0;
  if (!std::isfinite(got.sum)) return kOverflow;
  const double apart = std::abs(got.sum - want);
  if (is_integer(elem))
    return std::fmod(apart, std::ldexp(1.0, bits_of(elem))) == 0 ? 0 : apart + 1;
  const double rounding = unit_roundoff(elem) * std::sqrt(got.squares);
  const double allowed = 2 * error + kOwnRoundings * rounding;
  return apart <= allowed ? 0 : allowed > 0 ? apart / allowed : HUGE_VAL;
}

int64_t row_begin(const Oracle::Sums& sums, int64_t row) {
  return row / sums.stride * sums.extent * sums.stride + row % sums.stride;
}

void read_row(const HostArray& output, const Oracle::Sums& sums, int64_t row,
              std::vector<double>& elements) {
  const int64_t begin = row_begin(sums, row);
  if (sums.stride == 1) return output.read(begin, elements);
  for (int64_t j = 0; j < sums.extent; ++j) {
    elements[static_cast<size_t>(j)] = output.get(begin + j * sums.stride);
  }
}

}  // namespace

std::vector<int64_t> sums_that_are_off(const HostArray& output, const Oracle::Sums& sums,
                                       const Oracle::ParallelFn& parallel) {
  std::vector<Off> off;
  std::mutex mutex;
  const int64_t per_row = sums.per_row();
  const int64_t rows = static_cast<int64_t>(sums.values.size()) / per_row;
  auto look = [&](int64_t row) {
    std::vector<double> elements(static_cast<size_t>(sums.extent));
    read_row(output, sums, row, elements);
    for (int64_t g = 0; g < per_row; ++g) {
      const auto first = static_cast<size_t>(g * sums.width);
      const size_t size = std::min(elements.size() - first, static_cast<size_t>(sums.width));
      const auto number = static_cast<size_t>(row * per_row + g);
      const double excess =
          excess_of(output.elem(),
                    weigh(std::span(elements).subspan(first, size),
                          std::span(sums.weights).subspan(first, size)),
                    sums.values[number], static_cast<double>(sums.errors[number]));
      if (excess == 0) continue;
      std::lock_guard lock(mutex);
      off.push_back({excess, row * per_row + g});
    }
  };
  if (parallel) {
    parallel(rows, look);
  } else {
    for (int64_t row = 0; row < rows; ++row) look(row);
  }
  std::sort(off.begin(), off.end());
  std::vector<int64_t> numbers;
  for (const Off& o : off) numbers.push_back(o.number);
  return numbers;
}

std::vector<int64_t> elements_of_sum(const Oracle::Sums& sums, int64_t number) {
  const int64_t per_row = sums.per_row(), first = number % per_row * sums.width;
  const int64_t begin = row_begin(sums, number / per_row);
  std::vector<int64_t> elements;
  for (int64_t j = first; j < std::min(sums.extent, first + sums.width); ++j) {
    elements.push_back(begin + j * sums.stride);
  }
  return elements;
}

}  // namespace tilewright
