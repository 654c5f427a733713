#include "ir/oracle/oracle_product_run.h"

#include <algorithm>

#include "base/error.h"

namespace tilewright::oracle {
namespace {

constexpr double kPanelBytes = 1 << 19;    // of a lane block's share of an operand: stays in cache
constexpr int64_t kTermsOfTask = 1 << 22;  // about

}  // namespace

FactorTable make_table(
    const StageCode& s, int64_t lanes, TableFields fields, const Oracle::ParallelFn& parallel,
    const std::function<void(int64_t term, Evaluator::Slots& slots, FactorTable& table)>& fill) {
  const int64_t terms = product(s.reduce_extents);
  const auto size = static_cast<size_t>(lanes * terms);
  FactorTable table{std::vector<double>(size), {}, {}, fields == TableFields::WholeErrors};
  if (fields != TableFields::Values) table.e.resize(size);
  if (fields == TableFields::All) table.apart.resize(size);
  parallel(terms, [&](int64_t term) {
    Evaluator::Slots slots(s.extents.size() + s.reduce_extents.size(), 0);
    unflatten(term, s.reduce_extents, slots.data() + s.extents.size());
    fill(term, slots, table);
  });
  for (std::vector<double>* field : {&table.e, &table.apart}) {
    if (!table.whole && std::all_of(field->begin(), field->end(), [](double x) { return x == 0; }))
      *field = {};
  }
  return table;
}

Oracle::ParallelFn or_in_turn(const Oracle::ParallelFn& parallel) {
  if (parallel) return parallel;
  return [](int64_t count, const std::function<void(int64_t)>& body) {
    for (int64_t i = 0; i < count; ++i) body(i);
  };
}

SumRoundings::SumRoundings(const StageCode& s)
    : sum(s.roundoff * (granted_roundings(product(s.reduce_extents)) +
                        (s.values[s.value].op == ValueCode::Op::Binary ? 1 : 0))),
      apart(s.apart_terms > 0 ? s.roundoff * granted_roundings(s.apart_terms) : 0) {}

namespace {

// The operand's elements of `width` lanes and `inner` terms from `from` on, with the lanes of a term side by side.
void copy_panel(const ProductOperand& operand, const double* from, int64_t width, int64_t inner,
                double* to) {
  constexpr int64_t kLine =
      8;  // elements of a cache line: where terms lie side by side, each line is read once
  for (int64_t first = 0; first < width; first += kLine) {
    const int64_t lanes = std::min(kLine, width - first);
    for (int64_t k = 0; k < inner; ++k) {
      const double* term = from + first * operand.lane_step + k * operand.inner_step;
      for (int64_t l = 0; l < lanes; ++l) to[k * width + first + l] = term[l * operand.lane_step];
    }
  }
}

}  // namespace

ProductOperand Panels::near(int64_t step, size_t factor, const ProductOperand& operand,
                            int64_t width, int64_t inner) {
  const bool is_apart = operand.lane_step != 0 && operand.lane_step != 1;
  const bool is_scattered = operand.lane_step == 1 && operand.inner_step > width && inner > 1;
  if (!is_apart && !is_scattered) return operand;
  Panel& panel = panels_[2 * static_cast<size_t>(step) + factor];
  if (panel.source != operand.v) {
    panel = {};
    panel.source = operand.v;
    if (!is_apart) return operand;
  }
  auto copy = [&](const double* from, std::vector<double>& to) -> const double* {
    if (from == nullptr) return nullptr;
    if (to.empty()) {
      to.resize(static_cast<size_t>(width * inner));
      copy_panel(operand, from, width, inner, to.data());
    }
    return to.data();
  };
  return {copy(operand.v, panel.v),
          copy(operand.e, panel.e),
          copy(operand.apart, panel.apart),
          1,
          width,
          operand.whole};
}

ProductRun::ProductRun(Evaluator& evaluator, const StageCode& stage, const ProductPlan& plan,
                       const std::vector<std::vector<double>>& inputs,
                       const std::array<FactorTable, 2>& tables, int64_t lanes)
    : evaluator_(evaluator), s_(stage), plan_(plan), inputs_(inputs), tables_(tables),
      lanes_(lanes), rows_(product(stage.extents) / stage.extents[plan.lane]) {
  const size_t axis = static_cast<size_t>(plan.inner) - s_.extents.size();
  inner_ = s_.reduce_extents[axis];
  steps_ = product(s_.reduce_extents) / inner_;
  table_inner_step_ = lanes_ * strides_of(s_.reduce_extents)[axis];
}

bool ProductRun::is_masked(Evaluator::Slots& slots) const {
  return !std::all_of(plan_.masks.begin(), plan_.masks.end(),
                      [&](int m) { return evaluator_.cond(s_, m, slots); });
}

ProductOperand ProductRun::in_table(const FactorTable& table, const Evaluator::Slots& slots,
                                    int64_t first_lane) const {
  int64_t at = 0;
  for (size_t d = 0; d < s_.reduce_extents.size(); ++d) {
    at = at * s_.reduce_extents[d] + slots[s_.extents.size() + d];
  }
  at = at * lanes_ + first_lane;
  auto from = [&](const std::vector<double>& x) { return x.empty() ? nullptr : x.data() + at; };
  return {from(table.v), from(table.e), from(table.apart), 1, table_inner_step_, table.whole};
}

ProductOperand ProductRun::in_array(const Factor& f, Evaluator::Slots& slots, int64_t width) const {
  const int64_t at = evaluator_.index(s_, f.index, slots);
  const StageArray* array = f.is_stage ? &evaluator_.computed[f.source] : nullptr;
  const std::vector<double>& v = array != nullptr ? array->v : inputs_[f.source];
  const int64_t far_lane = (width - 1) * f.lane_step, far_inner = (inner_ - 1) * f.inner_step;
  const int64_t low = at + std::min<int64_t>(far_lane, 0) + std::min<int64_t>(far_inner, 0);
  const int64_t high = at + std::max<int64_t>(far_lane, 0) + std::max<int64_t>(far_inner, 0);
  TW_ASSERT(low >= 0 && high < static_cast<int64_t>(v.size()), "a factor's elements exist");
  const bool exact = array == nullptr || array->e.empty();
  return {v.data() + at, exact ? nullptr : array->e.data() + at, nullptr, f.lane_step,
          f.inner_step};
}

ProductOperand ProductRun::operand(size_t factor, Evaluator::Slots& slots, int64_t first_lane,
                                   int64_t width) const {
  const FactorTable& table = tables_[factor];
  if (!table.v.empty()) return in_table(table, slots, first_lane);
  return in_array(plan_.factors[factor], slots, width);
}

void ProductRun::sum_row(int64_t row, int64_t first_lane, Panels& panels, ProductSums& sums) const {
  const size_t rank = s_.extents.size();
  Evaluator::Slots slots(rank + s_.reduce_extents.size(), 0);
  unflatten(row, s_.extents, slots.data(), plan_.lane);
  slots[plan_.lane] = first_lane;
  const auto width = static_cast<int64_t>(sums.value.size());
  for (int64_t step = 0; step < steps_; ++step) {
    unflatten(step, s_.reduce_extents, slots.data() + rank, plan_.inner - static_cast<int>(rank));
    if (is_masked(slots)) continue;
    std::array<ProductOperand, 2> operands;
    for (size_t i = 0; i < plan_.factors.size(); ++i) {
      operands[i] = panels.near(step, i, operand(i, slots, first_lane, width), width, inner_);
    }
    sums.add(std::span(operands).first(plan_.factors.size()), inner_);
  }
}

void ProductRun::run(const TakeFn& take, const Oracle::ParallelFn& parallel) const {
  const auto fitting = static_cast<int64_t>(kPanelBytes / (8 * static_cast<double>(inner_)));
  const int64_t block = std::min(lanes_, std::clamp<int64_t>(fitting / 8 * 8, 32, 512));
  const int64_t blocks = (lanes_ + block - 1) / block;
  const int64_t rows_of_task =
      std::max<int64_t>(1, std::min<int64_t>(rows_, kTermsOfTask / (block * inner_ * steps_ + 1)));
  const int64_t chunks = (rows_ + rows_of_task - 1) / rows_of_task;
  parallel(blocks * chunks, [&](int64_t task) {
    const int64_t first_lane = task / chunks * block, first_row = task % chunks * rows_of_task;
    const int64_t width = std::min(block, lanes_ - first_lane);
    ProductSums sums;
    Panels panels(steps_);
    for (int64_t row = first_row; row < std::min(rows_, first_row + rows_of_task); ++row) {
      sums.clear(width);
      sum_row(row, first_lane, panels, sums);
      take(row, first_lane, sums);
    }
  });
}

}  // namespace tilewright::oracle
