#include "ir/oracle/oracle_whole.h"

#include <algorithm>

#include "ir/oracle/oracle_lanes.h"
#include "ir/oracle/oracle_math.h"
#include "ir/oracle/oracle_shape.h"

namespace tilewright::oracle {
namespace {

constexpr int64_t kElementsOfTask = 2048;

// Hands over the elements of a row, which begin at `first` and lie `stride` apart.
void put_row(const PutFn& put, int64_t first, int64_t stride, std::span<const Approx> values) {
  if (stride == 1) return put(first, values);
  for (size_t l = 0; l < values.size(); ++l) {
    put(first + static_cast<int64_t>(l) * stride, values.subspan(l, 1));
  }
}

}  // namespace

Whole::Whole(const Workload& workload, const std::map<std::string, int64_t>& dims,
             const std::vector<ElementReader>& readers, std::vector<BlockReader> blocks,
             NarrowSums narrow)
    : evaluator_(compile(workload, dims), readers, narrow),
      decoded_inputs_(evaluator_.code.inputs.size()) {
  evaluator_.blocks = std::move(blocks);
  for (const StageCode& s : evaluator_.code.stages) {
    const bool none = s.inlined || evaluator_.is_narrow(s);
    plans_.push_back(none ? std::nullopt : plan_product(evaluator_, s));
  }
}

int Whole::lane_of(int stage) const {
  const StageCode& s = evaluator_.code.stages[stage];
  const bool fits = !s.extents.empty() && s.extents.size() + s.reduce_extents.size() <= 63;
  if (evaluator_.is_narrow(s) || !fits) return -1;
  auto lane = s.extents.end() - 1;
  if (*lane < kLeastLanes) lane = std::max_element(s.extents.begin(), s.extents.end());
  return *lane < kLeastLanes ? -1 : static_cast<int>(lane - s.extents.begin());
}

void Whole::decode_input(const Factor& f, const Oracle::ParallelFn& parallel) {
  if (f.tabled || f.is_stage || !decoded_inputs_[f.source].empty()) return;
  const int64_t count = evaluator_.code.input_elements[f.source];
  std::vector<double>& values = decoded_inputs_[f.source];
  values.resize(static_cast<size_t>(count));
  parallel((count + kElementsOfTask - 1) / kElementsOfTask, [&](int64_t task) {
    const int64_t first = task * kElementsOfTask;
    const int64_t end = std::min(count, first + kElementsOfTask);
    evaluator_.read_inputs(f.source, first, std::span(values).subspan(first, end - first));
  });
}

void Whole::run(const Oracle::TakeFn& take, const Oracle::ParallelFn& asked) {
  const Oracle::ParallelFn parallel = or_in_turn(asked);
  const Code& code = evaluator_.code;
  const int last = static_cast<int>(code.stages.size()) - 1;
  evaluator_.computed.resize(code.stages.size());
  for (int i = 0; i < last; ++i) keep_stage(i, parallel);
  PutFn hand_over = [&](int64_t first, std::span<const Approx> values) {
    std::vector<Oracle::Value> list;
    list.reserve(values.size());
    for (Approx a : values) list.push_back(output_value(code, a));
    take(first, list);
  };
  run_stage(last, hand_over, parallel);
}

// Computes a stage that others read.
void Whole::keep_stage(int stage, const Oracle::ParallelFn& parallel) {
  const StageCode& s = evaluator_.code.stages[stage];
  if (s.inlined) return;
  StageArray array;
  array.v.resize(static_cast<size_t>(product(s.extents)));
  array.e.resize(array.v.size());
  PutFn keep = [&](int64_t first, std::span<const Approx> values) {
    for (size_t j = 0; j < values.size(); ++j) {
      array.v[static_cast<size_t>(first) + j] = values[j].v;
      array.e[static_cast<size_t>(first) + j] = values[j].e;
    }
  };
  run_stage(stage, keep, parallel);
  if (std::all_of(array.e.begin(), array.e.end(), [](double e) { return e == 0; })) array.e = {};
  evaluator_.computed[stage] = std::move(array);
}

void Whole::run_stage(int stage, const PutFn& put, const Oracle::ParallelFn& parallel) {
  if (plans_[stage]) return run_product(stage, *plans_[stage], put, parallel);
  if (const int lane = lane_of(stage); lane >= 0) return run_lanes(stage, lane, put, parallel);
  run_elements(stage, put, parallel);
}

bool Whole::is_exact_value(const StageCode& s, int value) {
  return s.values[value].op == ValueCode::Op::Input;
}

bool Whole::has_exact_partner(const StageCode& s, const ProductPlan& plan, size_t factor) const {
  if (!is_float(s.type) || plan.factors.size() != 2) return false;
  const Factor& other = plan.factors[1 - factor];
  if (other.is_stage) return evaluator_.computed[other.source].e.empty();
  return !other.tabled || is_exact_value(s, other.value);
}

FactorTable Whole::tabulate(const StageCode& s, const ProductPlan& plan, size_t factor,
                            const Oracle::ParallelFn& parallel) {
  const int64_t lanes = s.extents[plan.lane];
  const int value = plan.factors[factor].value;
  const auto fields = is_exact_value(s, value)             ? TableFields::Values
                      : has_exact_partner(s, plan, factor) ? TableFields::WholeErrors
                                                           : TableFields::All;
  const SumRoundings roundings(s);
  auto fill = [&](int64_t term, Evaluator::Slots& slots, FactorTable& table) {
    LaneEvaluator evaluator(evaluator_, s, plan.lane);
    LaneValues found;
    for (int64_t first = 0; first < lanes; first += kLanes) {
      slots[plan.lane] = first;
      const auto count = static_cast<int>(std::min<int64_t>(kLanes, lanes - first));
      evaluator.values(value, slots, count, found);
      const int64_t at = term * lanes + first;
      std::copy_n(found.v.begin(), count, table.v.begin() + at);
      if (fields == TableFields::Values) continue;
      for (int l = 0; table.whole && l < count; ++l) {
        table.e[at + l] = roundings.of_term(found.v[l], found.e[l], found.apart[l]);
      }
      if (table.whole) continue;
      std::copy_n(found.e.begin(), count, table.e.begin() + at);
      std::copy_n(found.apart.begin(), count, table.apart.begin() + at);
    }
  };
  return make_table(s, lanes, fields, parallel, fill);
}

void Whole::run_lanes(int stage, int lane, const PutFn& put, const Oracle::ParallelFn& parallel) {
  const StageCode& s = evaluator_.code.stages[stage];
  const LaneAxis axis(s.extents, lane);
  const int64_t rows = product(s.extents) / axis.extent;
  const int64_t blocks = (axis.extent + kLanes - 1) / kLanes;
  parallel(rows * blocks, [&](int64_t task) {
    Evaluator::Slots slots(s.extents.size() + s.reduce_extents.size(), 0);
    const int64_t first = task % blocks * kLanes, row = task / blocks;
    unflatten(row, s.extents, slots.data(), lane);
    slots[lane] = first;
    const auto count = static_cast<int>(std::min<int64_t>(kLanes, axis.extent - first));
    LaneValues found;
    LaneEvaluator(evaluator_, s, lane).elements(slots, count, found);
    std::array<Approx, kLanes> values;
    for (int l = 0; l < count; ++l) values[l] = {found.v[l], found.e[l]};
    put_row(put, axis.begin(row) + first * axis.stride, axis.stride,
            std::span(values).first(count));
  });
}

void Whole::run_elements(int stage, const PutFn& put, const Oracle::ParallelFn& parallel) {
  const int64_t count = product(evaluator_.code.stages[stage].extents);
  // A long reduction is work enough for a task of few elements.
  const int64_t terms = product(evaluator_.code.stages[stage].reduce_extents);
  const int64_t step = std::max<int64_t>(1, kElementsOfTask / std::max<int64_t>(1, terms / 16));
  parallel((count + step - 1) / step, [&](int64_t task) {
    std::vector<Approx> values;
    const int64_t first = task * step, end = std::min(count, first + step);
    for (int64_t i = first; i < end; ++i) values.push_back(evaluator_.element(stage, i));
    put(first, values);
  });
}

void Whole::run_product(int stage, const ProductPlan& plan, const PutFn& put,
                        const Oracle::ParallelFn& parallel) {
  const StageCode& s = evaluator_.code.stages[stage];
  std::array<FactorTable, 2> tables;
  for (size_t i = 0; i < plan.factors.size(); ++i) {
    const Factor& f = plan.factors[i];
    decode_input(f, parallel);
    if (f.tabled) tables[i] = tabulate(s, plan, i, parallel);
  }
  const LaneAxis axis(s.extents, plan.lane);
  const SumRoundings roundings(s);
  ProductRun run(evaluator_, s, plan, decoded_inputs_, tables, axis.extent);
  run.run(
      [&](int64_t row, int64_t first_lane, const ProductSums& sums) {
        const int64_t flat = axis.begin(row) + first_lane * axis.stride;
        std::vector<Approx> values(sums.value.size());
        for (size_t l = 0; l < values.size(); ++l) {
          const double magnitude = sums.magnitude[l];
          if (is_float(s.type)) {
            values[l] = {sums.value[l], sums.error[l] + magnitude * roundings.sum +
                                            sums.apart[l] * roundings.apart};
          } else if (magnitude < kExactIntegers) {
            values[l] = {wrapped_sum(s.type, 0, sums.value[l]), sums.error[l]};
          } else {
            values[l] = evaluator_.element(stage, flat + static_cast<int64_t>(l) * axis.stride);
          }
        }
        put_row(put, flat, axis.stride, values);
      },
      parallel);
}

}  // namespace tilewright::oracle
