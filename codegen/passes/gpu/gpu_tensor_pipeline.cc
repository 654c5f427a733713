// TMA pipelines: TMA copies bring tiles of operands to shared memory some iterations ahead of their
// use.
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "codegen/cuda/cuda_cluster.h"
#include "codegen/cuda/cuda_roles.h"
#include "codegen/cuda/cuda_tensor_copy.h"
#include "codegen/cuda/cuda_tile_order.h"
#include "codegen/cuda/instructions/cuda_instruction.h"
#include "codegen/cuda/instructions/cuda_wgmma_nest.h"
#include "codegen/cuda_lowering.h"
#include "codegen/passes/gpu/gpu_tensor_ring.h"
#include "codegen/statements.h"
#include "ir/arith/simplify.h"
#include "ir/visitor.h"
#include "kernel/instructions/mma_rows.h"

namespace tilewright {
namespace {

constexpr int64_t kConsumersMeet = 1;  // the named barrier of the consumers

Stmt simplified_if(const Expr& cond, const Stmt& s) {
  const Expr c = simplify(cond);
  return is_int(c, 1) ? s : make_if(c, s);
}

// Rewrites the code of the threads that compute: the loop that waits for its stages, and TMA stores
// by one thread. Where there is a producer (warp specialization), these consumers have barriers of
// their own.
class Computing : public Mutator {
 public:
  // `stores`: there are TMA stores.
  Computing(const Ring* ring, Var thread, int64_t threads, bool stores, Analyzer& known)
      : ring_(ring), thread_(std::move(thread)), threads_(threads), stores_(stores), known_(known) {
  }

  Stmt operator()(const Stmt& body) {
    Stmt result = mutate(body);
    if (stores_) result = make_seq({result, by_first(call_statement(CallOp::StoreWait))});
    return ring_ ? with_counter(*ring_, result) : result;
  }

 protected:
  Stmt mutate_for(const ForNode& n, const Stmt& s) override {
    if (ring_ && &n == &ring_->loop) {
      return ring_->behind ? consumer_behind() : ring_->by_roles ? consumer() : in_turns();
    }
    if (!is_tensor_copy(n)) return Mutator::mutate_for(n, s);
    const TensorCopy c = match_tensor_copy(n, known_);
    return by_first(c.repeated(store_box(load(c.shared, c.start), c.operand, c.box)));
  }

  // Nothing makes other threads wait for such a store, nor copies for its readers.
  Stmt mutate_store(const StoreNode& n, const Stmt& s) override {
    if (ring_ && ring_->has(n.buffer)) {
      throw LoweringError(
          fmt::format("'{}' is stored to by threads, but TMA copies of loop '{}' fill it; such "
                      "stores need a buffer of their own",
                      n.buffer->name, ring_->loop.var.name()));
    }
    return s;
  }

  // Before others write there again, waits until TMA stores have read what threads wrote for them.
  Stmt mutate_evaluate(const EvaluateNode& n, const Stmt& s) override {
    if (!as_call(n.value, CallOp::Barrier)) return s;
    Stmt meet = ring_ && ring_->by_roles
                    ? call_statement(CallOp::NamedBarrier, {Expr(kConsumersMeet), Expr(threads_)})
                    : s;
    return stores_ ? make_seq({by_first(call_statement(CallOp::StoreWait)), meet}) : meet;
  }

 private:
  Stmt by_first(const Stmt& s) const { return make_if(eq(thread_, Expr(0)), s); }

  Stmt uses_at(const Expr& count) { return mutate(ring_->in_slot(count, make_seq(ring_->uses))); }

  Annotations notes() const {
    Annotations kept = ring_->loop.annotations;
    kept.erase(kPipelineStagesKey);
    kept.erase(kCopiesKey);
    return kept;
  }

  // A stage is free, for all blocks that copy to it, when no group of this warp reads it any more.
  // Reads of lanes belong to another proxy than copies. Without a fence copies may come first,
  // barriers or not (PTX ISA, proxy-preserved causality order).
  // In a cluster a lane for each block tells it, all in one instruction; it speaks for its warp.
  Stmt release(const Expr& count) const {
    const Expr lane = floormod(thread_, Expr(kWarp)), empty = ring_->empty(count);
    const int64_t blocks = ring_->cluster.blocks;
    const Stmt meet = call_statement(CallOp::WarpBarrier);
    Stmt tell = blocks > 1 ? make_if(lane < Expr(blocks),
                                     call_statement(CallOp::MbarrierArriveCluster, {empty, lane}))
                           : make_if(eq(lane, Expr(0)), arrive(empty));
    if (ring_->read_by_lanes) {
      return make_seq({call_statement(CallOp::ProxyFence), meet, tell});
    }
    return blocks > 1 ? make_seq({meet, tell}) : tell;
  }

  Stmt consumer() {
    const ForNode& n = ring_->loop;
    Var first("first");
    const Expr count = simplify(first + n.var - n.min);
    // The preceding stage, without a negative number.
    const Expr before = count + Expr(ring_->stages - 1);
    std::vector<Stmt> steps = {ring_->wait_for_full(count)};
    if (ring_->leaves_pending) {
      steps.push_back(uses_at(count));
      steps.push_back(make_if(n.var > n.min, release(before)));
    } else {
      const Stmt uses = with_release(*ring_, make_seq(ring_->uses), release(count));
      steps.push_back(mutate(ring_->in_slot(count, uses)));
    }
    Stmt body = make_seq(std::move(steps));
    Stmt loop = make_for(n.var, n.min, n.extent, n.for_kind, body, notes());
    if (ring_->leaves_pending) {
      loop = make_seq({loop, release(simplify(first + n.extent + Expr(ring_->stages - 1)))});
    }
    return with_first(*ring_, first, loop);
  }

  // The first iteration has no late product of one before it; the late product of the last one
  // stands behind them all. A stage is read until the late product of its iteration has ended.
  Stmt consumer_behind() {
    const ForNode& n = ring_->loop;
    const BehindIteration& parts = *ring_->behind;
    Var first("first");
    auto count_of = [&](const Expr& at) { return simplify(first + at - n.min); };
    auto before = [&](const Expr& count) { return simplify(count + Expr(ring_->stages - 1)); };
    auto late_at = [&](const Expr& at, const Expr& count) {
      const Stmt there = substitute(parts.late, VarMap{{n.var.get(), simplify(at)}});
      return mutate(ring_->in_slot(count, there));
    };
    auto iteration = [&](const Expr& at, const Stmt& late) {
      const Expr count = count_of(at);
      auto placed = [&](const Stmt& s) {
        const Stmt there = substitute(s, VarMap{{n.var.get(), at}});
        return mutate(ring_->in_slot(count, there));
      };
      return make_seq({ring_->wait_for_full(count), parts.iteration(placed, late)});
    };
    const Expr last = simplify(n.min + n.extent - Expr(1)), count = count_of(n.var);
    Stmt body = make_seq(
        {iteration(n.var, late_at(n.var - Expr(1), before(count))), release(before(count))});
    std::vector<Stmt> stmts = {iteration(n.min, Stmt()),
                               make_for(n.var, simplify(n.min + Expr(1)),
                                        simplify(n.extent - Expr(1)), n.for_kind, body, notes()),
                               late_at(last, count_of(last)), release(count_of(last))};
    Stmt all = make_seq(std::move(stmts));
    all = with_buffers(parts.kept, all);
    if (!known_.prove(n.extent >= Expr(1))) all = make_if(n.extent >= Expr(1), all);
    return with_first(*ring_, first, all);
  }

  // All threads wait for a stage, and meet before one of them fills the stage that they have left.
  Stmt in_turns() {
    const ForNode& n = ring_->loop;
    Var first("first"), ahead(n.var.name() + "_ahead");
    const int64_t distance = ring_->stages - (ring_->leaves_pending ? 2 : 1);
    Stmt meet = call_statement(CallOp::Barrier);
    if (ring_->read_by_lanes)
      meet = make_seq({call_statement(CallOp::ProxyFence), meet});  // as in release()
    auto filled = [&](const Expr& turn) {
      return simplified_if(turn < n.extent,
                           by_first(fill(*ring_, simplify(n.min + turn), first + turn)));
    };
    Stmt begin = make_for(ahead, 0, distance, ForKind::Unrolled, filled(ahead));
    const Expr turn = simplify(n.var - n.min), count = simplify(first + turn);
    Stmt body = make_seq({ring_->wait_for_full(count), meet,
                          filled(simplify(turn + Expr(distance))), uses_at(count)});
    std::vector<Stmt> stmts;
    if (ring_->done) stmts.push_back(meet);  // the tile before may still be read
    if (distance > 0) stmts.push_back(begin);
    stmts.push_back(make_for(n.var, n.min, n.extent, n.for_kind, body, notes()));
    return with_lookups(*ring_, with_first(*ring_, first, make_seq(std::move(stmts))));
  }

  const Ring* ring_;
  Var thread_;
  int64_t threads_;
  bool stores_;
  Analyzer& known_;
};

class KernelRewriter {
 public:
  KernelRewriter(const Stmt& kernel, const Target& target, Analyzer& known)
      : target_(target), known_(known) {
    find(kernel, false);
    if (cluster_.blocks > 1 && !ring_) {
      throw LoweringError(fmt::format(
          "blocks along loop '{}' are to be clusters; they need a pipelined loop with '{}' of '{}'",
          cluster_.block.name(), kCopiesKey, kByRoles));
    }
  }

  Stmt operator()(const Stmt& s) {
    if (!ring_ && !stores_) return s;
    if (auto* a = s.as<AllocateNode>()) {
      auto ring = ring_ ? ring_->rings.find(a->buffer.get()) : BufferMap::iterator{};
      const bool is_ring = ring_ && ring != ring_->rings.end();
      return make_allocate(is_ring ? ring->second : a->buffer, (*this)(a->body));
    }
    auto* n = s.as<ForNode>();
    if (!n || !(is_block_axis(n->for_kind) || n->for_kind == ForKind::ThreadX)) {
      throw LoweringError("tensor copies need a kernel of blocks and of threads along x alone");
    }
    if (is_block_axis(n->for_kind)) {
      Annotations notes = n->annotations;
      Stmt body = (*this)(n->body);
      if (const int64_t consumers = std::exchange(consumers_, 0); consumers > 0) {
        notes[kConsumersKey] = consumers;
      }
      return make_for(n->var, n->min, n->extent, n->for_kind, body, notes);
    }
    return threads(*n);
  }

 private:
  static int64_t stages_of(const ForNode& n) {
    auto it = n.annotations.find(kPipelineStagesKey);
    auto* stages = it == n.annotations.end() ? nullptr : std::get_if<int64_t>(&it->second);
    if (!stages || *stages < 2) {
      throw LoweringError(fmt::format("loop '{}' has '{}'; it needs '{}' of 2 or more",
                                      n.var.name(), kCopiesKey, kPipelineStagesKey));
    }
    return *stages;
  }

  // Finds the pipelined loop of the kernel, and whether it runs repeatedly.
  void find(const Stmt& s, bool repeats) {
    if (auto* n = s.as<ForNode>()) {
      known_.bind_kept(n->var, n->min, n->extent);
      if (n->annotations.count(kCopiesKey) != 0) return take(*n, repeats);
      if (is_tensor_copy(*n)) return take_store(*n);
      const bool is_axis = is_block_axis(n->for_kind) || is_thread_axis(n->for_kind);
      const auto order = tile_order(*n);
      along_curve_ = along_curve_ || (order && order->is_done);
      if (const int64_t blocks = cluster_blocks(*n); blocks > 1) cluster_ = {n->var, blocks, {}};
      return find(n->body, repeats || !is_axis);
    }
    if (auto* n = s.as<IfNode>()) {
      find(n->then_case, repeats);
      if (n->else_case.defined()) find(n->else_case, repeats);
    } else if (auto* l = s.as<LetNode>()) {
      // Values that are the same in all blocks of a cluster need not be looked into.
      if (cluster_.blocks > 1 && !cluster_.is_same(l->value, known_)) {
        cluster_.names[l->var.get()] = substitute(l->value, cluster_.names);
      }
      if (l->value.type() == Type(ElemType::index)) known_.bind_kept(l->var, l->value, Expr(1));
      find(l->body, repeats);
    } else if (auto* a = s.as<AllocateNode>()) {
      find(a->body, repeats);
    } else if (auto* seq = s.as<SeqNode>()) {
      for (const Stmt& child : seq->stmts) find(child, repeats);
    }
  }

  void take_store(const ForNode& n) {
    const TensorCopy c = match_tensor_copy(n, known_);
    if (!c.is_store) {
      throw LoweringError(
          fmt::format("loop '{}' is to be a tensor copy to shared memory; it must stand right in a "
                      "loop that is annotated '{}' and '{}'",
                      n.var.name(), kPipelineStagesKey, kCopiesKey));
    }
    stores_ = true;
  }

  void take(const ForNode& n, bool repeats) {
    auto* way = std::get_if<std::string>(&n.annotations.at(kCopiesKey));
    if (!way || (*way != kByThreads && *way != kByRoles)) {
      throw LoweringError(fmt::format("'{}' of loop '{}' must be '{}' or '{}'", kCopiesKey,
                                      n.var.name(), kByThreads, kByRoles));
    }
    if (ring_) {
      throw LoweringError(
          fmt::format("loop '{}' is the second one of a kernel with '{}'; there may be one",
                      n.var.name(), kCopiesKey));
    }
    ring_.emplace(Ring{n, stages_of(n), *way == kByRoles, leaves_wgmma_pending(n)});
    // Buffers of an iteration: accumulators over its steps of k only.
    const auto [own, stmts] = body_of(n.body);
    for (const Stmt& s : stmts) {
      auto* loop = s.as<ForNode>();
      if (loop && is_tensor_copy(*loop)) {
        ring_->copies.push_back(match_tensor_copy(*loop, known_));
        look_up_once(ring_->copies.back());
      } else {
        ring_->uses.push_back(s);
      }
    }
    if (ring_->copies.empty() || ring_->uses.empty()) {
      throw LoweringError(fmt::format(
          "loop '{}' has '{}', but no loops that are marked '{}' right in it, or nothing "
          "else",
          n.var.name(), kCopiesKey, kTma));
    }
    ring_->behind = take_behind(n, ring_->uses, own);
    if (ring_->behind && (!ring_->by_roles || ring_->stages < 3)) {
      throw LoweringError(fmt::format(
          "loop '{}' has a product that stands behind those of the next iteration; it needs "
          "'{}' of '{}' and '{}' of 3 or more",
          n.var.name(), kCopiesKey, kByRoles, kPipelineStagesKey));
    }
    const Stmt uses = with_buffers(own, make_seq(std::move(ring_->uses)));
    ring_->uses = {uses};
    if (cluster_.blocks > 1) share_copies();
    for (const auto* copies : {&ring_->copies, &ring_->shared}) {
      for (const TensorCopy& c : *copies) {
        ring_->rings[c.shared.get()] = ring_of(c.shared, ring_->stages);
      }
    }
    ring_->read_by_lanes = reads_by_lanes(uses);
    const int64_t sets = ring_->by_roles ? 2 : 1;
    ring_->barriers =
        make_buffer("barriers", ElemType::u64, {Expr(sets * ring_->stages)}, Scope::Shared);
    if (repeats) ring_->done = make_buffer("done", ElemType::u32, {Expr(1)}, Scope::Register);
  }

  // Whether lanes read copied data by themselves. `wgmma` does not count: its warps wait for it.
  bool reads_by_lanes(const Stmt& s) const {
    class Finder : public Visitor {
     public:
      explicit Finder(const BufferMap& rings) : rings_(rings) {}
      bool found = false;

     protected:
      void visit_for(const ForNode& n) override {
        if (!wgmma_mark(n)) Visitor::visit_for(n);
      }
      void visit_load(const LoadNode& n) override {
        found |= rings_.count(n.buffer.get()) != 0;
        Visitor::visit_load(n);
      }

     private:
      const BufferMap& rings_;
    };
    Finder finder(ring_->rings);
    finder(s);
    return finder.found;
  }

  // Finds the copies that are the same for all blocks of a cluster (multicast). All of these blocks
  // must run through the ring together.
  void share_copies() {
    const ForNode& n = ring_->loop;
    auto fail = [&](const std::string& reason) {
      throw LoweringError(fmt::format("blocks along loop '{}' are to be clusters of {}: {}",
                                      cluster_.block.name(), cluster_.blocks, reason));
    };
    if (!ring_->by_roles) {
      fail(fmt::format("loop '{}' needs '{}' of '{}'", n.var.name(), kCopiesKey, kByRoles));
    }
    if (!cluster_.is_same(n.min, known_) || !cluster_.is_same(n.extent, known_)) {
      fail(fmt::format("loop '{}' is not as long in all of them", n.var.name()));
    }
    std::vector<TensorCopy> own;
    for (const TensorCopy& c : ring_->copies) {
      auto are_same = [&](const std::vector<Expr>& list) {
        return std::all_of(list.begin(), list.end(),
                           [&](const Expr& e) { return cluster_.is_same(e, known_); });
      };
      // 1-D bulk copies go to one block only.
      const bool is_same = c.stretch == 0 && are_same(c.box.at) &&
                           (!c.box.pixels || are_same(c.box.pixels->offsets));
      if (is_same) {
        ring_->shared.push_back(c.part(cluster_.rank(), cluster_.blocks));
      } else {
        own.push_back(c);
      }
    }
    if (ring_->shared.empty()) fail("no operand is the same for all of them");
    ring_->copies = own;
    ring_->cluster = cluster_;
  }

  void look_up_once(TensorCopy& copy) {
    for (Expr& at : copy.box.at) {
      const LoadNode* read = nullptr;
      for_each_expr(at, [&](const Expr& e) {
        if (auto* n = e.as<LoadNode>()) read = n;
      });
      bool varies = uses_var(at, ring_->loop.var);
      for (const ForNode* loop : copy.repeats) varies |= uses_var(at, loop->var);
      if (!read || varies) continue;
      const Var name(read->buffer->name + "_at");
      ring_->lookups.emplace_back(name, at);
      at = name;
    }
  }

  // One thread initializes the mbarriers before all others use them.
  Stmt make_barriers(const Var& thread, int64_t consumers) const {
    Var s("s");
    const Expr stages(ring_->stages);
    std::vector<Stmt> made = {
        make_for(s, 0, stages, ForKind::Serial,
                 call_statement(CallOp::MbarrierInit, {load(ring_->barriers, {s}), Expr(1)}))};
    if (ring_->by_roles) {
      Var e("s");
      const Expr warps(consumers / kWarp * ring_->cluster.blocks);
      made.push_back(make_for(
          e, 0, stages, ForKind::Serial,
          call_statement(CallOp::MbarrierInit, {load(ring_->barriers, {e + stages}), warps})));
    }
    made.push_back(call_statement(CallOp::MbarrierFence));
    const Stmt meet =
        call_statement(ring_->cluster.blocks > 1 ? CallOp::ClusterBarrierRelaxed : CallOp::Barrier);
    return make_seq({make_if(eq(thread, Expr(0)), make_seq(std::move(made))), meet});
  }

  Stmt threads(const ForNode& n) {
    const int64_t consumers = as_int(n.extent).value();
    Computing computing(ring_ ? &*ring_ : nullptr, n.var, consumers, stores_, known_);
    Stmt body = computing(n.body);
    int64_t all = consumers;
    if (ring_ && ring_->by_roles) {
      const RoleBudget budget =
          role_budget(consumers, target_.gpu, ring_->cluster.blocks > 1 || along_curve_);
      all = budget.threads();
      consumers_ = consumers;
      Stmt copies = with_counter(*ring_, producer_of(*ring_, n.body));
      copies = make_if(eq(n.var, Expr(consumers)), copies);
      if (ring_->cluster.blocks > 1) {
        // No block ends while others may still signal it, or copy to it.
        body = make_seq({body, call_statement(CallOp::ClusterBarrier)});
        copies = make_seq({copies, call_statement(CallOp::ClusterBarrier)});
      }
      if (budget.consumer_registers > 0) {
        auto set = [](CallOp op, int64_t count) { return call_statement(op, {Expr(count)}); };
        body = make_seq({set(CallOp::RaiseRegisters, budget.consumer_registers), body});
        copies = make_seq({set(CallOp::LowerRegisters, budget.producer_registers), copies});
      }
      body = make_if(n.var < Expr(consumers), body, copies);
    }
    if (ring_) body = make_seq({make_barriers(n.var, consumers), body});
    Stmt result = make_for(n.var, n.min, Expr(all), n.for_kind, body, n.annotations);
    return ring_ ? make_allocate(ring_->barriers, result) : result;
  }

  const Target& target_;
  Analyzer& known_;
  std::optional<Ring> ring_;
  int64_t consumers_ = 0;     // threads, until the outermost loop over blocks is annotated
  bool along_curve_ = false;  // the kernel's tiles run along a curve
  BlockCluster cluster_;      // as the schedule asks for; its names are those around the ring
  bool stores_ = false;       // by TMA
};

}  // namespace

Program pipeline_tensor_copies(const Program& program, const Target& target) {
  Analyzer known;
  for (const DimVar& d : program.dims) known.bind(d.var, Interval{d.min, d.max});
  auto in_kernel = [&](const Stmt& kernel) {
    return KernelRewriter(kernel, target, known)(kernel);
  };
  return with_body(program, map_kernels(program.body, in_kernel));
}

}  // namespace tilewright
