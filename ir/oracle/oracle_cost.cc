// What whole outputs and sums of their elements cost.
#include <algorithm>

#include "ir/oracle/oracle_whole.h"

namespace tilewright::oracle {
namespace {

// Seconds, measured on several processors and rounded up.
constexpr double kSecondsOfTerm = 0.3e-9, kSecondsOfNode = 15e-9, kSecondsOfLane = 4e-9;
// A term of a weighted sum has an error besides.
constexpr double kSecondsOfSum = 2 * kSecondsOfTerm;
constexpr double kBytesOfTable = 24, kBytesOfStage = 16, kBytesOfSum = 12;

}  // namespace

class Whole::Spending {
 public:
  explicit Spending(const Whole& whole)
      : whole_(whole), decoded_(whole.evaluator_.code.inputs.size(), false) {}

  // `kept`: its elements are.
  void add_stage(int stage, bool kept) {
    const StageCode& s = whole_.evaluator_.code.stages[stage];
    if (s.inlined) return;
    const double elements = static_cast<double>(product(s.extents));
    const double terms = elements * static_cast<double>(product(s.reduce_extents));
    if (kept) cost.bytes += elements * kBytesOfStage;
    if (!whole_.plans_[stage]) {
      const double node = whole_.lane_of(stage) >= 0 ? kSecondsOfLane : kSecondsOfNode;
      cost.seconds += terms * static_cast<double>(s.values.size()) * node;
      return;
    }
    cost.seconds += terms * kSecondsOfTerm;
    for (const Factor& f : whole_.plans_[stage]->factors) {
      if (f.tabled) {
        add_table(s, s.extents[whole_.plans_[stage]->lane], 1, is_exact_value(s, f.value));
      } else {
        add_input(f);
      }
    }
  }

  // Of which so many lanes share an element.
  void add_table(const StageCode& s, int64_t lanes, int64_t width, bool exact) {
    const double terms = static_cast<double>(product(s.reduce_extents) * lanes);
    cost.bytes += terms / static_cast<double>(width) * (exact ? 8 : kBytesOfTable);
    cost.seconds += terms * static_cast<double>(s.values.size()) * kSecondsOfLane;
  }

  void add_input(const Factor& f) {
    if (f.tabled || f.is_stage || decoded_[f.source]) return;
    decoded_[f.source] = true;
    const double inputs = static_cast<double>(whole_.evaluator_.code.input_elements[f.source]);
    cost.bytes += inputs * 8;
    const bool in_blocks = !whole_.evaluator_.blocks.empty() && whole_.evaluator_.blocks[f.source];
    cost.seconds += inputs * (in_blocks ? kSecondsOfLane : kSecondsOfNode);
  }

  Oracle::WholeCost cost{0, 0};

 private:
  const Whole& whole_;
  std::vector<bool> decoded_;
};

Oracle::WholeCost Whole::cost() const {
  Spending spending(*this);
  const int last = static_cast<int>(evaluator_.code.stages.size()) - 1;
  for (int i = 0; i <= last; ++i) spending.add_stage(i, i < last);
  return spending.cost;
}

std::optional<Oracle::WholeCost> Whole::sums_cost(int64_t width) const {
  const std::optional<SumsPlan> plan = sums_plan();
  if (!plan) return std::nullopt;
  Spending spending(*this);
  for (int i = 0; i < plan->stage; ++i) spending.add_stage(i, true);
  const StageCode& s = evaluator_.code.stages[plan->stage];
  const int64_t lanes = s.extents[plans_[plan->stage]->lane];
  const int64_t rows = product(s.extents) / lanes, groups = (lanes + width - 1) / width;
  const double sums = static_cast<double>(rows * groups);
  spending.add_table(s, lanes, width, /*exact=*/false);
  spending.add_input(plans_[plan->stage]->factors[1 - plan->folded]);
  spending.cost.bytes += sums * kBytesOfSum;
  spending.cost.seconds += sums * static_cast<double>(product(s.reduce_extents)) * kSecondsOfSum;
  return spending.cost;
}

}  // namespace tilewright::oracle
