// Row reductions on a GPU: a thread block per row, alone and in chains over common rows.
#include <algorithm>
#include <optional>

#include "codegen/cuda/instructions/cuda_instruction.h"
#include "codegen/cuda_lowering.h"
#include "ir/compare.h"
#include "ir/visitor.h"
#include "kernel/instructions/mma_rows.h"
#include "tuner/rules/analysis.h"
#include "tuner/rules/gpu/gpu.h"

namespace tilewright {
namespace {

constexpr int64_t kLastPartials = 16;      // partials that every thread adds itself
constexpr int64_t kRowOfThread = 64;       // elements; every thread reduces shorter rows itself
constexpr int64_t kRowOfBlocks = 1 << 16;  // elements; long enough to divide among blocks

std::vector<Loop> reduction_loops(const RuleContext& c, const Block& block) {
  std::vector<Loop> reduce;
  for (const IterVar& iter : c.s.node(block).iters) {
    auto loop = iter.kind == IterKind::Reduce ? loop_of(iter) : std::nullopt;
    if (loop) reduce.push_back(*loop);
  }
  return reduce;
}

Loop fused_reduction(RuleContext& c, const Block& block) {
  return gpu_fused(c, reduction_loops(c, block));
}

// The blocks of a reduction's partial results. First come those of each thread. Many of these are
// reduced to those of a few threads, or by shuffles to those of warps.
struct ThreadPartials {
  Block whole;
  std::vector<Block> parts;
  int64_t vector = 1;  // vector width of a thread's reads in the first one
  bool shuffled = false;
};

// Whether lanes exchange a block's partial results by shuffles, or all threads do so through shared
// memory.
bool wants_shuffles(RuleContext& c, const Block& block) {
  int bits = bits_of(c.s.output(block)->elem);
  if (bits != 32 && bits != 64) return false;
  return c.t.choose(block.name + ".partials", std::vector<std::string>{"shuffled", "shared"}) ==
         "shuffled";
}

ThreadPartials split_partials(RuleContext& c, const Block& block, int64_t most) {
  BlockFacts facts = analyze(c.s, block);
  ThreadPartials p{block, {}, 1};
  int64_t extent = product(facts, facts.reduce);
  if (extent < kRowOfThread) return p;
  int64_t vector = gpu_vector(c, block, facts.extents[static_cast<size_t>(facts.reduce.back())]);
  int64_t threads = gpu_threads_for(extent / vector, most);
  std::vector<Loop> loops = c.s.split(fused_reduction(c, block), {-1, threads, vector});
  p.parts.push_back(c.s.rfactor(block, loops[1], 0));
  p.vector = vector;
  p.shuffled = threads > kWarp && wants_shuffles(c, block);
  if (p.shuffled) {
    loops = c.s.split(fused_reduction(c, block), {threads / kWarp, kWarp});
    p.parts.push_back(c.s.rfactor(block, loops[0], 0));
  } else if (threads >= 4 * kLastPartials) {
    loops = c.s.split(fused_reduction(c, block), {-1, kLastPartials});
    p.parts.push_back(c.s.rfactor(block, loops[1], 0));
  }
  return p;
}

// Reads a thread's elements of a partial result along the innermost loop, as 16-byte vectors.
void read_vectors(RuleContext& c, const Block& partial, const std::vector<Loop>& loops,
                  int64_t vector) {
  for (const std::string& input : inputs_of(c.s.node(partial))) {
    const BlockNode& n = c.s.node(partial);
    Expr last = indices_of(n, input).back();
    bool along = false;
    for (const IterVar& iter : n.iters) {
      along |= iter.kind == IterKind::Reduce && uses_var(last, iter.var);
    }
    if (!along) continue;
    Block copy = c.s.cache_read(partial, input, Scope::Register);
    c.s.compute_at(copy, loops[loops.size() - 2]);
    Loop inner = c.s.loops(copy).back();
    if (is_int(c.s.node(inner).extent, vector)) c.s.vectorize(inner);
  }
  c.s.unroll(loops.back());
}

// Binds partial results under the row's loop: one per thread, accumulated in a register. They stay
// there for the lanes of the warp, or go to shared memory for all threads.
void finish_partial(RuleContext& c, const Block& partial, int64_t vector, bool for_lanes) {
  const BlockNode& n = c.s.node(partial);
  std::string buffer = c.s.output(partial)->name;
  int axis = plain_iterator(n, store_of(n).indices[0]);
  if (axis < 0) return;
  auto thread = loop_of(n.iters[static_cast<size_t>(axis)]);
  if (!thread) return;
  const std::vector<Loop> reduce = reduction_loops(c, partial);
  const std::vector<Loop> order = gpu_in_order({{*thread}, reduce});
  c.s.reorder(order);
  if (!reduce.empty() && !for_lanes) {
    Block copy = c.s.cache_write(partial, buffer, Scope::Register);
    c.s.reverse_compute_at(copy, *thread);
  }
  if (!reduce.empty()) c.s.decompose_reduction(partial, reduce[0]);
  if (vector > 1 && !reduce.empty()) read_vectors(c, partial, order, vector);
  c.s.bind(*thread, ForKind::ThreadX);
  c.s.set_scope(buffer, for_lanes ? Scope::Register : Scope::Shared);
}

// Reduces over the lanes of each warp.
void finish_warps(RuleContext& c, const Block& partial) {
  const BlockNode& n = c.s.node(partial);
  int axis = plain_iterator(n, store_of(n).indices[0]);
  std::optional<Loop> warp, lanes;
  for (size_t i = 0; i < n.iters.size(); ++i) {
    if (static_cast<int>(i) == axis) warp = loop_of(n.iters[i]);
    if (n.iters[i].kind == IterKind::Reduce) lanes = loop_of(n.iters[i]);
  }
  if (!warp || !lanes) return;
  c.s.reorder({*warp, *lanes});
  c.s.annotate(*lanes, kInstructionKey, std::string(kShuffle));
  c.s.bind(*warp, ForKind::Warp);
  c.s.set_scope(c.s.output(partial)->name, Scope::Shared);
}

// Binds an injective stage under the row's loop. Every thread computes a single value of a row by
// itself; all threads together compute many values. Results go to shared memory, unless they are
// the kernel's output.
void finish_injective(RuleContext& c, const Block& block, int64_t most) {
  BlockFacts facts = analyze(c.s, block);
  bool is_result = find_param(c.s, c.s.output(block)->name) != nullptr;
  bool is_one = product(facts, facts.spatial) == facts.extents[0];
  if (!is_result) c.s.set_scope(c.s.output(block)->name, is_one ? Scope::Register : Scope::Shared);
  std::vector<Loop> loops = c.s.loops(block);
  if (loops.size() < 2 || is_one) return;
  std::vector<Loop> own(loops.begin() + 1, loops.end());
  Loop along = gpu_fused(c, own);
  auto extent = as_int(c.s.node(along).extent);
  if (!extent) return;
  int64_t vector = gpu_vector(c, block, *extent);
  std::vector<Loop> parts = c.s.split(along, {-1, gpu_threads_for(*extent / vector, most), vector});
  c.s.reorder({parts[1], parts[0], parts[2]});
  c.s.bind(parts[1], ForKind::ThreadX);
  c.s.vectorize(parts[2]);
}

// Every thread finishes the reduction. An output of the kernel is stored afterwards.
void finish_whole(RuleContext& c, const Block& block, const Loop& row, bool is_result) {
  std::string result = c.s.output(block)->name;
  if (is_result) {
    Block copy = c.s.cache_write(block, result, Scope::Register);
    c.s.reverse_compute_at(copy, row);
  } else {
    c.s.set_scope(result, Scope::Register);
  }
  const std::vector<Loop> reduce = reduction_loops(c, block);
  if (!reduce.empty()) c.s.decompose_reduction(block, reduce[0]);
}

void finish(RuleContext& c, const ThreadPartials& p, const Loop& row, bool is_result) {
  for (size_t i = 0; i < p.parts.size(); ++i) {
    if (p.shuffled && i == 1) {
      finish_warps(c, p.parts[i]);
    } else {
      finish_partial(c, p.parts[i], i == 0 ? p.vector : 1, p.shuffled);
    }
  }
  finish_whole(c, p.whole, row, is_result);
}

// Few long rows: a first kernel reduces pieces of rows.
void split_among_blocks(RuleContext& c, const Block& block, int64_t extent) {
  int64_t pieces = c.t.choose(block.name + ".pieces", std::vector<int64_t>{256, 128, 64, 512});
  pieces = std::min(pieces, extent / kRowOfThread);
  std::vector<Loop> parts = c.s.split(fused_reduction(c, block), {pieces, -1});
  Block partial = c.s.rfactor(block, parts[0], -1);
  gpu_row_reduction(c, partial);
  gpu_row_reduction(c, block);
}

}  // namespace

void gpu_row_reduction(RuleContext& c, const Block& block) {
  BlockFacts facts = analyze(c.s, block);
  int64_t rows = product(facts, facts.spatial), extent = product(facts, facts.reduce);
  if (gpu_is_static(facts) && extent >= kRowOfBlocks && rows * 2 < c.input.target.gpu.sms) {
    return split_among_blocks(c, block, extent);
  }
  int64_t most = c.t.choose(block.name + ".threads", std::vector<int64_t>{256, 128, 512});
  std::vector<Loop> loops = c.s.loops(block);
  std::vector<Loop> spatial(loops.begin(), loops.begin() + static_cast<long>(facts.spatial.size()));
  if (spatial.empty()) spatial.push_back(c.s.add_unit_loop(block));
  if (spatial.size() > 1) gpu_fused(c, spatial);
  ThreadPartials p = split_partials(c, block, most);
  Loop row = c.s.loops(block)[0];
  for (size_t i = p.parts.size(); i-- > 0;) c.s.compute_at(p.parts[i], row);
  finish(c, p, row, true);
  c.s.bind(row, ForKind::BlockX);
}

bool gpu_fuse_rows(RuleContext& c) {
  std::vector<Block> blocks = c.s.blocks();
  const Block last = blocks.back();
  const BlockNode& n = c.s.node(last);
  if (n.iters.empty() || analyze(c.s, last).role != BlockRole::Injective) return false;
  for (const Block& b : blocks) {
    const BlockNode& other = c.s.node(b);
    bool leads = !other.iters.empty() && other.iters[0].kind == IterKind::Spatial &&
                 equal(other.iters[0].extent, n.iters[0].extent) &&
                 !store_of(other).indices.empty() &&
                 plain_iterator(other, store_of(other).indices[0]) == 0;
    if (!leads) return false;
  }
  int64_t most = c.t.choose(last.name + ".threads", std::vector<int64_t>{256, 128, 512, 1024});
  std::vector<ThreadPartials> reductions;
  for (const Block& b : blocks) {
    if (analyze(c.s, b).role != BlockRole::Injective) {
      reductions.push_back(split_partials(c, b, most));
    }
  }
  Loop row = c.s.loops(last)[0];
  std::vector<Block> all = c.s.blocks();
  for (size_t i = all.size(); i-- > 0;) {
    if (!(all[i] == last)) c.s.compute_at(all[i], row);
  }
  for (const ThreadPartials& p : reductions) {
    finish(c, p, row, find_param(c.s, c.s.output(p.whole)->name) != nullptr);
  }
  for (const Block& b : blocks) {
    if (analyze(c.s, b).role == BlockRole::Injective) finish_injective(c, b, most);
  }
  c.s.bind(row, ForKind::BlockX);
  return true;
}

}  // namespace tilewright
