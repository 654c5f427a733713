// Weighted sums of an output's elements, by a product with weighted sums of a factor's.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "ir/oracle/oracle_lanes.h"
#include "ir/oracle/oracle_math.h"
#include "ir/oracle/oracle_whole.h"

namespace tilewright::oracle {
namespace {

uint64_t mixed(uint64_t x) {  // the finalizer of SplitMix64
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
  x = (x ^ x >> 27) * 0x94d049bb133111ebu;
  return x ^ x >> 31;
}

// Of neighbouring magnitudes, so that no element counts for much less than another, but not all
// equal: two elements that are exchanged would cancel in every other sum.
int weight_of(uint64_t seed, int64_t place) {
  const uint64_t bits = mixed(mixed(seed) + static_cast<uint64_t>(place) * 0x9e3779b97f4a7c15u);
  const int magnitude = 4 + static_cast<int>(bits >> 62);
  return (bits >> 61 & 1) != 0 ? -magnitude : magnitude;
}

// Writes the weighted sums of `count` lanes, and the roots of the sums of squares of their errors.
void fold_lanes(const LaneValues& found, int count, std::span<const int> weights, int64_t width,
                const SumRoundings& roundings, double* value, double* error) {
  for (int first = 0; first < count; first += static_cast<int>(width)) {
    double sum = 0, squares = 0;
    for (int l = first; l < std::min(count, first + static_cast<int>(width)); ++l) {
      if (weights[l] == 0) continue;
      sum += weights[l] * found.v[l];
      const double e = roundings.of_term(found.v[l], found.e[l], found.apart[l]);
      squares += weights[l] * weights[l] * e * e;
    }
    *value++ = sum;
    *error++ = std::sqrt(squares);
  }
}

}  // namespace

// The stage that is a product and holds the output's elements, rounded to the output's type by the
// last stage where that is another; -1: none.
int Whole::product_of_output() const {
  const Code& code = evaluator_.code;
  const int last = static_cast<int>(code.stages.size()) - 1;
  if (plans_[last]) return last;
  const StageCode& s = code.stages[last];
  const ValueCode& cast = s.values[s.value];
  const bool rounds = s.reducer == Reducer::None && cast.op == ValueCode::Op::Cast &&
                      is_float(cast.type) && is_float(cast.from);
  if (!rounds || s.extents.size() > 63) return -1;
  const ValueCode& read = s.values[cast.a];
  if (read.op != ValueCode::Op::Stage || !plans_[read.source]) return -1;
  if (code.stages[read.source].extents != s.extents) return -1;
  const IndexCode& place = s.indices[read.a];
  bool same = place.op == IndexCode::Op::Linear && place.constant == 0;
  const std::vector<int64_t> strides = strides_of(s.extents);
  for (size_t d = 0; d < strides.size(); ++d) {
    int64_t step = 0;
    same &= evaluator_.step_of(s, read.a, static_cast<int>(d), step);
    same &= step == strides[d] || s.extents[d] == 1;
  }
  return same ? read.source : -1;
}

std::optional<Whole::SumsPlan> Whole::sums_plan() const {
  const int stage = product_of_output();
  if (stage < 0 || plans_[stage]->factors.size() != 2) return std::nullopt;
  const StageCode& s = evaluator_.code.stages[stage];
  const ProductPlan& plan = *plans_[stage];
  auto uses = [&](size_t factor) { return s.values[plan.factors[factor].value].uses; };
  auto moves = [&](size_t factor) { return (uses(factor) >> plan.lane & 1) != 0; };
  if (moves(0) == moves(1)) return std::nullopt;
  const size_t folded = moves(0) ? 0 : 1;
  const Factor& other = plan.factors[1 - folded];
  const uint64_t axes = (uint64_t{1} << s.extents.size()) - 1;
  const bool alone = (uses(folded) & axes & ~(uint64_t{1} << plan.lane)) == 0;
  if (!alone || other.tabled || other.is_stage) return std::nullopt;
  return SumsPlan{stage, folded};
}

// The weighted sums of the factor that depends on the lane axis. Lanes with elements that are not
// finite lose their weight: nothing else would be left of the sums that they are in.
FactorTable Whole::fold(const SumsPlan& plan, Oracle::Sums& sums,
                        const Oracle::ParallelFn& parallel) {
  const StageCode& s = evaluator_.code.stages[plan.stage];
  const int lane = plans_[plan.stage]->lane, value = plans_[plan.stage]->factors[plan.folded].value;
  const SumRoundings roundings(s);
  std::vector<std::atomic<bool>> undefined(static_cast<size_t>(sums.extent));
  auto fill = [&](int64_t term, Evaluator::Slots& slots, FactorTable& table) {
    LaneEvaluator evaluator(evaluator_, s, lane);
    LaneValues found;
    for (int64_t first = 0; first < sums.extent; first += kLanes) {
      slots[lane] = first;
      const auto count = static_cast<int>(std::min<int64_t>(kLanes, sums.extent - first));
      evaluator.values(value, slots, count, found);
      for (int l = 0; l < count; ++l) {
        if (!std::isfinite(found.v[l])) undefined[static_cast<size_t>(first) + l] = true;
      }
      const int64_t at = term * sums.per_row() + first / sums.width;
      fold_lanes(found, count, std::span(sums.weights).subspan(static_cast<size_t>(first)),
                 sums.width, roundings, table.v.data() + at, table.e.data() + at);
    }
  };
  const auto fields = is_float(s.type) ? TableFields::WholeErrors : TableFields::All;
  FactorTable table = make_table(s, sums.per_row(), fields, parallel, fill);
  bool again = false;
  for (size_t l = 0; l < undefined.size(); ++l) {
    if (!undefined[l]) continue;
    sums.weights[l] = 0;
    again = true;
  }
  return again ? make_table(s, sums.per_row(), fields, parallel, fill) : table;
}

Oracle::Sums Whole::run_sums(int64_t width, uint64_t seed, const Oracle::ParallelFn& asked) {
  static_assert(Oracle::kMostWidth <= kLanes);
  const Oracle::ParallelFn parallel = or_in_turn(asked);
  const std::optional<SumsPlan> plan = sums_plan();
  TW_ASSERT(plan && width <= Oracle::kMostWidth && (width & (width - 1)) == 0,
            "sums that sums_cost() has a cost of");
  evaluator_.computed.resize(evaluator_.code.stages.size());
  for (int i = 0; i < plan->stage; ++i) keep_stage(i, parallel);
  const StageCode& s = evaluator_.code.stages[plan->stage];
  const ProductPlan& product_plan = *plans_[plan->stage];
  const LaneAxis axis(s.extents, product_plan.lane);
  Oracle::Sums sums{.extent = axis.extent, .stride = axis.stride, .width = width};
  for (int64_t l = 0; l < axis.extent; ++l) sums.weights.push_back(weight_of(seed, l));
  std::array<FactorTable, 2> tables;
  tables[plan->folded] = fold(*plan, sums, parallel);
  decode_input(product_plan.factors[1 - plan->folded], parallel);
  const int64_t groups = sums.per_row(), rows = product(s.extents) / axis.extent;
  sums.values.resize(static_cast<size_t>(rows * groups));
  sums.errors.resize(sums.values.size());
  ProductRun run(evaluator_, s, product_plan, decoded_inputs_, tables, groups);
  run.run(
      [&](int64_t row, int64_t first, const ProductSums& found) {
        const bool floats = is_float(s.type);
        for (size_t g = 0; g < found.value.size(); ++g) {
          const auto at = static_cast<size_t>(row * groups + first) + g;
          const bool known = floats || found.magnitude[g] < kExactIntegers;
          sums.values[at] = known ? found.value[g] : std::numeric_limits<double>::quiet_NaN();
          sums.errors[at] = floats ? static_cast<float>(found.error[g]) : 0;
        }
      },
      parallel);
  return sums;
}

}  // namespace tilewright::oracle
