#include "schedule/primitives/layout/reindex.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "ir/arith/index_map.h"
#include "ir/compare.h"
#include "ir/text/printer.h"
#include "ir/visitor.h"
#include "schedule/primitive_json.h"
#include "schedule/primitives/nest.h"
#include "schedule/tree.h"

namespace tilewright {
namespace {

// Redirects accesses of one buffer to another one at these indices.
class Redirect : public Mutator {
 public:
  Redirect(const Buffer& from, const Buffer& to, const std::vector<Expr>& at)
      : from_(from), to_(to), at_(at) {}

 protected:
  Expr mutate_load(const LoadNode& n, const Expr& e) override {
    return n.buffer == from_ ? load(to_, at_) : Mutator::mutate_load(n, e);
  }
  Stmt mutate_store(const StoreNode& n, const Stmt& s) override {
    if (n.buffer != from_) return Mutator::mutate_store(n, s);
    return make_store(to_, at_, mutate(n.value));
  }

 private:
  const Buffer& from_;
  const Buffer& to_;
  const std::vector<Expr>& at_;
};

class Reindexer {
 public:
  Reindexer(const Tree& tree, const Reindex& args)
      : tree_(tree), args_(args), path_(tree.block(args.block)),
        block_(*path_.back().as<BlockNode>()), names_(tree.program()),
        loops_(require_lowered(tree, path_, "reindex its operands")) {
    find_accesses();
    require_inside();
    if (written_) require_own_elements();
  }

  Applied reindexed(const Module& module) {
    std::vector<IterVar> iters = dimensions();
    std::vector<Expr> shape, at;
    for (const IterVar& iter : iters) {
      shape.push_back(iter.extent);
      at.push_back(iter.var);
    }
    Buffer to = make_buffer(names_.fresh(from_->name + "_reindex"), from_->elem, shape);
    Redirect redirect(from_, to, at);
    Stmt init = block_.init.defined() ? redirect(block_.init) : Stmt();
    Stmt block = make_block(block_.name, block_.iters, redirect(block_.body), init,
                            block_.predicate, block_.allocs, block_.annotations);
    std::vector<Stmt> stmts = {wrap_loops(loops_, block)};
    stmts.insert(written_ ? stmts.end() : stmts.begin(), copy(to, iters));
    Module result = module;
    result.main = tree_.replaced(path_to(module.main.body, loops_[0].get()), make_seq(stmts));
    result.main = add_alloc(result.main, scope_of(path_).as<BlockNode>()->name, to);
    return {std::move(result), {to->name}};
  }

 private:
  void find_accesses() {
    bool same = true;
    auto see = [&](const Buffer& buffer, const std::vector<Expr>& indices, const Expr& predicate) {
      if (buffer->name != args_.buffer) return;
      if (!from_) indices_ = indices;
      from_ = buffer;
      same = same && !predicate.defined() && equal_all(indices_, indices);
    };
    auto walk = [&](const Stmt& s) {
      for_each_expr(s, [&](const Expr& e) {
        if (auto* n = e.as<LoadNode>()) see(n->buffer, n->indices, n->predicate);
      });
      for_each_stmt(s, [&](const Stmt& part) {
        auto* n = part.as<StoreNode>();
        if (n && n->buffer->name == args_.buffer) written_ = true;
        if (n) see(n->buffer, n->indices, n->predicate);
      });
    };
    walk(block_.body);
    if (block_.init.defined()) walk(block_.init);
    tree_.require(from_ != nullptr, RefusalKind::NotFound,
                  fmt::format("block '{}' does not access '{}'", block_.name, args_.buffer),
                  {path_.back()});
    tree_.require(same, RefusalKind::Unsupported,
                  fmt::format("block '{}' accesses '{}' at several places, or under a predicate",
                              block_.name, args_.buffer),
                  {path_.back()});
  }

  // True when every iteration reads the buffer: its value has no condition.
  bool always_accesses() const {
    bool conditions = false;
    auto see = [&](const Expr& e) {
      auto* n = e.as<CallNode>();
      conditions |= e.as<SelectNode>() || (n && n->op == CallOp::IfThenElse);
    };
    for_each_expr(block_.body, see);
    return !conditions;
  }

  // The copy runs for all iterations, even those that a condition in the value excludes. Without
  // such a condition it reads no more than the block does.
  void require_inside() const {
    if (!written_ && always_accesses()) return;
    Analyzer known = tree_.analyzer_at(path_);
    for (const IterVar& iter : block_.iters) known.bind(iter.var, 0, iter.extent);
    for (size_t d = 0; d < indices_.size(); ++d) {
      bool inside =
          known.prove(Expr(0) <= indices_[d]) && known.prove(indices_[d] < from_->shape[d]);
      tree_.require(inside, RefusalKind::Unsupported,
                    fmt::format("dimension {} of '{}' is read at {}, which is not known to lie "
                                "within its extent",
                                d, from_->name, to_string(indices_[d])),
                    {path_.back()});
    }
  }

  void require_own_elements() const {
    for (const Stmt& s : leaf_blocks(tree_.program().body)) {
      const BlockNode& other = *s.as<BlockNode>();
      std::vector<Buffer> written = buffers_written(other);
      bool writes = std::find(written.begin(), written.end(), from_) != written.end();
      tree_.require(!writes || &other == &block_, RefusalKind::Dependence,
                    fmt::format("block '{}' also writes '{}'", other.name, from_->name),
                    {path_.back(), s});
    }
    std::vector<Buffer> read = buffers_read(block_);
    bool updates = std::find(read.begin(), read.end(), from_) != read.end();
    tree_.require(!updates || block_.init.defined(), RefusalKind::BadStructure,
                  fmt::format("block '{}' updates '{}', whose init stands elsewhere; reindex it "
                              "before it is scheduled",
                              block_.name, from_->name),
                  {path_.back()});
    IndexMap map;
    std::vector<Expr> extents;
    for (const IterVar& iter : dimensions()) {
      map.inputs.push_back(iter.var);
      extents.push_back(iter.extent);
    }
    map.outputs = indices_;
    try {
      map.inverse(extents);
    } catch (const IrError& e) {
      tree_.refuse(RefusalKind::Unsupported,
                   fmt::format("iterations of block '{}' may write the same element of '{}': {}",
                               block_.name, from_->name, e.what()),
                   {path_.back()});
    }
  }

  // The iterators that become dimensions.
  std::vector<IterVar> dimensions() const {
    std::vector<IterVar> list;
    for (const IterVar& iter : block_.iters) {
      bool used = written_ ? iter.kind == IterKind::Spatial
                           : std::any_of(indices_.begin(), indices_.end(),
                                         [&](const Expr& e) { return uses_var(e, iter.var); });
      if (used) list.push_back(iter);
    }
    return list;
  }

  // Copies to the new buffer, or back from it.
  Stmt copy(const Buffer& to, std::vector<IterVar> iters) {
    VarMap fresh;
    std::vector<Expr> at, place;
    for (IterVar& iter : iters) {
      Var v(iter.var.name());
      fresh[iter.var.get()] = v;
      iter = {v, iter.extent, IterKind::Spatial, Expr(0)};
      at.push_back(v);
    }
    for (const Expr& index : indices_) place.push_back(substitute(index, fresh));
    Stmt body =
        written_ ? make_store(from_, place, load(to, at)) : make_store(to, at, load(from_, place));
    Stmt block = make_block(to->name, std::move(iters), body);
    Analyzer known = tree_.analyzer_at(path_to(tree_.program().body, loops_[0].get()));
    const BlockNode& node = *block.as<BlockNode>();
    return make_nest(node, full_ranges(node), known, names_);
  }

  const Tree& tree_;
  const Reindex& args_;
  Path path_;
  const BlockNode& block_;
  Names names_;
  std::vector<Stmt> loops_;
  Buffer from_;
  std::vector<Expr> indices_;
  bool written_ = false;
};

}  // namespace

Applied Reindex::apply(const Module& module) const {
  Tree tree(kName, module.main);
  return Reindexer(tree, *this).reindexed(module);
}

std::vector<PrimitiveEntry> reindex_primitives() { return {primitive_entry<Reindex>()}; }

}  // namespace tilewright
