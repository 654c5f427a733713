#include <algorithm>
#include <map>
#include <optional>

#include <fmt/core.h>
#include <fmt/ranges.h>

#include "ir/compare.h"
#include "ir/predicates.h"
#include "ir/visitor.h"
#include "schedule/primitives/layout/padding.h"
#include "schedule/primitives/loops/reduction.h"
#include "schedule/primitives/nest.h"
#include "schedule/primitives/region.h"
#include "schedule/tree.h"

namespace tilewright {
namespace {

using Padded = PaddedExtents;

bool uses_padded(const Expr& e, const Padded& padded) {
  bool found = false;
  for_each_expr(e, [&](const Expr& x) { found |= padded.count(x.get()) > 0; });
  return found;
}

// The factors of a product, ignoring casts.
std::vector<Expr> factors_of(const Expr& e) {
  const Expr value = strip_casts(e);
  auto* n = value.as<BinaryNode>();
  if (!n || n->op != BinaryOp::Mul) return {value};
  std::vector<Expr> list = factors_of(n->a), right = factors_of(n->b);
  list.insert(list.end(), right.begin(), right.end());
  return list;
}

// Refuses when zeros along the padded reduce iterators would change the result.
void require_neutral(const Tree& tree, const Stmt& s, const Padded& padded) {
  const BlockNode& block = block_of(s);
  Reduction reduction = match_reduction(block);
  for (const IterVar& iter : block.iters) {
    if (iter.kind != IterKind::Reduce || !padded.count(iter.var.get())) continue;
    auto require = [&](bool ok) {
      tree.require(ok, RefusalKind::Unsupported,
                   fmt::format("block '{}' is no sum of products that read along '{}': zeros in "
                               "the padding would change its result",
                               block.name, iter.var.name()),
                   {s});
    };
    require(reduction.value.defined() && reduction.reducer == Reducer::Sum);
    for (const Expr& factor : factors_of(reduction.value)) {
      require(factor.as<LoadNode>() || factor.as<FloatImmNode>() || factor.as<IntImmNode>());
      require(!factor.as<LoadNode>() || uses_var(factor, iter.var));
    }
  }
}

// The largest value of an index over the padded extents; nothing where it can be negative.
std::optional<int64_t> last_place(const BlockNode& block, const Padded& padded, const Expr& index) {
  Analyzer known;
  for (const IterVar& iter : block.iters) {
    auto it = padded.find(iter.var.get());
    known.bind(iter.var, 0, it == padded.end() ? iter.extent : it->second);
  }
  Interval range = known.bounds(index);
  return range.is_bounded() && range.min >= 0 ? std::optional(range.max) : std::nullopt;
}

// True when an integer factor may be read beyond its window along `iter`. Whatever it reads there
// is multiplied by the zeros that pad another factor. Floats do not qualify, as infinity times 0 is
// not 0. The elements read must have been written: unwritten elements cannot be computed with.
bool is_windowed(const Tree& tree, const BlockNode& block, const Padded& padded,
                 const LoadNode& factor, const Expr& index) {
  Reduction reduction = match_reduction(block);
  if (!reduction.value.defined() || !is_integer(factor.buffer->elem)) return false;
  // An index loaded from memory is read at the padded iterator itself, and it has no padding.
  if (reads_memory(index) || !last_place(block, padded, index)) return false;
  if (!has_every_element(tree, factor.buffer)) return false;
  return std::all_of(block.iters.begin(), block.iters.end(), [&](const IterVar& iter) {
    if (!padded.count(iter.var.get()) || !uses_var(index, iter.var)) return true;
    std::vector<Expr> factors = factors_of(reduction.value);
    bool zeros = std::any_of(factors.begin(), factors.end(), [&](const Expr& e) {
      auto* other = e.as<LoadNode>();
      return other && other->buffer != factor.buffer &&
             std::any_of(other->indices.begin(), other->indices.end(),
                         [&](const Expr& x) { return x.same_as(iter.var); });
    });
    return iter.kind == IterKind::Reduce && zeros;
  });
}

// Refuses an access whose index uses a padded iterator in a sum that is no window. Refuses a store
// without the padded iterator as an index. Refuses integer divisions of values, since a zero from
// the padding would be an undefined divisor.
void require_plain_accesses(const Tree& tree, const Stmt& s, const Padded& padded) {
  const BlockNode& block = block_of(s);
  auto check = [&](const Buffer& buffer, const std::vector<Expr>& indices, const LoadNode* load) {
    for (const Expr& index : indices) {
      bool plain = index.as<VarNode>() || !uses_padded(index, padded);
      tree.require(plain || (load && is_windowed(tree, block, padded, *load, index)),
                   RefusalKind::Unsupported,
                   fmt::format("an index of '{}' in block '{}' is more than a padded iterator",
                               buffer->name, block.name),
                   {s});
    }
  };
  auto visit = [&](const Expr& e) {
    if (auto* load = e.as<LoadNode>()) check(load->buffer, load->indices, load);
    auto* n = e.as<BinaryNode>();
    bool divides = n && (n->op == BinaryOp::FloorDiv || n->op == BinaryOp::FloorMod) &&
                   n->type.elem != ElemType::index;
    tree.require(
        !divides, RefusalKind::Unsupported,
        fmt::format("block '{}' divides integers, and the padding may be a divisor", block.name),
        {s});
  };
  for_each_expr(block.body, visit);
  if (block.init.defined()) for_each_expr(block.init, visit);
  auto* store = block.body.as<StoreNode>();
  tree.require(store != nullptr, RefusalKind::Unsupported,
               fmt::format("block '{}' is more than one store", block.name), {s});
  check(store->buffer, store->indices, nullptr);
  for (const IterVar& iter : block.iters) {
    if (iter.kind != IterKind::Spatial || !padded.count(iter.var.get())) continue;
    bool indexed = std::any_of(store->indices.begin(), store->indices.end(),
                               [&](const Expr& index) { return index.same_as(iter.var); });
    tree.require(indexed, RefusalKind::Unsupported,
                 fmt::format("no index of '{}' in block '{}' is '{}': its padding would be stored "
                             "into elements that are in use",
                             store->buffer->name, block.name, iter.var.name()),
                 {s});
  }
  std::vector<Buffer> reads = buffers_read(block);
  bool updates = std::find(reads.begin(), reads.end(), store->buffer) != reads.end();
  tree.require(!updates || block.init.defined(), RefusalKind::BadStructure,
               fmt::format("block '{}' updates '{}', whose init stands elsewhere; pad it before it "
                           "is scheduled",
                           block.name, store->buffer->name),
               {s});
}

// A padded buffer that replaces another one. `used` is the part of each dimension that the block
// uses. Where the dimension's index is a padded iterator, it is that iterator's old extent. The
// buffer itself may be larger, or smaller where the block reads under a condition.
struct StandIn {
  Buffer from, to;
  std::vector<Expr> used;
};

// Makes the padded buffers and the blocks that fill and drain them.
class Padder {
 public:
  Padder(const Tree& tree, const BlockNode& block, const Padded& padded)
      : tree_(tree), names_(tree.program()), block_(block), padded_(padded) {}

  // True when the load may run over the padded extents without a copy. Along spatial iterators, the
  // elements must exist; their products go to the padding of the result. Along reduce iterators,
  // the elements there must be zeros.
  bool reads_on(const LoadNode& n) const {
    if (n.buffer == block_.body.as<StoreNode>()->buffer) return false;
    bool padded = false;
    for (size_t d = 0; d < n.indices.size(); ++d) {
      if (!uses_padded(n.indices[d], padded_)) continue;
      padded = true;
      const Expr& extent = n.buffer->shape[d];
      for (const IterVar& iter : block_.iters) {
        auto it = padded_.find(iter.var.get());
        if (it == padded_.end() || !uses_var(n.indices[d], iter.var)) continue;
        if (!n.indices[d].same_as(iter.var) || !is_int(simplify(extent >= it->second), 1)) {
          return false;
        }
        if (iter.kind != IterKind::Spatial && !is_zero_from(n.buffer, d, iter.extent)) return false;
      }
    }
    return padded && has_every_element(tree_, n.buffer);
  }

  // The padded replacement of a buffer at these indices, or the buffer itself when no index is
  // padded.
  Buffer stand_in(const Buffer& buffer, const std::vector<Expr>& indices) {
    std::vector<Expr> shape = buffer->shape, used = buffer->shape;
    bool grows = false;
    for (size_t d = 0; d < shape.size(); ++d) {
      if (!indices[d].as<VarNode>() && uses_padded(indices[d], padded_)) {
        Expr end = *last_place(block_, padded_, indices[d]) + 1;
        shape[d] = simplify(max(shape[d], end));
        grows = grows || !equal(shape[d], buffer->shape[d]);
      }
      for (const IterVar& iter : block_.iters) {
        auto it = padded_.find(iter.var.get());
        if (it == padded_.end() || !indices[d].same_as(iter.var)) continue;
        shape[d] = it->second;
        used[d] = simplify(min(iter.extent, used[d]));
        grows = true;
      }
    }
    if (!grows) return buffer;
    for (const StandIn& s : made_) {
      if (s.from == buffer && equal_all(s.to->shape, shape) && equal_all(s.used, used)) return s.to;
    }
    std::string name = names_.fresh(buffer->name + "_pad");
    made_.push_back({buffer, make_buffer(name, buffer->elem, shape, buffer->scope), used});
    return made_.back().to;
  }

  // Fills the whole replacement from the used part of the original, with zeros elsewhere.
  Stmt fill(const StandIn& s, const std::string& name) {
    return copy(s.from, s.to, s.to->shape, s.used, name);
  }
  // Copies the used part from the replacement back to the original.
  Stmt drain(const StandIn& s, const std::string& name) {
    return copy(s.to, s.from, s.used, s.used, name);
  }

  // The block over the padded extents, with padded buffers.
  Stmt padded_block() {
    class Redirect : public Mutator {
     public:
      explicit Redirect(Padder& padder) : padder_(padder) {}

     protected:
      Expr mutate_load(const LoadNode& n, const Expr&) override {
        if (padder_.reads_on(n)) return load(n.buffer, n.indices, n.predicate);
        return load(padder_.stand_in(n.buffer, n.indices), n.indices, n.predicate);
      }
      Stmt mutate_store(const StoreNode& n, const Stmt&) override {
        Expr value = mutate(n.value);
        return make_store(padder_.stand_in(n.buffer, n.indices), n.indices, value, n.predicate);
      }

     private:
      Padder& padder_;
    };
    std::vector<IterVar> iters = block_.iters;
    for (IterVar& iter : iters) {
      auto it = padded_.find(iter.var.get());
      if (it != padded_.end()) iter.extent = it->second;
    }
    Redirect redirect(*this);
    Stmt init = redirect(block_.init), body = redirect(block_.body);
    return make_block(block_.name, std::move(iters), body, init, {}, block_.allocs,
                      block_.annotations);
  }

  const std::vector<StandIn>& made() const { return made_; }
  std::string fresh(const std::string& base) { return names_.fresh(base); }

 private:
  // Copies the first `extents` elements of `from` to `to`, with zeros beyond `used`.
  Stmt copy(const Buffer& from, const Buffer& to, const std::vector<Expr>& extents,
            const std::vector<Expr>& used, const std::string& name) {
    std::vector<IterVar> iters;
    std::vector<Var> loops;
    std::vector<Expr> indices;
    Expr inside;
    for (size_t d = 0; d < extents.size(); ++d) {
      loops.emplace_back(names_.fresh(fmt::format("{}_{}", name, d)));
      Var var(fmt::format("v{}", d));
      iters.push_back({var, extents[d], IterKind::Spatial, loops.back()});
      indices.push_back(var);
      if (!equal(extents[d], used[d])) inside = conjunction(inside, var < used[d]);
    }
    Expr value = load(from, indices);
    if (inside.defined()) value = select(inside, value, make_const(Type(to->elem), 0));
    Stmt nest = make_block(name, std::move(iters), make_store(to, indices, value));
    for (size_t d = loops.size(); d-- > 0;) {
      nest = make_for(loops[d], Expr(0), extents[d], ForKind::Serial, nest);
    }
    return nest;
  }

  // True when the elements from `end` on along a dimension are zeros because their only writer
  // selects zeros there.
  bool is_zero_from(const Buffer& buffer, size_t dim, const Expr& end) const {
    bool is_zero_there = false;
    int writers = 0;
    for (const Stmt& leaf : leaf_blocks(tree_.program().body)) {
      const BlockNode& writer = block_of(leaf);
      const std::vector<Buffer> written = buffers_written(writer);
      if (std::find(written.begin(), written.end(), buffer) == written.end()) continue;
      ++writers;
      auto* store = writer.body.as<StoreNode>();
      if (!store || writer.init.defined()) continue;
      auto* choice = strip_casts(store->value).as<SelectNode>();
      if (!choice || !is_zero(choice->on_false)) continue;
      Analyzer known;
      for (const IterVar& iter : writer.iters) known.bind(iter.var, 0, iter.extent);
      known.assume(store->indices[dim] >= end);
      is_zero_there = is_int(known.simplify(choice->cond), 0);
    }
    return writers == 1 && is_zero_there;
  }

  const Tree& tree_;
  Names names_;
  const BlockNode& block_;
  const Padded& padded_;
  std::vector<StandIn> made_;
};

}  // namespace

PaddedExtents padded_extents(const Tree& tree, const Stmt& s,
                             const std::vector<int64_t>& multiples) {
  const BlockNode& block = block_of(s);
  bool fits = multiples.size() == block.iters.size() &&
              std::all_of(multiples.begin(), multiples.end(), [](int64_t m) { return m >= 1; });
  if (!fits) {
    tree.bad_argument("multiples",
                      fmt::format("{} integers of 1 or more, one an iterator of block '{}'",
                                  block.iters.size(), block.name),
                      fmt::format("[{}]", fmt::join(multiples, ", ")), {s});
  }
  PaddedExtents padded;
  // An extent whose range contains a single multiple becomes that number, as in loops.
  Analyzer known = tree.analyzer_at(path_to(tree.program().body, s.get()));
  for (size_t i = 0; i < multiples.size(); ++i) {
    const Expr& extent = block.iters[i].extent;
    Expr multiple(multiples[i]);
    auto value = as_int(extent);
    if (multiples[i] == 1 || (value && *value % multiples[i] == 0)) continue;
    padded[block.iters[i].var.get()] =
        known.simplify(floordiv(extent + Expr(multiples[i] - 1), multiple) * multiple);
  }
  return padded;
}

Stmt under_padded_loops(const BlockNode& old, const std::vector<Stmt>& loops,
                        const PaddedExtents& padded, Stmt block) {
  for (size_t i = loops.size(); i-- > 0;) {
    const ForNode& loop = loop_of(loops[i]);
    Expr extent = loop.extent;
    for (const IterVar& iter : old.iters) {
      auto it = padded.find(iter.var.get());
      if (iter.binding.same_as(loop.var) && it != padded.end()) extent = it->second;
    }
    block = make_for(loop.var, loop.min, extent, loop.for_kind, block, loop.annotations);
  }
  return block;
}

Applied PadEinsum::apply(const Module& module) const {
  Tree tree(kName, module.main);
  Path path = tree.block(block);
  const BlockNode& old = block_of(path.back());
  std::vector<Stmt> loops = require_lowered(tree, path, "pad it");
  Padded padded = padded_extents(tree, path.back(), multiples);
  for (const IterVar& iter : old.iters) {
    tree.require(!padded.count(iter.var.get()) || iter.binding.as<VarNode>(),
                 RefusalKind::BadStructure,
                 fmt::format("iterator '{}' of block '{}' is bound to no loop; pad it before it is "
                             "scheduled",
                             iter.var.name(), block),
                 {path.back()});
  }
  require_plain_accesses(tree, path.back(), padded);
  require_neutral(tree, path.back(), padded);
  if (padded.empty()) return {module, {}};

  Padder padder(tree, old, padded);
  Stmt nest = under_padded_loops(old, loops, padded, padder.padded_block());
  const Buffer& output = old.body.as<StoreNode>()->buffer;
  std::vector<Stmt> stmts, drains;
  std::vector<std::string> results, drained;
  std::vector<Buffer> allocs;
  for (const StandIn& made : padder.made()) {
    allocs.push_back(made.to);
    if (made.from == output) {
      drained.push_back(padder.fresh(made.from->name + "_unpad"));
      drains.push_back(padder.drain(made, drained.back()));
    } else {
      results.push_back(made.to->name);
      stmts.push_back(padder.fill(made, made.to->name));
    }
  }
  stmts.push_back(nest);
  stmts.insert(stmts.end(), drains.begin(), drains.end());
  results.insert(results.end(), drained.begin(), drained.end());
  Program program = tree.replaced(path_to(module.main.body, loops[0].get()), make_seq(stmts));
  const std::string& scope = block_of(scope_of(path)).name;
  for (const Buffer& buffer : allocs) program = add_alloc(program, scope, buffer);
  return {{std::move(program), module.packs}, results};
}

}  // namespace tilewright
