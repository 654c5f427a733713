// region_stored() finds the box of a buffer that one run of a statement fills. has_every_element()
// checks whether all statements together fill the whole buffer.
#include <algorithm>
#include <map>

#include "ir/compare.h"
#include "ir/visitor.h"
#include "schedule/affine.h"
#include "schedule/primitives/region.h"
#include "schedule/tree.h"

namespace tilewright {
namespace {

using Coefficients = std::map<const ExprNode*, int64_t>;
using Ranges = std::map<const ExprNode*, Range>;

bool uses_any(const Expr& e, const Ranges& vars) {
  bool found = false;
  for_each_expr(e, [&](const Expr& x) { found |= vars.count(x.get()) > 0; });
  return found;
}

// Adds scale * (the coefficient of each variable of `vars` in e); false when e is not affine in
// them.
bool add_coefficients(const Expr& e, int64_t scale, const Ranges& vars, Coefficients& out) {
  if (!uses_any(e, vars)) return true;
  if (e.as<VarNode>()) {
    out[e.get()] += scale;
    return true;
  }
  auto* binary = e.as<BinaryNode>();
  if (!binary) return false;
  const Expr &a = binary->a, &b = binary->b;
  switch (binary->op) {
    case BinaryOp::Add:
      return add_coefficients(a, scale, vars, out) && add_coefficients(b, scale, vars, out);
    case BinaryOp::Sub:
      return add_coefficients(a, scale, vars, out) && add_coefficients(b, -scale, vars, out);
    case BinaryOp::Mul:
      if (auto c = as_int(b)) return add_coefficients(a, scale * *c, vars, out);
      if (auto c = as_int(a)) return add_coefficients(b, scale * *c, vars, out);
      return false;
    default: return false;
  }
}

// The number of consecutive values that `binding` takes while `vars` run over their ranges. Nothing
// when it is not affine in them; -1 when it skips values.
std::optional<Expr> consecutive_values(const Expr& binding, const Ranges& vars) {
  Coefficients coefficients;
  if (!add_coefficients(binding, 1, vars, coefficients)) return std::nullopt;
  std::vector<std::pair<int64_t, Expr>> steps;
  for (const auto& [var, coefficient] : coefficients) {
    if (coefficient != 0) steps.emplace_back(std::abs(coefficient), vars.at(var).extent);
  }
  std::sort(steps.begin(), steps.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  Expr values = 1;
  for (size_t i = 0; i < steps.size(); ++i) {
    const auto& [step, extent] = steps[i];
    auto so_far = as_int(values);
    // After a dynamic extent, only a step of exactly that size could be compared; none is made.
    if (!so_far || step > *so_far) return Expr(-1);
    values = simplify(values + Expr(step) * (extent - 1));
  }
  return values;
}

// The loops on the path to the block, as ranges.
Ranges loops_on(const Path& path) {
  Ranges ranges;
  for (const Stmt& s : path) {
    if (auto* loop = s.as<ForNode>()) ranges[loop->var.get()] = {loop->min, loop->extent};
  }
  return ranges;
}

// The number of distinct points of the spatial iteration domain that one run visits, or nothing
// when it is not known.
std::optional<Expr> count_points(const BlockNode& block, const Ranges& loops) {
  Expr count = 1;
  bool affine = true;
  for (const IterVar& iter : block.iters) {
    if (iter.kind != IterKind::Spatial) continue;
    auto values = consecutive_values(iter.binding, loops);
    affine = affine && values.has_value();
    if (!affine) break;
    if (is_int(*values, -1)) return std::nullopt;
    // The block's predicate cuts a tile wider than the whole domain off at the domain's end.
    auto visited = as_int(*values), domain = as_int(iter.extent);
    count = count * (visited && domain ? Expr(std::min(*visited, *domain)) : *values);
  }
  if (affine) return count;
  // Floors of a fused loop: each value of the loop is a distinct point.
  count = 1;
  for (const auto& [var, range] : loops) {
    bool used = false;
    for (const IterVar& iter : block.iters) {
      bool uses = false;
      for_each_expr(iter.binding, [&, v = var](const Expr& e) { uses |= e.get() == v; });
      used |= uses && iter.kind == IterKind::Spatial;
    }
    if (used) count = count * range.extent;
  }
  return count;
}

void bind_loops(const Path& path, Analyzer& analyzer) {
  for (const Stmt& s : path) {
    auto* loop = s.as<ForNode>();
    if (loop) analyzer.bind(loop->var, loop->min, loop->extent);
  }
}

// True when the block's predicate cuts off only points outside the iteration domain.
bool runs_where_it_may(const BlockNode& block, const Path& path, Analyzer& analyzer) {
  analyzer.push();
  bind_loops(path, analyzer);
  bool fits = is_domain_predicate(analyzer, block);
  analyzer.pop();
  return fits;
}

// True when no two points that the bindings reach, including those that the predicate cuts off, are
// stored in the same element. Otherwise the box of a partial tile at the edge holds elements that
// it does not store. For example, elements of `T[v0 * 6 + v1]` beyond v1 = 5 belong to the next v0.
bool stores_apart(const BlockNode& block, const StoreNode& store, const Path& path,
                  Analyzer& analyzer) {
  analyzer.push();
  bind_loops(path, analyzer);
  std::vector<Stmt> points;
  bool hangs_over = false;
  for (const IterVar& iter : block.iters) {
    if (iter.kind != IterKind::Spatial) continue;
    Interval reach = analyzer.bounds(iter.binding);
    hangs_over = hangs_over || !analyzer.prove(iter.binding < iter.extent) ||
                 !analyzer.prove(iter.binding >= Expr(0));
    analyzer.bind(iter.var, reach);
    Expr values = reach.is_bounded() ? Expr(reach.max - reach.min + 1) : Expr(Interval::kPosInf);
    points.push_back(make_for(iter.var, Expr(0), values, ForKind::Serial, block.body));
  }
  std::vector<IndexForm> indices;
  for (const Expr& index : store.indices) indices.push_back({index, 0});
  bool apart = !hangs_over || recoverable(indices, points, analyzer).size() == points.size();
  analyzer.pop();
  return apart;
}

}  // namespace

std::optional<Region> region_stored(const Stmt& body, const BlockNode& block, const Buffer& buffer,
                                    Analyzer& analyzer) {
  Path path = path_to(body, &block);
  if (path.empty() || !runs_where_it_may(block, path, analyzer)) return std::nullopt;
  Ranges loops = loops_on(path);
  std::vector<const StoreNode*> stores;
  for_each_stmt(block.body, [&](const Stmt& s) {
    auto* store = s.as<StoreNode>();
    if (store && store->buffer == buffer) stores.push_back(store);
  });
  if (stores.size() != 1 || stores[0]->predicate.defined()) return std::nullopt;
  if (block.body.get() != stores[0]) return std::nullopt;  // the store may be skipped
  if (!stores_apart(block, *stores[0], path, analyzer)) return std::nullopt;

  VarMap bindings;
  for (const IterVar& iter : block.iters) bindings[iter.var.get()] = iter.binding;
  std::vector<Expr> indices;
  for (const Expr& index : stores[0]->indices) {
    indices.push_back(analyzer.simplify(substitute(index, bindings)));
  }
  Region region = cover(indices, buffer->shape, loops);
  auto points = count_points(block, loops);
  if (!points) return std::nullopt;
  Expr volume = 1;
  for (Range& range : region) {
    range = {analyzer.simplify(range.min), analyzer.simplify(range.extent)};
    volume = volume * range.extent;
  }
  if (!is_int(analyzer.simplify(volume - *points), 0)) return std::nullopt;
  return region;
}

bool has_every_element(const Tree& tree, const Buffer& buffer) {
  for (const Param& param : tree.program().params) {
    if (param.buffer == buffer && param.role != ParamRole::Output) return true;
  }
  const std::vector<Stmt> leaves = leaf_blocks(tree.program().body);
  Analyzer known = tree.analyzer_at({});
  return std::any_of(leaves.begin(), leaves.end(), [&](const Stmt& s) {
    auto region = region_stored(tree.program().body, *s.as<BlockNode>(), buffer, known);
    bool whole = region.has_value();
    for (size_t d = 0; whole && d < region->size(); ++d) {
      whole = covers_extent(known, (*region)[d], buffer->shape[d]);
    }
    return whole;
  });
}

}  // namespace tilewright
