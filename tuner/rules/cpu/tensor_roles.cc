#include "tuner/rules/cpu/tensor_roles.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/arith/simplify.h"
#include "ir/predicates.h"
#include "ir/visitor.h"
#include "tuner/rules/analysis.h"

namespace tilewright {
namespace {

constexpr int64_t kWorthPacking = 16;  // reads per packed element

bool uses(const LoadNode& load, const Var& var) {
  return std::any_of(load.indices.begin(), load.indices.end(),
                     [&](const Expr& e) { return uses_var(e, var); });
}

// The load of a factor, through a cast.
const LoadNode* factor_load(const Expr& e) {
  auto* widened = e.as<CastNode>();
  auto* load = (widened ? widened->value : e).as<LoadNode>();
  if (!load || load->predicate.defined()) return nullptr;
  bool looks_up = std::any_of(load->indices.begin(), load->indices.end(), reads_memory);
  return looks_up ? nullptr : load;
}

// The c of floordiv(var, c), if `load` uses the variable in no other way; else 0.
int64_t group_of(const LoadNode& load, const Var& var) {
  class Divisions : public Mutator {
   public:
    explicit Divisions(const Var& var) : var_(var) {}
    int64_t group = 0;
    bool same = true;

   protected:
    Expr mutate_binary(const BinaryNode& n, const Expr& e) override {
      auto by = as_int(n.b);
      if (n.op != BinaryOp::FloorDiv || !n.a.same_as(var_) || !by) {
        return Mutator::mutate_binary(n, e);
      }
      same = same && (group == 0 || group == *by);
      group = *by;
      return 0;
    }

   private:
    const Var& var_;
  };
  Divisions divisions(var);
  for (const Expr& index : load.indices) {
    if (uses_var(divisions(index), var)) return 0;
  }
  return divisions.same ? divisions.group : 0;
}

class RolesReader {
 public:
  RolesReader(const Schedule& s, const BlockNode& block) : s_(s), block_(block) {
    for (const IterVar& iter : block.iters) known_.bind(iter.var, 0, iter.extent);
  }

  TensorRoles read(const StoreNode& sum, const LoadNode& a, const LoadNode& b) {
    TensorRoles roles;
    roles.sum = &sum;
    roles.a = &a;
    roles.b = &b;
    roles.weight = is_weight(s_, b.buffer->name);
    find_lanes(roles);
    find_terms(roles);
    find_window_row(roles);
    int64_t reuse_of_b = 1;
    for (const IterVar& iter : block_.iters) {
      if (iter.kind != IterKind::Spatial) continue;
      int64_t most = largest_extent(s_, iter.extent);
      if (!uses(a, iter.var)) roles.reuse_of_a *= most;
      if (!uses(b, iter.var)) reuse_of_b *= most;
    }
    if (roles.refusal.empty() && !roles.weight && reuse_of_b < kWorthPacking) {
      roles.refusal = fmt::format(
          "'{}' is no weight, and each of its elements is read {} times: fewer than the {} that "
          "packing it in each run takes",
          b.buffer->name, reuse_of_b, kWorthPacking);
    }
    return roles;
  }

 private:
  std::string name(size_t i) const { return iterator_name(block_, static_cast<int>(i)); }

  // Finds the spatial iterators of b that a lacks.
  void find_lanes(TensorRoles& roles) const {
    std::string others;
    const std::string &a = roles.a->buffer->name, &b = roles.b->buffer->name;
    for (size_t i = 0; i < block_.iters.size(); ++i) {
      const IterVar& iter = block_.iters[i];
      if (iter.kind != IterKind::Spatial) continue;
      bool in_a = uses(*roles.a, iter.var), in_b = uses(*roles.b, iter.var);
      auto extent = as_int(iter.extent);
      int64_t group = in_a ? group_of(*roles.a, iter.var) : 0;
      bool divides = group > 1 && extent && *extent % group == 0;
      if (!extent) {
        others +=
            fmt::format("{}the size of '{}' is no constant", others.empty() ? "" : "; ", name(i));
      } else if (in_b && (!in_a || divides)) {
        roles.lanes.push_back({static_cast<int>(i), divides ? group : 0});
      } else if (in_b) {
        others += fmt::format("{}'{}' is in both, a batch dimension", others.empty() ? "" : "; ",
                              name(i));
      } else {
        others += fmt::format("{}'{}' is not in '{}'", others.empty() ? "" : "; ", name(i), b);
      }
    }
    int last = plain_iterator(block_, roles.sum->indices.back());
    std::stable_partition(roles.lanes.begin(), roles.lanes.end(),
                          [&](const LaneRole& j) { return j.iter == last; });
    if (!roles.lanes.empty()) return;
    roles.refusal = fmt::format(
        "no spatial iterator is the intrinsic's 'j', which '{}' has and '{}' has not: {}", b, a,
        others.empty() ? "there is none" : others);
  }

  // Finds the reduction iterators of both operands.
  void find_terms(TensorRoles& roles) {
    std::string others;
    for (size_t i = 0; i < block_.iters.size(); ++i) {
      const IterVar& iter = block_.iters[i];
      if (iter.kind != IterKind::Reduce) continue;
      bool in_a = uses(*roles.a, iter.var), in_b = uses(*roles.b, iter.var);
      if (!as_int(iter.extent)) {
        others +=
            fmt::format("{}the size of '{}' is no constant", others.empty() ? "" : "; ", name(i));
      } else if (in_a && in_b) {
        roles.terms.push_back(static_cast<int>(i));
        find_dimension(roles, static_cast<int>(i));
      } else {
        others += fmt::format("{}'{}' is not in '{}'", others.empty() ? "" : "; ", name(i),
                              (in_a ? roles.b : roles.a)->buffer->name);
      }
    }
    if (!roles.terms.empty() || !roles.refusal.empty()) return;
    roles.refusal =
        fmt::format("no reduction iterator is the intrinsic's 'k', which '{}' and '{}' have: {}",
                    roles.a->buffer->name, roles.b->buffer->name, others);
  }

  // Finds the one index of a that is a multiple of the iterator's extent, plus the iterator.
  void find_dimension(TensorRoles& roles, int iter) {
    const IterVar& k = block_.iters[static_cast<size_t>(iter)];
    int found = -1;
    for (size_t d = 0; d < roles.a->indices.size(); ++d) {
      const Expr& index = roles.a->indices[d];
      if (!uses_var(index, k.var)) continue;
      if (found >= 0) return;
      found = static_cast<int>(d);
      Expr rest = known_.simplify(index - k.var);
      bool digit = !uses_var(rest, k.var) && is_zero(known_.simplify(floormod(rest, k.extent)));
      if (!digit) return;
    }
    roles.dims[iter] = found;
  }

  // Finds a window row. The last dimension of a runs along one whole reduction iterator, and the
  // one before it along another, in steps of 1.
  void find_window_row(TensorRoles& roles) {
    const std::vector<Expr>& indices = roles.a->indices;
    if (indices.size() < 2) return;
    int last = plain_iterator(block_, indices.back());
    auto is_term = [&](int i) {
      return std::find(roles.terms.begin(), roles.terms.end(), i) != roles.terms.end();
    };
    if (last < 0 || !is_term(last)) return;
    const IterVar& inner = block_.iters[static_cast<size_t>(last)];
    if (as_int(inner.extent) != as_int(roles.a->buffer->shape.back())) return;
    const Expr& along = indices[indices.size() - 2];
    for (int i : roles.terms) {
      const Var& var = block_.iters[static_cast<size_t>(i)].var;
      Expr rest = known_.simplify(along - var);
      bool only_here = std::count_if(indices.begin(), indices.end(),
                                     [&](const Expr& e) { return uses_var(e, var); }) == 1;
      if (i != last && uses_var(along, var) && only_here && !uses_var(rest, var)) {
        roles.row = {i, last};
      }
    }
  }

  const Schedule& s_;
  const BlockNode& block_;
  Analyzer known_;
};

}  // namespace

std::string iterator_name(const BlockNode& block, int iter) {
  const std::string& name = block.iters[static_cast<size_t>(iter)].var.name();
  return name.size() > 1 && name[0] == 'v' ? name.substr(1) : name;
}

std::vector<TensorRoles> tensor_roles(const Schedule& s, const Block& block, std::string* refusal) {
  const BlockNode& node = s.node(block);
  const StoreNode& store = store_of(node);
  auto* sum = store.value.as<BinaryNode>();
  auto* product = sum && sum->op == BinaryOp::Add ? sum->b.as<BinaryNode>() : nullptr;
  const LoadNode *x = nullptr, *y = nullptr;
  if (product && product->op == BinaryOp::Mul) {
    x = factor_load(product->a);
    y = factor_load(product->b);
  }
  auto refuse = [&](std::string reason) {
    *refusal = std::move(reason);
    return std::vector<TensorRoles>{};
  };
  if (!x || !y || x->buffer == y->buffer || store.indices.empty()) {
    return refuse(
        fmt::format("block '{}' does not sum products of elements of two operands", block.name));
  }
  bool first = is_weight(s, x->buffer->name), second = is_weight(s, y->buffer->name);
  if (first && second) return refuse("both operands are weights");
  RolesReader reader(s, node);
  if (first) return {reader.read(store, *y, *x)};
  if (second) return {reader.read(store, *x, *y)};
  return {reader.read(store, *x, *y), reader.read(store, *y, *x)};
}

}  // namespace tilewright
