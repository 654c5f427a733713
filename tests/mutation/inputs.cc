#include "tests/mutation/inputs.h"

#include <cmath>
#include <limits>

#include "ir/visitor.h"
#include "ir/weight_formats.h"
#include "runtime/tensor/element.h"
#include "schedule/trial.h"

namespace tilewright::mutation {
namespace {

double float_value(Inputs inputs, double base, Rng& rng) {
  const uint64_t draw = rng.below(64);
  switch (inputs) {
    case Inputs::Uniform:
    case Inputs::Ends: return base;
    case Inputs::Integers: return static_cast<double>(rng.below(5)) - 2;
    case Inputs::Spikes:
      return draw < 12 ? std::ldexp(base < 0 ? -1.0 : 1.0, static_cast<int>(draw) - 6) : 0;
    case Inputs::Negative: return -1 - std::abs(base);
    case Inputs::Zeros: return draw < 8 ? base : draw % 2 == 0 ? 0.0 : -0.0;
    case Inputs::Large: return 40 + 50 * base;
    case Inputs::Vast: return 3000 * base - 4000;
    case Inputs::Infinite:
    case Inputs::Special:
      if (draw == 0) return std::numeric_limits<double>::infinity();
      if (draw == 1) return -std::numeric_limits<double>::infinity();
      if (draw == 2 && inputs == Inputs::Special) return std::numeric_limits<double>::quiet_NaN();
      return base;
  }
  return base;
}

double integer_value(const OperandInfo& info, Inputs inputs, double base, Rng& rng) {
  const uint64_t draw = rng.below(4);
  double least = 0, most = 0;
  if (info.range) {
    least = info.range->min;
    most = info.range->max;
  } else {
    const int bits = std::min(bits_of(info.elem), 8);
    const bool is_signed = tilewright::info(info.elem).kind == ElemKind::Int;
    least = is_signed ? -std::ldexp(1, bits - 1) : 0;
    most = std::ldexp(1, is_signed ? bits - 1 : bits) - 1;
  }
  switch (inputs) {
    case Inputs::Ends: return draw < 2 ? least : draw == 2 ? most : base;
    case Inputs::Negative: return least;
    case Inputs::Large: return most;
    case Inputs::Zeros: return draw == 0 || least > 0 ? base : 0;
    default: return base;
  }
}

}  // namespace

const char* name_of(Inputs inputs) {
  constexpr const char* kNames[] = {"uniform", "integers", "spikes",   "negative", "zeros",
                                    "large",   "vast",     "infinite", "special",  "ends"};
  return kNames[static_cast<size_t>(inputs)];
}

bool are_defined(Inputs inputs, const Workload& workload) {
  if (inputs != Inputs::Infinite && inputs != Inputs::Special) return true;
  if (!weight_formats(workload).empty()) return false;
  bool sums = true, extremes = true;
  for (const tilewright::Stage& stage : workload.stages) {
    const bool is_sum = stage.reducer == Reducer::None || stage.reducer == Reducer::Sum;
    sums = sums && is_sum;
    extremes = extremes && !is_sum && stage.value.as<LoadNode>() != nullptr;
    for_each_expr(stage.value, [&](const Expr& e) {
      if (e.type().elem == ElemType::index || e.as<LoadNode>() != nullptr) return;
      const auto* n = e.as<BinaryNode>();
      const bool exact = n != nullptr && (n->op == BinaryOp::Add || n->op == BinaryOp::Sub ||
                                          n->op == BinaryOp::Mul);
      const bool floats = e.as<CastNode>() != nullptr && is_float(e.type().elem);
      sums = sums && (exact || floats || e.as<FloatImmNode>() != nullptr);
    });
  }
  return sums || (extremes && inputs == Inputs::Infinite);
}

int64_t count_of(const OperandInfo& info) {
  int64_t count = 1;
  for (int64_t extent : info.shape) count *= extent;
  return count;
}

void fill(const OperandInfo& info, const std::vector<OperandInfo>& all, Inputs inputs,
          uint64_t seed, void* data) {
  const OperandValues values(info, all, seed);
  Rng rng(seed * 1000003 + static_cast<uint64_t>(inputs));
  const bool free_float = is_float(info.elem) && bits_of(info.elem) >= 16 && !info.range;
  const bool integer = is_integer(info.elem) && info.elem != ElemType::i1;
  for (int64_t i = 0; i < count_of(info); ++i) {
    const double base = values.at(i);
    double value = base;
    if (info.pattern) {
      if (free_float && base != 0) value = float_value(inputs, base, rng);
    } else if (free_float) {
      value = float_value(inputs, base, rng);
    } else if (integer) {
      value = integer_value(info, inputs, base, rng);
    }
    store_element(info.elem, data, i, value);
  }
}

bool allowed(ElemType elem, double got, const Oracle::Value& want) {
  if (got == want.value || (std::isnan(got) && std::isnan(want.value))) return true;
  return std::abs(got - want.value) <= allowed_error(elem, want);
}

}  // namespace tilewright::mutation
