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

namespace {

// The next float above: bounds are never rounded down.
float at_least(double value) {
  const auto near = static_cast<float>(value);
  return near < value ? std::nextafter(near, HUGE_VALF) : near;
}

}  // namespace

Expected expected(ElemType out, const Oracle::Value& want) {
  const double scale = std::max({std::abs(want.value), want.magnitude, 1e-30});
  return {round_to(out, want.value), at_least(allowed_error(out, want)), at_least(scale)};
}

Reference make_reference(ElemType out, const std::vector<int64_t>& shape, int count, uint64_t seed,
                         const OracleFn& oracle) {
  Reference reference{.indices = sample_indices(shape, count, seed)};
  for (int64_t i : reference.indices) reference.values.push_back(expected(out, oracle(i)));
  return reference;
}

Reference whole_reference(ElemType out, const std::vector<int64_t>& shape, Oracle& oracle,
                          const Oracle::ParallelFn& parallel) {
  Reference reference;
  reference.values.resize(static_cast<size_t>(checked_count("output", shape)));
  oracle.for_all(
      [&](int64_t first, std::span<const Oracle::Value> values) {
        auto at = reference.values.begin() + first;
        for (const Oracle::Value& want : values) *at++ = expected(out, want);
      },
      parallel);
  return reference;
}

std::string subscripts(const std::vector<int64_t>& shape, int64_t flat_index) {
  std::vector<int64_t> list(shape.size());
  for (size_t d = shape.size(); d-- > 0; flat_index /= shape[d]) list[d] = flat_index % shape[d];
  return fmt::format("[{}]", fmt::join(list, ", "));
}

namespace {

struct Difference {
  size_t first_wrong;  // the number of the first element that is not acceptable, or the count
  double max_rel_error;
};

// Reads element i of the reference by `get`.
template <class Get>
Difference differences(ElemType out, const Reference& reference, Get&& get) {
  Difference found{reference.values.size(), 0};
  double relative = 0;
  for (size_t i = 0; i < reference.values.size(); ++i) {
    const Expected& want = reference.values[i];
    const double got = get(reference.index_of(i)), apart = std::abs(got - want.value);
    // Infinite and undefined values fail the comparison and are looked at one by one.
    if (apart <= want.bound) {
      relative = std::max(relative, apart / want.scale);
      continue;
    }
    if (acceptable(out, got, want.value, want.bound)) continue;
    if (std::isfinite(apart)) relative = std::max(relative, apart / want.scale);
    found.first_wrong = std::min(found.first_wrong, i);
  }
  found.max_rel_error = relative;
  return found;
}

Difference differences(const HostArray& output, const Reference& reference) {
  auto as = [&](auto number) {
    const auto* first = static_cast<const decltype(number)*>(output.data());
    return differences(output.elem(), reference,
                       [first](int64_t i) { return static_cast<double>(first[i]); });
  };
  switch (output.elem()) {
    case ElemType::f32: return as(float{});
    case ElemType::f64: return as(double{});
    case ElemType::i32: return as(int32_t{});
    case ElemType::i8: return as(int8_t{});
    default: return differences(output.elem(), reference, [&](int64_t i) { return output.get(i); });
  }
}

}  // namespace

CheckResult compare(const HostArray& output, const Reference& reference) {
  const Difference found = differences(output, reference);
  CheckResult result;
  result.max_rel_error = found.max_rel_error;
  result.compared = static_cast<int64_t>(reference.values.size());
  if (found.first_wrong == reference.values.size()) return result;
  const Expected& want = reference.values[found.first_wrong];
  result.verdict = Verdict::Wrong;
  result.index = reference.index_of(found.first_wrong);
  result.got = output.get(result.index);
  result.want = want.value;
  result.bound = want.bound;
  result.message =
      fmt::format("{}{} is {:.9g}, should be {:.9g} within {:.3g}", output.name(),
                  subscripts(output.shape(), result.index), result.got, want.value, want.bound);
  return result;
}

}  // namespace tilewright
