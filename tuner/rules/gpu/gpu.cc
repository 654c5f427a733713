// Injective blocks on a GPU, and functions shared by all GPU rules.
#include "tuner/rules/gpu/gpu.h"

#include <algorithm>

#include "ir/visitor.h"
#include "tuner/rules/analysis.h"
#include "tuner/rules/gpu/gpu_units.h"

namespace tilewright {
namespace {

// Bits of the widest element that the block reads or writes.
int widest_bits(const BlockNode& block) {
  int bits = std::max(8, bits_of(store_of(block).buffer->elem));
  for_each_expr(store_of(block).value, [&](const Expr& e) {
    ElemType elem = e.type().elem;
    if (elem != ElemType::index && elem != ElemType::boolean) bits = std::max(bits, bits_of(elem));
  });
  return bits;
}

}  // namespace

int64_t gpu_vector(RuleContext& c, const Block& block, int64_t extent) {
  int64_t lanes = kAccessBits / widest_bits(c.s.node(block));
  while (lanes > 1 && extent % lanes != 0) lanes /= 2;
  return lanes;
}

bool gpu_is_static(const BlockFacts& facts) {
  return std::find(facts.dynamic.begin(), facts.dynamic.end(), true) == facts.dynamic.end();
}

int64_t gpu_threads_for(int64_t work, int64_t most) {
  int64_t threads = 32;
  while (threads < work && threads < most) threads *= 2;
  return threads;
}

std::vector<Loop> gpu_in_order(const std::vector<std::vector<Loop>>& groups) {
  std::vector<Loop> loops;
  for (const std::vector<Loop>& group : groups) {
    loops.insert(loops.end(), group.begin(), group.end());
  }
  return loops;
}

Loop gpu_fused(RuleContext& c, const std::vector<Loop>& loops) {
  return loops.size() > 1 ? c.s.fuse(loops) : loops[0];
}

std::vector<Loop> gpu_thread_grid(RuleContext& c, const std::vector<Loop>& loops, int64_t threads) {
  auto needed = [&](const Loop& loop, int64_t most) {
    int64_t extent = as_int(c.s.node(loop).extent).value_or(most);
    int64_t along = 1;
    while (along < extent && along < most) along *= 2;
    return along;
  };
  int64_t along = needed(loops.back(), threads);
  std::vector<Loop> outer(loops.begin(), loops.end() - 1), inner;
  std::vector<Loop> last = c.s.split(loops.back(), {-1, along});
  if (!outer.empty() && along < threads) {
    std::vector<Loop> next = c.s.split(outer.back(), {-1, needed(outer.back(), threads / along)});
    outer.back() = next[0];
    inner.push_back(next[1]);
  }
  outer.push_back(last[0]);
  inner.push_back(last[1]);
  c.s.reorder(gpu_in_order({outer, inner}));
  return gpu_in_order({{gpu_fused(c, outer)}, inner});
}

void gpu_bind_grid(RuleContext& c, const std::vector<Loop>& grid) {
  c.s.bind(grid[0], ForKind::BlockX);
  c.s.bind(grid.back(), ForKind::ThreadX);
  if (grid.size() > 2) c.s.bind(grid[1], ForKind::ThreadY);
}

void gpu_deal(RuleContext& c, const Loop& all, int64_t threads, int64_t vector, int64_t unrolled) {
  const std::vector<Loop> parts = c.s.split(all, {-1, threads, vector});
  const bool many = as_int(c.s.node(parts[0]).extent).value() > unrolled;
  c.s.unroll(many ? c.s.split(parts[0], {-1, unrolled})[1] : parts[0]);
  c.s.bind(parts[1], ForKind::ThreadX);
  c.s.vectorize(parts[2]);
}

void gpu_copy_in_vectors(RuleContext& c, std::vector<Loop> loops, int64_t most) {
  const int64_t length = as_int(c.s.node(loops.back()).extent).value_or(1);
  if (most > 1 && length > most && length % most == 0) {
    const std::vector<Loop> parts = c.s.split(loops.back(), {-1, most});
    loops.back() = parts[0];
    loops.push_back(parts[1]);
  }
  const Loop last = loops.back();
  loops.pop_back();
  for (const Loop& l : loops) c.s.unroll(l);
  most > 1 && length > 1 ? c.s.vectorize(last) : c.s.unroll(last);
}

Block gpu_writer(const Schedule& s, const std::string& buffer) {
  for (const Block& b : s.blocks()) {
    if (s.output(b)->name == buffer) return b;
  }
  throw ScheduleError(RefusalKind::NotFound, "gpu rules", "no block writes '" + buffer + "'",
                      s.program());
}

void gpu_injective(RuleContext& c, const Block& block) {
  std::vector<Loop> loops = c.s.loops(block);
  if (loops.empty()) return;
  BlockFacts facts = analyze(c.s, block);
  int64_t last = facts.extents.empty() ? 1 : facts.extents.back();
  int64_t vector = gpu_is_static(facts) ? gpu_vector(c, block, last) : 1;
  int64_t threads = c.t.choose(block.name + ".threads", std::vector<int64_t>{256, 128, 512});
  if (vector > 1) {
    std::vector<Loop> parts = c.s.split(loops.back(), {-1, vector});
    c.s.vectorize(parts[1]);
    loops.back() = parts[0];
  }
  gpu_bind_grid(c, gpu_thread_grid(c, loops, threads));
}

}  // namespace tilewright
