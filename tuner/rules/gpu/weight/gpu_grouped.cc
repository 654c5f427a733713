#include "tuner/rules/gpu/weight/gpu_grouped.h"

#include <algorithm>
#include <set>
#include <vector>

#include "ir/visitor.h"
#include "schedule/affine.h"
#include "tuner/rules/analysis.h"

namespace tilewright {
namespace {

// The buffers in which an index is looked up.
std::set<std::string> lookups_of(const Expr& index) {
  std::set<std::string> names;
  for_each_expr(index, [&](const Expr& e) {
    if (auto* n = e.as<LoadNode>()) names.insert(n->buffer->name);
  });
  return names;
}

}  // namespace

bool gpu_looks_up(const RuleContext& c, const Block& block, const std::string& buffer) {
  const std::vector<Expr> indices = indices_of(c.s.node(block), buffer);
  return std::any_of(indices.begin(), indices.end(),
                     [](const Expr& e) { return !lookups_of(e).empty(); });
}

std::optional<GpuRoles> gpu_grouped_roles(RuleContext& c, const Block& block) {
  const std::optional<WeightFormat>& format = c.input.workload.weight;
  const std::optional<Block> value = weight_value_of(c.s, block, c.input.workload);
  if (!value || format->own_dims != std::vector<int>{0} || format->k_dims.size() != 1) {
    return std::nullopt;
  }
  const BlockNode& n = c.s.node(block);
  GpuRoles r;
  r.b = c.s.output(*value)->name;
  const std::vector<Expr> b = indices_of(n, r.b);
  const std::set<std::string> keys = lookups_of(b[0]);
  std::vector<std::string> others;
  for (const std::string& name : inputs_of(n)) {
    if (name != r.b && keys.count(name) == 0) others.push_back(name);
  }
  if (keys.empty() || others.size() != 1) return std::nullopt;
  r.a = others[0];
  const std::vector<Expr> a = indices_of(n, r.a);
  const std::vector<int> found = iterators_in(n, b[0]);
  r.k = plain_iterator(n, b[static_cast<size_t>(format->k_dims[0])]);
  r.j = plain_iterator(n, b[static_cast<size_t>(format->column_dim)]);
  if (found.size() != 1 || r.k < 0 || r.j < 0 || n.iters.size() != 4 || a.size() != 3) {
    return std::nullopt;
  }
  const int stack = found[0];
  r.batch = {stack};
  for (int x = 0; x < 4; ++x) {
    if (x != stack && x != r.k && x != r.j) r.i = x;
  }
  // Padding drops iterators of extent 1.
  for (int x : {r.i, r.j}) {
    if (is_int(n.iters[static_cast<size_t>(x)].extent, 1)) return std::nullopt;
  }
  const std::vector<Expr>& stored = store_of(n).indices;
  auto are = [&](const std::vector<Expr>& indices, const std::vector<int>& iters) {
    return std::equal(indices.begin(), indices.end(), iters.begin(), iters.end(),
                      [&](const Expr& e, int x) { return plain_iterator(n, e) == x; });
  };
  const bool fits = are(a, {stack, r.i, r.k}) && are(stored, {stack, r.i, r.j});
  return fits ? std::optional(r) : std::nullopt;
}

Block gpu_take_groups(RuleContext& c, const Block& block, GpuRoles& roles, const Block& value) {
  if (!gpu_looks_up(c, block, roles.b)) return value;
  const WeightFormat& format = *c.input.workload.weight;
  Block copy = c.s.reindex(block, roles.b);
  roles.b = c.s.output(copy)->name;
  // The copy has the iterators' order, columns before k; this restores W's order.
  if (format.k_dims[0] < format.column_dim) {
    const IndexMap turned = IndexMap::make(3, [](const std::vector<Var>& x) {
      return std::vector<Expr>{x[0], x[2], x[1]};
    });
    c.s.transform_layout(roles.b, turned);
    c.s.transform_block_layout(copy, turned);
  }
  c.s.compute_inline(value);
  return copy;
}

std::string gpu_codes_of(const RuleContext& c, const Block& elements, const WeightFormat& format) {
  const BlockNode& n = c.s.node(elements);
  std::set<std::string> others = {format.zero};
  for (const std::string& name : inputs_of(n)) {
    for (const Expr& index : indices_of(n, name)) others.merge(lookups_of(index));
  }
  for (const std::string& name : inputs_of(n)) {
    if (others.count(name) == 0) return name;
  }
  return "";
}

Block gpu_read_shared(RuleContext& c, const Block& block, const std::string& buffer) {
  return gpu_looks_up(c, block, buffer) ? c.s.cache_lookup(block, buffer, Scope::Shared)
                                        : c.s.cache_read(block, buffer, Scope::Shared);
}

}  // namespace tilewright
