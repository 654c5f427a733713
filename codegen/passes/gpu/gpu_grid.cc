// Grids of as many blocks as a chip holds. Each block computes several tiles, or shares of them.
#include <fmt/core.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "codegen/cuda/cuda_cluster.h"
#include "codegen/cuda/cuda_tile_order.h"
#include "codegen/cuda_lowering.h"
#include "codegen/statements.h"
#include "ir/arith/simplify.h"
#include "ir/predicates.h"
#include "ir/visitor.h"

namespace tilewright {
namespace {

Annotations without(Annotations notes, const char* key) {
  notes.erase(key);
  return notes;
}

Expr ceil_div(const Expr& a, const Expr& b) { return floordiv(a + b - Expr(1), b); }

// A kernel whose loop over blocks is annotated.
struct Kernel {
  const ForNode& loop;
  int64_t blocks;
  int64_t cluster = 1;  // blocks that run together, and take neighbouring tiles
  std::string name() const { return loop.var.name(); }
};

// A partial cluster cannot be launched.
void require_whole_clusters(const ForNode& n, int64_t cluster, Analyzer& known) {
  if (known.prove(eq(floormod(n.extent, Expr(cluster)), Expr(0)))) return;
  throw LoweringError(fmt::format(
      "loop '{}' over blocks is to run in clusters of {}; its extent must be a multiple "
      "of that",
      n.var.name(), cluster));
}

// The annotations of a loop whose tiles are already in order.
Annotations ordered(Annotations notes) {
  notes[kTileOrderKey] = TileOrder{.is_done = true}.text();
  return notes;
}

std::optional<HilbertOrder> hilbert_order(const ForNode& loop) {
  const auto order = tile_order(loop);
  return order && order->rows > 0 ? std::optional(HilbertOrder(order->rows, order->columns))
                                  : std::nullopt;
}

// One block per tile, in the order that the loop asks for.
Stmt in_order(const ForNode& n, const Annotations& notes) {
  const auto given = tile_order(n);
  if (!given || given->is_done) {
    return make_for(n.var, n.min, n.extent, n.for_kind, n.body, notes);
  }
  Var turn(n.var.name() + "_order");
  if (given->longest_last > 0) {
    if (cluster_blocks(n) > 1) {
      throw LoweringError(fmt::format("loop '{}' cannot be in the order '{}' in clusters",
                                      n.var.name(), given->text()));
    }
    return make_for(turn, n.min, n.extent, n.for_kind,
                    LongestFirst(given->longest_last).around(n.var, turn, n.extent, n.body),
                    without(notes, kTileOrderKey));
  }
  const HilbertOrder order(given->rows, given->columns);
  return make_for(turn, n.min, n.extent, n.for_kind,
                  order.around(n.var, turn, cluster_blocks(n), n.body), ordered(notes));
}

// Block b computes the tiles b, b + blocks, b + 2 * blocks, …. Tiles that run at the same time are
// thus neighbours in the order of the loop.
Stmt persistent(const Kernel& k, Analyzer& known) {
  const ForNode& n = k.loop;
  if (known.prove(n.extent <= Expr(k.blocks))) {
    return in_order(n, without(n.annotations, kPersistentKey));
  }
  Var block(k.name() + "_block"), turn(k.name() + "_turn");
  const Expr blocks(k.blocks);
  const Expr tile = turn * blocks + block;
  const auto order = hilbert_order(n);
  Expr is_tile = (order ? tile : Expr(n.var)) < n.extent;
  if (k.cluster > 1) {  // all blocks of a cluster have a tile, or none of them
    const Expr cluster(k.cluster);
    is_tile =
        turn * Expr(k.blocks / k.cluster) + floordiv(block, cluster) < floordiv(n.extent, cluster);
  }
  Stmt own = order ? make_if(is_tile, order->around(n.var, tile, k.cluster, n.body))
                   : make_let(n.var, tile, make_if(is_tile, n.body));
  Stmt turns = make_for(turn, 0, ceil_div(n.extent, blocks), ForKind::Serial, own);
  const Annotations notes = without(n.annotations, kPersistentKey);
  return make_for(block, 0, min(n.extent, blocks), n.for_kind, turns,
                  order ? ordered(notes) : notes);
}

// The body of such a kernel whose accumulators are to be shared (stream-K). It has the code before
// the loop over k, the loop, and the code behind it.
struct Streamed {
  std::vector<Buffer> buffers;
  std::vector<Stmt> before, after;
  const ForNode* terms = nullptr;
  Buffer sums;
};

[[noreturn]] void fail_shared_terms(const ForNode& terms, const std::string& reason) {
  throw LoweringError(
      fmt::format("blocks are to share the terms of loop '{}': {}", terms.var.name(), reason));
}

bool is_streamed(const Stmt& s) {
  auto* loop = s.as<ForNode>();
  return loop != nullptr && loop->annotations.count(kStreamedKey) != 0;
}

const ForNode* find_streamed(const Stmt& body) {
  const ForNode* found = nullptr;
  for_each_stmt(body, [&](const Stmt& s) {
    if (is_streamed(s)) found = s.as<ForNode>();
  });
  return found;
}

// The one accumulator buffer: private to threads, alive after the loop, and added to in it.
Buffer sums_of(const Streamed& parts) {
  Buffer sums;
  for_each_stmt(parts.terms->body, [&](const Stmt& s) {
    auto* store = s.as<StoreNode>();
    bool lasts = store && (store->buffer->scope == Scope::Global ||
                           std::find(parts.buffers.begin(), parts.buffers.end(), store->buffer) !=
                               parts.buffers.end());
    if (!lasts) return;
    auto* add = store->value.as<BinaryNode>();
    auto* old = add && add->op == BinaryOp::Add ? add->a.as<LoadNode>() : nullptr;
    bool adds = is_private(store->buffer) && old && old->buffer == store->buffer;
    if (!adds || (sums && sums != store->buffer)) {
      fail_shared_terms(*parts.terms,
                        "it must add to one buffer in registers, and do nothing else that lasts");
    }
    sums = store->buffer;
  });
  if (!sums) fail_shared_terms(*parts.terms, "it adds to no buffer in registers");
  for (const Stmt& s : parts.before) {
    for_each_stmt(s, [&](const Stmt& x) {
      auto* store = x.as<StoreNode>();
      bool starts = !store || (store->buffer == sums && is_zero(store->value));
      if (!starts)
        fail_shared_terms(*parts.terms, "all that comes before it must be that its sums become 0");
    });
  }
  if (parts.before.empty())
    fail_shared_terms(*parts.terms, "its sums must become 0 right before it");
  return sums;
}

Streamed take_apart(const Kernel& kernel, const ForNode& terms) {
  Body body = body_of(kernel.loop.body);
  Streamed parts;
  parts.buffers = std::move(body.buffers);
  for (const Stmt& s : body.stmts) {
    if (is_streamed(s)) {
      parts.terms = s.as<ForNode>();
    } else {
      (parts.terms ? parts.after : parts.before).push_back(s);
    }
  }
  if (!parts.terms) {
    fail_shared_terms(
        terms, fmt::format("it must stand right under loop '{}' over blocks", kernel.name()));
  }
  if (!is_int(terms.min, 0)) fail_shared_terms(terms, "it must begin at 0");
  parts.sums = sums_of(parts);
  return parts;
}

// Streams the accumulation of a kernel (stream-K). A unit is one iteration of its loop over k. The
// units of all shared tiles, one tile behind the other, are cut into even shares, one per block.
class Streamer {
 public:
  Streamer(const Kernel& kernel, Streamed parts, Analyzer& known)
      : n_(kernel.loop), blocks_(kernel.blocks), parts_(std::move(parts)),
        terms_(parts_.terms->extent), known_(known) {
    whole_ = known_.simplify(max(floordiv(n_.extent, blocks_) - Expr(1), Expr(0)));
    shared_ = known_.simplify(n_.extent - whole_ * blocks_);
    share_ = known_.simplify(ceil_div(shared_ * terms_, blocks_));
    std::vector<Expr> shape = {blocks_, Expr(2)};
    shape.insert(shape.end(), parts_.sums->shape.begin(), parts_.sums->shape.end());
    partial = make_buffer(parts_.sums->name + "_partial", parts_.sums->elem, shape, Scope::Global);
  }

  // Whether every block gets whole tiles only.
  bool is_even() { return known_.prove(eq(share_, terms_)); }

  // The kernel that accumulates: first a block's share, then whole tiles.
  Stmt shares() {
    Var block(n_.var.name() + "_block"), item(n_.var.name() + "_item");
    Var tile("shared_tile"), begin("begin"), end("end");
    const Expr pieces(pieces_of_share());
    Expr first = block * share_, last = min(first + share_, shared_ * terms_);
    Expr is_shared = item < pieces;
    Stmt body = piece(block, begin, end);
    body = make_if((n_.var < n_.extent) && (begin < end), body);
    body = make_let(end, select(is_shared, min(last - tile * terms_, terms_), terms_), body);
    body = make_let(begin, select(is_shared, max(first - tile * terms_, Expr(0)), Expr(0)), body);
    Expr own = shared_ + (item - pieces) * blocks_ + block;
    body = make_let(n_.var, select(is_shared, tile, own), body);
    body = make_let(tile, floordiv(first, terms_) + item, body);
    Stmt items = make_for(item, 0, pieces + whole_, ForKind::Serial, body);
    return make_for(block, 0, blocks_, n_.for_kind, items, without(n_.annotations, kPersistentKey));
  }

  // The kernel that adds up the partial sums of tiles that several blocks share, in the order of k.
  Stmt fix_up() {
    Var from("from"), first("first"), last("last");
    Expr slot = select(from > first, Expr(0), Expr(1));
    Stmt add = at_elements([&](const StoreNode& s) {
      return make_store(s.buffer, s.indices,
                        load(s.buffer, s.indices) + load(partial, in_partial(from, slot, s)));
    });
    std::vector<Stmt> stmts = parts_.before;
    stmts.push_back(make_for(from, first, last - first + Expr(1), ForKind::Serial, add));
    stmts.insert(stmts.end(), parts_.after.begin(), parts_.after.end());
    Stmt body = make_if(first < last, with_buffers(parts_.buffers, make_seq(stmts)));
    body = make_let(last, floordiv(n_.var * terms_ + terms_ - Expr(1), share_), body);
    body = make_let(first, floordiv(n_.var * terms_, share_), body);
    return make_for(n_.var, 0, shared_, n_.for_kind, body, without(n_.annotations, kPersistentKey));
  }

  // The partial sums of each block: for the tile that another block has begun, and for the one that
  // another block will end.
  Buffer partial;

 private:
  // The number of tiles that a share has a part of, at most.
  int64_t pieces_of_share() {
    const int64_t terms = known_.bounds(terms_).max, share = known_.bounds(share_).max;
    if (as_int(share_) && share % terms == 0) return share / terms;
    return (share + terms - 2) / terms + 1;
  }

  std::vector<Expr> in_partial(const Expr& block, const Expr& slot, const StoreNode& s) const {
    std::vector<Expr> indices = {block, slot};
    indices.insert(indices.end(), s.indices.begin(), s.indices.end());
    return indices;
  }

  // The stores that set accumulators to 0, replaced by others for the same elements and threads.
  Stmt at_elements(const std::function<Stmt(const StoreNode&)>& fn) {
    return map_stores(make_seq(parts_.before),
                      [&](const StoreNode& n, const Stmt&) { return fn(n); });
  }

  // The part [begin, end) of a tile along k; the whole of k gives a result.
  Stmt piece(const Expr& block, const Expr& begin, const Expr& end) {
    const ForNode& t = *parts_.terms;
    std::vector<Stmt> stmts = parts_.before;
    stmts.push_back(make_for(t.var, begin, end - begin, t.for_kind, t.body,
                             without(t.annotations, kStreamedKey)));
    Expr slot = select(begin > Expr(0), Expr(0), Expr(1));
    Stmt keep = at_elements([&](const StoreNode& s) {
      return make_store(partial, in_partial(block, slot, s), load(s.buffer, s.indices));
    });
    Expr is_whole = (begin <= Expr(0)) && (end >= terms_);
    stmts.push_back(make_if(is_whole, make_seq(parts_.after), keep));
    return with_buffers(parts_.buffers, make_seq(stmts));
  }

  const ForNode& n_;
  const Expr blocks_;
  Streamed parts_;
  Expr terms_, whole_, shared_, share_;  // units per tile; whole, shared tiles; units per share
  Analyzer& known_;
};

class GridRewriter {
 public:
  explicit GridRewriter(const std::vector<DimVar>& dims) {
    for (const DimVar& d : dims) known_.bind(d.var, Interval{d.min, d.max});
  }

  Stmt operator()(const Stmt& kernel) {
    auto* loop = kernel.as<ForNode>();
    auto note = loop ? loop->annotations.find(kPersistentKey) : Annotations::const_iterator();
    const ForNode* terms = find_streamed(kernel);
    const int64_t cluster = loop ? cluster_blocks(*loop) : 1;
    if (cluster > 1) require_whole_clusters(*loop, cluster, known_);
    if (!loop || note == loop->annotations.end()) {
      if (terms)
        fail_shared_terms(*terms, fmt::format("the loop over blocks needs '{}'", kPersistentKey));
      return loop && is_block_axis(loop->for_kind) ? in_order(*loop, loop->annotations) : kernel;
    }
    if (const auto order = tile_order(*loop); order && order->longest_last > 0) {
      throw LoweringError(fmt::format("loop '{}' cannot be in the order '{}' with '{}'",
                                      loop->var.name(), order->text(), kPersistentKey));
    }
    auto* blocks = std::get_if<int64_t>(&note->second);
    if (!blocks || *blocks < 1 || !is_block_axis(loop->for_kind) || !is_int(loop->min, 0)) {
      throw LoweringError(
          fmt::format("'{}' of loop '{}' must be a number of 1 or more, on an outermost loop over "
                      "blocks from 0",
                      kPersistentKey, loop->var.name()));
    }
    if (*blocks % cluster != 0) {
      throw LoweringError(
          fmt::format("'{}' of loop '{}' is {}, which is not made of whole clusters of {}",
                      kPersistentKey, loop->var.name(), *blocks, cluster));
    }
    Kernel k{*loop, *blocks, cluster};
    if (terms && cluster > 1) fail_shared_terms(*terms, "blocks that run in clusters share none");
    if (terms && hilbert_order(*loop))
      fail_shared_terms(*terms, "tiles along a Hilbert curve are whole");
    if (!terms) return persistent(k, known_);
    Streamer streamer(k, take_apart(k, *terms), known_);
    if (streamer.is_even()) return persistent(k, known_);
    partials.push_back(streamer.partial);
    return make_seq({streamer.shares(), streamer.fix_up()});
  }

  std::vector<Buffer> partials;

 private:
  Analyzer known_;
};

}  // namespace

Program persist_grids(const Program& program) {
  GridRewriter rewriter(program.dims);
  Stmt body = map_kernels(program.body, [&](const Stmt& kernel) { return rewriter(kernel); });
  for (const Buffer& b : rewriter.partials) body = make_allocate(b, body);
  return with_body(program, body);
}

}  // namespace tilewright
