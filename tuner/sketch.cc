#include "tuner/sketch.h"

#include <fmt/format.h>

#include "ir/visitor.h"
#include "tuner/rules/analysis.h"
#include "tuner/rules/gpu/chain/gpu_product_chain.h"
#include "tuner/rules/gpu/gpu.h"
#include "tuner/rules/gpu/gpu_siblings.h"
#include "tuner/rules/rules.h"
#include "tuner/rules/stored_weight.h"

namespace tilewright {
namespace {

// The loop that should be innermost in a reduction whose own loops walk through memory in strides: the
// one along the result's last dimension, where no read has its iterator in another dimension than its
// last. Nothing where that is the outermost loop or a short one.
std::optional<Loop> loop_along_neighbours(const Schedule& s, const Block& block) {
  constexpr int64_t kLong = 8;
  const BlockNode& n = s.node(block);
  if (store_of(n).indices.empty()) return std::nullopt;
  const int last = plain_iterator(n, store_of(n).indices.back());
  if (last < 0) return std::nullopt;
  const IterVar& along = n.iters[static_cast<size_t>(last)];
  const std::optional<Loop> loop = loop_of(along);
  if (!loop || *loop == s.loops(block)[0] || largest_extent(s, s.node(*loop).extent) < kLong) {
    return std::nullopt;
  }
  bool strided = false;
  for_each_expr(store_of(n).value, [&](const Expr& e) {
    auto* load = e.as<LoadNode>();
    for (size_t d = 0; load && d + 1 < load->indices.size(); ++d) {
      strided |= uses_var(load->indices[d], along.var);
    }
  });
  return strided ? std::nullopt : loop;
}

// The loops as written, the outermost one parallel. A sum whose elements stand in strides adds up rows
// instead of elements, as anybody would write it: the same sums in the same order, from memory that is
// read in order.
void schedule_default(Schedule& s, Trial&, const SketchInput&) {
  for (const Block& block : s.blocks()) {
    const BlockFacts facts = analyze(s, block);
    const std::vector<Loop> loops = s.loops(block);
    if (facts.spatial.empty() || loops.empty() || facts.spatial[0] != 0) continue;
    const std::optional<Loop> inner = loop_along_neighbours(s, block);
    if (!facts.reduce.empty() && inner) {
      std::vector<Loop> order;
      for (int i : facts.reduce)
        order.push_back(*loop_of(s.node(block).iters[static_cast<size_t>(i)]));
      order.push_back(*inner);
      s.reorder(order);
      s.decompose_reduction(block, order.front());
    }
    s.parallel(loops[0]);
  }
}

void schedule_tiles(Schedule& s, Trial& t, const SketchInput& input) {
  RuleContext c{s, t, input};
  inline_stages(c);
  std::vector<Block> contractions;
  for (const Block& b : s.blocks()) {
    if (analyze(s, b).role == BlockRole::Contraction) contractions.push_back(b);
  }
  if (contractions.empty() && s.blocks().size() > 1 && fuse_rows(c)) return;
  // A maximum of scores to which a mask of keys was added counts as a contraction, too.
  if (contractions.size() >= 2 && fuse_attention(c)) return;
  for (const Block& b : contractions) tile_contraction(WeightContext(c, b).context(), b);
  fetch_weights_ahead(c);
  for (const Block& b : s.blocks()) {
    // Blocks fused into a contraction already stand under a parallel loop.
    std::vector<Loop> loops = s.loops(b);
    bool placed = loops.empty();
    for (const Loop& l : loops) placed |= s.node(l).for_kind != ForKind::Serial;
    if (placed) continue;
    if (analyze(s, b).role == BlockRole::Injective) {
      schedule_injective(c, b);
    } else {
      split_row_reduction(c, b);
    }
  }
}

void schedule_gpu(Schedule& s, Trial& t, const SketchInput& input) {
  RuleContext c{s, t, input};
  inline_stages(c);
  std::vector<Block> contractions;
  for (const Block& b : s.blocks()) {
    if (analyze(s, b).role == BlockRole::Contraction) contractions.push_back(b);
  }
  if (contractions.empty() && s.blocks().size() > 1 && gpu_fuse_rows(c)) return;
  if (contractions.size() >= 2 && gpu_softmax_chain(c)) return;
  if (contractions.size() > 1 && gpu_product_chain(c)) return;
  for (const Block& b : gpu_join_products(c, contractions)) {
    gpu_contraction(WeightContext(c, b).context(), b);
  }
  for (const Block& b : s.blocks()) {
    bool placed = false;
    for (const Loop& l : s.loops(b)) placed |= s.node(l).for_kind != ForKind::Serial;
    if (placed) continue;
    if (analyze(s, b).role == BlockRole::Injective) {
      gpu_injective(c, b);
    } else {
      gpu_row_reduction(c, b);
    }
  }
}

// Takes the first choice of every knob.
void schedule_gpu_default(Schedule& s, Trial&, const SketchInput& input) {
  Trial first = Trial::first();
  schedule_gpu(s, first, input);
}

}  // namespace

const Sketch& cuda_default_sketch() {
  static const Sketch sketch{"gpu_default", 1, schedule_gpu_default};
  return sketch;
}

const std::vector<Sketch>& cuda_sketches() {
  static const std::vector<Sketch> sketches = {{"gpu_tiles", 3, schedule_gpu}};
  return sketches;
}

const Sketch& default_sketch() {
  static const Sketch sketch{"default", 2, schedule_default};
  return sketch;
}

const std::vector<Sketch>& cpu_sketches() {
  static const std::vector<Sketch> sketches = {{"cpu_tiles", 11, schedule_tiles}};
  return sketches;
}

const Sketch* find_sketch(const std::string& name) {
  if (name == default_sketch().name) return &default_sketch();
  const Sketch& gpu = cuda_default_sketch();
  if (name == gpu.name) return &gpu;
  for (const auto* sketches : {&cpu_sketches(), &cuda_sketches()}) {
    for (const Sketch& s : *sketches) {
      if (s.name == name) return &s;
    }
  }
  return nullptr;
}

std::string replay_problem(const std::string& sketch, int version) {
  const Sketch* known = find_sketch(sketch);
  if (known == nullptr) return fmt::format("its sketch '{}' is not known here", sketch);
  if (known->version == version) return "";
  return fmt::format("found by version {} of sketch '{}', this is {}", version, sketch,
                     known->version);
}

Schedule apply_sketch(const Sketch& sketch, const SketchInput& input, Trial& trial) {
  Schedule s(lower(input.workload));
  sketch.run(s, trial, input);
  trial.require_all_asked();
  return s;
}

}  // namespace tilewright
