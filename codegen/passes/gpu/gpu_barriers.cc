// Inserts barriers where threads of a block exchange values through memory.
#include <algorithm>
#include <cstdlib>
#include <utility>
#include <vector>

#include "codegen/cuda/cuda_tensor_copy.h"
#include "codegen/cuda_lowering.h"
#include "codegen/loop_nest.h"
#include "codegen/statements.h"
#include "ir/arith/simplify.h"
#include "ir/predicates.h"
#include "ir/visitor.h"

namespace tilewright {
namespace {

// Accesses since the last barrier to memory that other threads see.
struct Since {
  BufferSet written, read;
  // Asynchronous copies that were issued; they count as written once they are waited for.
  BufferSet in_flight;

  void merge(const Since& other) {
    written.insert(other.written.begin(), other.written.end());
    read.insert(other.read.begin(), other.read.end());
    in_flight.insert(other.in_flight.begin(), other.in_flight.end());
  }
};

// The loop and the loops inside it.
std::vector<const ForNode*> nest_of(const ForNode& loop) {
  std::vector<const ForNode*> nest = {&loop};
  for_each_stmt(loop.body, [&](const Stmt& s) {
    if (auto* inner = s.as<ForNode>()) nest.push_back(inner);
  });
  return nest;
}

bool has_let(const Stmt& s) {
  bool has = false;
  for_each_stmt(s, [&](const Stmt& x) { has |= x.as<LetNode>() != nullptr; });
  return has;
}

// Whether each iteration of the loop stores to a stretch of its own: its inner loops reach less far than
// one iteration's step, whatever their digits are. The flat index is a multiple of the loop's variable, plus
// what inner loops add.
bool stores_to_stretches(const ForNode& loop, const Expr& flat,
                         const std::vector<const ForNode*>& nest, Analyzer& known) {
  const Expr next = substitute(flat, VarMap{{loop.var.get(), loop.var + Expr(1)}});
  const auto step = as_int(known.simplify(next - flat));
  VarMap first;
  for (const ForNode* l : nest) {
    if (l != &loop) first[l->var.get()] = l->min;
  }
  const Expr added = known.simplify(flat - substitute(flat, first));
  const Interval reach = known.bounds(added);
  return step && reach.is_bounded() && reach.max - reach.min < std::abs(*step);
}

// Whether no two iterations of the loop write the same element of the buffer. The buffer must have
// one store, whose flat index has the loops of the nest as its digits, or whose iterations store to
// stretches of their own.
bool writes_apart(const ForNode& loop, const BufferNode* buffer) {
  std::vector<const StoreNode*> stores;
  for_each_stmt(loop.body, [&](const Stmt& s) {
    auto* store = s.as<StoreNode>();
    if (store && store->buffer.get() == buffer) stores.push_back(store);
  });
  if (stores.size() != 1) return false;
  const std::vector<const ForNode*> nest = nest_of(loop);
  const Expr flat = flat_index(stores[0]->buffer, stores[0]->indices);
  // Otherwise the index may change from iteration to iteration without the digits.
  if (has_let(loop.body) || reads_memory(flat)) return false;
  Analyzer known;
  for (const ForNode* l : nest) {
    if (l != &loop && !as_int(l->min)) return false;
    known.bind(l->var, l->min, l->extent);
  }
  if (stores_to_stretches(loop, flat, nest, known)) return true;
  std::vector<std::pair<int64_t, int64_t>> digits;  // the index's step, and its count
  for (const ForNode* l : nest) {
    const Expr next = substitute(flat, VarMap{{l->var.get(), l->var + Expr(1)}});
    auto step = as_int(known.simplify(next - flat)), extent = as_int(l->extent);
    if (!step || !extent || (l == &loop && *step == 0)) return false;
    if (*step != 0) digits.emplace_back(std::abs(*step), *extent);
  }
  std::sort(digits.begin(), digits.end());
  int64_t reach = 0;  // the largest sum of the digits so far
  for (const auto& [step, extent] : digits) {
    if (step <= reach) return false;
    reach += step * (extent - 1);
  }
  return true;
}

// The effects of one statement on memory that threads of a block share.
struct Effects {
  BufferSet written, read, issued;
  bool waits = false, is_barrier = false;
};

// Walks a kernel. A loop over threads is one step: `bind` has made sure that no iteration reads
// what another one writes. No barrier is needed inside it.
class BarrierInserter : public Mutator {
 public:
  explicit BarrierInserter(BufferSet shared) : shared_(std::move(shared)) {}

 protected:
  using Mutator::mutate;
  Expr mutate(const Expr& e) override { return e; }
  Stmt mutate_store(const StoreNode&, const Stmt& s) override { return step(s); }
  Stmt mutate_evaluate(const EvaluateNode&, const Stmt& s) override { return step(s); }

  Stmt mutate_for(const ForNode& n, const Stmt& s) override {
    bool by_threads = is_thread_axis(n.for_kind) || n.for_kind == ForKind::Warp;
    if (by_threads || is_tensor_copy(n) || needs_none(n)) return step(s);
    if (!is_block_axis(n.for_kind)) {
      // The next iteration begins with the accesses that this one leaves.
      Since before = since_;
      mutate(n.body);
      since_.merge(before);
    }
    return Mutator::mutate_for(n, s);
  }

  // All threads take the same branch: nothing outside loops over threads depends on the thread.
  Stmt mutate_if(const IfNode& n, const Stmt&) override {
    Since before = since_;
    Stmt then_case = mutate(n.then_case);
    Since after = since_;
    since_ = before;
    Stmt else_case = mutate(n.else_case);
    since_.merge(after);
    return make_if(n.cond, then_case, else_case);
  }

 private:
  // A loop whose iterations need no barrier between or in them needs at most one, before it.
  bool needs_none(const ForNode& n) const {
    if (is_block_axis(n.for_kind)) return false;
    BarrierInserter alone(shared_);
    alone(n.body);
    Since& left = alone.since_;
    std::erase_if(left.written, [&](const BufferNode* b) {
      return left.read.count(b) == 0 && writes_apart(n, b);
    });
    alone(n.body);
    return !alone.has_barrier_;
  }

  Stmt step(const Stmt& s) {
    Effects e = effects_of(s);
    if (e.waits) since_.written.insert(since_.in_flight.begin(), since_.in_flight.end());
    bool hazard = meet(e.read, since_.written) || meet(e.written, since_.written) ||
                  meet(e.written, since_.read) || meet(e.issued, since_.written) ||
                  meet(e.issued, since_.read);
    if (hazard || e.is_barrier) since_.written = since_.read = {};
    has_barrier_ |= hazard || e.is_barrier || e.waits;
    since_.written.insert(e.written.begin(), e.written.end());
    since_.read.insert(e.read.begin(), e.read.end());
    since_.in_flight.insert(e.issued.begin(), e.issued.end());
    if (!hazard) return s;
    return make_seq({call_statement(CallOp::Barrier), s});
  }

  Effects effects_of(const Stmt& s) const {
    Effects e;
    for_each_expr(s, [&](const Expr& x) {
      if (auto* n = x.as<LoadNode>()) note(n->buffer, e.read);
      e.waits |= as_call(x, CallOp::AsyncWait) != nullptr;
      e.is_barrier |= as_call(x, CallOp::Barrier) != nullptr;
    });
    for_each_stmt(s, [&](const Stmt& x) {
      auto* n = x.as<StoreNode>();
      if (n) note(n->buffer, n->is_async ? e.issued : e.written);
    });
    return e;
  }

  void note(const Buffer& b, BufferSet& list) const {
    if (shared_.count(b.get()) != 0) list.insert(b.get());
  }

  const BufferSet shared_;
  Since since_;
  bool has_barrier_ = false;  // or a wait
};

// Buffers through which threads of one kernel can exchange values: those that it writes. TMA copies
// to shared memory have waits of their own (pipeline_tensor_copies).
BufferSet exchanged(const Stmt& kernel) {
  BufferSet buffers, brought;
  for_each_stmt(kernel, [&](const Stmt& s) {
    auto* n = s.as<StoreNode>();
    if (n && !is_private(n->buffer)) buffers.insert(n->buffer.get());
    auto* loop = s.as<ForNode>();
    if (!loop || !is_tensor_copy(*loop)) return;
    brought.merge(stored_by(s));
  });
  for (const BufferNode* b : brought) {
    if (b->scope == Scope::Shared) buffers.erase(b);
  }
  return buffers;
}

}  // namespace

Program insert_barriers(const Program& program) {
  auto in_kernel = [](const Stmt& kernel) { return BarrierInserter(exchanged(kernel))(kernel); };
  return with_body(program, map_kernels(program.body, in_kernel));
}

}  // namespace tilewright
