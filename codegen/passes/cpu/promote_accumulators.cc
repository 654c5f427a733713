// Keeps elements in registers while a loop runs that reads and writes them at addresses that do not
// change in it. This is scalar replacement of array elements (Callahan, Carr and Kennedy, PLDI
// 1990).
#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <set>

#include "codegen/c/c_tiles.h"
#include "codegen/lowering.h"
#include "codegen/passes/ranged_mutator.h"
#include "ir/arith/simplify.h"
#include "ir/compare.h"
#include "ir/dot_shape.h"
#include "ir/predicates.h"
#include "ir/visitor.h"

namespace tilewright {
namespace {

constexpr size_t kMostSlots = 96;

// One element or vector of a buffer, at an index that the loop does not change.
struct Slot {
  Expr index;
  Expr predicate;              // common to all accesses, else undefined
  bool unconditional = false;  // some access happens in every iteration
  bool written_first = false;  // the first iteration writes before it reads
  int masked_stores = 0;       // accesses that store under a predicate
  bool masked = false;         // some access is under a predicate
  bool whole = false;          // some access is always of all lanes: they are elements
};

struct Candidate {
  Buffer buffer;
  std::vector<Slot> slots;
  bool stored = false;
  bool tiles = false;  // products of tiles (AMX) are added to it
  bool ok = true;

  // Whether straight code is slow with it in memory: compilers keep plain vectors in registers by themselves,
  // but no tiles, and they load a masked vector after each masked store of it, which no processor forwards.
  bool needs_registers() const {
    return tiles || std::any_of(slots.begin(), slots.end(),
                                [](const Slot& s) { return s.masked_stores > 1; });
  }
  // More tiles than there are registers are kept by inner loops, part by part.
  bool fits() const { return !tiles || slots.size() <= kTileAccumulators; }
};

// A product of tiles that is added to memory.
bool adds_tile(const StoreNode& n) {
  if (n.buffer->scope == Scope::Register || n.predicate.defined()) return false;
  auto* product = as_tile_product(n.value);
  auto* sum = product ? product->args[0].as<LoadNode>() : nullptr;
  return sum && sum->buffer == n.buffer && equal(sum->indices[0], n.indices[0]);
}

bool adds_tile(const Stmt& s) {
  auto* store = s.as<StoreNode>();
  return store && adds_tile(*store);
}

// Collects the accesses in a loop's body, buffer by buffer.
class AccessCollector : public Visitor {
 public:
  explicit AccessCollector(const ForNode& loop) {
    inner_.insert(loop.var.get());
    first_[loop.var.get()] = loop.min;
    (*this)(loop.body);
  }
  std::map<const BufferNode*, Candidate> found;

 protected:
  void visit_for(const ForNode& n) override {
    inner_.insert(n.var.get());
    bool runs = as_int(n.extent).value_or(0) >= 1;
    if (runs) first_[n.var.get()] = n.min;
    conditional_ += !runs;
    Visitor::visit_for(n);
    conditional_ -= !runs;
  }
  void visit_let(const LetNode& n) override {
    inner_.insert(n.var.get());
    Visitor::visit_let(n);
  }
  void visit_if(const IfNode& n) override {
    (*this)(n.cond);
    ++conditional_;
    int later = in_first_iteration(n.cond) ? 0 : 1;
    not_first_ += later;
    (*this)(n.then_case);
    not_first_ += 1 - later;
    (*this)(n.else_case);
    --not_first_;
    --conditional_;
  }
  void visit_allocate(const AllocateNode& n) override {
    local_.insert(n.buffer.get());
    Visitor::visit_allocate(n);
  }
  void visit_select(const SelectNode& n) override {
    (*this)(n.cond);
    ++conditional_;
    (*this)(n.on_true);
    (*this)(n.on_false);
    --conditional_;
  }
  void visit_load(const LoadNode& n) override {
    Visitor::visit_load(n);
    access(n.buffer, n.indices, n.predicate, n.type.lanes, false);
  }
  void visit_store(const StoreNode& n) override {
    for (const Expr& i : n.indices) (*this)(i);
    (*this)(n.predicate);
    (*this)(n.value);
    access(n.buffer, n.indices, n.predicate, n.value.type().lanes, true);
    found[n.buffer.get()].tiles |= adds_tile(n);
  }

 private:
  bool changes(const Expr& e) {
    bool result = false;
    for_each_expr(e, [&](const Expr& x) {
      result |= inner_.count(x.get()) != 0 || x.as<LoadNode>() != nullptr;
    });
    return result;
  }

  // Whether all lanes of an access to neighbours are known to be elements.
  static bool is_inside(const BufferNode& buffer, const Expr& index) {
    auto* r = index.as<RampNode>();
    const auto first = as_int(r ? r->base : index), size = as_int(buffer.shape[0]);
    return first && size && *first >= 0 && *first + index.type().lanes <= *size;
  }

  // A condition that holds in the first iteration of the loops it speaks of: var == first && ….
  bool in_first_iteration(const Expr& cond) {
    auto* n = cond.as<BinaryNode>();
    if (!n) return false;
    if (n->op == BinaryOp::And) return in_first_iteration(n->a) && in_first_iteration(n->b);
    auto it = first_.find(n->a.get());
    return n->op == BinaryOp::EQ && it != first_.end() && equal(it->second, n->b);
  }

  void access(const Buffer& buffer, const std::vector<Expr>& indices, const Expr& predicate,
              int lanes, bool store) {
    Candidate& c = found[buffer.get()];
    c.buffer = buffer;
    c.stored |= store;
    if (!c.ok) return;
    const Expr& index = indices[0];
    auto* r = index.as<RampNode>();
    bool contiguous = r ? is_int(r->stride, 1) : lanes == 1;
    if (!contiguous || local_.count(buffer.get()) || changes(index) ||
        (predicate.defined() && changes(predicate))) {
      c.ok = false;
      return;
    }
    const int masked = store && predicate.defined() ? 1 : 0;
    for (Slot& slot : c.slots) {
      if (!equal(slot.index, index)) continue;
      slot.unconditional |= conditional_ == 0;
      slot.masked_stores += masked;
      bool same =
          slot.predicate.defined() && predicate.defined() && equal(slot.predicate, predicate);
      if (!same) slot.predicate = {};
      slot.masked |= predicate.defined();
      slot.whole |= !predicate.defined() && conditional_ == 0;
      // Lanes that no access takes may lie outside of the buffer.
      c.ok &= !slot.masked || slot.predicate.defined() || slot.whole || is_inside(*buffer, index);
      return;
    }
    const bool first = store && (conditional_ == 0 || not_first_ == 0);
    const bool is_masked = predicate.defined();
    c.slots.push_back({index, predicate, conditional_ == 0, first, masked, is_masked,
                       !is_masked && conditional_ == 0});
    if (c.slots.size() > kMostSlots) c.ok = false;
  }

  std::set<const ExprNode*> inner_;
  std::set<const BufferNode*> local_;
  std::map<const ExprNode*, Expr> first_;  // first values of the loops
  int conditional_ = 0;
  int not_first_ = 0;  // the conditions that may fail in the first iteration
};

// Stores, also under conditions, without a loop.
bool is_straight_code(const Stmt& s) {
  if (!s.defined() || s.as<StoreNode>()) return true;
  if (auto* n = s.as<IfNode>()) {
    return is_straight_code(n->then_case) && is_straight_code(n->else_case);
  }
  auto* n = s.as<SeqNode>();
  return n && std::all_of(n->stmts.begin(), n->stmts.end(), is_straight_code);
}

Expr base_of(const Expr& index) {
  auto* r = index.as<RampNode>();
  return r ? r->base : index;
}

// The leading lanes of a slot that its predicate enables, where their number is constant; else all.
int64_t active_lanes(const Slot& slot) {
  int64_t lanes = slot.index.type().lanes;
  Expr head = leading_lanes(slot.predicate);
  auto count = head.defined() ? as_int(simplify(head)) : std::nullopt;
  return count ? std::clamp<int64_t>(*count, 0, lanes) : lanes;
}

// True when all slots have the same number of lanes, and do not overlap at known distances.
bool disjoint(const std::vector<Slot>& slots) {
  std::map<int64_t, int64_t> spans;  // first element -> elements
  int lanes = slots[0].index.type().lanes;
  for (const Slot& slot : slots) {
    if (slot.index.type().lanes != lanes || !slot.unconditional) return false;
    auto offset = as_int(simplify(base_of(slot.index) - base_of(slots[0].index)));
    if (!offset) return false;
    int64_t width = active_lanes(slot);
    auto next = spans.lower_bound(*offset);
    if (next != spans.end() && next->first < *offset + width) return false;
    if (next != spans.begin() && std::prev(next)->first + std::prev(next)->second > *offset) {
      return false;
    }
    spans[*offset] = width;
  }
  return true;
}

// Redirects the accesses of promoted buffers to their registers.
class Redirect : public Mutator {
 public:
  void add(const Candidate& c, const Buffer& registers) {
    targets_[c.buffer.get()] = {&c, registers};
  }

 protected:
  Expr mutate_load(const LoadNode& n, const Expr& e) override {
    auto it = targets_.find(n.buffer.get());
    if (it == targets_.end()) return Mutator::mutate_load(n, e);
    return load(it->second.second, {place(*it->second.first, n.indices[0])});
  }
  Stmt mutate_store(const StoreNode& n, const Stmt& s) override {
    auto it = targets_.find(n.buffer.get());
    if (it == targets_.end()) return Mutator::mutate_store(n, s);
    return make_store(it->second.second, {place(*it->second.first, n.indices[0])}, mutate(n.value));
  }

 public:
  static Expr place(size_t slot, int lanes) {
    Expr base = static_cast<int64_t>(slot) * lanes;
    return lanes == 1 ? base : ramp(base, 1, lanes);
  }

 private:
  static Expr place(const Candidate& c, const Expr& index) {
    for (size_t i = 0; i < c.slots.size(); ++i) {
      if (equal(c.slots[i].index, index)) return place(i, index.type().lanes);
    }
    TW_ASSERT(false, "an access of a promoted buffer has no slot");
    return {};
  }

  std::map<const BufferNode*, std::pair<const Candidate*, Buffer>> targets_;
};

class Promoter : public RangedMutator {
 public:
  explicit Promoter(const std::vector<DimVar>& dims) {
    for (const DimVar& d : dims) known_.bind(d.var, Interval{d.min, d.max});
  }

 protected:
  Stmt mutate_for(const ForNode& n, const Stmt& s) override {
    if (n.for_kind != ForKind::Serial || known_.bounds(n.extent).max < 2) {
      return RangedMutator::mutate_for(n, s);
    }
    AccessCollector accesses(n);
    const auto chosen = promotable(accesses);
    if (chosen.empty()) return RangedMutator::mutate_for(n, s);
    Stmt loop = promote(n, chosen);
    // A loop that does not run may have elements that it must not write.
    bool runs = known_.prove(n.extent >= Expr(1));
    return runs ? loop : make_if(n.extent >= Expr(1), loop);
  }
  Stmt mutate_seq(const SeqNode& n, const Stmt& s) override {
    std::vector<Stmt> result, run;
    auto end_run = [&] {
      if (!run.empty()) result.push_back(promote_run(std::move(run)));
      run.clear();
    };
    // Tiles are few: what stands between products of tiles parts them.
    const bool tiles =
        std::any_of(n.stmts.begin(), n.stmts.end(), [](const Stmt& c) { return adds_tile(c); });
    for (const Stmt& child : n.stmts) {
      if (tiles ? adds_tile(child) : is_straight_code(child)) {
        run.push_back(child);
        continue;
      }
      end_run();
      result.push_back(mutate(child));
    }
    end_run();
    return make_seq(std::move(result));
  }
  Stmt mutate_store(const StoreNode& n, const Stmt& s) override {
    return adds_tile(n) ? promote_run({s}) : RangedMutator::mutate_store(n, s);
  }

 private:
  using Chosen = std::map<std::string, const Candidate*>;  // by name: a fixed order

  static Chosen promotable(const AccessCollector& accesses) {
    Chosen chosen;
    for (const auto& [buffer, c] : accesses.found) {
      if (c.ok && c.stored && c.fits() && c.buffer->scope != Scope::Register && disjoint(c.slots)) {
        chosen[buffer->name] = &c;
      }
    }
    return chosen;
  }

  // Straight code counts as a loop that runs once. Unrolling a whole reduction leaves such code.
  Stmt promote_run(std::vector<Stmt> run) {
    const Stmt body = make_seq(std::move(run));
    const Stmt loop = make_for(Var("once"), 0, 1, ForKind::Serial, body);
    AccessCollector accesses(*loop.as<ForNode>());
    Chosen chosen = promotable(accesses);
    std::erase_if(chosen, [](const auto& c) { return !c.second->needs_registers(); });
    return chosen.empty() ? body : promote(*loop.as<ForNode>(), chosen);
  }

  Stmt promote(const ForNode& n, const Chosen& chosen) {
    Redirect redirect;
    std::vector<Stmt> before, after;
    std::vector<Buffer> registers;
    for (const auto& [name, c] : chosen) {
      int lanes = c->slots[0].index.type().lanes;
      int64_t size = static_cast<int64_t>(c->slots.size()) * lanes;
      Buffer r = make_buffer(name + "_acc", c->buffer->elem, {size}, Scope::Register);
      registers.push_back(r);
      redirect.add(*c, r);
      for (size_t i = 0; i < c->slots.size(); ++i) {
        const Slot& slot = c->slots[i];
        Expr here = Redirect::place(i, lanes);
        if (!slot.written_first) {
          before.push_back(make_store(r, {here}, load(c->buffer, {slot.index}, slot.predicate)));
        }
        after.push_back(make_store(c->buffer, {slot.index}, load(r, {here}), slot.predicate));
      }
    }
    known_.push();
    known_.bind(n.var, n.min, n.extent);
    Stmt body = mutate(redirect(n.body));
    known_.pop();
    Stmt loop = make_for(n.var, n.min, n.extent, n.for_kind, body, n.annotations);
    before.push_back(loop);
    before.insert(before.end(), after.begin(), after.end());
    Stmt result = make_seq(std::move(before));
    for (const Buffer& r : registers) result = make_allocate(r, result);
    return result;
  }
};

}  // namespace

Program promote_accumulators(const Program& program) {
  Program result = program;
  result.body = Promoter(program.dims)(program.body);
  return result;
}

}  // namespace tilewright
