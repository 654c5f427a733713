#include <algorithm>
#include <map>
#include <optional>

#include <fmt/core.h>

#include "ir/compare.h"
#include "ir/predicates.h"
#include "ir/visitor.h"
#include "schedule/primitives/blocks/compute_at.h"
#include "schedule/primitives/blocks/move.h"
#include "schedule/primitives/nest.h"
#include "schedule/primitives/region.h"

namespace tilewright {
namespace {

// The region that one iteration of the innermost loop around both a producer and the target stores.
struct Stored {
  Stmt producer;
  Region region;
};

// The box that all iterations of a producer store; nothing when it has holes, such as the padding
// of a layout. `producer` is a lone store.
std::optional<Region> stored_in_all(const BlockNode& producer, const Buffer& buffer,
                                    Analyzer& known) {
  std::map<const ExprNode*, Range> domain;
  Expr points = 1, volume = 1;
  for (const IterVar& iter : producer.iters) {
    domain[iter.var.get()] = {0, iter.extent};
    if (iter.kind == IterKind::Spatial) points = points * iter.extent;
  }
  Region box = cover(producer.body.as<StoreNode>()->indices, buffer->shape, domain);
  for (const Range& range : box) volume = volume * range.extent;
  if (!known.prove(volume <= points)) return std::nullopt;
  return box;
}

// A read of the block from a buffer that the loops around `loop` have stored only partly. `ranges`
// are the iterations of the block for which the read finds stored elements. An entry is a range
// where the read bounds the iterator, and nothing elsewhere.
struct ReadBounds {
  const LoadNode* load;
  std::vector<std::optional<Range>> ranges;
};

class ReverseMover {
 public:
  ReverseMover(const Tree& tree, const Module& module, const std::string& block,
               const std::string& loop)
      : tree_(tree), module_(module), m_(tree, block, loop), known_(m_.analyzer(tree)) {}

  Module run() {
    check_producers();
    std::vector<Range> ranges = ready_iterations();
    check_reduction(ranges);
    return m_.moved(tree_, module_, ranges, position_, guard());
  }

 private:
  // Finds the producers, those of them under the loop, and the position after the last of these.
  void check_producers() {
    std::vector<Stmt> order = child_blocks(m_.scope);
    auto place = [&](const Stmt& s) {
      return std::find_if(order.begin(), order.end(), [&](const Stmt& o) { return o.same_as(s); });
    };
    auto loop_begin =
        std::find_if(order.begin(), order.end(), [&](const Stmt& o) { return m_.under_loop(o); });
    bool any_under = false;
    for (const Stmt& producer : producers_of(m_.scope, m_.node())) {
      bool under = m_.under_loop(producer);
      any_under |= under;
      tree_.require(under || place(producer) < loop_begin, RefusalKind::Dependence,
                    fmt::format("producer '{}' of block '{}' stands neither under loop '{}' nor "
                                "before it",
                                name(producer), m_.node().name, loop_name()),
                    {producer, m_.loop});
      check_complete(producer);
      if (under) behind(producer);
    }
    tree_.require(any_under, RefusalKind::BadStructure,
                  fmt::format("no producer of block '{}' stands under loop '{}'", m_.node().name,
                              loop_name()),
                  {m_.block, m_.loop});
  }

  // No loop around both the producer and the target may carry the producer's reduction.
  void check_complete(const Stmt& producer) {
    for (const Stmt& s : m_.loop_path) {
      auto* loop = s.as<ForNode>();
      if (!loop || path_to(s, producer.get()).empty()) continue;
      tree_.require(
          !use_of(*producer.as<BlockNode>(), loop->var).reduce, RefusalKind::Dependence,
          fmt::format("loop '{}' carries the reduction of block '{}', whose result is not "
                      "complete inside it",
                      loop->var.name(), name(producer)),
          {s, producer});
    }
  }

  void behind(const Stmt& producer) {
    std::vector<Stmt> stmts = m_.statements();
    for (size_t i = 0; i < stmts.size(); ++i) {
      if (!path_to(stmts[i], producer.get()).empty()) position_ = std::max(position_, i + 1);
    }
  }

  // The region of `buffer` that one iteration of the innermost common loop stores. Nothing when all
  // of it is stored before any loop around the target begins.
  std::optional<Stored> stored_near(const Buffer& buffer) {
    std::optional<Stored> result;
    for (const Stmt& producer : producers_of(m_.scope, m_.node())) {
      std::vector<Buffer> written = buffers_written(*producer.as<BlockNode>());
      if (std::find(written.begin(), written.end(), buffer) == written.end()) continue;
      const ForNode* common = nullptr;
      for (const Stmt& s : m_.loop_path) {
        if (s.as<ForNode>() && !path_to(s, producer.get()).empty()) common = s.as<ForNode>();
      }
      if (!common) continue;
      auto region = region_stored(common->body, *producer.as<BlockNode>(), buffer, known_);
      tree_.require(region.has_value(), RefusalKind::Unsupported,
                    fmt::format("block '{}' stores a region of '{}' in one iteration of loop '{}' "
                                "that is no box without holes",
                                name(producer), buffer->name, common->var.name()),
                    {producer, m_.loop});
      require_same_region(result, *region, producer, buffer);
      result = Stored{producer, *region};
    }
    return result;
  }

  void require_same_region(const std::optional<Stored>& first, const Region& second,
                           const Stmt& producer, const Buffer& buffer) {
    if (!first) return;
    bool same = true;
    for (size_t d = 0; d < second.size(); ++d) {
      same = same && same_range(known_, first->region[d], second[d]);
    }
    tree_.require(same, RefusalKind::Unsupported,
                  fmt::format("blocks '{}' and '{}' store different parts of '{}' in one iteration",
                              name(first->producer), name(producer), buffer->name),
                  {first->producer, producer});
  }

  std::vector<ReadBounds> bounds_of_reads() {
    std::vector<ReadBounds> all;
    std::map<const BufferNode*, std::optional<Stored>> stored;
    auto add = [&](const Expr& e) {
      auto* load = e.as<LoadNode>();
      if (!load || load->buffer == m_.written) return;
      if (!stored.count(load->buffer.get())) {
        stored[load->buffer.get()] = stored_near(load->buffer);
      }
      const auto& near = stored.at(load->buffer.get());
      if (near) all.push_back(bounds_of_read(*load, *near));
    };
    for_each_expr(m_.node().body, add);
    if (m_.node().init.defined()) for_each_expr(m_.node().init, add);
    return all;
  }

  ReadBounds bounds_of_read(const LoadNode& load, const Stored& stored) {
    const std::vector<IterVar>& iters = m_.node().iters;
    const Region& region = stored.region;
    auto all = stored_in_all(*stored.producer.as<BlockNode>(), load.buffer, known_);
    ReadBounds bounds{&load, std::vector<std::optional<Range>>(iters.size())};
    for (size_t d = 0; d < region.size(); ++d) {
      if (covers_extent(known_, region[d], load.buffer->shape[d])) {
        stored_whole_.push_back(stored.producer);
        continue;
      }
      // If a guard protects a read because nobody stores the element, its iteration would have no
      // place to run. Only a copy of such an element can be dropped.
      bool inverted = false;
      Range shape = {0, load.buffer->shape[d]};
      bool inside = is_copy_of(load) ? stays_inside(load.indices[d], shape)
                                     : all && stays_inside(load.indices[d], (*all)[d]);
      for (size_t i = 0; i < iters.size() && inside && !inverted; ++i) {
        auto found = preimage(load.indices[d], iters[i].var, iters, region[d]);
        if (!found || !found->exact) continue;
        inverted = !bounds.ranges[i] || same_range(known_, *bounds.ranges[i], found->range);
        bounds.ranges[i] = found->range;
      }
      tree_.require(inverted, RefusalKind::Dependence,
                    fmt::format("block '{}' reads dimension {} of '{}' where other iterations of "
                                "loop '{}' store it",
                                m_.node().name, d, load.buffer->name, loop_name()),
                    {m_.block, m_.loop});
    }
    return bounds;
  }

  bool is_copy_of(const LoadNode& load) const {
    auto* store = m_.node().body.as<StoreNode>();
    return store && store->value.get() == &load;
  }

  // True when an index of the block is within `range` in all of the block's iterations.
  bool stays_inside(const Expr& index, const Range& range) {
    known_.push();
    for (const IterVar& iter : m_.node().iters) known_.bind(iter.var, 0, iter.extent);
    bool inside =
        known_.prove(range.min <= index) && known_.prove(index < range.min + range.extent);
    known_.pop();
    return inside;
  }

  // The iterations of the block whose reads are complete. One read must determine them all: then
  // each iteration of the block runs where that element is stored. The other reads must allow them.
  std::vector<Range> ready_iterations() {
    std::vector<ReadBounds> reads = bounds_of_reads();
    for (const ReadBounds& anchor : reads) {
      std::vector<Range> ranges = full_ranges(m_.node());
      for (size_t i = 0; i < ranges.size(); ++i) {
        if (anchor.ranges[i]) ranges[i] = *anchor.ranges[i];
      }
      bool allowed = std::all_of(reads.begin(), reads.end(),
                                 [&](const ReadBounds& other) { return allows(other, ranges); });
      if (allowed && constant_sizes(ranges)) return ranges;
    }
    tree_.refuse(
        RefusalKind::Dependence,
        fmt::format("no part of block '{}' can be computed from what one iteration of loop "
                    "'{}' stores",
                    m_.node().name, loop_name()),
        {m_.block, m_.loop});
  }

  bool allows(const ReadBounds& read, const std::vector<Range>& ranges) {
    for (size_t i = 0; i < ranges.size(); ++i) {
      const auto& bound = read.ranges[i];
      if (!bound || contains(known_, *bound, ranges[i])) continue;
      if (!covers_extent(known_, *bound, m_.node().iters[i].extent)) return false;
    }
    return true;
  }

  // make_nest() would widen ranges of non-constant extent to iterations that are not ready.
  bool constant_sizes(const std::vector<Range>& ranges) {
    for (size_t i = 0; i < ranges.size(); ++i) {
      if (as_int(known_.simplify(ranges[i].extent))) continue;
      if (!covers_extent(known_, ranges[i], m_.node().iters[i].extent)) return false;
    }
    return true;
  }

  void check_reduction(const std::vector<Range>& ranges) {
    for (size_t i = 0; i < ranges.size(); ++i) {
      const IterVar& iter = m_.node().iters[i];
      if (iter.kind != IterKind::Reduce) continue;
      tree_.require(covers_extent(known_, ranges[i], iter.extent), RefusalKind::Dependence,
                    fmt::format("reduce iterator '{}' of block '{}' cannot run in full inside loop "
                                "'{}'",
                                iter.var.name(), m_.node().name, loop_name()),
                    {m_.block, m_.loop});
    }
  }

  // A tile larger than its axis has whole iterations of the loop past the end, which store nothing.
  // Along other axes, the stored region bounds the block's own iterations.
  Expr guard() {
    if (stored_whole_.empty()) return {};
    auto necessary = [&](const Stmt& producer) {
      return conjuncts(
          necessary_at(tree_, m_.inside(), path_to(tree_.program().body, producer.get())));
    };
    Expr shared;
    for (const Expr& conjunct : necessary(stored_whole_[0])) {
      bool everywhere =
          std::all_of(stored_whole_.begin(), stored_whole_.end(), [&](const Stmt& producer) {
            std::vector<Expr> own = necessary(producer);
            return std::any_of(own.begin(), own.end(),
                               [&](const Expr& e) { return equal(e, conjunct); });
          });
      if (everywhere) shared = conjunction(shared, conjunct);
    }
    return shared;
  }

  static const std::string& name(const Stmt& block) { return block.as<BlockNode>()->name; }
  const std::string& loop_name() const { return m_.target().var.name(); }

  const Tree& tree_;
  const Module& module_;
  Move m_;
  Analyzer known_;
  size_t position_ = 0;
  std::vector<Stmt> stored_whole_;  // producers that store an axis whole in one iteration
};

}  // namespace

Applied ReverseComputeAt::apply(const Module& module) const {
  Tree tree(kName, module.main);
  return {ReverseMover(tree, module, block, loop).run(), {}};
}

}  // namespace tilewright
