// Weights that come from memory: fetched ahead of their use.
#include <algorithm>

#include "codegen/codegen.h"
#include "tuner/rules/analysis.h"
#include "tuner/rules/rules.h"

namespace tilewright {
namespace {

constexpr int64_t kAhead = 4096;            // bytes; half and four times as many are as good
constexpr int64_t kLeastBytes = 256 << 10;  // of a weight; smaller ones stay in a cache

// The loop right around the block's vectors, unrolled copies and intrinsic; nothing for a parallel one.
std::optional<Loop> innermost_serial_loop(const RuleContext& c, const Block& block) {
  std::optional<Loop> found;
  for (const Loop& each : c.s.loops(block)) {
    const ForNode& loop = c.s.node(each);
    if (loop.annotations.contains("intrinsic"))
      break;  // this loop and those in it are one instruction
    if (loop.for_kind == ForKind::Parallel) found.reset();
    if (loop.for_kind == ForKind::Serial && largest_extent(c.s, loop.extent) > 1) found = each;
  }
  return found;
}

}  // namespace

void fetch_weights_ahead(RuleContext& c) {
  for (const Block& block : c.s.blocks()) {
    int64_t elements = 0;  // of the largest weight
    int bits = 0;
    for (const std::string& name : inputs_of(c.s.node(block))) {
      const Param* p = find_param(c.s, name);
      const bool weight = p != nullptr && p->role == ParamRole::Weight;
      const int64_t count = weight ? num_elements(p->buffer).value_or(0) : 0;
      if (count <= elements) continue;
      elements = count;
      bits = bits_of(p->buffer->elem);
    }
    if (elements * bits < 8 * kLeastBytes) continue;
    // Multiplications that an element takes part in. With few of them memory is the limit. With many a panel is read
    // again from a cache, and with very many its first round is no matter.
    const double uses = c.input.workload.flops / 2 / static_cast<double>(elements);
    const std::optional<Loop> loop = innermost_serial_loop(c, block);
    if (!loop || uses > 32 * bits) continue;
    std::vector<std::string> ways = {"panel", "none"};
    if (uses <= 4 * bits) ways.insert(uses > 0.5 * bits ? ways.begin() + 1 : ways.begin(), "ahead");
    const std::string way = c.t.choose(block.name + ".fetch", ways);
    if (way == "ahead") c.s.annotate(*loop, kFetchAhead, kAhead);
    if (way == "panel") c.s.annotate(*loop, kFetchAhead, kNextPanel);
  }
}

}  // namespace tilewright
