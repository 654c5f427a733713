#include "runtime/check/check_data.h"

#include <algorithm>
#include <optional>

#include "base/knobs.h"
#include "runtime/check/same_rows.h"
#include "runtime/machine/cpu_claim.h"

namespace tilewright {
namespace {

using Place = HostArray::Place;

constexpr size_t kMoreDraws = 6;
constexpr double kDrawBytes = 1 << 20;
// Limits for the draw of full lengths.
constexpr double kMostDrawSeconds = 0.05, kMostDrawBytes = 1 << 25;
// Limits for many draws.
constexpr double kSweepSeconds = 1e-4, kSweepBytes = 1 << 15;

}  // namespace

CheckData::CheckData(Workload workload, Dims dims, uint64_t seed)
    : workload_(std::move(workload)), dims_(std::move(dims)), seed_(seed),
      rows_apart_(rows_are_apart(workload_)) {}

CheckData::Point& CheckData::point(const Dims& dims) {
  ++asked_[dims];
  return points_[dims];
}

OperandSet& CheckData::timed(const Dims& dims) {
  Point& p = point(dims);
  if (!p.timed) {
    std::vector<OperandInfo> infos = operands_of(workload_, dims);
    p.timed = dims == dims_ ? std::make_unique<OperandSet>(std::move(infos), seed_)
                            : std::make_unique<OperandSet>(std::move(infos), timed(dims_));
    p.timed->protect_inputs(true);
  }
  return *p.timed;
}

OperandSet& CheckData::fenced(const Dims& dims) {
  Point& p = point(dims);
  if (!p.fenced) {
    p.fenced = std::make_unique<OperandSet>(operands_of(workload_, dims), timed(dims_),
                                            Place::BeforeFence);
    p.fenced->protect_inputs(true);
  }
  return *p.fenced;
}

OperandSet& CheckData::hard(const Dims& dims) {
  Point& p = point(dims);
  if (!p.hard) {
    std::vector<OperandInfo> infos = operands_of(workload_, dims);
    p.hard = dims == dims_ ? std::make_unique<OperandSet>(std::move(infos), seed_, ValueKind::Hard,
                                                          Place::BeforeFence)
                           : std::make_unique<OperandSet>(std::move(infos), hard(dims_));
    p.hard->protect_inputs(true);
  }
  return *p.hard;
}

OperandSet& CheckData::changed() {
  const OperandSet& other = hard(dims_);
  Point& p = point(dims_);
  if (!p.changed) {
    p.changed = std::make_unique<OperandSet>(timed(dims_).with_weights_of(other));
  }
  return *p.changed;
}

Reference CheckData::compute(OperandSet& operands, const Dims& dims, int samples,
                             ThreadPool& pool) const {
  constexpr double kWorthHelp = 0.02;  // seconds
  const std::shared_ptr<Oracle> oracle = oracle_on(workload_, operands, dims);
  const bool help = oracle->whole_cost().seconds > kWorthHelp && knob_boolean(Knob::Pin);
  std::vector<CpuClaim> idle = help ? CpuClaim::take_idle() : std::vector<CpuClaim>{};
  std::optional<ThreadPool> wide;
  if (static_cast<int>(idle.size()) >= pool.threads()) wide.emplace(std::move(idle));
  ThreadPool& used = wide ? *wide : pool;
  ReferenceLimits limits{.samples = samples};
  limits.seconds *= used.threads();
  const uint64_t seed = operands.kind() == ValueKind::Hard ? ~seed_ : seed_;
  return reference_of(oracle, operands.output(), limits, seed, parallel_on(used));
}

const Reference& CheckData::right(const Dims& dims, ValueKind kind, int samples, ThreadPool& pool) {
  const bool is_hard = kind == ValueKind::Hard;
  OperandSet& operands = is_hard ? hard(dims) : fenced(dims);
  Point& p = point(dims);
  Truth& truth = is_hard ? p.hard_truth : p.ordinary_truth;
  if (truth.samples == samples) return truth.reference;
  if (rows_apart_ && dims != dims_) {
    OperandSet& many = is_hard ? hard(dims_) : fenced(dims_);
    const int64_t count = operands.output().count();
    // The first sizes are the largest ones where a kernel is tuned, and any where it is replayed.
    if (count <= many.output().count() && values_begin_alike(operands.infos(), many.infos())) {
      if (const Reference& most = right(dims_, kind, samples, pool); most.is_whole()) {
        truth = {most.first(count), samples};
        return truth.reference;
      }
    }
  }
  // One that fails for want of memory leaves nothing behind that would pass for right values.
  truth = {compute(operands, dims, samples, pool), samples};
  return truth.reference;
}

// Draws in which each element of each compared line is once the extreme: a maximum that leaves out a
// single one shows in no other.
std::vector<std::vector<OperandInfo>> CheckData::swept(const std::vector<OperandInfo>& infos) {
  constexpr int64_t kLongest = 64;
  int64_t longest = 0;
  for (const OperandInfo& info : infos) longest = std::max(longest, info.hard.line_length);
  std::vector<std::vector<OperandInfo>> list;
  for (int64_t place = 0; longest <= kLongest && place < longest; ++place) {
    list.push_back(infos);
    for (OperandInfo& info : list.back()) info.hard.line_extreme = place;
  }
  return list;
}

const std::vector<CheckData::Draw>& CheckData::draws() {
  if (!drawn_) draws_ = make_draws();
  drawn_ = true;
  return draws_;
}

// The longest of all lengths, if the workload has lengths. With hard values one element of a row often
// outweighs all others, and in an ordinary draw few lengths reach the last tile.
std::optional<std::vector<OperandInfo>> CheckData::at_full_length(std::vector<OperandInfo> infos) {
  bool any = false;
  for (OperandInfo& info : infos) {
    if (!info.hard.lengths || !info.range) continue;
    info.range->min = info.range->max;
    any = true;
  }
  return any ? std::optional(std::move(infos)) : std::nullopt;
}

std::vector<CheckData::Draw> CheckData::make_draws() {
  std::vector<Draw> list;
  OperandSet& first = hard(dims_);
  const double seconds = oracle_on(workload_, first, dims_)->whole_cost().seconds;
  auto draw = [&](const std::vector<OperandInfo>& infos, ValueKind kind = ValueKind::Hard) {
    auto operands =
        std::make_unique<OperandSet>(infos, seed_ + list.size() + 1, kind, Place::BeforeFence);
    operands->protect_inputs(true);
    Reference reference =
        reference_of(oracle_on(workload_, *operands, dims_), operands->output(), {}, seed_);
    list.push_back({std::move(operands), std::move(reference)});
  };
  if (seconds > kMostDrawSeconds || first.bytes() > kMostDrawBytes) return list;
  if (const auto full = at_full_length(first.infos())) draw(*full, ValueKind::Ordinary);
  if (seconds > kDrawSeconds || first.bytes() > kDrawBytes) return list;
  for (size_t i = 0; i < kMoreDraws; ++i) draw(first.infos());
  if (seconds > kSweepSeconds || first.bytes() > kSweepBytes) return list;
  for (const std::vector<OperandInfo>& infos : swept(first.infos())) draw(infos);
  return list;
}

CheckData::Footprint CheckData::footprint_of(const Point& p) {
  Footprint sum;
  for (const auto& set : {p.timed.get(), p.fenced.get(), p.hard.get()}) {
    if (set == nullptr) continue;
    for (const OperandInfo& info : set->infos()) {
      if (info.role == ParamRole::Weight) continue;
      sum.bytes += static_cast<double>(set->at(info.name).bytes());
      sum.mapped += static_cast<double>(set->at(info.name).mapped_bytes());
    }
  }
  for (const Truth* t : {&p.ordinary_truth, &p.hard_truth}) {
    sum.bytes += static_cast<double>(t->reference.values.size() * sizeof(Expected) +
                                     t->reference.indices.size() * sizeof(int64_t));
  }
  return sum;
}

std::vector<CheckData::Dims> CheckData::sizes_kept() const {
  std::vector<Dims> list;
  for (const auto& [dims, p] : points_) list.push_back(dims);
  return list;
}

void CheckData::keep_within_limits() {
  constexpr double kMostBytes = 256e6, kMostMapped = 1.5e9;
  std::vector<std::pair<uint64_t, Dims>> others;
  for (const auto& [dims, p] : points_) {
    if (dims != dims_) others.emplace_back(asked_[dims], dims);
  }
  std::stable_sort(others.begin(), others.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  Footprint sum;
  for (const auto& [asked, dims] : others) {
    const Footprint one = footprint_of(points_.at(dims));
    sum.bytes += one.bytes;
    sum.mapped += one.mapped;
    if (sum.bytes > kMostBytes || sum.mapped > kMostMapped) points_.erase(dims);
  }
}

}  // namespace tilewright
