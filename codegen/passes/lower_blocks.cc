// Turns blocks into loops and ifs, and places buffers.
#include <map>
#include <set>
#include <vector>

#include "base/error.h"
#include "codegen/cuda/instructions/cuda_instruction.h"
#include "codegen/cuda/instructions/cuda_wgmma_nest.h"
#include "codegen/cuda_lowering.h"
#include "codegen/lowering.h"
#include "ir/visitor.h"

namespace tilewright {
namespace {

using LoopPath = std::vector<const VarNode*>;

// For each buffer that a block allocates: the loops that hold all of its uses. A buffer that a
// reduction accumulates into must outlive the reduction's loops, so those do not count. Unrolled
// loops do not count either if they leave asynchronous instructions in flight that take the buffer
// from registers.
class PlaceFinder : public Visitor {
 public:
  struct Place {
    LoopPath path;
    bool seen = false;
  };
  std::map<const BufferNode*, Place> places;

 protected:
  void visit_for(const ForNode& n) override {
    const size_t outside = outside_;
    const bool in_flight = in_flight_;
    if (leaves_wgmma_pending(n) && n.for_kind == ForKind::Unrolled) {
      outside_ = std::min(outside_, path_.size());
    }
    in_flight_ = in_flight_ || wgmma_mark(n);
    path_.push_back(n.var.as<VarNode>());
    Visitor::visit_for(n);
    path_.pop_back();
    outside_ = outside;
    in_flight_ = in_flight;
  }

  void visit_block(const BlockNode& n) override {
    for (const Buffer& b : n.allocs) places[b.get()];
    size_t limit = kept_;
    std::set<const ExprNode*> reduced;
    for (const IterVar& iter : n.iters) {
      if (iter.kind != IterKind::Reduce) continue;
      for_each_expr(iter.binding, [&](const Expr& e) { reduced.insert(e.get()); });
    }
    size_t first = 0;
    while (first < path_.size() && !reduced.count(path_[first])) ++first;
    if (first < path_.size()) kept_ = std::min(limit, first);
    std::set<const BufferNode*> outer_written = std::move(written_);
    written_ = outer_written;
    for_each_stmt(n.body, [&](const Stmt& s) {
      auto* store = first < path_.size() ? s.as<StoreNode>() : nullptr;
      if (store) written_.insert(store->buffer.get());
    });
    Visitor::visit_block(n);
    written_ = std::move(outer_written);
    kept_ = limit;
  }

  void visit_load(const LoadNode& n) override {
    use(n.buffer.get(), in_flight_ && is_private(n.buffer) ? outside_ : SIZE_MAX);
    Visitor::visit_load(n);
  }
  void visit_store(const StoreNode& n) override {
    use(n.buffer.get());
    Visitor::visit_store(n);
  }

 private:
  // Records a use of a buffer, which may live inside at most `most` of the loops around.
  void use(const BufferNode* buffer, size_t most = SIZE_MAX) {
    auto it = places.find(buffer);
    if (it == places.end()) return;
    LoopPath here = path_;
    if (most < here.size()) here.resize(most);
    if (written_.count(buffer) && kept_ < here.size()) here.resize(kept_);
    Place& place = it->second;
    if (!place.seen) {
      place = {here, true};
      return;
    }
    size_t common = 0;
    while (common < here.size() && common < place.path.size() &&
           here[common] == place.path[common]) {
      ++common;
    }
    place.path.resize(common);
  }

  LoopPath path_;
  size_t kept_ = SIZE_MAX;               // loops of path_ that a written buffer may live inside
  size_t outside_ = SIZE_MAX;            // loops around those that leave groups in flight
  bool in_flight_ = false;               // inside one of these groups
  std::set<const BufferNode*> written_;  // by the reducing blocks around
};

class BlockLowerer : public Mutator {
 public:
  explicit BlockLowerer(const std::map<const BufferNode*, PlaceFinder::Place>& places) {
    for (const auto& [buffer, place] : places) {
      if (place.seen) at_[place.path.empty() ? nullptr : place.path.back()].insert(buffer);
    }
  }

  Stmt lower_root(const Stmt& root) { return wrap(nullptr, mutate(root)); }

 protected:
  Expr mutate_var(const VarNode& n, const Expr& e) override {
    auto it = bindings_.find(&n);
    return it == bindings_.end() ? e : it->second;
  }

  Stmt mutate_for(const ForNode& n, const Stmt&) override {
    Expr min = mutate(n.min), extent = mutate(n.extent);
    Stmt body = wrap(n.var.as<VarNode>(), mutate(n.body));
    return make_for(n.var, min, extent, n.for_kind, body, n.annotations);
  }

  Stmt mutate_block(const BlockNode& n, const Stmt&) override {
    for (const Buffer& b : n.allocs) buffers_[b.get()] = b;
    Expr first;  // all reduce iterators are at 0
    for (const IterVar& iter : n.iters) {
      Expr value = mutate(iter.binding);
      bindings_[iter.var.get()] = value;
      if (iter.kind != IterKind::Reduce) continue;
      Expr at_zero = eq(value, 0);
      first = first.defined() ? first && at_zero : at_zero;
    }
    Stmt init = mutate(n.init);
    if (init.defined() && first.defined()) init = make_if(first, init);
    Stmt body = make_seq({init, mutate(n.body)});
    return n.predicate.defined() ? make_if(mutate(n.predicate), body) : body;
  }

 private:
  // Allocates the buffers that live in the body of the loop `var`, in the order of their names.
  Stmt wrap(const VarNode* var, Stmt body) {
    auto it = at_.find(var);
    if (it == at_.end()) return body;
    std::map<std::string, Buffer> ordered;
    for (const BufferNode* b : it->second) {
      auto found = buffers_.find(b);
      if (found != buffers_.end()) ordered[b->name] = found->second;
    }
    for (const auto& [name, buffer] : ordered) body = make_allocate(buffer, body);
    return body;
  }

  std::map<const VarNode*, std::set<const BufferNode*>> at_;
  std::map<const BufferNode*, Buffer> buffers_;
  VarMap bindings_;
};

}  // namespace

Program lower_blocks(const Program& program) {
  PlaceFinder finder;
  finder(program.body);
  Program result = program;
  result.body = BlockLowerer(finder.places).lower_root(program.body);
  return result;
}

}  // namespace tilewright
