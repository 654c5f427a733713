#include "tuner/cpu/iterations.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "ir/predicates.h"
#include "ir/visitor.h"

namespace tilewright {
namespace {

constexpr int64_t kFewDraws = 48, kMostDraws = 512;
constexpr int64_t kFewIterations = 64;  // of a loop that is enumerated

// Whether loops decide conditions in it; conditions on data are no such.
bool has_conditions(const Stmt& body) {
  bool found = false;
  auto decided = [&](const Expr& cond) { found |= cond.type().is_scalar() && !reads_memory(cond); };
  for_each_stmt(body, [&](const Stmt& s) {
    if (auto* n = s.as<IfNode>()) decided(n->cond);
  });
  for_each_expr(body, [&](const Expr& e) {
    auto* call = e.as<CallNode>();
    if (auto* n = e.as<SelectNode>()) decided(n->cond);
    if (call && call->op == CallOp::IfThenElse) decided(call->args[0]);
  });
  return found;
}

// The iterations of a loop that is enumerated; 1 for others.
int64_t enumerated(const ForNode& n) {
  const bool runs = n.for_kind == ForKind::Serial || n.for_kind == ForKind::Parallel;
  const int64_t extent = as_int(n.extent).value_or(0);
  return runs && extent > 1 && extent <= kFewIterations && has_conditions(n.body) ? extent : 1;
}

}  // namespace

// Finds each loop's place in the draws, and the largest number of combinations around a statement.
class Iterations::Places : public Visitor {
 public:
  int64_t most = 1;
  std::unordered_map<const ForNode*, Place> found;

 protected:
  void visit_for(const ForNode& n) override {
    if (n.for_kind == ForKind::Unrolled) return Visitor::visit_for(n);
    const int64_t extent = enumerated(n), outer = now_;
    const bool fits = extent > 1 && outer * extent <= kMostDraws;
    found[&n] = {depth_, outer, fits ? extent : 1};
    if (fits) now_ *= extent;
    most = std::max(most, now_);
    ++depth_;
    Visitor::visit_for(n);
    --depth_;
    now_ = outer;
  }

 private:
  int64_t now_ = 1;
  size_t depth_ = 0;
};

Iterations::Iterations(const Program& nest) {
  Places places;
  places(nest.body);
  const int64_t rounds = (kFewDraws + places.most - 1) / places.most;
  values_.resize(static_cast<size_t>(rounds * places.most));
  places_ = std::move(places.found);
  for (IndexValues& v : values_) {
    for (const DimVar& d : nest.dims) v.set(d.var, d.max);
  }
}

Iterations::Draws Iterations::all() const {
  Draws all(values_.size());
  std::iota(all.begin(), all.end(), 0);
  return all;
}

double Iterations::draw(const ForNode& loop, const Draws& draws) {
  // Square roots of numbers without square factors are independent.
  static constexpr double kSteps[] = {1.4142135623730951, 1.7320508075688772, 2.23606797749979,
                                      2.6457513110645907, 3.3166247903553998, 3.605551275463989,
                                      4.123105625617661,  4.358898943540674,  4.795831523312719};
  const Place& place = places_.at(&loop);
  const double step = kSteps[place.depth % std::size(kSteps)];
  double sum = 0;
  for (int d : draws) {
    IndexValues& v = values_[static_cast<size_t>(d)];
    const int64_t extent = std::max<int64_t>(0, v.at(loop.extent));
    double part = (d + 1) * step;
    part -= std::floor(part);
    const int64_t drawn = static_cast<int64_t>(part * static_cast<double>(extent));
    v.set(loop.var, v.at(loop.min) + (place.extent > 1 ? d / place.outer % place.extent : drawn));
    sum += static_cast<double>(extent);
  }
  return sum / static_cast<double>(draws.size());
}

void Iterations::set(const ForNode& loop, int64_t distance) {
  for (IndexValues& v : values_) v.set(loop.var, v.at(loop.min) + distance);
}

void Iterations::define(const LetNode& let) {
  for (IndexValues& v : values_) v.define(let.var, let.value);
}

std::pair<Iterations::Draws, Iterations::Draws> Iterations::parted(const Expr& condition,
                                                                   const Draws& draws) const {
  std::pair<Draws, Draws> parts;
  for (int d : draws) (at(d).at(condition) != 0 ? parts.first : parts.second).push_back(d);
  return parts;
}

}  // namespace tilewright
