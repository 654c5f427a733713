#include "runtime/tolerance.h"

#include <algorithm>
#include <cmath>

#include "ir/visitor.h"
#include "runtime/element.h"

namespace tilewright {
namespace {

constexpr double kConfidence = 8;        // l of the probabilistic bound
constexpr double kExtraRoundings = 32;   // elementary functions and the operations around the sum

bool rounds(const Expr& e) {
  bool operation = e.kind() == ExprKind::Binary || e.kind() == ExprKind::Unary;
  return operation && is_float(e.type().elem);
}

// A cast to a float type that cannot hold every value of its operand.
bool narrows(const Expr& e) {
  const auto* cast = e.as<CastNode>();
  if (cast == nullptr || !is_float(e.type().elem)) return false;
  ElemType from = cast->value.type().elem;
  if (!is_float(from)) return bits_of(from) > 8;
  return unit_roundoff(e.type().elem) > unit_roundoff(from);
}

}  // namespace

double Tolerance::bound(const Oracle::Value& want) const {
  if (exact()) return 0;
  auto terms = static_cast<double>(std::max<int64_t>(want.terms, 1));
  double growth = std::min(terms, kConfidence * std::sqrt(terms)) + kExtraRoundings;
  double computed = want.magnitude * (arithmetic * growth + 2 * storage);
  return computed + ulp_at(out, std::abs(want.value) + computed);
}

Tolerance tolerance_of(const Workload& workload) {
  Tolerance t;
  t.out = workload.output()->elem;
  for (const Stage& stage : workload.stages) {
    bool last = &stage == &workload.stages.back();
    if (stage.reducer == Reducer::Sum && is_float(stage.output->elem)) {
      t.arithmetic = std::max(t.arithmetic, unit_roundoff(stage.output->elem));
    }
    for_each_expr(stage.value, [&](const Expr& e) {
      if (rounds(e)) t.arithmetic = std::max(t.arithmetic, unit_roundoff(e.type().elem));
      // The last rounding of the result is the output's own, which the bound adds anyway.
      bool result = last && stage.reducer == Reducer::None && e.same_as(stage.value);
      if (narrows(e) && !result) t.storage = std::max(t.storage, unit_roundoff(e.type().elem));
    });
  }
  return t;
}

}  // namespace tilewright
