#include "ir/oracle_whole.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "ir/error.h"
#include "ir/oracle_lanes.h"
#include "ir/oracle_math.h"
#include "ir/oracle_products.h"

namespace tilewright::oracle {
namespace {

constexpr int64_t kLeastLanes = 8;  // shorter axes are left to single elements
constexpr int64_t kElementsOfTask = 2048;
constexpr double kPanelBytes = 1 << 20;  // of a lane block's share of an operand: stays in cache
// Seconds, measured on several processors and rounded up.
constexpr double kSecondsOfTerm = 0.3e-9, kSecondsOfNode = 15e-9, kSecondsOfLane = 4e-9;

int64_t product(const std::vector<int64_t>& extents) {
  return std::accumulate(extents.begin(), extents.end(), int64_t{1}, std::multiplies<>());
}

// Takes a stage's value apart into factors, for one choice of axes.
class Decomposer {
 public:
  Decomposer(const Evaluator& evaluator, const StageCode& s, int lane, int inner)
      : evaluator_(evaluator), s_(s) {
    plan_.lane = lane;
    plan_.inner = inner;
  }

  std::optional<ProductPlan> plan() {
    if (!take_elements(s_.value)) return std::nullopt;
    bool moves = std::any_of(plan_.factors.begin(), plan_.factors.end(),
                             [](const Factor& f) { return f.lane_step != 0; });
    return moves ? std::optional(plan_) : std::nullopt;
  }

 private:
  bool uses_moving(uint64_t uses) const {
    return ((uses >> plan_.lane | uses >> plan_.inner) & 1) != 0;
  }

  bool take(int i) {
    const ProductPlan before = plan_;
    if (take_elements(i)) return true;
    plan_ = before;
    return take_table(i);
  }

  // Whether no axis of the output but the lanes' has a part in it, and some other one uses it again.
  bool take_table(int i) {
    const size_t rank = s_.extents.size();
    const uint64_t own = uint64_t{1} << plan_.lane | ~((uint64_t{1} << rank) - 1);
    const bool again = product(s_.extents) > s_.extents[plan_.lane];
    if (!again || (s_.values[i].uses & ~own) != 0 || plan_.factors.size() > 1) return false;
    Factor f{.tabled = i, .lane_step = 1, .inner_step = s_.extents[plan_.lane]};
    for (size_t d = static_cast<size_t>(plan_.inner) - rank + 1; d < s_.reduce_extents.size();
         ++d) {
      f.inner_step *= s_.reduce_extents[d];
    }
    plan_.factors.push_back(f);
    return true;
  }

  bool take_elements(int i) {
    const ValueCode& n = s_.values[i];
    switch (n.op) {
      case ValueCode::Op::Binary:
        return n.binary == BinaryOp::Mul && n.type == s_.type && plan_.factors.empty() &&
               take(n.a) && take(n.b) && plan_.factors.size() == 2;
      case ValueCode::Op::Cast: return is_exact(n.from, n.type) && take(n.a);
      case ValueCode::Op::Select: {
        const ValueCode& other = s_.values[n.c];
        bool masks = other.op == ValueCode::Op::Constant && other.constant == 0;
        if (!masks || uses_moving(s_.conds[n.a].uses)) return false;
        plan_.masks.push_back(n.a);
        return take(n.b);
      }
      case ValueCode::Op::Input:
      case ValueCode::Op::Stage: {
        Factor f{.source = n.source, .is_stage = n.op == ValueCode::Op::Stage, .index = n.a};
        if (!evaluator_.step_of(s_, n.a, plan_.lane, f.lane_step)) return false;
        if (!evaluator_.step_of(s_, n.a, plan_.inner, f.inner_step)) return false;
        plan_.factors.push_back(f);
        return plan_.factors.size() <= 2;
      }
      default: return false;
    }
  }

  const Evaluator& evaluator_;
  const StageCode& s_;
  ProductPlan plan_;
};

void in_turn(int64_t count, const std::function<void(int64_t)>& body) {
  for (int64_t i = 0; i < count; ++i) body(i);
}

// The multiples of each axis in the flat index of an array.
std::vector<int64_t> strides_of(const std::vector<int64_t>& extents) {
  std::vector<int64_t> strides(extents.size(), 1);
  for (size_t d = extents.size(); d-- > 1;) strides[d - 1] = strides[d] * extents[d];
  return strides;
}

}  // namespace

std::optional<ProductPlan> plan_product(const Evaluator& evaluator, const StageCode& s) {
  const int rank = static_cast<int>(s.extents.size());
  const int depth = static_cast<int>(s.reduce_extents.size());
  if (s.reducer != Reducer::Sum || depth == 0 || rank == 0 || rank + depth > 64) return {};
  std::vector<int> lanes(rank), inner(depth);
  std::iota(lanes.begin(), lanes.end(), 0);
  std::iota(inner.begin(), inner.end(), 0);
  // The last axis is read in order by most operands; else longer is better.
  std::stable_sort(lanes.begin(), lanes.end(), [&](int a, int b) {
    auto worth = [&](int d) {
      return d == rank - 1 ? std::min<int64_t>(s.extents[d], 64) * 1000 : s.extents[d];
    };
    return worth(a) > worth(b);
  });
  std::stable_sort(inner.begin(), inner.end(),
                   [&](int a, int b) { return s.reduce_extents[a] > s.reduce_extents[b]; });
  for (int lane : lanes) {
    if (s.extents[lane] < kLeastLanes) continue;
    for (int k : inner) {
      if (auto plan = Decomposer(evaluator, s, lane, rank + k).plan()) return plan;
    }
  }
  return std::nullopt;
}

Whole::Whole(const Workload& workload, const std::map<std::string, int64_t>& dims,
             const std::vector<ElementReader>& readers, std::vector<BlockReader> blocks,
             NarrowSums narrow)
    : evaluator_(compile(workload, dims), readers, narrow), blocks_(std::move(blocks)),
      decoded_inputs_(evaluator_.code.inputs.size()) {
  for (const StageCode& s : evaluator_.code.stages) {
    bool narrow_sum = s.is_narrow && narrow.fraction_bits > 0;
    plans_.push_back(s.inlined || narrow_sum ? std::nullopt : plan_product(evaluator_, s));
  }
}

int Whole::lane_of(int stage) const {
  const StageCode& s = evaluator_.code.stages[stage];
  const bool narrow = s.is_narrow && evaluator_.narrow.fraction_bits > 0;
  if (narrow || s.extents.empty() || s.extents.size() + s.reduce_extents.size() > 63) return -1;
  auto lane = s.extents.end() - 1;
  if (*lane < kLeastLanes) lane = std::max_element(s.extents.begin(), s.extents.end());
  return *lane < kLeastLanes ? -1 : static_cast<int>(lane - s.extents.begin());
}

Oracle::WholeCost Whole::cost() const {
  Oracle::WholeCost cost{0, 0};
  const Code& code = evaluator_.code;
  std::vector<bool> decoded(code.inputs.size(), false);
  for (size_t i = 0; i < code.stages.size(); ++i) {
    const StageCode& s = code.stages[i];
    if (s.inlined) continue;
    const double elements = static_cast<double>(product(s.extents));
    const double terms = elements * static_cast<double>(product(s.reduce_extents));
    if (i + 1 < code.stages.size()) cost.bytes += elements * 16;
    if (!plans_[i]) {
      const double node = lane_of(static_cast<int>(i)) >= 0 ? kSecondsOfLane : kSecondsOfNode;
      cost.seconds += terms * static_cast<double>(s.values.size()) * node;
      continue;
    }
    cost.seconds += terms * kSecondsOfTerm;
    for (const Factor& f : plans_[i]->factors) {
      if (f.tabled >= 0) {
        const double table =
            static_cast<double>(product(s.reduce_extents) * s.extents[plans_[i]->lane]);
        cost.bytes += table * 24;
        cost.seconds += table * static_cast<double>(s.values.size()) * kSecondsOfLane;
        continue;
      }
      if (f.is_stage || decoded[f.source]) continue;
      decoded[f.source] = true;
      const double inputs = static_cast<double>(code.input_elements[f.source]);
      cost.bytes += inputs * 8;
      const bool in_blocks = !blocks_.empty() && blocks_[f.source];
      cost.seconds += inputs * (in_blocks ? kSecondsOfLane : kSecondsOfNode);
    }
  }
  return cost;
}

void Whole::decode_inputs(const ProductPlan& plan, const Oracle::ParallelFn& parallel) {
  for (const Factor& f : plan.factors) {
    if (f.tabled >= 0 || f.is_stage || !decoded_inputs_[f.source].empty()) continue;
    const int64_t count = evaluator_.code.input_elements[f.source];
    std::vector<double>& values = decoded_inputs_[f.source];
    values.resize(static_cast<size_t>(count));
    parallel((count + kElementsOfTask - 1) / kElementsOfTask, [&](int64_t task) {
      const int64_t first = task * kElementsOfTask;
      const int64_t end = std::min(count, first + kElementsOfTask);
      if (!blocks_.empty() && blocks_[f.source]) {
        return blocks_[f.source](first, std::span(values).subspan(first, end - first));
      }
      for (int64_t i = first; i < end; ++i) {
        values[static_cast<size_t>(i)] = evaluator_.read_input(f.source, i);
      }
    });
  }
}

void Whole::run(const Oracle::TakeFn& take, const Oracle::ParallelFn& parallel_or_none) {
  const Oracle::ParallelFn parallel = parallel_or_none ? parallel_or_none : in_turn;
  Code& code = evaluator_.code;
  const int last = static_cast<int>(code.stages.size()) - 1;
  evaluator_.computed.resize(code.stages.size());
  PutFn hand_over = [&](int64_t first, std::span<const Approx> values) {
    std::vector<Oracle::Value> list;
    list.reserve(values.size());
    for (Approx a : values) list.push_back(output_value(code, a));
    take(first, list);
  };
  for (int i = 0; i <= last; ++i) {
    if (code.stages[i].inlined) continue;
    StageArray array;
    PutFn keep = [&](int64_t first, std::span<const Approx> values) {
      for (size_t j = 0; j < values.size(); ++j) {
        array.v[static_cast<size_t>(first) + j] = values[j].v;
        array.e[static_cast<size_t>(first) + j] = values[j].e;
      }
    };
    if (i < last) {
      array.v.resize(static_cast<size_t>(product(code.stages[i].extents)));
      array.e.resize(array.v.size());
    }
    const PutFn& put = i < last ? keep : hand_over;
    if (plans_[i]) {
      decode_inputs(*plans_[i], parallel);
      run_product(i, *plans_[i], put, parallel);
    } else {
      run_elements(i, put, parallel);
    }
    if (i == last) break;
    if (std::all_of(array.e.begin(), array.e.end(), [](double e) { return e == 0; })) {
      array.e = {};
    }
    evaluator_.computed[i] = std::move(array);
  }
}

FactorTable Whole::tabulate(const StageCode& s, const ProductPlan& plan, int value,
                            const Oracle::ParallelFn& parallel) {
  const int64_t lanes = s.extents[plan.lane], terms = product(s.reduce_extents);
  const auto size = static_cast<size_t>(lanes * terms);
  FactorTable table{std::vector<double>(size), std::vector<double>(size),
                    std::vector<double>(size)};
  parallel(terms, [&](int64_t term) {
    Evaluator::Slots slots(s.extents.size() + s.reduce_extents.size(), 0);
    int64_t rest = term;
    for (size_t d = s.reduce_extents.size(); d-- > 0; rest /= s.reduce_extents[d]) {
      slots[s.extents.size() + d] = rest % s.reduce_extents[d];
    }
    LaneEvaluator evaluator(evaluator_, s, plan.lane);
    LaneValues found;
    for (int64_t first = 0; first < lanes; first += kLanes) {
      slots[plan.lane] = first;
      const auto count = static_cast<int>(std::min<int64_t>(kLanes, lanes - first));
      evaluator.values(value, slots, count, found);
      const auto at = static_cast<int64_t>(term * lanes + first);
      std::copy_n(found.v.begin(), count, table.v.begin() + at);
      std::copy_n(found.e.begin(), count, table.e.begin() + at);
      std::copy_n(found.apart.begin(), count, table.apart.begin() + at);
    }
  });
  for (std::vector<double>* field : {&table.e, &table.apart}) {
    if (std::all_of(field->begin(), field->end(), [](double x) { return x == 0; })) *field = {};
  }
  return table;
}

void Whole::run_lanes(int stage, int lane, const PutFn& put, const Oracle::ParallelFn& parallel) {
  const StageCode& s = evaluator_.code.stages[stage];
  const std::vector<int64_t> strides = strides_of(s.extents);
  const int64_t lanes = s.extents[lane], rows = product(s.extents) / lanes;
  const int64_t blocks = (lanes + kLanes - 1) / kLanes;
  parallel(rows * blocks, [&](int64_t task) {
    Evaluator::Slots slots(s.extents.size() + s.reduce_extents.size(), 0);
    const int64_t first = task % blocks * kLanes;
    int64_t row = task / blocks, flat = first * strides[lane];
    for (int d = static_cast<int>(s.extents.size()); d-- > 0;) {
      if (d == lane) continue;
      slots[d] = row % s.extents[d], row /= s.extents[d];
      flat += slots[d] * strides[d];
    }
    slots[lane] = first;
    const auto count = static_cast<int>(std::min<int64_t>(kLanes, lanes - first));
    LaneValues found;
    LaneEvaluator(evaluator_, s, lane).elements(slots, count, found);
    std::array<Approx, kLanes> values;
    for (int l = 0; l < count; ++l) values[l] = {found.v[l], found.e[l]};
    if (strides[lane] == 1) return put(flat, std::span(values).first(count));
    for (int l = 0; l < count; ++l) put(flat + l * strides[lane], std::span(values).subspan(l, 1));
  });
}

void Whole::run_elements(int stage, const PutFn& put, const Oracle::ParallelFn& parallel) {
  if (const int lane = lane_of(stage); lane >= 0) return run_lanes(stage, lane, put, parallel);
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
  const int rank = static_cast<int>(s.extents.size());
  const int depth = static_cast<int>(s.reduce_extents.size());
  const int64_t lanes = s.extents[plan.lane], rows = product(s.extents) / lanes;
  const int64_t inner = s.reduce_extents[plan.inner - rank];
  const int64_t steps = product(s.reduce_extents) / inner;
  const std::vector<int64_t> strides = strides_of(s.extents);
  const double roundings = s.roundoff * (granted_roundings(inner * steps) +
                                         (s.values[s.value].op == ValueCode::Op::Binary ? 1 : 0));
  const double parts = s.apart_terms > 0 ? s.roundoff * granted_roundings(s.apart_terms) : 0;
  const auto fitting = static_cast<int64_t>(kPanelBytes / (8 * static_cast<double>(inner)));
  const int64_t block = std::min(lanes, std::clamp<int64_t>(fitting / 8 * 8, 64, 512));
  const int64_t blocks = (lanes + block - 1) / block;
  const int64_t rows_of_task =
      std::max<int64_t>(1, std::min<int64_t>(rows, (1 << 22) / (block * inner * steps + 1)));
  const int64_t chunks = (rows + rows_of_task - 1) / rows_of_task;

  std::array<FactorTable, 2> tables;
  for (size_t i = 0; i < plan.factors.size(); ++i) {
    const int value = plan.factors[i].tabled;
    if (value >= 0) tables[i] = tabulate(s, plan, value, parallel);
  }

  auto in_table = [&](const FactorTable& table, const Factor& f, const Evaluator::Slots& slots) {
    int64_t at = 0;
    for (int d = 0; d < depth; ++d) at = at * s.reduce_extents[d] + slots[rank + d];
    at = at * lanes + slots[plan.lane];
    auto from = [&](const std::vector<double>& x) { return x.empty() ? nullptr : x.data() + at; };
    return ProductOperand{from(table.v), from(table.e), from(table.apart), f.lane_step,
                          f.inner_step};
  };
  auto place = [&](const Factor& f, Evaluator::Slots& slots, int64_t width) {
    const int64_t at = evaluator_.index(s, f.index, slots);
    const StageArray* array = f.is_stage ? &evaluator_.computed[f.source] : nullptr;
    const std::vector<double>& v = array != nullptr ? array->v : decoded_inputs_[f.source];
    const int64_t far_lane = (width - 1) * f.lane_step, far_inner = (inner - 1) * f.inner_step;
    const int64_t low = at + std::min<int64_t>(far_lane, 0) + std::min<int64_t>(far_inner, 0);
    const int64_t high = at + std::max<int64_t>(far_lane, 0) + std::max<int64_t>(far_inner, 0);
    TW_ASSERT(low >= 0 && high < static_cast<int64_t>(v.size()), "a factor's elements exist");
    const bool exact = array == nullptr || array->e.empty();
    return ProductOperand{v.data() + at, exact ? nullptr : array->e.data() + at, nullptr,
                          f.lane_step, f.inner_step};
  };

  auto one_row = [&](int64_t row, int64_t first_lane, int64_t width, ProductSums& sums) {
    Evaluator::Slots slots(static_cast<size_t>(rank + depth), 0);
    int64_t flat = 0;
    for (int d = rank; d-- > 0;) {
      if (d != plan.lane) slots[d] = row % s.extents[d], row /= s.extents[d];
      if (d == plan.lane) slots[d] = first_lane;
      flat += slots[d] * strides[d];
    }
    sums.clear(width);
    for (int64_t step = 0; step < steps; ++step) {
      int64_t rest = step;
      for (int d = depth; d-- > 0;) {
        if (rank + d == plan.inner) continue;
        slots[rank + d] = rest % s.reduce_extents[d];
        rest /= s.reduce_extents[d];
      }
      if (!std::all_of(plan.masks.begin(), plan.masks.end(),
                       [&](int m) { return evaluator_.cond(s, m, slots); })) {
        continue;
      }
      std::array<ProductOperand, 2> operands;
      for (size_t i = 0; i < plan.factors.size(); ++i) {
        const Factor& f = plan.factors[i];
        operands[i] = f.tabled >= 0 ? in_table(tables[i], f, slots) : place(f, slots, width);
      }
      sums.add(std::span(operands).first(plan.factors.size()), inner);
    }
    return flat;
  };

  parallel(blocks * chunks, [&](int64_t task) {
    const int64_t first_lane = task / chunks * block, first_row = task % chunks * rows_of_task;
    const int64_t width = std::min(block, lanes - first_lane);
    ProductSums sums;
    std::vector<Approx> values(static_cast<size_t>(width));
    for (int64_t row = first_row; row < std::min(rows, first_row + rows_of_task); ++row) {
      const int64_t flat = one_row(row, first_lane, width, sums);
      for (int64_t l = 0; l < width; ++l) {
        const double magnitude = sums.magnitude[l];
        if (is_float(s.type)) {
          values[l] = {sums.value[l],
                       sums.error[l] + magnitude * roundings + sums.apart[l] * parts};
        } else if (magnitude < 0x1p53) {
          values[l] = {wrapped_sum(s.type, 0, sums.value[l]), sums.error[l]};
        } else {  // f64 has not all of the digits
          values[l] = evaluator_.element(stage, flat + l * strides[plan.lane]);
        }
      }
      if (strides[plan.lane] == 1) {
        put(flat, values);
      } else {
        for (int64_t l = 0; l < width; ++l) {
          put(flat + l * strides[plan.lane], std::span(values).subspan(l, 1));
        }
      }
    }
  });
}

}  // namespace tilewright::oracle
