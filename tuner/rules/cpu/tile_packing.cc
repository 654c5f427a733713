// The order of packed operands: that of the loops that read them.
#include <algorithm>
#include <map>
#include <numeric>

#include "ir/predicates.h"
#include "tuner/rules/cpu/tile_plan.h"

namespace tilewright {
namespace {

// The digit of an index for one of its factors; undefined for a factor of 1.
Expr digit(const Expr& x, const std::vector<int64_t>& f, size_t level) {
  if (f[level] == 1) return {};
  int64_t inner = std::accumulate(f.begin() + level + 1, f.end(), int64_t{1}, std::multiplies<>());
  bool outermost = std::all_of(f.begin(), f.begin() + level, [](int64_t v) { return v == 1; });
  Expr e = inner == 1 ? x : floordiv(x, inner);
  return outermost ? e : floormod(e, f[level]);
}

}  // namespace

int TilePlan::grouped_iterator(const Expr& index) const {
  auto* quotient = index.as<BinaryNode>();
  if (!quotient || quotient->op != BinaryOp::FloorDiv || !as_int(quotient->b)) return -1;
  const int iter = plain_iterator(node(), quotient->a);
  const bool reduces =
      iter >= 0 && node().iters[static_cast<size_t>(iter)].kind == IterKind::Reduce;
  return reduces ? iter : -1;
}

IndexMap TilePlan::packing(const std::vector<Expr>& indices, bool words) const {
  std::vector<std::pair<Level, int>> order = nest();
  if (words) {
    std::stable_partition(order.begin(), order.end(), [&](const auto& loop) {
      return loop.first != Level::R2 || is_terms(loop.second);
    });
  }
  std::map<int, int> dimension, group;
  for (size_t d = 0; d < indices.size(); ++d) {
    const int divided = grouped_iterator(indices[d]);
    if (divided >= 0) group[divided] = static_cast<int>(d);
    dimension[plain_iterator(node(), indices[d])] = static_cast<int>(d);
  }
  return IndexMap::make(static_cast<int>(indices.size()), [&](const std::vector<Var>& x) {
    std::vector<Expr> digits;
    for (size_t d = 0; d < indices.size(); ++d) {
      if (reads_memory(indices[d])) digits.push_back(x[d]);
    }
    std::map<int, int> groups = group;  // a group's digit stands at its iterator's outermost loop
    for (auto [level, i] : order) {
      if (auto own = groups.extract(i)) digits.push_back(x[static_cast<size_t>(own.mapped())]);
      auto it = dimension.find(i);
      if (it == dimension.end()) continue;
      if (Expr e = digit(x[it->second], factors(i), place_of(level)); e.defined()) {
        digits.push_back(e);
      }
    }
    return digits;
  });
}

std::optional<IndexMap> TilePlan::rows_together(const std::vector<Expr>& indices) const {
  std::vector<int64_t> rows;  // per dimension
  for (const Expr& index : indices) {
    int i = plain_iterator(node(), index);
    bool spatial = i >= 0 && node().iters[static_cast<size_t>(i)].kind == IterKind::Spatial;
    rows.push_back(spatial && !dynamic(i) ? factor(i, Level::S3) : 1);
  }
  if (std::all_of(rows.begin(), rows.end(), [](int64_t r) { return r == 1; })) return std::nullopt;
  return IndexMap::make(static_cast<int>(indices.size()), [&](const std::vector<Var>& x) {
    std::vector<Expr> digits;
    for (size_t d = 0; d < x.size(); ++d) {
      digits.push_back(rows[d] == 1 ? Expr(x[d]) : floordiv(x[d], rows[d]));
    }
    for (size_t d = 0; d < x.size(); ++d) {
      if (rows[d] > 1) digits.push_back(floormod(x[d], rows[d]));
    }
    return digits;
  });
}

}  // namespace tilewright
