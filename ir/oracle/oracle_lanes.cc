#include "ir/oracle/oracle_lanes.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "ir/oracle/oracle_lane_loops.h"
#include "ir/oracle/oracle_math.h"

namespace tilewright::oracle {
namespace {

int64_t apply_index(IndexCode::Op op, int64_t a, int64_t b) {
  switch (op) {
    case IndexCode::Op::Add: return a + b;
    case IndexCode::Op::Sub: return a - b;
    case IndexCode::Op::Mul: return a * b;
    case IndexCode::Op::FloorDiv: return floor_div(a, b);
    case IndexCode::Op::FloorMod: return floor_mod(a, b);
    case IndexCode::Op::Min: return std::min(a, b);
    default: return std::max(a, b);
  }
}

}  // namespace

void LaneEvaluator::indices(int i, Evaluator::Slots& slots, int count, Indices& out) {
  const IndexCode& n = s_.indices[i];
  int64_t step = 0;
  if (evaluator_.step_of(s_, i, lane_, step)) {
    const int64_t first = evaluator_.index(s_, i, slots);
    for (int l = 0; l < count; ++l) out[l] = first + l * step;
    return;
  }
  if (n.op == IndexCode::Op::OfValue) {
    LaneValues v;
    values(n.a, slots, count, v);
    for (int l = 0; l < count; ++l) out[l] = static_cast<int64_t>(v.v[l]);
    return;
  }
  Indices other;
  if (n.op == IndexCode::Op::Select) {
    Conditions chosen;
    conditions(n.a, slots, count, chosen);
    indices(n.b, slots, count, out);
    indices(n.c, slots, count, other);
    for (int l = 0; l < count; ++l) out[l] = chosen[l] ? out[l] : other[l];
    return;
  }
  indices(n.a, slots, count, out);
  indices(n.b, slots, count, other);
  for (int l = 0; l < count; ++l) out[l] = apply_index(n.op, out[l], other[l]);
}

void LaneEvaluator::conditions(int i, Evaluator::Slots& slots, int count, Conditions& out) {
  const CondCode& n = s_.conds[i];
  if (!moves(n.uses)) {
    std::fill_n(out.begin(), count, evaluator_.cond(s_, i, slots));
    return;
  }
  switch (n.op) {
    case CondCode::Op::Constant: std::fill_n(out.begin(), count, n.value); return;
    case CondCode::Op::Not:
      conditions(n.a, slots, count, out);
      for (int l = 0; l < count; ++l) out[l] = !out[l];
      return;
    case CondCode::Op::And:
    case CondCode::Op::Or: {
      Conditions other;
      conditions(n.a, slots, count, out);
      conditions(n.b, slots, count, other);
      const bool both = n.op == CondCode::Op::And;
      for (int l = 0; l < count; ++l) out[l] = both ? out[l] && other[l] : out[l] || other[l];
      return;
    }
    case CondCode::Op::CompareIndices: {
      Indices a, b;
      indices(n.a, slots, count, a);
      indices(n.b, slots, count, b);
      for (int l = 0; l < count; ++l) out[l] = compare(n.comparison, a[l], b[l]);
      return;
    }
    case CondCode::Op::CompareValues: {
      LaneValues a, b;
      values(n.a, slots, count, a);
      values(n.b, slots, count, b);
      for (int l = 0; l < count; ++l) out[l] = compare(n.comparison, a.v[l], b.v[l]);
      return;
    }
    case CondCode::Op::OfValue: {
      LaneValues a;
      values(n.a, slots, count, a);
      for (int l = 0; l < count; ++l) out[l] = a.v[l] != 0;
      return;
    }
  }
}

void LaneEvaluator::read(const ValueCode& n, Evaluator::Slots& slots, int count, LaneValues& out) {
  const int64_t elements =
      n.op == ValueCode::Op::Input ? evaluator_.code.input_elements[n.source] : 0;
  int64_t step = 0;
  if (elements > 0 && evaluator_.step_of(s_, n.a, lane_, step) && step == 1) {
    const int64_t first = evaluator_.index(s_, n.a, slots);
    TW_ASSERT(first >= 0 && first + count <= elements, "an input's elements exist");
    evaluator_.read_inputs(n.source, first, std::span(out.v).first(static_cast<size_t>(count)));
    std::fill_n(out.e.begin(), count, 0);
    std::fill_n(out.apart.begin(), count, 0);
    return;
  }
  Indices at;
  indices(n.a, slots, count, at);
  if (n.op == ValueCode::Op::Input) {
    for (int l = 0; l < count; ++l) {
      TW_ASSERT(at[l] >= 0 && at[l] < elements, "an input's element exists");
      out.set(l, {evaluator_.read_input(n.source, at[l])});
    }
    return;
  }
  const StageArray& array = evaluator_.computed[n.source];
  for (int l = 0; l < count; ++l) {
    TW_ASSERT(at[l] >= 0 && at[l] < static_cast<int64_t>(array.v.size()), "an element exists");
    out.set(l, array.at(at[l]));
  }
}

// The formulas of oracle::apply(), as vector code for what occurs most.
void LaneEvaluator::apply_binary(const ValueCode& n, const LaneValues& b, int count,
                                 LaneValues& a) const {
  const double u = n.roundoff;
  if (is_float(n.type) && n.binary == BinaryOp::Mul) {
    multiply_lanes(b, u, count, a);
  } else if (is_float(n.type) && (n.binary == BinaryOp::Add || n.binary == BinaryOp::Sub)) {
    add_lanes(b, n.binary == BinaryOp::Add ? 1 : -1, u, count, a);
  } else {
    for (int l = 0; l < count; ++l) {
      a.set(l, apply(n.binary, n.type, u, a.at(l), b.at(l)));
    }
  }
}

// Evaluator::binary(), where an operand or the result has something apart.
void LaneEvaluator::apply_with_apart(const ValueCode& n, const LaneValues& b, int count,
                                     LaneValues& a) const {
  std::array<double, kLanes> most;
  most_apart(a, b, n.apart, n.binary == BinaryOp::Mul, count, most.data());
  apply_binary(n, b, count, a);
  keep_apart(most.data(), count, a);
}

void LaneEvaluator::values(int i, Evaluator::Slots& slots, int count, LaneValues& out) {
  const ValueCode& n = s_.values[i];
  if (!moves(n.uses)) {
    const Approx one = evaluator_.value(s_, i, slots);
    for (int l = 0; l < count; ++l) out.set(l, one);
    return;
  }
  auto each = [&](auto&& function) {
    for (int l = 0; l < count; ++l) {
      out.set(l, function(out.at(l)));
    }
  };
  switch (n.op) {
    case ValueCode::Op::Input:
    case ValueCode::Op::Stage: return read(n, slots, count, out);
    case ValueCode::Op::Cast:
      values(n.a, slots, count, out);
      if (is_exact(n.from, n.type)) {
        if (n.apart) set_apart_of_codes(offset_of_code(n.from), count, out);
        return;
      }
      return each([&](Approx a) {
        Approx result = convert(n.from, n.type, a);
        result.apart = n.apart ? apart_of_code(n.from, a.v) : a.apart;
        return result;
      });
    case ValueCode::Op::Unary:
      values(n.a, slots, count, out);
      return each([&](Approx a) { return apply(n.unary, n.type, n.roundoff, a); });
    case ValueCode::Op::Binary: {
      LaneValues b;
      values(n.a, slots, count, out);
      values(n.b, slots, count, b);
      const bool apart = n.apart || any_apart(out, count) || any_apart(b, count);
      if (!apart) return apply_binary(n, b, count, out);
      return apply_with_apart(n, b, count, out);
    }
    case ValueCode::Op::Select: {
      Conditions chosen;
      conditions(n.a, slots, count, chosen);
      // Where lanes differ, either side may read outside of its operands for some.
      const bool any =
          std::any_of(chosen.begin(), chosen.begin() + count, [](bool c) { return c; });
      const bool all =
          std::all_of(chosen.begin(), chosen.begin() + count, [](bool c) { return c; });
      if (all) return values(n.b, slots, count, out);
      if (!any) return values(n.c, slots, count, out);
      return one_by_one(i, slots, count, out);
    }
    case ValueCode::Op::OfIndex: {
      Indices at;
      indices(n.a, slots, count, at);
      for (int l = 0; l < count; ++l) out.set(l, {static_cast<double>(at[l])});
      return;
    }
    case ValueCode::Op::OfCond: {
      Conditions holds;
      conditions(n.a, slots, count, holds);
      for (int l = 0; l < count; ++l) out.set(l, {holds[l] ? 1.0 : 0.0});
      return;
    }
    case ValueCode::Op::Constant: break;
  }
}

void LaneEvaluator::one_by_one(int i, Evaluator::Slots& slots, int count, LaneValues& out) {
  const int64_t first = slots[lane_];
  for (int l = 0; l < count; ++l) {
    slots[lane_] = first + l;
    out.set(l, evaluator_.value(s_, i, slots));
  }
  slots[lane_] = first;
}

void LaneEvaluator::elements(Evaluator::Slots& slots, int count, LaneValues& out) {
  if (s_.reducer == Reducer::None) return values(s_.value, slots, count, out);
  const size_t rank = s_.extents.size(), depth = s_.reduce_extents.size();
  const bool sums = s_.reducer == Reducer::Sum, floats = is_float(s_.type);
  const double start = sums ? 0 : s_.reducer == Reducer::Max ? -HUGE_VAL : HUGE_VAL;
  std::array<double, kLanes> magnitude{}, apart{};
  for (int l = 0; l < count; ++l) out.set(l, {start});
  std::fill(slots.begin() + static_cast<int64_t>(rank), slots.end(), 0);
  int64_t terms = 1;
  for (int64_t extent : s_.reduce_extents) terms *= extent;
  LaneValues term;
  while (true) {
    values(s_.value, slots, count, term);
    if (sums && floats) {
      add_term(term, count, out, magnitude.data(), apart.data());
    } else if (sums) {
      for (int l = 0; l < count; ++l) {
        magnitude[l] += std::abs(term.v[l]);
        apart[l] += term.apart[l];
        out.v[l] = wrapped_sum(s_.type, out.v[l], term.v[l]);
        out.e[l] += term.e[l];
      }
    } else {
      for (int l = 0; l < count; ++l) {
        const bool better =
            s_.reducer == Reducer::Max ? term.v[l] > out.v[l] : term.v[l] < out.v[l];
        if (better || std::isnan(term.v[l])) out.v[l] = term.v[l];
        out.e[l] = std::max(out.e[l], term.e[l]);
      }
    }
    size_t d = depth;
    while (d > 0 && ++slots[rank + d - 1] == s_.reduce_extents[d - 1]) slots[rank + --d] = 0;
    if (d == 0) break;
  }
  if (!sums) return;
  const double sum = s_.roundoff * granted_roundings(terms);
  const double parts = s_.apart_terms > 0 ? s_.roundoff * granted_roundings(s_.apart_terms) : 0;
  for (int l = 0; l < count; ++l) out.e[l] += magnitude[l] * sum + apart[l] * parts;
}

}  // namespace tilewright::oracle
