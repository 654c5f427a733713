// The ring of stages of a pipelined loop with TMA copies: the code that fills it, and its counter.
#pragma once

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "codegen/cuda/cuda_cluster.h"
#include "codegen/cuda/cuda_roles.h"
#include "codegen/cuda/cuda_tensor_copy.h"
#include "codegen/passes/gpu/gpu_ring.h"
#include "codegen/passes/gpu/gpu_tensor_behind.h"
#include "ir/arith/simplify.h"
#include "ir/visitor.h"

namespace tilewright {

// A pipelined loop with TMA copies: a ring of stages. Each stage has a full mbarrier, and with warp
// specialization an empty one. The n-th iteration that a block runs, over all its tiles, has the
// stage n % stages, for the n / stages-th time.
struct Ring {
  const ForNode& loop;
  int64_t stages = 1;
  bool by_roles = false, leaves_pending = false;
  bool read_by_lanes = false;  // single lanes read some copies, not whole warps
  // Consumers in several teams, which take the iterations of the loop over tiles in turns and
  // multiply one after another. Each mbarrier of `order` tells a team that it may.
  int64_t teams = 1;
  const ForNode* tiles = nullptr;
  Buffer order = {};
  BlockCluster cluster = {};
  std::vector<TensorCopy> copies = {};
  std::vector<TensorCopy> shared = {};  // this block's part of copies that a cluster shares
  std::vector<Stmt> uses = {};
  std::optional<BehindIteration> behind =
      {};  // the parts of `uses`, where a product is issued an iteration later
  BufferMap rings = {};
  Buffer barriers = {};  // full ones, then empty ones
  Buffer done = {};      // iterations of earlier tiles; undefined where the loop runs once
  // Values that copies look up in memory (the number of a group) once for all iterations, by name.
  std::vector<std::pair<Var, Expr>> lookups = {};

  int64_t bytes() const {
    int64_t sum = 0;
    for (const TensorCopy& c : copies) sum += c.bytes();
    for (const TensorCopy& c : shared) sum += c.bytes() * cluster.blocks;
    return sum;
  }
  /// Whether it is a buffer that the copies fill, with stages or without.
  bool has(const Buffer& buffer) const {
    return std::any_of(rings.begin(), rings.end(), [&](const auto& ring) {
      return ring.first == buffer.get() || ring.second == buffer;
    });
  }
  Expr slot(const Expr& count) const { return simplify(floormod(count, Expr(stages))); }
  /// The code of an iteration in its slot of the rings.
  Stmt in_slot(const Expr& count, const Stmt& s) const {
    return tilewright::in_slot(rings, slot(count), s);
  }
  Expr full(const Expr& count) const { return load(barriers, {slot(count)}); }
  Expr empty(const Expr& count) const { return load(barriers, {slot(count) + Expr(stages)}); }
  Stmt wait_for_full(const Expr& count) const {
    return call_statement(CallOp::MbarrierWait, {full(count), floormod(round(count), Expr(2))});
  }
  Stmt wait_for_empty(const Expr& count) const {
    return call_statement(CallOp::MbarrierWait,
                          {empty(count), floormod(round(count) + Expr(1), Expr(2))});
  }

 private:
  Expr round(const Expr& count) const { return floordiv(count, Expr(stages)); }
};

// The statements with which one thread fills the stage of iteration `at`, the `count`-th of the
// block.
Stmt fill(const Ring& ring, const Expr& at, const Expr& count);
// `body` with the number of iterations before this tile, modulo 2 * stages, in `first`. The number
// before the next one of these threads is kept behind it; they take every `step`-th tile.
Stmt with_first(const Ring& ring, const Var& first, const Stmt& body, int64_t step = 1);
// `body` with the buffer that keeps that number, `begun` at first, where the loop runs repeatedly.
Stmt with_counter(const Ring& ring, const Stmt& body, const Expr& begun = 0);
// `body` with the values that its copies look up once.
Stmt with_lookups(const Ring& ring, Stmt body);
// `uses` with the release of their stage right behind the last one that reads it: sums of
// accumulators that follow leave the stage to copies.
Stmt with_release(const Ring& ring, const Stmt& uses, const Stmt& free);
// The parts of a kernel that issue copies: its loops, conditions and names around them. Undefined
// where there are none.
Stmt producer_of(const Ring& ring, const Stmt& kernel);

}  // namespace tilewright
