#include "tuner/search/dispatch.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <set>

#include "tuner/search/dispatch_ranges.h"

namespace tilewright {
namespace {

constexpr int kRounds = 3;
constexpr int kVerifyRounds = 2;
constexpr int kMostMendings = 3;

class Learner {
 public:
  Learner(const SizePlan& plan, const std::vector<Finalist>& rivals, const SizeTimer& timer,
          const DispatchOptions& options, bool bits_tell_order)
      : plan_(plan), rivals_(rivals), timer_(timer), options_(options),
        bits_tell_order_(bits_tell_order) {
    for (size_t k = 0; k < rivals.size(); ++k) {
      if (rivals[k].record.is_default) untuned_ = k;
    }
  }

  DispatchOutcome run();

 private:
  using Seconds = std::map<size_t, double>;  // by kernel, at one size

  bool time_all(const std::vector<SizeVector>& sizes);
  bool time(const std::vector<size_t>& kernels, const std::vector<SizeVector>& sizes, int rounds,
            std::map<SizeVector, Seconds>& into);
  SizeTimes times_of(const std::set<size_t>& allowed) const;
  std::string order_of(size_t kernel) const;
  std::vector<std::set<size_t>> groups() const;
  void learn();
  std::vector<size_t> used() const;
  bool loses(const Seconds& at, const SizeVector& size) const;
  std::optional<std::vector<SizeVector>> losses(const std::vector<SizeVector>& sizes);
  struct Neighbours;
  Neighbours neighbours(const SizeVector& size, size_t dim) const;
  std::set<SizeVector> beside(const std::vector<SizeVector>& sizes) const;
  bool fall_back(const std::vector<SizeVector>& lost);
  bool verify();
  database::DispatchTable table() const;

  const SizePlan& plan_;
  const std::vector<Finalist>& rivals_;
  const SizeTimer& timer_;
  const DispatchOptions& options_;
  bool bits_tell_order_;
  bool cancelled_ = false;
  std::optional<size_t> untuned_;
  std::map<SizeVector, Seconds> learnt_, held_out_;  // by size
  std::vector<std::string> rows_;                    // by kernel
  std::vector<KernelRange> ranges_;
  std::vector<SizeVector> mended_;
};

// Adds the kernels' times at the sizes. Returns false when cancelled.
bool Learner::time(const std::vector<size_t>& kernels, const std::vector<SizeVector>& sizes,
                   int rounds, std::map<SizeVector, Seconds>& into) {
  if (sizes.empty()) return true;
  auto found = timer_(kernels, sizes, rounds);
  cancelled_ = !found;
  if (cancelled_) return false;
  if (rows_.empty()) rows_ = found->rows;  // the first call covers all kernels
  for (size_t s = 0; s < sizes.size(); ++s) {
    Seconds& at = into[sizes[s]];
    for (size_t i = 0; i < kernels.size(); ++i) {
      if (found->seconds[i][s] > 0) at[kernels[i]] = found->seconds[i][s];
    }
  }
  return true;
}

bool Learner::time_all(const std::vector<SizeVector>& sizes) {
  std::vector<size_t> all;
  for (size_t k = 0; k < rivals_.size(); ++k) all.push_back(k);
  return time(all, sizes, kRounds, learnt_);
}

// The learned times of the allowed kernels only.
SizeTimes Learner::times_of(const std::set<size_t>& allowed) const {
  SizeTimes times;
  times.seconds.resize(rivals_.size());
  for (const auto& at_size : learnt_) {
    times.sizes.push_back(at_size.first);
    const auto seconds_of = [&](size_t k) {
      const auto found = at_size.second.find(k);
      return found == at_size.second.end() ? 0 : found->second;
    };
    for (size_t k = 0; k < rivals_.size(); ++k) {
      times.seconds[k].push_back(allowed.contains(k) ? seconds_of(k) : 0);
    }
    times.untuned.push_back(untuned_ ? seconds_of(*untuned_) : 0);
  }
  return times;
}

// Equal for kernels with the same reduction order. Empty for a kernel without a fixed order.
std::string Learner::order_of(size_t kernel) const {
  if (rows_[kernel].empty() || bits_tell_order_) return rows_[kernel];
  return rows_[kernel] + "/" + std::to_string(kernel);
}

// Groups of kernels that may share a table.
std::vector<std::set<size_t>> Learner::groups() const {
  std::map<std::string, std::set<size_t>> by_order;
  for (size_t k = 0; k < rivals_.size(); ++k) {
    if (!options_.one_order) {
      by_order[""].insert(k);
    } else if (!order_of(k).empty()) {
      by_order[order_of(k)].insert(k);
    }
  }
  std::vector<std::set<size_t>> groups;
  for (auto& [order, kernels] : by_order) groups.push_back(std::move(kernels));
  return groups;
}

// Finds the best ranges of any one group of kernels; none if no group covers all sizes.
void Learner::learn() {
  std::set<size_t> all;
  for (size_t k = 0; k < rivals_.size(); ++k) all.insert(k);
  const SizeTimes everything = times_of(all);
  ranges_.clear();
  double least = 0;
  for (const std::set<size_t>& group : groups()) {
    std::vector<KernelRange> ranges =
        learn_ranges(times_of(group), plan_.min, plan_.max, static_cast<size_t>(options_.kernels));
    if (ranges.empty()) continue;
    const double cost = total_slowdown(everything, ranges);
    if (!ranges_.empty() && cost >= least) continue;
    ranges_ = std::move(ranges);
    least = cost;
  }
}

// The kernels of the ranges, and the untuned one.
std::vector<size_t> Learner::used() const {
  std::set<size_t> kernels;
  for (const KernelRange& range : ranges_) kernels.insert(range.kernel);
  if (untuned_) kernels.insert(*untuned_);
  return {kernels.begin(), kernels.end()};
}

bool Learner::loses(const Seconds& at, const SizeVector& size) const {
  const size_t kernel = kernel_at(ranges_, size);
  if (kernel == untuned_) return false;  // not measured there: it may be too slow to measure
  const auto chosen = at.find(kernel);
  const auto untuned = untuned_ ? at.find(*untuned_) : at.end();
  if (chosen == at.end()) return true;
  return untuned != at.end() && chosen->second > (1 + kDispatchNoise) * untuned->second;
}

// Sizes at which the range's kernel is slower than the untuned one, confirmed by a second
// measurement. Returns nothing when cancelled.
std::optional<std::vector<SizeVector>> Learner::losses(const std::vector<SizeVector>& sizes) {
  std::vector<SizeVector> suspects = sizes;
  for (int look = 0; look < 2 && !suspects.empty(); ++look) {
    if (!time(used(), suspects, kVerifyRounds, held_out_)) return std::nullopt;
    std::erase_if(suspects, [&](const SizeVector& size) { return !loses(held_out_[size], size); });
  }
  return suspects;
}

// The learned sizes next to `size` in dimension `dim`, whatever the other dimensions are.
struct Learner::Neighbours {
  std::optional<int64_t> below, above;
};

Learner::Neighbours Learner::neighbours(const SizeVector& size, size_t dim) const {
  Neighbours found;
  for (const auto& [other, seconds] : learnt_) {
    const int64_t at = other[dim];
    if (at < size[dim]) found.below = std::max(found.below.value_or(at), at);
    if (at > size[dim]) found.above = std::min(found.above.value_or(at), at);
  }
  return found;
}

// New sizes between each given size and its learned neighbours on both sides, in each dimension.
std::set<SizeVector> Learner::beside(const std::vector<SizeVector>& sizes) const {
  std::set<SizeVector> fresh;
  for (const SizeVector& size : sizes) {
    for (size_t d = 0; d < size.size(); ++d) {
      const auto add = [&](int64_t low, int64_t high) {
        const auto between = size_between(low, high);
        if (!between) return;
        SizeVector moved = size;
        moved[d] = *between;
        fresh.insert(std::move(moved));
      };
      const auto [below, above] = neighbours(size, d);
      if (below) add(*below, size[d]);
      if (above) add(size[d], *above);
    }
  }
  return fresh;
}

// Gives the ranges that hold these sizes the untuned kernel, or all ranges if it must not share a
// table with the others. Returns false if there is no such fallback.
bool Learner::fall_back(const std::vector<SizeVector>& lost) {
  if (!untuned_) return false;
  if (options_.one_order && order_of(*untuned_) != order_of(ranges_.front().kernel)) {
    ranges_ = {{plan_.min, plan_.max, *untuned_}};
    return !order_of(*untuned_).empty();
  }
  for (KernelRange& range : ranges_) {
    const bool loses = std::any_of(lost.begin(), lost.end(),
                                   [&](const SizeVector& size) { return range.holds(size); });
    if (loses) range.kernel = *untuned_;
  }
  return true;
}

// Verifies at the held-out sizes and mends the ranges. Returns false when cancelled, or when
// nothing covers all sizes.
bool Learner::verify() {
  std::set<SizeVector> open(plan_.held_out.begin(), plan_.held_out.end());
  for (int mending = 0;; ++mending) {
    auto lost = losses({open.begin(), open.end()});
    if (!lost) return false;
    if (lost->empty()) return true;
    mended_.insert(mended_.end(), lost->begin(), lost->end());
    if (mending == kMostMendings) return fall_back(*lost);
    for (const SizeVector& size : *lost) held_out_.erase(size);
    if (!time_all(*lost)) return false;
    learn();
    if (ranges_.empty()) return false;
    // Sizes that passed before may fail where the kernel has changed.
    open = beside(*lost);
    for (const auto& [size, seconds] : held_out_) {
      if (loses(seconds, size)) open.insert(size);
    }
  }
}

database::DispatchTable Learner::table() const {
  const database::Record& any = rivals_[ranges_.front().kernel].record;
  database::DispatchTable t;
  t.workload_hash = any.workload_hash;
  t.target_hash = any.target.hash;
  t.threads = any.threads;
  t.tool_version = any.tool_version;
  t.dims = plan_.dims;
  std::set<std::string> orders;
  for (const KernelRange& r : ranges_) {
    t.ranges.push_back({plan_.at(r.first), plan_.at(r.last), rivals_[r.kernel].record.id});
    orders.insert(order_of(r.kernel));
  }
  t.one_order = orders.size() == 1 && !orders.contains("");
  if (untuned_) t.default_record = rivals_[*untuned_].record.id;
  std::map<SizeVector, database::DispatchPoint> points;
  for (bool held_out : {false, true}) {
    for (const auto& [size, seconds] : held_out ? held_out_ : learnt_) {
      database::DispatchPoint& point = points[size];
      point = {plan_.at(size), held_out, {}};
      for (size_t k : used()) {
        if (seconds.contains(k)) point.seconds[rivals_[k].record.id] = seconds.at(k);
      }
    }
  }
  for (auto& [size, point] : points) t.points.push_back(std::move(point));
  return t;
}

DispatchOutcome Learner::run() {
  DispatchOutcome outcome;
  if (!time_all(plan_.learnt)) {
    outcome.note = "interrupted";
    return outcome;
  }
  learn();
  if (ranges_.empty()) {
    outcome.note = options_.one_order
                       ? "no kernel computes the same rows at all sizes; tune without --one-order"
                       : "no kernel could be measured at all sizes";
    return outcome;
  }
  if (!verify()) {
    outcome.note =
        cancelled_ ? "interrupted" : "no kernels are as fast as the untuned default at all sizes";
    return outcome;
  }
  outcome.table = table();
  for (const SizeVector& size : std::set(mended_.begin(), mended_.end())) {
    outcome.mended.push_back(plan_.at(size));
  }
  return outcome;
}

}  // namespace

bool bits_tell_order(const Workload& workload) {
  return std::none_of(workload.inputs.begin(), workload.inputs.end(), [](const Param& p) {
    const ElemType elem = p.buffer->elem;
    return p.role == ParamRole::Input && is_float(elem) && bits_of(elem) < 32;
  });
}

std::string no_table_note(const Workload& workload) {
  if (workload.dims.size() <= SizePlan::kMostDims) return "";
  return fmt::format("tables are for at most {} dynamic dimensions, it has {}", SizePlan::kMostDims,
                     workload.dims.size());
}

DispatchOutcome learn_dispatch(const SizePlan& plan, const std::vector<Finalist>& rivals,
                               const SizeTimer& timer, const DispatchOptions& options,
                               bool bits_tell_order) {
  if (rivals.empty()) return {{}, {}, "no candidate was valid"};
  return Learner(plan, rivals, timer, options, bits_tell_order).run();
}

DispatchOutcome learn_dispatch(const Workload& workload, const SizePlan& plan,
                               const std::vector<Finalist>& rivals, Measurer& measurer,
                               const MeasureLimits& limits, const DispatchOptions& options) {
  const SizeTimer timer = [&](const std::vector<size_t>& kernels,
                              const std::vector<SizeVector>& sizes, int rounds) {
    std::vector<Measurement> measured;
    for (size_t k : kernels) measured.push_back(rivals[k].kernel);
    return measurer.compare_at(workload, measured, plan.at(sizes), rounds, limits);
  };
  return learn_dispatch(plan, rivals, timer, options, bits_tell_order(workload));
}

}  // namespace tilewright
