#include "schedule/primitives/blocks/compute_at.h"

#include <algorithm>
#include <map>

#include <fmt/core.h>

#include "base/error.h"
#include "ir/compare.h"
#include "ir/visitor.h"
#include "schedule/dependence.h"
#include "schedule/primitive_json.h"
#include "schedule/primitives/blocks/move.h"
#include "schedule/primitives/nest.h"
#include "schedule/primitives/region.h"

namespace tilewright {
namespace {

void check_consumers(const Tree& tree, const Move& m) {
  const std::string& name = m.node().name;
  for (const Param& param : tree.program().params) {
    tree.require(
        param.buffer != m.written, RefusalKind::Dependence,
        fmt::format("block '{}' writes the output '{}'; only a producer of an intermediate "
                    "buffer can be computed at a loop",
                    name, m.written->name),
        {m.block});
  }
  std::vector<Stmt> consumers = consumers_of(m.scope, m.node());
  tree.require(!consumers.empty(), RefusalKind::BadStructure,
               fmt::format("no block reads '{}', which block '{}' writes", m.written->name, name),
               {m.block});
  for (const Stmt& consumer : consumers) {
    tree.require(m.under_loop(consumer), RefusalKind::Dependence,
                 fmt::format("consumer '{}' of block '{}' does not stand under loop '{}'",
                             consumer.as<BlockNode>()->name, name, m.target().var.name()),
                 {consumer, m.loop});
  }
}

// The region of the block's buffer that one iteration of the loop reads.
Region region_read(const Move& m) {
  for (const BufferRegion& read : accesses(m.target().body).reads) {
    if (read.buffer == m.written) return read.region;
  }
  TW_ASSERT(false, "the consumers read the buffer");
  return {};
}

// The iterations that store `region`, or more where an index cannot be inverted.
std::vector<Range> iterations_for(const Move& m, const Region& region) {
  const BlockNode& block = m.node();
  std::vector<const StoreNode*> stores;
  for_each_stmt(block.body, [&](const Stmt& s) {
    if (auto* store = s.as<StoreNode>()) stores.push_back(store);
  });
  std::vector<Range> ranges = full_ranges(block);
  if (stores.size() != 1) return ranges;
  for (size_t i = 0; i < ranges.size(); ++i) {
    if (block.iters[i].kind == IterKind::Reduce) continue;
    for (size_t d = 0; d < region.size(); ++d) {
      auto found = preimage(stores[0]->indices[d], block.iters[i].var, block.iters, region[d]);
      if (!found) continue;
      ranges[i] = found->range;
      break;
    }
  }
  return ranges;
}

// True when an iterator is part of several stored indices, as in the digits of a layout, and at
// least two of these restrict it. iterations_for() uses only the first.
bool needs_fewer(const Move& m, const Region& region, Analyzer& known) {
  auto* store = m.node().body.as<StoreNode>();
  if (!store) return false;
  for (const IterVar& iter : m.node().iters) {
    int parts = 0;
    for (size_t d = 0; d < region.size(); ++d) {
      bool part = uses_var(store->indices[d], iter.var) &&
                  !covers_extent(known, region[d], store->buffer->shape[d]);
      parts += part ? 1 : 0;
    }
    if (parts > 1) return true;
  }
  return false;
}

// A condition that all consumers share also guards the producer: its inputs may not exist
// elsewhere.
Expr guard_of(const Move& m, const std::vector<Stmt>& consumers) {
  Expr guard;
  for (const Expr& conjunct : conjuncts(guard_at(m.inside(), *consumers[0].as<BlockNode>()))) {
    bool shared = std::all_of(consumers.begin(), consumers.end(), [&](const Stmt& consumer) {
      std::vector<Expr> own = conjuncts(consumer.as<BlockNode>()->predicate);
      return std::any_of(own.begin(), own.end(), [&](const Expr& e) { return equal(e, conjunct); });
    });
    if (shared) guard = conjunction(guard, conjunct);
  }
  return guard;
}

// The loops around the target under which a producer of the block stands, too. That producer stores
// only what one iteration needs.
std::vector<Stmt> loops_shared(const Move& m, const Stmt& input) {
  std::vector<Stmt> shared;
  for (const Stmt& s : m.loop_path) {
    if (s.as<ForNode>() && !path_to(s, input.get()).empty()) shared.push_back(s);
  }
  return shared;
}

// True when `ranges` are not known to store only `region`, as where one index sums two iterators.
bool may_store_more(const Move& m, const std::vector<Range>& ranges, const Region& region,
                    Analyzer& known) {
  std::map<const ExprNode*, Range> domain;
  for (size_t i = 0; i < ranges.size(); ++i) domain[m.node().iters[i].var.get()] = ranges[i];
  bool inside = true;
  for_each_stmt(m.node().body, [&](const Stmt& s) {
    auto* store = s.as<StoreNode>();
    if (!store || store->buffer != m.written) return;
    const Region stored = cover(store->indices, m.written->shape, domain);
    inside = inside && proves_inside({m.written, stored}, {m.written, region}, known);
  });
  return !inside;
}

// A block that runs more iterations than its consumers need may read what a producer in the same
// iteration of a loop around it does not store.
void check_flow(const Module& after, const Move& m) {
  Tree tree(ComputeAt::kName, after.main);
  for (const Stmt& input : producers_of(m.scope, m.node())) {
    for (const Stmt& shared : loops_shared(m, input)) {
      Path path = tree.loop(shared.as<ForNode>()->var.name());
      const Stmt loop = path.back(), body = loop.as<ForNode>()->body;
      path.push_back(body);
      Analyzer known = tree.analyzer_at(path);
      require_flow_in_step(tree, loop, loop, body, known);
    }
  }
}

// A producer of the block that shares loops with the target stores only what the consumers need in
// one iteration. Where a predicate cuts that to less than a box, the block would read elements
// beyond it.
void check_inputs(const Tree& tree, const Move& m, const std::vector<Stmt>& consumers,
                  const Region& region) {
  Analyzer known = tree.analyzer_at(m.inside());
  for (const Stmt& input : producers_of(m.scope, m.node())) {
    if (loops_shared(m, input).empty()) continue;
    tree.require(
        !needs_fewer(m, region, known), RefusalKind::Unsupported,
        fmt::format("an iteration of loop '{}' reads less of '{}' than a box of iterations "
                    "of block '{}', and '{}' stores no more than it needs",
                    m.target().var.name(), m.written->name, m.node().name,
                    input.as<BlockNode>()->name),
        {m.block, input});
    for (const Stmt& consumer : consumers) {
      Path path = path_to(tree.program().body, consumer.get());
      tree.require(is_domain_predicate_at(tree, m.inside(), path), RefusalKind::Unsupported,
                   fmt::format("the predicate of consumer '{}' cuts what it reads of '{}' to less "
                               "than a box",
                               consumer.as<BlockNode>()->name, m.written->name),
                   {consumer, input});
    }
  }
}

}  // namespace

Applied ComputeAt::apply(const Module& module) const {
  Tree tree(kName, module.main);
  Move m(tree, block, loop);
  check_consumers(tree, m);
  std::vector<Stmt> stmts = m.statements();
  std::vector<Stmt> consumers = consumers_of(m.scope, m.node());
  auto first = std::find_if(stmts.begin(), stmts.end(), [&](const Stmt& s) {
    return std::any_of(consumers.begin(), consumers.end(),
                       [&](const Stmt& consumer) { return !path_to(s, consumer.get()).empty(); });
  });
  const Region region = region_read(m);
  check_inputs(tree, m, consumers, region);
  std::vector<Range> ranges = iterations_for(m, region);
  auto position = static_cast<size_t>(first - stmts.begin());
  Module moved = m.moved(tree, module, ranges, position, guard_of(m, consumers));
  Analyzer known = tree.analyzer_at(m.inside());
  if (may_store_more(m, ranges, region, known)) check_flow(moved, m);
  return {std::move(moved), {}};
}

std::vector<PrimitiveEntry> compute_at_primitives() {
  return {primitive_entry<ComputeAt>(), primitive_entry<ReverseComputeAt>()};
}

}  // namespace tilewright
