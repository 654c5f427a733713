#include "codegen/passes/gpu/gpu_tensor_consumer.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "codegen/cuda/cuda_tensor_copy.h"
#include "codegen/cuda_lowering.h"
#include "codegen/statements.h"
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
  Computing(const Ring* ring, Var thread, int64_t threads, const TensorStores& stores,
            Analyzer& known)
      : ring_(ring), thread_(std::move(thread)), threads_(threads), stores_(stores), known_(known) {
  }

  Stmt operator()(const Stmt& body, const BufferMap& own) {
    Stmt result = mutate(body);
    if (stores_.any) result = make_seq({result, wait_for_stores()});
    if (teams() == 1) return ring_ ? with_counter(*ring_, result) : result;
    result = with_counter(*ring_, result, team_ * ring_->loop.extent);
    const Expr threads(threads_);
    return substitute(in_slot(own, team_, result),
                      VarMap{{thread_.get(), floormod(thread_, threads)},
                             {team_.get(), floordiv(thread_, threads)}});
  }

 protected:
  Stmt mutate_for(const ForNode& n, const Stmt& s) override {
    if (ring_ && &n == &ring_->loop) {
      return ring_->behind ? consumer_behind() : ring_->by_roles ? consumer() : in_turns();
    }
    if (teams() > 1 && &n == ring_->tiles) return every_second_tile();
    if (&n == stores_.loop) return in_store_ring();
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
    const Expr number = teams() > 1 ? Expr(kConsumersMeet) + team_ : Expr(kConsumersMeet);
    Stmt meet = ring_ && ring_->by_roles
                    ? call_statement(CallOp::NamedBarrier, {number, Expr(threads_)})
                    : s;
    if (!stores_.any || std::exchange(has_waited_, may_read_ > 0)) return meet;
    return make_seq({wait_for_stores(), meet});
  }

 private:
  int64_t teams() const { return ring_ ? ring_->teams : 1; }

  // Team t takes the tiles t, t + teams, t + 2 * teams, ….
  Stmt every_second_tile() {
    const ForNode& n = *ring_->tiles;
    const Expr teams(ring_->teams);
    const Stmt body = make_let(n.var, round_ * teams + team_, mutate(n.body));
    return make_for(round_, 0, floordiv(n.extent - team_ + teams - Expr(1), teams), n.for_kind,
                    body, n.annotations);
  }

  // A team begins to multiply when the one before has waited for all of its stages. Copies of the
  // tile before could otherwise end the phase of a stage that it waits for.
  Stmt in_turn(const Stmt& loop) const {
    if (teams() == 1) return loop;
    auto of = [&](const Expr& team) { return load(ring_->order, {team}); };
    const Expr lane = floormod(thread_, Expr(kWarp));
    const Expr next = floormod(team_ + Expr(1), Expr(ring_->teams));
    // The first of two teams has its first turn without the other one.
    const Expr parity = floormod(round_ + team_ + Expr(1), Expr(2));
    return make_seq({call_statement(CallOp::MbarrierWait, {of(team_), parity}), loop,
                     make_if(eq(lane, Expr(0)), arrive(of(next)))});
  }

  Stmt by_first(const Stmt& s) const { return make_if(eq(thread_, Expr(0)), s); }

  Stmt wait_for_stores() const {
    return by_first(call_statement(CallOp::StoreWait, {Expr(may_read_)}));
  }

  // An array is written again when the stores of all iterations but the latest ones have read
  // theirs: an iteration waits for them at its first barrier, which stands before its writes.
  Stmt in_store_ring() {
    const ForNode& n = *stores_.loop;
    may_read_ = (stores_.stages - 1) * stores_.of_iteration;
    has_waited_ = false;
    const Expr slot = floormod(n.var - n.min, Expr(stores_.stages));
    Stmt body = mutate(in_slot(stores_.rings, slot, n.body));
    may_read_ = 0;
    has_waited_ = false;
    Annotations notes = n.annotations;
    notes.erase(kStoreRingKey);
    return make_for(n.var, n.min, n.extent, n.for_kind, body, notes);
  }

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
    Stmt loop = in_turn(make_for(n.var, n.min, n.extent, n.for_kind, body, notes()));
    if (ring_->leaves_pending) {
      loop = make_seq({loop, release(simplify(first + n.extent + Expr(ring_->stages - 1)))});
    }
    return with_first(*ring_, first, loop, ring_->teams);
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
  const TensorStores& stores_;
  Var team_{"team"}, round_{"round"};  // of several teams
  int64_t may_read_ = 0;     // TMA stores that need not have read their array at a barrier
  bool has_waited_ = false;  // for stores, in this iteration of a store ring
  Analyzer& known_;
};

}  // namespace

Stmt consumer_of(const Ring* ring, const TensorStores& stores, const Var& thread, int64_t threads,
                 const Stmt& body, Analyzer& known, const BufferMap& own) {
  return Computing(ring, thread, threads, stores, known)(body, own);
}

}  // namespace tilewright
