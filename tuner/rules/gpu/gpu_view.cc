#include "tuner/rules/gpu/gpu_view.h"

#include <algorithm>
#include <functional>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "codegen/cuda/instructions/cuda_product_nest.h"
#include "codegen/loop_nest.h"
#include "ir/arith/simplify.h"
#include "ir/predicates.h"
#include "ir/visitor.h"
#include "tuner/rules/analysis.h"
#include "tuner/rules/gpu/gpu.h"
#include "tuner/rules/gpu/gpu_units.h"

namespace tilewright {
namespace {

using Iters = std::vector<int>;

// s if the indices use `var` only as floordiv(var, s), else 0.
int64_t group_of(const std::vector<Expr>& indices, const Expr& var) {
  int64_t group = 0;
  int all = 0, divided = 0;
  for (const Expr& index : indices) {
    for_each_expr(index, [&](const Expr& e) {
      if (e.same_as(var)) ++all;
      auto* n = e.as<BinaryNode>();
      auto by = n && n->op == BinaryOp::FloorDiv && n->a.same_as(var) ? as_int(n->b) : std::nullopt;
      if (!by || (group != 0 && group != *by)) return;
      group = *by;
      ++divided;
    });
  }
  return all == divided ? group : 0;
}

// A contraction's iterators by use, each list in the order of the block.
struct Kinds {
  Iters batch, i, j, k;
  int grouped = -1;  // an iterator of i or j; the other operand uses its quotient by `group`
  int64_t group = 0;
};

std::optional<Kinds> kinds_of(const BlockNode& n, const std::vector<Expr>& a,
                              const std::vector<Expr>& b) {
  Kinds kinds;
  for (size_t x = 0; x < n.iters.size(); ++x) {
    const IterVar& iter = n.iters[x];
    const int at = static_cast<int>(x);
    bool in_a = uses_iterator(a, iter), in_b = uses_iterator(b, iter);
    if (iter.kind == IterKind::Reduce) {
      if (!in_a || !in_b) return std::nullopt;
      kinds.k.push_back(at);
      continue;
    }
    if (!in_a && !in_b) {  // a batch of one, for example
      if (!is_int(iter.extent, 1)) return std::nullopt;
      kinds.i.push_back(at);
      continue;
    }
    auto split_by = [&](const std::vector<Expr>& other) {
      int64_t group = in_a && in_b && kinds.grouped < 0 ? group_of(other, iter.var) : 0;
      bool divides = group > 1 && as_int(iter.extent).value_or(1) % group == 0;
      if (divides) kinds.grouped = at;
      if (divides) kinds.group = group;
      return divides;
    };
    Iters& kind = split_by(a)    ? kinds.j
                  : split_by(b)  ? kinds.i
                  : in_a && in_b ? kinds.batch
                  : in_a         ? kinds.i
                                 : kinds.j;
    kind.push_back(at);
  }
  if (kinds.i.empty() || kinds.j.empty() || kinds.k.empty()) return std::nullopt;
  return kinds;
}

// The buffers of the two factors whose product the value accumulates; none for other values.
// Buffers that their indices read are not factors.
std::optional<std::pair<std::string, std::string>> factors_of(const BlockNode& n) {
  const std::optional<ProductSum> p = product_sum(&store_of(n));
  if (!p || p->a->buffer == p->b->buffer) return std::nullopt;
  return std::pair{p->a->buffer->name, p->b->buffer->name};
}

class ProductViewer {
 public:
  ProductViewer(RuleContext& c, const Block& block) : c_(c), block_(block) {}

  std::optional<GpuRoles> run() {
    auto factors = factors_of(node());
    if (!factors || c_.s.loops(block_).size() != node().iters.size()) return std::nullopt;
    std::tie(a_, b_) = *factors;
    // The result's last index must belong to j.
    auto last = plain_iterator(node(), store_of(node()).indices.back());
    if (last >= 0 && !uses_iterator(indices_of(node(), b_), iter(last))) std::swap(a_, b_);
    std::optional<Kinds> kinds = find();
    if (!kinds || !is_static_beside(kinds->batch)) return std::nullopt;
    if (size_of(kinds->i) == 1 || size_of(kinds->j) == 1 || !is_wanted()) return std::nullopt;
    if (kinds->grouped >= 0) {
      split_group(*kinds);
      kinds = find();
      TW_ASSERT(kinds.has_value(), "a group and the place in it are iterators of a product");
    }
    kinds_ = *kinds;
    order_terms();
    turn_weight();
    std::vector<int64_t> vectors = {run_length(a_), run_length(b_)};
    GpuRoles roles;
    roles.a_is_box = is_box(a_, {kinds_.i, kinds_.k});
    roles.b_is_box = is_box(b_, {kinds_.j, kinds_.k});
    gather(a_, {kinds_.batch, kinds_.i, kinds_.k});
    gather(b_, {kinds_.batch, kinds_.j, kinds_.k});
    const Block result = fuse_result();
    roles.result_is_box =
        kinds_.i.size() == 1 && kinds_.j.size() == 1 && stores_at_iterators(c_.s.node(result));
    roles.result_is_matrix =
        roles.result_is_box || (kinds_.batch.empty() && numbers_rows(c_.s.node(result)));
    c_.s.transform_block_layout(block_, fusing({kinds_.i, kinds_.j, kinds_.k}, all()));
    int first = static_cast<int>(kinds_.batch.size());
    for (int x = 0; x < first; ++x) roles.batch.push_back(x);
    roles.i = first;
    roles.j = first + 1;
    roles.k = first + 2;
    roles.a = a_;
    roles.b = b_;
    roles.a_vector = vectors[0];
    roles.b_vector = vectors[1];
    return roles;
  }

 private:
  const BlockNode& node() { return c_.s.node(block_); }
  const IterVar& iter(int x) { return node().iters[static_cast<size_t>(x)]; }
  int64_t extent(int x) { return *as_int(iter(x).extent); }

  // Only the number of stacked products may be dynamic.
  bool is_static_beside(const Iters& batch) {
    for (int x : all()) {
      const bool is_batch = std::find(batch.begin(), batch.end(), x) != batch.end();
      if (!is_batch && !as_int(iter(x).extent)) return false;
    }
    return true;
  }

  // An im2col product may also be computed in place, without gathering.
  bool is_wanted() {
    return c_.t.choose(block_.name + ".operands",
                       std::vector<std::string>{"gathered", "in_place"}) == "gathered";
  }

  int64_t size_of(const Iters& iters) {
    int64_t size = 1;
    for (int x : iters) size *= extent(x);
    return size;
  }

  std::optional<Kinds> find() {
    return kinds_of(node(), indices_of(node(), a_), indices_of(node(), b_));
  }

  Iters all() {
    Iters list;
    for (size_t x = 0; x < node().iters.size(); ++x) list.push_back(static_cast<int>(x));
    return list;
  }

  // Splits the grouped iterator into the group, a batch dimension, and the position inside it.
  void split_group(const Kinds& kinds) {
    auto rank = static_cast<int>(node().iters.size());
    c_.s.transform_block_layout(
        block_, IndexMap::make(rank, [&](const std::vector<Var>& x) {
          std::vector<Expr> out;
          for (int d = 0; d < rank; ++d) {
            const Expr& v = x[static_cast<size_t>(d)];
            if (d == kinds.grouped) out.push_back(floordiv(v, kinds.group));
            out.push_back(d == kinds.grouped ? floormod(v, kinds.group) : v);
          }
          return out;
        }));
  }

  // Orders the reduction iterators as they run along the second operand or, if that has other
  // indices, along the first.
  void order_terms() {
    for (const std::string& operand : {b_, a_}) {
      std::vector<Expr> indices = indices_of(node(), operand);
      Iters order;
      for (const Expr& index : indices) {
        int x = plain_iterator(node(), index);
        if (std::find(kinds_.k.begin(), kinds_.k.end(), x) != kinds_.k.end()) order.push_back(x);
      }
      if (order.size() != kinds_.k.size()) continue;
      kinds_.k = order;
      return;
    }
  }

  // The iterator along which the operand is contiguous; -1 if there is none.
  int along(const std::string& operand) {
    std::vector<Expr> indices = indices_of(node(), operand);
    Analyzer known;
    for (const IterVar& i : node().iters) known.bind(i.var, 0, i.extent);
    for (int x : all()) {
      const Expr& last = indices.back();
      bool only_here = std::count_if(indices.begin(), indices.end(),
                                     [&](const Expr& e) { return uses_var(e, iter(x).var); }) == 1;
      if (!only_here || !uses_var(last, iter(x).var)) continue;
      if (!uses_var(known.simplify(last - iter(x).var), iter(x).var)) return x;
    }
    return -1;
  }

  // Neighbours of the operand per access.
  int64_t run_length(const std::string& operand) {
    int x = along(operand);
    if (x < 0) return 1;
    Buffer buffer;
    for_each_expr(store_of(node()).value, [&](const Expr& e) {
      auto* load = e.as<LoadNode>();
      if (load && load->buffer->name == operand) buffer = load->buffer;
    });
    Analyzer known;
    for (const IterVar& i : node().iters) known.bind(i.var, 0, i.extent);
    Expr rest = known.simplify(indices_of(node(), operand).back() - iter(x).var);
    auto row = as_int(buffer->shape.back());
    int64_t lanes = kAccessBits / std::max(8, bits_of(buffer->elem));
    auto fits = [&](int64_t n) {
      return row && *row % n == 0 && extent(x) % n == 0 &&
             is_int(known.simplify(floormod(rest, Expr(n))), 0);
    };
    while (lanes > 1 && !fits(lanes)) lanes /= 2;
    return lanes;
  }

  // Whether a tile over these kinds is a box of the operand's memory. Each kind must have one
  // iterator along one dimension, and no iterator may run along the others.
  bool is_box(const std::string& operand, const std::vector<Iters>& kinds) {
    if (!find_param(c_.s, operand)) return false;
    const std::vector<Expr> indices = indices_of(node(), operand);
    size_t fixed = indices.size();
    for (const Iters& kind : kinds) {
      if (kind.size() != 1) return false;
      const Var& var = iter(kind[0]).var;
      for (const Expr& index : indices) {
        if (uses_var(index, var) && plain_iterator(node(), index) != kind[0]) return false;
        if (uses_var(index, var)) --fixed;
      }
    }
    return fixed + kinds.size() == indices.size();
  }

  // A map that fuses each group of iterators and puts batch dimensions in front. Its inputs are
  // `dims`; other iterators are left out.
  IndexMap fusing(const std::vector<Iters>& groups, const Iters& dims) {
    auto rank = static_cast<int>(dims.size());
    return IndexMap::make(rank, [&](const std::vector<Var>& x) {
      auto place = [&](int it) {
        return static_cast<size_t>(std::find(dims.begin(), dims.end(), it) - dims.begin());
      };
      std::vector<Expr> out;
      for (int b : kinds_.batch) out.push_back(x[place(b)]);
      for (const Iters& group : groups) {
        Expr sum;
        for (int it : group) {
          size_t at = place(it);
          if (at == dims.size()) continue;
          sum = sum.defined() ? sum * extent(it) + x[at] : Expr(x[at]);
        }
        out.push_back(sum);
      }
      return out;
    });
  }

  // Asks whether to transpose an 8-bit weight at load. Instructions need such elements contiguous
  // along k, and TMA copies do not transpose.
  void turn_weight() {
    constexpr int kLeastCapability = 90;  // first capability with TMA
    const Iters& j = kinds_.j;
    const bool is_across = std::find(j.begin(), j.end(), along(b_)) != j.end();
    const std::vector<Expr> indices = indices_of(node(), b_);
    const bool is_looked_up = std::any_of(indices.begin(), indices.end(), reads_memory);
    if (c_.input.target.gpu.compute_capability < kLeastCapability || !is_across || is_looked_up ||
        bits_of(read_elem(node(), b_)) != 8 || !is_weight(c_.s, b_)) {
      return;
    }
    const std::string question = block_.name + "." + b_ + ".layout";
    if (c_.t.choose(question, std::vector<std::string>{"turned", "none"}) == "none") return;
    c_.s.precompute(copy_in_order(b_, {kinds_.j, kinds_.k}));
  }

  // Copies an operand over the product's iterators, with its contiguous direction last. A cheap
  // block that makes the operand is inlined into the copy.
  void gather(std::string& operand, const std::vector<Iters>& kinds) {
    int x = along(operand);
    std::vector<Iters> groups = {kinds[1], kinds[2]};
    if (std::find(kinds[1].begin(), kinds[1].end(), x) != kinds[1].end()) {
      std::swap(groups[0], groups[1]);
    }
    const std::string from = operand;
    copy_in_order(operand, groups);
    if (find_param(c_.s, from)) return;
    Block maker = gpu_writer(c_.s, from);
    bool ours = c_.s.consumers(maker).size() == 1 &&
                analyze(c_.s, maker).role == BlockRole::Injective &&
                !is_expensive(c_.s.node(maker));
    if (ours) c_.s.compute_inline(maker);
  }

  // Makes the block read a copy of the operand with one dimension per group.
  Block copy_in_order(std::string& operand, const std::vector<Iters>& groups) {
    const std::string from = operand;
    const std::vector<Expr> indices = indices_of(node(), from);
    Iters dims;
    for (int d : all()) {
      if (uses_iterator(indices, iter(d))) dims.push_back(d);
    }
    const IndexMap map = fusing(groups, dims);
    Block copy = c_.s.reindex(block_, from);
    operand = c_.s.output(copy)->name;
    c_.s.transform_layout(operand, map);
    c_.s.transform_block_layout(copy, map);
    return copy;
  }

  static bool stores_at_iterators(const BlockNode& last) {
    const std::vector<Expr>& stored = store_of(last).indices;
    return std::all_of(stored.begin(), stored.end(),
                       [&](const Expr& e) { return plain_iterator(last, e) >= 0; });
  }

  // Whether the row iterator is the linear index over all indices before the last.
  static bool numbers_rows(const BlockNode& last) {
    const StoreNode& store = store_of(last);
    Analyzer known;
    for (const IterVar& i : last.iters) known.bind(i.var, 0, i.extent);
    const Expr row =
        flat_index(store.buffer, {store.indices.begin(), std::prev(store.indices.end())});
    return plain_iterator(last, known.simplify(row)) == 0 &&
           plain_iterator(last, store.indices.back()) == 1;
  }

  // Makes the result a matrix. Returns the epilogue block: the one elementwise consumer, or a copy.
  Block fuse_result() {
    const std::string result = c_.s.output(block_)->name;
    Iters dims;
    for (int d : all()) {
      if (iter(d).kind == IterKind::Spatial) dims.push_back(d);
    }
    const IndexMap map = fusing({kinds_.i, kinds_.j}, dims);
    bool is_read_once = !is_output(c_.s, result);
    std::vector<Block> readers = c_.s.consumers(block_);
    is_read_once = is_read_once && readers.size() == 1 && can_take_in(c_.s, block_, readers[0]);
    if (is_read_once) {
      for (const Expr& index : indices_of(c_.s.node(readers[0]), result)) {
        is_read_once &= plain_iterator(c_.s.node(readers[0]), index) >= 0;
      }
    }
    Block back = c_.s.reindex(block_, result);
    std::string matrix = c_.s.output(block_)->name;
    if (is_read_once) c_.s.reverse_compute_inline(readers[0]);
    c_.s.transform_layout(matrix, map);
    c_.s.transform_block_layout(back, map);
    return back;
  }

  RuleContext& c_;
  const Block& block_;
  std::string a_, b_;
  Kinds kinds_;
};

}  // namespace

std::optional<GpuRoles> gpu_view_as_product(RuleContext& c, const Block& block) {
  return ProductViewer(c, block).run();
}

}  // namespace tilewright
