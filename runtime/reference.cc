#include "runtime/reference.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "ir/error.h"
#include "runtime/element.h"

namespace tilewright {
namespace {

constexpr size_t kMaxCorners = 16;
constexpr int64_t kEnds = 4;  // elements at either end of the array

void add_corners(const std::vector<int64_t>& shape, std::set<int64_t>* indices) {
  std::vector<int64_t> corners = {0};
  for (int64_t extent : shape) {
    std::vector<int64_t> next;
    for (int64_t corner : corners) {
      next.push_back(corner * extent);
      if (extent > 1 && next.size() + 1 < 2 * kMaxCorners)
        next.push_back(corner * extent + extent - 1);
    }
    corners = std::move(next);
  }
  // The far corners are where remainders of tiles lie.
  std::sort(corners.rbegin(), corners.rend());
  if (corners.size() > kMaxCorners) corners.resize(kMaxCorners);
  indices->insert(corners.begin(), corners.end());
}

// Whether a value that overflowed the output's type may stand for `want`.
bool overflowed_alike(ElemType out, double got, double want, double bound) {
  if (!std::isinf(got)) return false;
  if (std::isinf(want)) return got == want;
  return std::signbit(got) == std::signbit(want) && std::abs(want) + bound >= max_finite(out);
}

bool acceptable(ElemType out, double got, double want, double bound) {
  if (std::isnan(want)) return std::isnan(got);
  if (overflowed_alike(out, got, want, bound)) return true;
  // An integer type wraps the value that a float saturates; the oracle has rounded it already.
  return std::abs(got - want) <= bound;
}

}  // namespace

std::vector<int64_t> sample_indices(const std::vector<int64_t>& shape, int count, uint64_t seed) {
  int64_t total = checked_count("output", shape);
  std::set<int64_t> indices;
  if (total <= count) {
    for (int64_t i = 0; i < total; ++i) indices.insert(i);
    return {indices.begin(), indices.end()};
  }
  add_corners(shape, &indices);
  for (int64_t i = 0; i < kEnds; ++i) {
    indices.insert(i);
    indices.insert(total - 1 - i);
  }
  SeededValues random(seed, "sample", ElemType::f64);
  int64_t stretches = std::max<int64_t>(1, count - static_cast<int64_t>(indices.size()));
  for (int64_t s = 0; s < stretches; ++s) {
    double place =
        (static_cast<double>(s) + (random.at(s) + 1) / 2) / static_cast<double>(stretches);
    indices.insert(std::min(total - 1, static_cast<int64_t>(place * static_cast<double>(total))));
  }
  return {indices.begin(), indices.end()};
}

double allowed_error(ElemType out, const Oracle::Value& want) {
  if (want.error == 0) return 0;
  double computed = 2 * want.error;
  return computed + ulp_at(out, std::abs(want.value) + computed);
}

Reference make_reference(const std::vector<int64_t>& shape, int count, uint64_t seed,
                         const OracleFn& oracle) {
  Reference reference;
  reference.indices = sample_indices(shape, count, seed);
  for (int64_t i : reference.indices) reference.values.push_back(oracle(i));
  return reference;
}

std::string subscripts(const std::vector<int64_t>& shape, int64_t flat_index) {
  std::vector<int64_t> list(shape.size());
  for (size_t d = shape.size(); d-- > 0; flat_index /= shape[d]) list[d] = flat_index % shape[d];
  return fmt::format("[{}]", fmt::join(list, ", "));
}

CheckResult compare(const HostArray& output, const Reference& reference) {
  CheckResult result;
  for (size_t i = 0; i < reference.indices.size(); ++i) {
    int64_t index = reference.indices[i];
    Oracle::Value want = reference.values[i];
    double rounded = round_to(output.elem(), want.value);
    double got = output.get(index), bound = allowed_error(output.elem(), want);
    ++result.compared;
    if (std::isfinite(got) && std::isfinite(want.value)) {
      double scale = std::max({std::abs(want.value), want.magnitude, 1e-300});
      result.max_rel_error = std::max(result.max_rel_error, std::abs(got - rounded) / scale);
    }
    if (acceptable(output.elem(), got, rounded, bound) || result.index >= 0) continue;
    result.verdict = Verdict::Wrong;
    result.index = index;
    result.got = got;
    result.want = want.value;
    result.bound = bound;
    result.message = fmt::format("{}{} is {:.9g}, should be {:.9g} within {:.3g}", output.name(),
                                 subscripts(output.shape(), index), got, want.value, bound);
  }
  return result;
}

}  // namespace tilewright
