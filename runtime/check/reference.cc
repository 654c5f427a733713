#include "runtime/check/reference.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <exception>
#include <mutex>
#include <random>
#include <set>

#include "base/error.h"
#include "runtime/check/output_sums.h"
#include "runtime/machine/timer.h"
#include "runtime/tensor/element.h"
#include "runtime/tensor/operands.h"
#include "runtime/thread_pool.h"

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

Reference Reference::first(int64_t count) const {
  TW_ASSERT(is_whole() && count <= static_cast<int64_t>(values.size()), "elements that are there");
  Reference part;
  part.values.assign(values.begin(), values.begin() + count);
  part.finite_only = finite_only;
  return part;
}

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
  // Zero times an error without a bound: nothing is known of the sum of such products.
  if (std::isnan(want.error)) return HUGE_VAL;
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
                         const OracleFn& oracle, double seconds) {
  constexpr size_t kLeast = 16;
  std::vector<int64_t> places = sample_indices(shape, count, seed);
  const bool limited = std::isfinite(seconds);
  // In an order that has some from everywhere at each point.
  if (limited) std::shuffle(places.begin(), places.end(), std::mt19937_64(seed));
  const double deadline = steady_seconds() + seconds;
  Reference reference;
  for (int64_t place : places) {
    if (limited && reference.indices.size() >= kLeast && steady_seconds() > deadline) break;
    reference.indices.push_back(place);
    reference.values.push_back(expected(out, oracle(place)));
  }
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

Reference reference_of(const std::shared_ptr<Oracle>& oracle, const HostArray& output,
                       const ReferenceLimits& limits, uint64_t seed,
                       const Oracle::ParallelFn& parallel) {
  auto fits = [&](const Oracle::WholeCost& cost) {
    return cost.seconds < limits.seconds && cost.bytes < limits.bytes;
  };
  if (fits(oracle->whole_cost())) {
    return whole_reference(output.elem(), output.shape(), *oracle, parallel);
  }
  OracleFn look = [oracle](int64_t i) { return oracle->at(i); };
  Reference reference = make_reference(output.elem(), output.shape(), limits.samples, seed, look,
                                       limits.sample_seconds);
  for (int64_t width = 2; width <= Oracle::kMostWidth; width *= 2) {
    const std::optional<Oracle::WholeCost> cost = oracle->sums_cost(width);
    if (!cost) break;
    if (!fits(*cost)) continue;
    reference.sums = oracle->sums(width, seed, parallel);
    reference.look = look;
    break;
  }
  return reference;
}

std::shared_ptr<Oracle> oracle_on(const Workload& workload, OperandSet& operands,
                                  const std::map<std::string, int64_t>& dims, NarrowSums narrow) {
  std::map<std::string, ElementReader> readers;
  for (const OperandInfo& info : operands.infos()) {
    const HostArray& array = operands.at(info.name);
    readers[info.name] = [&array](int64_t i) { return array.get(i); };
  }
  auto oracle = std::make_shared<Oracle>(workload, std::move(readers), dims, narrow);
  for (const OperandInfo& info : operands.infos()) {
    const HostArray& array = operands.at(info.name);
    oracle->read_blocks(info.name,
                        [&array](int64_t first, std::span<double> out) { array.read(first, out); });
  }
  return oracle;
}

// The pool's bodies must not throw.
Oracle::ParallelFn parallel_on(ThreadPool& pool) {
  return [&pool](int64_t count, const std::function<void(int64_t)>& body) {
    struct Loop {
      const std::function<void(int64_t)>& body;
      std::mutex mutex = {};
      std::exception_ptr failure = {};
    } loop{body};
    auto part = [](void* closure, int64_t begin, int64_t end, int32_t) {
      Loop& l = *static_cast<Loop*>(closure);
      try {
        for (int64_t i = begin; i < end; ++i) l.body(i);
      } catch (...) {
        std::lock_guard lock(l.mutex);
        l.failure = std::current_exception();
      }
    };
    pool.parallel_for(count, part, &loop);
    if (loop.failure) std::rethrow_exception(loop.failure);
  };
}

std::string subscripts(const std::vector<int64_t>& shape, int64_t flat_index) {
  std::vector<int64_t> list(shape.size());
  for (size_t d = shape.size(); d-- > 0; flat_index /= shape[d]) list[d] = flat_index % shape[d];
  return fmt::format("[{}]", fmt::join(list, ", "));
}

namespace {

bool is_finite(const Expected& want) {
  return std::isfinite(want.value) && std::isfinite(want.bound);
}

struct Difference {
  size_t first_wrong;  // the number of the first element that is not acceptable, or the count
  double max_rel_error;
  int64_t compared;
};

// Reads element i of the reference by `get`.
template <class Get>
Difference differences(ElemType out, const Reference& reference, Get&& get) {
  Difference found{reference.values.size(), 0, static_cast<int64_t>(reference.values.size())};
  double relative = 0;
  for (size_t i = 0; i < reference.values.size(); ++i) {
    const Expected& want = reference.values[i];
    if (reference.finite_only && !is_finite(want)) {
      --found.compared;
      continue;
    }
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

// Of the elements of sums that are off, one that is wrong. Where the sums that are off the farthest
// have none, the others have none either.
std::optional<std::pair<int64_t, Expected>> wrong_in_sums(const HostArray& output,
                                                          const Reference& reference,
                                                          const Oracle::ParallelFn& parallel) {
  constexpr size_t kMostSums = 1024;
  std::vector<int64_t> off = sums_that_are_off(output, *reference.sums, parallel);
  off.resize(std::min(off.size(), kMostSums));
  for (int64_t number : off) {
    for (int64_t i : elements_of_sum(*reference.sums, number)) {
      const Expected want = expected(output.elem(), reference.look(i));
      if (reference.finite_only && !is_finite(want)) continue;
      if (!acceptable(output.elem(), output.get(i), want.value, want.bound)) return {{i, want}};
    }
  }
  return std::nullopt;
}

void tell_wrong(const HostArray& output, int64_t index, const Expected& want, CheckResult* result) {
  result->verdict = Verdict::Wrong;
  result->index = index;
  result->got = output.get(index);
  result->want = want.value;
  result->bound = want.bound;
  result->message =
      fmt::format("{}{} is {:.9g}, should be {:.9g} within {:.3g}", output.name(),
                  subscripts(output.shape(), index), result->got, want.value, want.bound);
}

}  // namespace

CheckResult compare(const HostArray& output, const Reference& reference,
                    const Oracle::ParallelFn& parallel) {
  const Difference found = differences(output, reference);
  CheckResult result;
  result.max_rel_error = found.max_rel_error;
  result.compared = found.compared;
  if (found.first_wrong < reference.values.size()) {
    tell_wrong(output, reference.index_of(found.first_wrong), reference.values[found.first_wrong],
               &result);
  } else if (reference.sums) {
    if (const auto wrong = wrong_in_sums(output, reference, parallel)) {
      tell_wrong(output, wrong->first, wrong->second, &result);
    }
  }
  return result;
}

}  // namespace tilewright
