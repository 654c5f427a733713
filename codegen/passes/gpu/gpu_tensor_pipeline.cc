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
#include "codegen/passes/gpu/gpu_tensor_consumer.h"
#include "codegen/statements.h"
#include "ir/arith/simplify.h"
#include "ir/visitor.h"
#include "kernel/instructions/mma_rows.h"

namespace tilewright {
namespace {

class KernelRewriter {
 public:
  KernelRewriter(const Stmt& kernel, const Target& target, Analyzer& known)
      : target_(target), known_(known) {
    find(kernel, nullptr);
    if (cluster_.blocks > 1 && !ring_) {
      throw LoweringError(fmt::format(
          "blocks along loop '{}' are to be clusters; they need a pipelined loop with '{}' of '{}' "
          "or '{}'",
          cluster_.block.name(), kCopiesKey, kByRoles, kPingPong));
    }
  }

  Stmt operator()(const Stmt& s) {
    if (!ring_ && !stores_.any) return s;
    if (auto* a = s.as<AllocateNode>()) {
      const Buffer b = placed(a->buffer);
      return make_allocate(b, (*this)(a->body));
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
        if (ring_->teams > 1) notes[kTeamsOfConsumersKey] = ring_->teams;
      }
      return make_for(n->var, n->min, n->extent, n->for_kind, body, notes);
    }
    return threads(*n);
  }

 private:
  // The buffer with all stages of its ring, and for each team of consumers that writes it.
  Buffer placed(const Buffer& b) {
    if (ring_ && ring_->rings.count(b.get()) != 0) return ring_->rings.at(b.get());
    const auto ring = stores_.rings.find(b.get());
    Buffer stored = ring == stores_.rings.end() ? b : ring->second;
    if (!ring_ || ring_->teams == 1 || b->scope != Scope::Shared) return stored;
    return own_[stored.get()] = ring_of(stored, ring_->teams);
  }

  static int64_t stages_of(const ForNode& n) {
    auto it = n.annotations.find(kPipelineStagesKey);
    auto* stages = it == n.annotations.end() ? nullptr : std::get_if<int64_t>(&it->second);
    if (!stages || *stages < 2) {
      throw LoweringError(fmt::format("loop '{}' has '{}'; it needs '{}' of 2 or more",
                                      n.var.name(), kCopiesKey, kPipelineStagesKey));
    }
    return *stages;
  }

  // Finds the pipelined loop of the kernel, and the outermost loop that repeats it, if there is one.
  void find(const Stmt& s, const ForNode* repeats) {
    if (auto* n = s.as<ForNode>()) {
      known_.bind_kept(n->var, n->min, n->extent);
      if (n->annotations.count(kCopiesKey) != 0) return take(*n, repeats);
      if (n->annotations.count(kStoreRingKey) != 0) return take_store_ring(*n);
      if (is_tensor_copy(*n)) return take_store(*n);
      const bool is_axis = is_block_axis(n->for_kind) || is_thread_axis(n->for_kind);
      const auto order = tile_order(*n);
      along_curve_ = along_curve_ || (order && order->is_done);
      if (const int64_t blocks = cluster_blocks(*n); blocks > 1) cluster_ = {n->var, blocks, {}};
      return find(n->body, repeats || is_axis ? repeats : n);
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
    stores_.any = true;
  }

  void take_store_ring(const ForNode& n) {
    auto fail = [&](const std::string& reason) {
      throw LoweringError(
          fmt::format("loop '{}' has '{}': {}", n.var.name(), kStoreRingKey, reason));
    };
    auto* arrays = std::get_if<int64_t>(&n.annotations.at(kStoreRingKey));
    if (!arrays || *arrays < 2) fail("it must be a number of 2 or more");
    if (stores_.loop) fail("it is the second such loop of a kernel; there may be one");
    // From tile to tile arrays are taken in turns, too.
    if (!known_.prove(eq(floormod(n.extent, Expr(*arrays)), Expr(0)))) {
      fail(fmt::format("its extent must be a multiple of {}", *arrays));
    }
    stores_ = {true, &n, *arrays};
    for (const Stmt& s : body_of(n.body).stmts) {
      auto* loop = s.as<ForNode>();
      if (!loop || !is_tensor_copy(*loop)) continue;
      take_store(*loop);
      const TensorCopy c = match_tensor_copy(*loop, known_);
      stores_.of_iteration += c.bytes() / c.bytes_each();
      stores_.rings[c.shared.get()] = ring_of(c.shared, *arrays);
    }
    if (stores_.rings.empty()) fail("no loop right in it is marked as a TMA store");
  }

  // Consumers that take the tiles of the loop in turns. All tiles are equally long, so that each
  // team knows which stages are its own.
  void take_teams(const ForNode& n, const ForNode* tiles) {
    auto fail = [&](const std::string& reason) {
      throw LoweringError(fmt::format("loop '{}' has '{}' of '{}': {}", n.var.name(), kCopiesKey,
                                      kPingPong, reason));
    };
    if (!tiles || !is_int(tiles->min, 0)) fail("it needs a loop over tiles around it");
    if (!as_int(n.extent)) fail("its extent must be a constant");
    if (ring_->behind) fail("no product of it may stand behind those of the next iteration");
    ring_->teams = teams_of_consumers(kPingPong);
    ring_->tiles = tiles;
    ring_->order = make_buffer("order", ElemType::u64, {Expr(ring_->teams)}, Scope::Shared);
  }

  void take(const ForNode& n, const ForNode* repeats) {
    auto* way = std::get_if<std::string>(&n.annotations.at(kCopiesKey));
    if (!way || (*way != kByThreads && *way != kByRoles && *way != kPingPong)) {
      throw LoweringError(fmt::format("'{}' of loop '{}' must be '{}', '{}' or '{}'", kCopiesKey,
                                      n.var.name(), kByThreads, kByRoles, kPingPong));
    }
    if (ring_) {
      throw LoweringError(
          fmt::format("loop '{}' is the second one of a kernel with '{}'; there may be one",
                      n.var.name(), kCopiesKey));
    }
    ring_.emplace(Ring{n, stages_of(n), *way != kByThreads, leaves_wgmma_pending(n)});
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
    if (*way == kPingPong) take_teams(n, repeats);
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
      fail(fmt::format("loop '{}' needs '{}' of '{}' or '{}'", n.var.name(), kCopiesKey, kByRoles,
                       kPingPong));
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
    if (ring_->teams > 1) {
      Var t("team");
      made.push_back(make_for(t, 0, Expr(ring_->teams), ForKind::Serial,
                              call_statement(CallOp::MbarrierInit,
                                             {load(ring_->order, {t}), Expr(consumers / kWarp)})));
    }
    made.push_back(call_statement(CallOp::MbarrierFence));
    const Stmt meet =
        call_statement(ring_->cluster.blocks > 1 ? CallOp::ClusterBarrierRelaxed : CallOp::Barrier);
    return make_seq({make_if(eq(thread, Expr(0)), make_seq(std::move(made))), meet});
  }

  Stmt threads(const ForNode& n) {
    const int64_t consumers = as_int(n.extent).value();
    Stmt body =
        consumer_of(ring_ ? &*ring_ : nullptr, stores_, n.var, consumers, n.body, known_, own_);
    int64_t all = consumers;
    if (ring_ && ring_->by_roles) {
      const RoleBudget budget = role_budget(consumers * ring_->teams, target_.gpu,
                                            ring_->cluster.blocks > 1 || along_curve_);
      all = budget.threads();
      consumers_ = budget.consumers;
      Stmt copies = with_counter(*ring_, producer_of(*ring_, n.body));
      copies = make_if(eq(n.var, Expr(consumers_)), copies);
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
      body = make_if(n.var < Expr(consumers_), body, copies);
    }
    if (ring_) body = make_seq({make_barriers(n.var, consumers), body});
    Stmt result = make_for(n.var, n.min, Expr(all), n.for_kind, body, n.annotations);
    if (ring_ && ring_->teams > 1) result = make_allocate(ring_->order, result);
    return ring_ ? make_allocate(ring_->barriers, result) : result;
  }

  const Target& target_;
  Analyzer& known_;
  std::optional<Ring> ring_;
  int64_t consumers_ = 0;     // threads, until the outermost loop over blocks is annotated
  bool along_curve_ = false;  // the kernel's tiles run along a curve
  BlockCluster cluster_;      // as the schedule asks for; its names are those around the ring
  TensorStores stores_;
  BufferMap own_;  // shared arrays of each team of consumers
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
