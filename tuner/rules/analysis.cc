#include "tuner/rules/analysis.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "ir/arith/simplify.h"
#include "ir/predicates.h"
#include "ir/visitor.h"

namespace tilewright {

const StoreNode& store_of(const BlockNode& block) {
  const StoreNode* found = nullptr;
  for_each_stmt(block.body, [&](const Stmt& s) {
    if (auto* n = s.as<StoreNode>()) found = n;
  });
  TW_ASSERT(found, "block '" + block.name + "' stores nothing");
  return *found;
}

int64_t product(const BlockFacts& facts, const std::vector<int>& iters) {
  int64_t result = 1;
  for (int i : iters) result *= facts.extents[static_cast<size_t>(i)];
  return result;
}

std::optional<Loop> loop_of(const IterVar& iter) {
  auto* v = iter.binding.as<VarNode>();
  return v ? std::optional<Loop>(Loop{v->name}) : std::nullopt;
}

std::vector<std::string> inputs_of(const BlockNode& block) {
  const StoreNode& store = store_of(block);
  std::vector<std::string> names;
  for_each_expr(store.value, [&](const Expr& e) {
    auto* n = e.as<LoadNode>();
    if (!n || n->buffer == store.buffer) return;
    if (std::find(names.begin(), names.end(), n->buffer->name) == names.end()) {
      names.push_back(n->buffer->name);
    }
  });
  return names;
}

std::vector<Expr> indices_of(const BlockNode& block, const std::string& buffer) {
  std::vector<Expr> indices;
  for_each_expr(store_of(block).value, [&](const Expr& e) {
    auto* n = e.as<LoadNode>();
    if (n && n->buffer->name == buffer && indices.empty()) indices = n->indices;
  });
  return indices;
}

ElemType read_elem(const BlockNode& block, const std::string& buffer) {
  std::optional<ElemType> elem;
  for_each_expr(store_of(block).value, [&](const Expr& e) {
    auto* n = e.as<LoadNode>();
    if (n && n->buffer->name == buffer) elem = n->buffer->elem;
  });
  TW_ASSERT(elem.has_value(), "block '" + block.name + "' does not read '" + buffer + "'");
  return *elem;
}

int plain_iterator(const BlockNode& block, const Expr& index) {
  for (size_t i = 0; i < block.iters.size(); ++i) {
    if (index.same_as(block.iters[i].var)) return static_cast<int>(i);
  }
  return -1;
}

std::optional<size_t> dimension_across(const BlockNode& block, const std::vector<Expr>& indices,
                                       int iter, int64_t lanes) {
  const Var& var = block.iters[static_cast<size_t>(iter)].var;
  const Var vector("vector"), lane("lane");
  Analyzer known;
  known.bind(lane, 0, lanes);
  known.bind(vector, 0, block.iters[static_cast<size_t>(iter)].extent);
  for (size_t d = 0; d + 1 < indices.size(); ++d) {
    if (!uses_var(indices[d], var)) continue;
    const Expr of_lane = substitute(indices[d], {{var.get(), vector * lanes + lane}});
    if (uses_var(known.simplify(of_lane), lane)) return d;
  }
  return std::nullopt;
}

int64_t lanes_of_results(const Schedule& s, const Block& block, const Target& target) {
  return std::max(1, target.lanes(std::max(8, bits_of(s.output(block)->elem))));
}

bool uses_iterator(const std::vector<Expr>& indices, const IterVar& iter) {
  return std::any_of(indices.begin(), indices.end(),
                     [&](const Expr& e) { return uses_var(e, iter.var); });
}

bool covers_iterators(const BlockNode& block, const std::string& buffer) {
  const std::vector<Expr> indices = indices_of(block, buffer);
  if (indices.size() != block.iters.size()) return false;
  std::set<int> seen;
  size_t units = 0;
  for (const Expr& e : indices) {
    if (is_int(e, 0)) {
      ++units;
    } else {
      seen.insert(plain_iterator(block, e));
    }
  }
  return seen.size() + units == indices.size() && !seen.contains(-1);
}

std::vector<int64_t> zero_periods(const BlockNode& block) {
  const StoreNode& store = store_of(block);
  std::vector<int64_t> periods(store.indices.size(), 1);
  auto* guarded = store.value.as<SelectNode>();
  if (!guarded || !is_zero(guarded->on_false)) return periods;
  for_each_expr(guarded->cond, [&](const Expr& e) {
    auto* equals = e.as<BinaryNode>();
    if (!equals || equals->op != BinaryOp::EQ || !is_int(equals->b, 0)) return;
    auto* rest = equals->a.as<BinaryNode>();
    if (!rest || rest->op != BinaryOp::FloorMod || !as_int(rest->b)) return;
    for (size_t d = 0; d < store.indices.size(); ++d) {
      if (uses_var(rest->a, store.indices[d])) periods[d] = *as_int(rest->b);
    }
  });
  return periods;
}

bool pads_with_zeros(const BlockNode& block) {
  auto* guarded = store_of(block).value.as<SelectNode>();
  return guarded && is_zero(guarded->on_false) && guarded->on_true.as<LoadNode>();
}

bool guards_along(const BlockNode& reader, const BlockNode& producer, int iter) {
  auto* select = store_of(producer).value.as<SelectNode>();
  if (!select) return false;
  const std::vector<Expr> indices = indices_of(reader, store_of(producer).buffer->name);
  for (size_t d = 0; d < indices.size(); ++d) {
    if (uses_var(indices[d], reader.iters[static_cast<size_t>(iter)].var) &&
        uses_var(select->cond, store_of(producer).indices[d])) {
      return true;
    }
  }
  return false;
}

bool stores_neighbours(const Schedule& s, const Block& block) {
  const BlockNode& n = s.node(block);
  const Var& innermost = s.node(s.loops(block).back()).var;
  return std::any_of(n.iters.begin(), n.iters.end(), [&](const IterVar& iter) {
    return uses_var(iter.binding, innermost) && uses_var(store_of(n).indices.back(), iter.var);
  });
}

bool can_take_in(const Schedule& s, const Block& block, const Block& reader) {
  if (analyze(s, reader).role != BlockRole::Injective) return false;
  const std::vector<Block> order = s.blocks(), read = s.producers(reader);
  auto behind = std::find(order.begin(), order.end(), block);
  TW_ASSERT(behind != order.end(), "a block of the program");
  return std::none_of(behind + 1, order.end(), [&](const Block& b) {
    return std::find(read.begin(), read.end(), b) != read.end();
  });
}

const Param* find_param(const Schedule& s, const std::string& buffer) {
  for (const Param& p : s.program().params) {
    if (p.buffer->name == buffer) return &p;
  }
  return nullptr;
}

bool is_output(const Schedule& s, const std::string& buffer) {
  const Param* p = find_param(s, buffer);
  return p && p->role == ParamRole::Output;
}

bool is_weight(const Schedule& s, const std::string& buffer) {
  const Param* p = find_param(s, buffer);
  return p && p->role == ParamRole::Weight;
}

const Param& stored_weight(const Workload& workload) {
  auto at = std::find_if(workload.inputs.begin(), workload.inputs.end(), [&](const Param& p) {
    return workload.weight && p.buffer->name == workload.weight->weight;
  });
  TW_ASSERT(at != workload.inputs.end(), "a workload with a stored weight");
  return *at;
}

std::optional<Block> weight_value_of(const Schedule& s, const Block& block,
                                     const Workload& workload) {
  if (!workload.weight) return std::nullopt;
  const WeightFormat& format = *workload.weight;
  for (const Block& p : s.producers(block)) {
    std::vector<std::string> inputs = inputs_of(s.node(p));
    bool stored = !inputs.empty() && std::all_of(inputs.begin(), inputs.end(),
                                                 [&](auto& name) { return format.has(name); });
    if (stored) return p;
  }
  return std::nullopt;
}

bool has_few_rows(const Schedule& s, const Block& block, int column) {
  constexpr int64_t kFewRows = 4;
  const std::vector<IterVar>& iters = s.node(block).iters;
  int64_t rows = 1;
  for (size_t i = 0; i < iters.size(); ++i) {
    bool counts = iters[i].kind == IterKind::Spatial && i != static_cast<size_t>(column);
    if (counts) rows *= largest_extent(s, iters[i].extent);
  }
  return rows <= kFewRows;
}

int64_t largest_extent(const Schedule& s, const Expr& extent) {
  if (auto value = as_int(extent)) return *value;
  Analyzer known;
  for (const DimVar& d : s.program().dims) known.bind(d.var, Interval{d.min, d.max});
  return known.bounds(extent).max;
}

bool is_expensive(const BlockNode& block) {
  bool found = false;
  for_each_expr(store_of(block).value, [&](const Expr& e) {
    if (auto* n = e.as<UnaryNode>()) found |= n->op != UnaryOp::Neg && n->op != UnaryOp::Abs;
    if (auto* n = e.as<BinaryNode>()) found |= n->op == BinaryOp::Div;
  });
  return found;
}

namespace {

// Whether neighbours along `iter` are neighbours in memory.
bool contiguous(const std::vector<Expr>& indices, const IterVar& iter) {
  return !indices.empty() && indices.back().same_as(iter.var);
}

}  // namespace

bool moves_a_window(const std::vector<Expr>& indices, const IterVar& iter) {
  if (indices.empty()) return false;
  for (size_t d = 0; d + 1 < indices.size(); ++d) {
    if (uses_var(indices[d], iter.var)) return false;
  }
  const Expr& at = indices.back();
  const auto step = as_int(simplify(substitute(at, {{iter.var.get(), iter.var + 1}}) - at));
  return step && (*step == 1 || *step == 2);
}

BlockFacts analyze(const Schedule& s, const Block& block) {
  const BlockNode& n = s.node(block);
  BlockFacts facts;
  for (size_t i = 0; i < n.iters.size(); ++i) {
    facts.extents.push_back(largest_extent(s, n.iters[i].extent));
    facts.dynamic.push_back(!as_int(n.iters[i].extent));
    bool spatial = n.iters[i].kind == IterKind::Spatial;
    (spatial ? facts.spatial : facts.reduce).push_back(static_cast<int>(i));
  }
  facts.role = BlockRole::Injective;
  if (facts.reduce.empty()) return facts;
  facts.role = BlockRole::RowReduction;
  const StoreNode& store = store_of(n);
  for (int i : facts.spatial) {
    if (facts.extents[i] == 1) continue;
    bool writes_along = contiguous(store.indices, n.iters[i]);
    for (const std::string& input : inputs_of(n)) {
      std::vector<Expr> indices = indices_of(n, input);
      bool reduced = std::any_of(facts.reduce.begin(), facts.reduce.end(), [&](int r) {
        return uses_iterator(indices, n.iters[static_cast<size_t>(r)]);
      });
      // An operand without a reduction index (a row's length, for example) is read once under any
      // tiling.
      if (!reduced) continue;
      bool reused = !uses_iterator(indices, n.iters[i]);
      bool reads_along = moves_a_window(indices, n.iters[i]);
      if (reused || (writes_along && reads_along)) facts.role = BlockRole::Contraction;
    }
  }
  return facts;
}

IndexMap moved_index(size_t rank, size_t from, size_t to) {
  return IndexMap::make(static_cast<int>(rank), [&](const std::vector<Var>& x) {
    std::vector<Expr> order(x.begin(), x.end());
    order.erase(order.begin() + static_cast<std::ptrdiff_t>(from));
    order.insert(order.begin() + static_cast<std::ptrdiff_t>(to), x[from]);
    return order;
  });
}

}  // namespace tilewright
