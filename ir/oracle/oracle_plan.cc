#include "ir/oracle/oracle_plan.h"

#include <algorithm>
#include <numeric>

#include "ir/oracle/oracle_math.h"
#include "ir/oracle/oracle_shape.h"

namespace tilewright::oracle {
namespace {

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
                             [](const Factor& f) { return f.tabled || f.lane_step != 0; });
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
    plan_.factors.push_back({.value = i, .tabled = true});
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
        Factor f{
            .value = i, .source = n.source, .is_stage = n.op == ValueCode::Op::Stage, .index = n.a};
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

}  // namespace tilewright::oracle
