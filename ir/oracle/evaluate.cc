#include "ir/oracle/evaluate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "base/error.h"
#include "ir/buffer.h"
#include "ir/oracle/oracle_evaluator.h"
#include "ir/oracle/oracle_math.h"
#include "ir/oracle/oracle_shape.h"
#include "ir/oracle/oracle_whole.h"

namespace tilewright {

namespace oracle {
double granted_roundings(int64_t terms) {
  double n = static_cast<double>(terms);
  return std::min(n, 4 * std::sqrt(n));
}

Evaluator::Evaluator(Code c, std::vector<ElementReader> r, NarrowSums n)
    : code(std::move(c)), narrow(n), readers_(std::move(r)), memory_(code.stages.size()) {}

int64_t Evaluator::index(const StageCode& s, int i, Slots& slots) {
  const IndexCode& n = s.indices[i];
  switch (n.op) {
    case IndexCode::Op::Linear: {
      int64_t sum = n.constant;
      for (auto [slot, coefficient] : n.terms) sum += slots[slot] * coefficient;
      return sum;
    }
    case IndexCode::Op::Add: return index(s, n.a, slots) + index(s, n.b, slots);
    case IndexCode::Op::Sub: return index(s, n.a, slots) - index(s, n.b, slots);
    case IndexCode::Op::Mul: return index(s, n.a, slots) * index(s, n.b, slots);
    case IndexCode::Op::FloorDiv: return floor_div(index(s, n.a, slots), index(s, n.b, slots));
    case IndexCode::Op::FloorMod: return floor_mod(index(s, n.a, slots), index(s, n.b, slots));
    case IndexCode::Op::Min: return std::min(index(s, n.a, slots), index(s, n.b, slots));
    case IndexCode::Op::Max: return std::max(index(s, n.a, slots), index(s, n.b, slots));
    case IndexCode::Op::Select:
      return cond(s, n.a, slots) ? index(s, n.b, slots) : index(s, n.c, slots);
    case IndexCode::Op::OfValue: return static_cast<int64_t>(value(s, n.a, slots).v);
  }
  return 0;
}

bool Evaluator::cond(const StageCode& s, int i, Slots& slots) {
  const CondCode& n = s.conds[i];
  switch (n.op) {
    case CondCode::Op::Constant: return n.value;
    case CondCode::Op::And: return cond(s, n.a, slots) && cond(s, n.b, slots);
    case CondCode::Op::Or: return cond(s, n.a, slots) || cond(s, n.b, slots);
    case CondCode::Op::Not: return !cond(s, n.a, slots);
    case CondCode::Op::CompareIndices:
      return compare(n.comparison, index(s, n.a, slots), index(s, n.b, slots));
    case CondCode::Op::CompareValues:
      return compare(n.comparison, value(s, n.a, slots).v, value(s, n.b, slots).v);
    case CondCode::Op::OfValue: return value(s, n.a, slots).v != 0;
  }
  return false;
}

double Evaluator::read(const ValueCode& n, int64_t flat) {
  bool inside = flat >= 0 && flat < code.input_elements[n.source];
  TW_ASSERT(inside, fmt::format("{} has {} elements, element {} is read", code.inputs[n.source],
                                code.input_elements[n.source], flat));
  return readers_[n.source](flat);
}

void Evaluator::read_inputs(int input, int64_t first, std::span<double> out) const {
  if (!blocks.empty() && blocks[input]) return blocks[input](first, out);
  for (double& value : out) value = read_input(input, first++);
}

Approx Evaluator::binary(const ValueCode& n, Approx a, Approx b) {
  Approx result = apply(n.binary, n.type, n.roundoff, a, b);
  const double x = std::abs(a.v) + a.apart, y = std::abs(b.v) + b.apart;
  const bool product = n.binary == BinaryOp::Mul && (a.apart > 0 || b.apart > 0);
  if (n.apart || product) {
    const double more = (n.apart ? x + y : x * y) - std::abs(result.v);
    result.apart = std::isfinite(more) ? std::max(0.0, more) : 0;
  }
  return result;
}

Approx Evaluator::value(const StageCode& s, int i, Slots& slots) {
  const ValueCode& n = s.values[i];
  switch (n.op) {
    case ValueCode::Op::Constant: return {n.constant, 0};
    case ValueCode::Op::OfIndex: return {static_cast<double>(index(s, n.a, slots)), 0};
    case ValueCode::Op::OfCond: return {cond(s, n.a, slots) ? 1.0 : 0.0, 0};
    case ValueCode::Op::Cast: {
      Approx a = value(s, n.a, slots), result = convert(n.from, n.type, a);
      result.apart = n.apart ? apart_of_code(n.from, a.v) : a.apart;
      return result;
    }
    case ValueCode::Op::Unary: return apply(n.unary, n.type, n.roundoff, value(s, n.a, slots));
    case ValueCode::Op::Binary: {
      Approx a = value(s, n.a, slots);
      return binary(n, a, value(s, n.b, slots));
    }
    case ValueCode::Op::Select:
      return cond(s, n.a, slots) ? value(s, n.b, slots) : value(s, n.c, slots);
    case ValueCode::Op::Input: return {read(n, index(s, n.a, slots)), 0};
    case ValueCode::Op::Stage: return element(n.source, index(s, n.a, slots));
  }
  return {};
}

// How far index `i` moves when `slot` grows by one; false when it does not move evenly.
bool Evaluator::step_of(const StageCode& s, int i, int slot, int64_t& step) const {
  const IndexCode& n = s.indices[i];
  step = 0;
  if (slot >= 64) return false;
  if ((n.uses >> slot & 1) == 0) return true;
  int64_t a = 0, b = 0;
  switch (n.op) {
    case IndexCode::Op::Linear:
      for (auto [used, coefficient] : n.terms) {
        if (used == slot) step += coefficient;
      }
      return true;
    case IndexCode::Op::Add:
    case IndexCode::Op::Sub:
      if (!step_of(s, n.a, slot, a) || !step_of(s, n.b, slot, b)) return false;
      step = n.op == IndexCode::Op::Add ? a + b : a - b;
      return true;
    case IndexCode::Op::Mul: {
      const IndexCode& factor = s.indices[n.b];
      if (factor.op != IndexCode::Op::Linear || !factor.terms.empty()) return false;
      if (!step_of(s, n.a, slot, a)) return false;
      step = a * factor.constant;
      return true;
    }
    default: return false;
  }
}

// Takes value `i` apart into factors that are read at even steps along the innermost reduce axis.
bool Evaluator::find_strands(const StageCode& s, int i, Slots& slots,
                             std::vector<Strand>& strands) {
  const ValueCode& n = s.values[i];
  const int inner = static_cast<int>(slots.size()) - 1;
  if (n.op == ValueCode::Op::Binary && n.binary == BinaryOp::Mul && n.type == s.type &&
      strands.empty()) {
    return find_strands(s, n.a, slots, strands) && find_strands(s, n.b, slots, strands) &&
           strands.size() <= 2;
  }
  if (n.op == ValueCode::Op::Cast) {
    return is_exact(n.from, n.type) && find_strands(s, n.a, slots, strands);
  }
  if (n.op == ValueCode::Op::Select) {
    const ValueCode& other = s.values[n.c];
    bool masks = other.op == ValueCode::Op::Constant && other.constant == 0;
    if (!masks || inner >= 64 || (s.conds[n.a].uses >> inner & 1) != 0) return false;
    if (!cond(s, n.a, slots)) return strands.push_back({.zero = true}), true;
    return find_strands(s, n.b, slots, strands);
  }
  if (n.op != ValueCode::Op::Input) return false;
  Strand strand{.reader = &readers_[n.source]};
  if (!step_of(s, n.a, inner, strand.step)) return false;
  strand.at = index(s, n.a, slots);
  read(n, strand.at);  // both ends lie inside, and so does what is between
  read(n, strand.at + strand.step * (s.reduce_extents.back() - 1));
  strands.push_back(strand);
  return true;
}

// Adds the products along the innermost reduce axis, which stands at 0; false when the terms are
// of another form. This is the oracle's one hot loop.
bool Evaluator::sum_of_products(const StageCode& s, Slots& slots, double& sum, double& magnitude,
                                NarrowError* lost) {
  std::vector<Strand> strands;
  strands.reserve(2);
  if (!find_strands(s, s.value, slots, strands)) return false;
  for (const Strand& strand : strands) {
    if (strand.zero) return true;
  }
  const Strand& x = strands.front();
  const Strand* y = strands.size() > 1 ? &strands[1] : nullptr;
  double row = 0, row_magnitude = 0;
  for (int64_t k = 0; k < s.reduce_extents.back(); ++k) {
    double term = (*x.reader)(x.at + k * x.step);
    if (y != nullptr) term *= (*y->reader)(y->at + k * y->step);
    row += term;
    row_magnitude += std::abs(term);
    if (lost != nullptr) lost->add(term);
  }
  if (is_float(s.type)) {
    sum += row;
  } else {
    // Wrapping once at the end is the same as wrapping each product and sum, while f64 is exact.
    if (row_magnitude >= 0x1p53) return false;
    sum = wrapped_sum(s.type, sum, row);
  }
  magnitude += row_magnitude;
  return true;
}

Approx Evaluator::reduce(const StageCode& s, Slots& slots) {
  const size_t rank = s.extents.size(), depth = s.reduce_extents.size();
  const bool sums = s.reducer == Reducer::Sum;
  const bool floats = is_float(s.type);
  Approx total{sums ? 0.0 : s.reducer == Reducer::Max ? -HUGE_VAL : HUGE_VAL, 0};
  if (product(s.reduce_extents) == 0) return total;  // over nothing
  double magnitude = 0, apart = 0;
  NarrowError narrow_error(narrow);
  NarrowError* lost = is_narrow(s) ? &narrow_error : nullptr;
  bool even = sums && depth > 0;  // until the terms prove to be of another form
  slots.resize(rank + depth, 0);
  const double term_roundoff = s.values[s.value].op == ValueCode::Op::Binary ? s.roundoff : 0;
  while (true) {
    double row_magnitude = 0;
    if (even) even = sum_of_products(s, slots, total.v, row_magnitude, lost);
    if (even) {
      magnitude += row_magnitude;
      total.e += row_magnitude * term_roundoff;
      slots[rank + depth - 1] = s.reduce_extents.back() - 1;
    } else {
      Approx term = value(s, s.value, slots);
      magnitude += std::abs(term.v);
      apart += term.apart;
      if (sums) {
        total.v = floats ? total.v + term.v : wrapped_sum(s.type, total.v, term.v);
        total.e += term.e;
        if (lost != nullptr) lost->add(term.v);
      } else {
        bool better = s.reducer == Reducer::Max ? term.v > total.v : term.v < total.v;
        if (better || std::isnan(term.v)) total.v = term.v;
        total.e = std::max(total.e, term.e);
      }
    }
    size_t d = depth;
    while (d > 0 && ++slots[rank + d - 1] == s.reduce_extents[d - 1]) slots[rank + --d] = 0;
    if (d == 0) break;
  }
  if (sums) total.e += magnitude * s.roundoff * granted_roundings(product(s.reduce_extents));
  // Of terms that cancel, n are summed by themselves, as inner products are (Higham, Accuracy and
  // Stability of Numerical Algorithms, 3.1): the sum of a (q - z) s is off by at most
  // n u (sum |a q| + |z| sum |a|) |s|. What is left of them is added up as the terms are.
  if (s.apart_terms > 0) total.e += apart * s.roundoff * granted_roundings(s.apart_terms);
  if (lost != nullptr) total.e += lost->error();
  return total;
}

Approx Evaluator::element(int stage, int64_t flat) {
  const StageCode& s = code.stages[stage];
  const bool remember = s.remembered && computed.empty();
  if (!computed.empty() && !computed[stage].v.empty()) return computed[stage].at(flat);
  if (remember) {
    auto it = memory_[stage].find(flat);
    if (it != memory_[stage].end()) return it->second;
  }
  Slots slots(s.extents.size());
  const int64_t rest = unflatten(flat, s.extents, slots.data());
  TW_ASSERT(flat >= 0 && rest == 0, fmt::format("element {} lies beyond the stage", flat));
  Approx result = s.reducer == Reducer::None ? value(s, s.value, slots) : reduce(s, slots);
  if (remember) memory_[stage].emplace(flat, result);
  return result;
}

Oracle::Value output_value(const Code& code, Approx a) {
  const StageCode& last = code.stages.back();
  double magnitude = std::abs(a.v);
  double unit = last.roundoff * granted_roundings(last.terms);
  if (unit > 0 && std::isfinite(a.e)) magnitude = std::max(magnitude, a.e / unit);
  double error = a.e > 0 ? a.e + smallest_normal(last.type) : a.e;
  return {a.v, magnitude, last.terms, error};
}

}  // namespace oracle

struct Oracle::Impl {
  const Workload* workload;
  std::map<std::string, int64_t> dims;
  std::vector<ElementReader> readers;
  oracle::Evaluator single;
  std::vector<BlockReader> blocks = {};  // by input; may be empty

  // Made when first asked for; it serves one evaluation.
  oracle::Whole& whole() {
    if (!kept) {
      kept = std::make_unique<oracle::Whole>(*workload, dims, readers, blocks, single.narrow);
    }
    return *kept;
  }
  std::unique_ptr<oracle::Whole> take_whole() {
    whole();
    return std::move(kept);
  }

  std::unique_ptr<oracle::Whole> kept = {};
};

Oracle::Oracle(const Workload& workload, std::map<std::string, ElementReader> inputs,
               std::map<std::string, int64_t> dims, NarrowSums narrow) {
  oracle::Code code = oracle::compile(workload, dims);
  std::vector<ElementReader> readers;
  for (const std::string& name : code.inputs) {
    auto it = inputs.find(name);
    if (it == inputs.end()) {
      throw Error(fmt::format("the input {} of {} is missing", name, workload.op));
    }
    readers.push_back(std::move(it->second));
  }
  oracle::Evaluator single(std::move(code), readers, narrow);
  impl_.reset(new Impl{&workload, std::move(dims), std::move(readers), std::move(single)});
}

Oracle::~Oracle() = default;

void Oracle::read_blocks(const std::string& input, BlockReader reader) {
  const std::vector<std::string>& names = impl_->single.code.inputs;
  impl_->blocks.resize(names.size());
  impl_->kept.reset();
  for (size_t i = 0; i < names.size(); ++i) {
    if (names[i] == input) impl_->blocks[i] = reader;
  }
}

Oracle::Value Oracle::at(int64_t flat_index) {
  oracle::Evaluator& e = impl_->single;
  return oracle::output_value(e.code,
                              e.element(static_cast<int>(e.code.stages.size()) - 1, flat_index));
}

void Oracle::for_all(const TakeFn& take, const ParallelFn& parallel) {
  impl_->take_whole()->run(take, parallel);
}

Oracle::WholeCost Oracle::whole_cost() const { return impl_->whole().cost(); }

std::optional<Oracle::WholeCost> Oracle::sums_cost(int64_t width) const {
  return impl_->whole().sums_cost(width);
}

Oracle::Sums Oracle::sums(int64_t width, uint64_t seed, const ParallelFn& parallel) {
  return impl_->take_whole()->run_sums(width, seed, parallel);
}

}  // namespace tilewright
