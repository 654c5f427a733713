// Buffer regions: the boxes that indices cover and that statements read and write.
#include <algorithm>

#include "ir/arith/ends.h"
#include "ir/arith/interval.h"
#include "ir/buffer.h"
#include "ir/call_table.h"
#include "ir/visitor.h"

namespace tilewright {
namespace {

using arith::EndFinder;
using arith::Ends;
using arith::Linear;

// The ends, clipped to a dimension of `size` elements, as a range: no index that is evaluated
// leaves the dimension. Undefined ends give the whole dimension.
Range clip(EndFinder& finder, const std::optional<Ends>& ends, const Expr& size) {
  Range whole{Expr(0), size};
  if (!ends) return whole;
  Linear extent = finder.extent(*ends), limit = Linear::of(size);
  if (finder.proves_not_negative(extent - limit)) return whole;
  bool is_fixed = ends->low.is_const() && ends->high.is_const() && limit.is_const();
  if (!is_fixed) return {ends->low.expr(), extent.expr()};
  int64_t last = limit.constant - 1;
  int64_t low = std::clamp<int64_t>(ends->low.constant, 0, last);
  int64_t high = std::clamp<int64_t>(ends->high.constant, low, last);
  return {Expr(low), Expr(high - low + 1)};
}

// Rewrites index vectors as scalar expressions of a lane number.
class LaneOpener : public Mutator {
 public:
  LaneOpener(Expr lane, int lanes) : lane_(std::move(lane)), lanes_(lanes) {}

 protected:
  Expr mutate_ramp(const RampNode& n, const Expr& e) override {
    return n.type.lanes == lanes_ ? mutate(n.base) + mutate(n.stride) * lane_ : e;
  }
  Expr mutate_broadcast(const BroadcastNode& n, const Expr&) override { return mutate(n.value); }

 private:
  const Expr lane_;
  const int lanes_;
};

class AccessFinder : public Visitor {
 public:
  Accesses found() {
    Accesses result;
    for (Found& f : reads_) result.reads.push_back(finished(f));
    for (Found& f : writes_) result.writes.push_back(finished(f));
    return result;
  }

 protected:
  using Visitor::visit;

  void visit_for(const ForNode& n) override {
    Visitor::visit(n.min);
    Visitor::visit(n.extent);
    finder_.push();
    finder_.bind(n.var, replaced(n.min), replaced(n.extent));
    Visitor::visit(n.body);
    finder_.pop();
  }

  void visit_block(const BlockNode& n) override {
    std::vector<Expr> bindings;
    for (const IterVar& iter : n.iters) {
      Visitor::visit(iter.binding);
      bindings.push_back(replaced(iter.binding));
    }
    for (size_t i = 0; i < bindings.size(); ++i) {
      values_.insert_or_assign(n.iters[i].var.get(), bindings[i]);
    }
    Visitor::visit(n.predicate);
    Visitor::visit(n.init);
    Visitor::visit(n.body);
    for (const Buffer& b : n.allocs) drop(b);
  }

  void visit_let(const LetNode& n) override {
    Visitor::visit(n.value);
    values_.insert_or_assign(n.var.get(), replaced(n.value));
    Visitor::visit(n.body);
  }

  void visit_allocate(const AllocateNode& n) override {
    Visitor::visit(n.body);
    drop(n.buffer);
  }

  void visit_store(const StoreNode& n) override {
    Visitor::visit_store(n);
    add(writes_, n.buffer, n.indices);
  }

  void visit_load(const LoadNode& n) override {
    Visitor::visit_load(n);
    add(reads_, n.buffer, n.indices);
  }

  void visit_call(const CallNode& n) override {
    for (size_t a = 0; a < n.args.size(); ++a) {
      const CallAccess access = access_of(n.op, a);
      if (access == CallAccess::Value) {
        Visitor::visit(n.args[a]);
        continue;
      }
      const LoadNode& named = *n.args[a].as<LoadNode>();
      for (const Expr& i : named.indices) Visitor::visit(i);
      switch (access) {
        case CallAccess::Value:
        case CallAccess::Address: break;
        case CallAccess::Sync:
          add(reads_, named.buffer, named.indices);
          add(writes_, named.buffer, named.indices);
          break;
        case CallAccess::Read:
        case CallAccess::MapRead: add_whole(reads_, named.buffer); break;
        case CallAccess::Write:
        case CallAccess::MapWrite: add_whole(writes_, named.buffer); break;
      }
    }
  }

 private:
  struct Found {
    Buffer buffer;
    std::vector<std::optional<Ends>> box;  // a dimension without ends is touched as a whole
  };

  Expr replaced(const Expr& e) const { return values_.empty() ? e : substitute(e, values_); }

  static std::vector<Found>::iterator find(std::vector<Found>& list, const Buffer& buffer) {
    return std::find_if(list.begin(), list.end(),
                        [&](const Found& f) { return f.buffer == buffer; });
  }

  static void add_whole(std::vector<Found>& list, const Buffer& buffer) {
    auto it = find(list, buffer);
    if (it == list.end()) it = list.insert(it, {buffer, {}});
    it->box.assign(buffer->shape.size(), std::nullopt);
  }

  void add(std::vector<Found>& list, const Buffer& buffer, const std::vector<Expr>& indices) {
    auto it = find(list, buffer);
    bool is_new = it == list.end();
    if (is_new) it = list.insert(it, {buffer, {}});
    for (size_t d = 0; d < indices.size(); ++d) {
      std::optional<Ends> ends = ends_of(replaced(indices[d]));
      if (is_new) {
        it->box.push_back(std::move(ends));
      } else if (it->box[d] && ends) {
        it->box[d] = finder_.unite(*it->box[d], *ends);
      } else {
        it->box[d] = std::nullopt;
      }
    }
  }

  std::optional<Ends> ends_of(const Expr& index) {
    int lanes = index.type().lanes;
    if (lanes == 1) return finder_.ends(index);
    Var lane("lane");
    finder_.push();
    finder_.bind(lane, Expr(0), Expr(lanes));
    auto ends = finder_.ends(LaneOpener(lane, lanes)(index));
    finder_.pop();
    return ends;
  }

  void drop(const Buffer& buffer) {
    auto is_it = [&](const Found& f) { return f.buffer == buffer; };
    std::erase_if(reads_, is_it);
    std::erase_if(writes_, is_it);
  }

  BufferRegion finished(const Found& f) {
    BufferRegion result{f.buffer, {}};
    for (size_t d = 0; d < f.box.size(); ++d) {
      result.region.push_back(clip(finder_, f.box[d], f.buffer->shape[d]));
    }
    return result;
  }

  EndFinder finder_;
  VarMap values_;  // values of block iterators and lets
  std::vector<Found> reads_, writes_;
};

// Collects the variables of `vars` that `e` uses, directly or through their ranges. Each follows
// those that its range refers to.
void order_by_use(const Expr& e, const std::map<const ExprNode*, Range>& vars,
                  std::vector<Expr>& out) {
  for_each_expr(e, [&](const Expr& x) {
    auto it = vars.find(x.get());
    bool seen = std::any_of(out.begin(), out.end(), [&](const Expr& v) { return v.same_as(x); });
    if (it == vars.end() || seen) return;
    order_by_use(it->second.min, vars, out);
    order_by_use(it->second.extent, vars, out);
    out.push_back(x);
  });
}

}  // namespace

Region cover(const std::vector<Expr>& indices, const std::vector<Expr>& shape,
             const std::map<const ExprNode*, Range>& vars) {
  EndFinder finder;
  std::vector<Expr> inner;
  for (const Expr& index : indices) order_by_use(index, vars, inner);
  for (const Expr& var : inner) {
    const Range& range = vars.at(var.get());
    finder.bind(var, range.min, range.extent);
  }
  Region result;
  for (size_t d = 0; d < indices.size(); ++d) {
    result.push_back(clip(finder, finder.ends(indices[d]), shape[d]));
  }
  return result;
}

Accesses accesses(const Stmt& s) {
  AccessFinder finder;
  finder(s);
  return finder.found();
}

}  // namespace tilewright
