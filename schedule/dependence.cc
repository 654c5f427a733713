#include "schedule/dependence.h"

#include <algorithm>
#include <map>

#include <fmt/core.h>

#include "ir/arith/interval.h"
#include "ir/compare.h"
#include "ir/visitor.h"
#include "schedule/affine.h"
#include "schedule/masked_loads.h"
#include "schedule/primitives/region.h"
#include "schedule/tree.h"

namespace tilewright {
namespace {

// The loops under `s`, both outside and inside blocks.
std::vector<Stmt> loops_under(const Stmt& s) {
  std::vector<Stmt> loops;
  for_each_stmt(s, [&](const Stmt& child) {
    if (child.as<ForNode>()) loops.push_back(child);
  });
  return loops;
}

void bind_all(Analyzer& known, const std::vector<Stmt>& loops) {
  for (const Stmt& s : loops) known.bind(loop_of(s).var, loop_of(s).min, loop_of(s).extent);
}

// The blocks under a statement, or the statement itself when it is a block.
std::vector<Stmt> block_and_children(const Stmt& s) {
  return s.as<BlockNode>() ? std::vector<Stmt>{s} : child_blocks(s);
}

bool same_indices(const std::vector<Expr>& a, const std::vector<Expr>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const Expr& x, const Expr& y) { return equal(x, y); });
}

// The distinct index lists at which `block` stores to `buffer`, in terms of the loops around it.
std::vector<std::vector<Expr>> stores_to(const BlockNode& block, const Buffer& buffer) {
  VarMap bindings;
  for (const IterVar& iter : block.iters) bindings.emplace(iter.var.get(), iter.binding);
  std::vector<std::vector<Expr>> found;
  auto visit = [&](const Stmt& s) {
    auto* store = s.as<StoreNode>();
    if (!store || store->buffer != buffer) return;
    std::vector<Expr> indices;
    for (const Expr& e : store->indices) indices.push_back(substitute(e, bindings));
    bool seen = std::any_of(found.begin(), found.end(),
                            [&](const auto& other) { return same_indices(indices, other); });
    if (!seen) found.push_back(std::move(indices));
  };
  if (block.init.defined()) for_each_stmt(block.init, visit);
  for_each_stmt(block.body, visit);
  return found;
}

// The indices of a block's only store to `buffer`, plus the numbers that they determine together.
// Two indices may be the digits of one number, such as floordiv(x, 9) and floormod(x, 9). All are
// in terms of the block's iterators, whose digits are easier to join than those of sums of loops.
std::vector<Expr> with_joined_digits(const BlockNode& block, const Buffer& buffer) {
  struct Digits {
    Expr value;
    int64_t range;
    int divisions;
  };
  auto divisions_in = [](const Expr& e) {
    int count = 0;
    for_each_expr(e, [&](const Expr& x) {
      auto* n = x.as<BinaryNode>();
      count += n && (n->op == BinaryOp::FloorDiv || n->op == BinaryOp::FloorMod);
    });
    return count;
  };
  Analyzer known;
  for (const IterVar& iter : block.iters) known.bind(iter.var, 0, iter.extent);
  std::vector<Expr> forms;
  for_each_stmt(block.body, [&](const Stmt& s) {
    auto* store = s.as<StoreNode>();
    if (store && store->buffer == buffer) forms = store->indices;
  });
  std::vector<Digits> found;
  for (size_t d = 0; d < forms.size(); ++d) {
    auto range = as_int(buffer->shape[d]);
    if (range) found.push_back({forms[d], *range, divisions_in(forms[d])});
  }
  constexpr size_t kMostNumbers = 16;
  for (size_t y = 0; y < found.size() && found.size() < kMostNumbers; ++y) {
    for (size_t x = 0; x < y; ++x) {
      for (auto [high, low] : {std::pair{found[x], found[y]}, std::pair{found[y], found[x]}}) {
        if (high.divisions == 0 || low.divisions == 0) continue;
        Expr joined = known.simplify(high.value * Expr(low.range) + low.value);
        int divisions = divisions_in(joined);
        if (divisions >= high.divisions + low.divisions) continue;
        found.push_back({joined, high.range * low.range, divisions});
        forms.push_back(joined);
      }
    }
  }
  return forms;
}

// The bindings of the iterators that the indices of a block's only store to `buffer` determine. An
// iterator stays inside its extent; its binding may leave it where a predicate keeps the block from
// running.
std::vector<IndexForm> told_by_store(const BlockNode& block, const Buffer& buffer) {
  Analyzer known;
  std::vector<Stmt> domain;
  std::vector<IndexForm> indices, bindings;
  for (const IterVar& iter : block.iters) {
    known.bind(iter.var, 0, iter.extent);
    domain.push_back(make_for(iter.var, 0, iter.extent, ForKind::Serial, block.body));
  }
  const std::vector<Stmt> inside = loops_under(block.body);
  bind_all(known, inside);
  domain.insert(domain.end(), inside.begin(), inside.end());
  for (const Expr& index : with_joined_digits(block, buffer)) indices.push_back({index, 0});
  const std::set<const ExprNode*> told = recoverable(indices, domain, known);
  for (const IterVar& iter : block.iters) {
    if (told.count(iter.var.get()) > 0) bindings.push_back({iter.binding, 0});
  }
  return bindings;
}

// True when different iterations of `loop` write different elements of the region's buffer. Tries
// the boxes that whole iterations write, then the exact indices of a lone store, then the iterators
// that these determine.
bool writes_distinct(const Stmt& loop, const BufferRegion& written, Analyzer& known) {
  const ExprNode* var = loop_of(loop).var.get();
  std::vector<IndexForm> boxes;
  for (const Range& range : written.region) {
    Interval extent = known.bounds(range.extent);
    if (extent.max != Interval::kPosInf) boxes.push_back({range.min, extent.max - 1});
  }
  if (recoverable(boxes, {loop}, known).count(var)) return true;

  std::vector<Stmt> writers;
  for (const Stmt& s : child_blocks(loop)) {
    if (contains(buffers_written(block_of(s)), written.buffer)) writers.push_back(s);
  }
  if (writers.size() != 1 || !child_blocks(writers[0]).empty()) return false;
  std::vector<std::vector<Expr>> stores = stores_to(block_of(writers[0]), written.buffer);
  if (stores.size() != 1) return false;
  VarMap bindings;
  for (const IterVar& iter : block_of(writers[0]).iters) bindings[iter.var.get()] = iter.binding;
  std::vector<IndexForm> exact;
  for (const Expr& index : with_joined_digits(block_of(writers[0]), written.buffer)) {
    exact.push_back({substitute(index, bindings), 0});
  }
  std::vector<Stmt> varying = loops_under(loop);
  if (recoverable(exact, varying, known).count(var) > 0) return true;
  return recoverable(told_by_store(block_of(writers[0]), written.buffer), varying, known)
             .count(var) > 0;
}

// True when `buffer` is allocated in the program and used only under `loop`.
bool is_private(const Tree& tree, const Stmt& loop, const Buffer& buffer) {
  for (const Param& param : tree.program().params) {
    if (param.buffer == buffer) return false;
  }
  auto uses = [&](const Stmt& root) {
    size_t count = 0;
    for (const Stmt& s : leaf_blocks(root)) {
      const BlockNode& block = block_of(s);
      count += contains(buffers_read(block), buffer) || contains(buffers_written(block), buffer);
    }
    return count;
  };
  return uses(tree.program().body) == uses(loop);
}

// One load of a leaf block. `region` holds the elements that it reads in one run of a statement
// around the block, in terms of the variables around that statement. `needs` holds wherever it
// reads anything.
struct Read {
  Stmt block;
  const LoadNode* load;
  Expr
      mask;  // under which selects take the load, in terms of the block's iterators; may be undefined
  BufferRegion region;
  Expr needs;
};

Read read_of(const Stmt& block, const LoadNode& load, const Expr& mask, const Stmt& body) {
  std::map<const ExprNode*, Range> loops;
  for (const Stmt& s : path_to(body, block.get())) {
    if (auto* loop = s.as<ForNode>()) loops[loop->var.get()] = {loop->min, loop->extent};
  }
  VarMap bindings;
  for (const IterVar& iter : block_of(block).iters) bindings[iter.var.get()] = iter.binding;
  std::vector<Expr> indices;
  for (const Expr& index : load.indices) indices.push_back(substitute(index, bindings));
  Analyzer known;
  return {block,
          &load,
          mask,
          {load.buffer, cover(indices, load.buffer->shape, loops)},
          necessary_in(body, block_of(block), known, nullptr,
                       mask.defined() ? substitute(mask, bindings) : mask)};
}

// The reads under `body`, except a block's read of the element that it updates.
std::vector<Read> reads_under(const Stmt& body) {
  std::vector<Read> reads;
  for (const Stmt& s : block_and_children(body)) {
    auto* store = block_of(s).body.as<StoreNode>();
    MaskedLoads loads([&](const LoadNode& load, const Expr& mask) {
      bool own =
          store && store->buffer == load.buffer && same_indices(store->indices, load.indices);
      if (!own) reads.push_back(read_of(s, load, mask, body));
    });
    loads(block_of(s).body);
    loads(block_of(s).init);
  }
  return reads;
}

// True when `writer` stores everything that `read` needs in one run of `body` in which the reader
// runs.
bool stores(const Stmt& body, const Stmt& writer, const Read& read, Analyzer& known) {
  const Buffer& buffer = read.region.buffer;
  known.push();
  for (const Expr& condition : conjuncts(read.needs)) known.assume(condition);
  auto region = region_stored(body, block_of(writer), buffer, known);
  bool found = region && proves_inside(read.region, {buffer, *region}, known);
  if (found) {
    // A tile larger than its axis has whole iterations past the end, which store nothing.
    Expr needs = necessary_in(body, block_of(writer), known, &found);
    for (const Expr& condition : conjuncts(needs)) found = found && known.prove(condition);
  }
  known.pop();
  return found;
}

// Like stores(), for one iteration of the innermost loop under `body` around both (or for `body`
// itself), and for what that iteration reads. The reader's conditions on the loops outside hold
// there. A writer that runs only where its readers do has these conditions too, so its stores in
// all of `body` are no box.
bool stores_nearby(const Stmt& body, const Stmt& writer, const Read& read, Analyzer& known) {
  Path path = path_to(body, read.block.get());
  if (path.empty()) return false;
  Stmt inner = body;
  for (const Stmt& s : path) {
    if (s.as<ForNode>() && !path_to(s, writer.get()).empty()) inner = loop_of(s).body;
  }
  return stores(inner, writer, read_of(read.block, *read.load, read.mask, inner), known);
}

enum class Source { NotWritten, SameRun, Elsewhere };

// The source of what `read` needs within one run of `body`: entirely blocks of that run before the
// reader, or at least partly others.
Source source_of(const Read& read, const Stmt& body, Analyzer& known) {
  bool written = false, before = true;
  for (const Stmt& writer : block_and_children(body)) {
    before &= !writer.same_as(read.block);
    if (!contains(buffers_written(block_of(writer)), read.region.buffer)) continue;
    written = true;
    if (!before) continue;
    if (stores(body, writer, read, known) || stores_nearby(body, writer, read, known)) {
      return Source::SameRun;
    }
  }
  return written ? Source::Elsewhere : Source::NotWritten;
}

// Refuses when an iteration of the loops may read elements that it did not write itself, from a
// buffer that is written under the loops. `body` is one iteration.
void require_local_flow(const Tree& tree, const std::vector<Stmt>& loops, const Stmt& body,
                        Analyzer& known) {
  for (const Read& read : reads_under(body)) {
    if (source_of(read, body, known) != Source::Elsewhere) continue;
    tree.refuse(RefusalKind::Dependence,
                fmt::format("an iteration of loop '{}' may read elements of '{}' that another "
                            "iteration writes",
                            loop_of(loops.back()).var.name(), read.region.buffer->name),
                loops);
  }
}

}  // namespace

bool proves_inside(const BufferRegion& region, const BufferRegion& cover, Analyzer& known) {
  for (size_t d = 0; d < region.region.size(); ++d) {
    const Range &inner = region.region[d], &outer = cover.region[d];
    Expr first = max(inner.min, Expr(0));
    Expr end = min(inner.min + inner.extent, region.buffer->shape[d]);
    bool starts = known.prove(inner.min >= outer.min) || known.prove(first >= outer.min);
    bool ends = starts && (known.prove(inner.min + inner.extent <= outer.min + outer.extent) ||
                           known.prove(end <= outer.min + outer.extent));
    if (!ends) return false;
  }
  return true;
}

void require_flow_in_step(const Tree& tree, const Stmt& earlier, const Stmt& later,
                          const Stmt& body, Analyzer& known) {
  const std::string &first = loop_of(earlier).var.name(), &second = loop_of(later).var.name();
  for (const Read& read : reads_under(body)) {
    const std::string& buffer = read.region.buffer->name;
    Source source = source_of(read, loop_of(earlier).body, known);
    if (source == Source::NotWritten) continue;
    tree.require(source == Source::SameRun, RefusalKind::Dependence,
                 fmt::format("an iteration of loop '{}' may read elements of '{}' that another "
                             "iteration of loop '{}' writes",
                             second, buffer, first),
                 {earlier, later});
    for (const Stmt& s : child_blocks(earlier)) {
      bool writes = contains(buffers_written(block_of(s)), read.region.buffer);
      bool unfinished = writes && use_of(block_of(s), loop_of(earlier).var).reduce;
      tree.require(!unfinished, RefusalKind::Dependence,
                   fmt::format("loop '{}' reads '{}', which block '{}' still reduces into under "
                               "loop '{}'",
                               second, buffer, block_of(s).name, first),
                   {earlier, later});
    }
  }
}

void require_independent(const Tree& tree, const Path& path, bool may_privatize) {
  const Stmt& loop = path.back();
  const std::string& name = loop_of(loop).var.name();
  for (const Stmt& block : child_blocks(loop)) {
    if (use_of(block_of(block), loop_of(loop).var).reduce) {
      tree.refuse(
          RefusalKind::Dependence,
          fmt::format("loop '{}' carries the reduction of block '{}'", name, block_of(block).name),
          {loop, block});
    }
  }
  Analyzer known = tree.analyzer_at(path);
  bind_all(known, loops_under(loop));
  for (const BufferRegion& written : accesses(loop_of(loop).body).writes) {
    if (writes_distinct(loop, written, known)) continue;
    if (may_privatize && is_private(tree, loop, written.buffer)) continue;
    tree.refuse(RefusalKind::Dependence,
                fmt::format("different iterations of loop '{}' may write the same elements of '{}'",
                            name, written.buffer->name),
                {loop});
  }
  require_local_flow(tree, {loop}, loop_of(loop).body, known);
}

void require_permutable(const Tree& tree, const std::vector<Stmt>& loops) {
  const Stmt& body = loop_of(loops.back()).body;
  Path path = path_to(tree.program().body, loops.front().get());
  Analyzer known = tree.analyzer_at(path);
  bind_all(known, loops_under(loops.front()));
  std::vector<Stmt> blocks = child_blocks(loops.front());
  for (const Stmt& s : blocks) {
    const BlockNode& block = block_of(s);
    bool reduces = std::any_of(loops.begin(), loops.end(), [&](const Stmt& loop) {
      return use_of(block, loop_of(loop).var).reduce;
    });
    if (!reduces) continue;
    std::vector<IndexForm> bindings;
    for (const IterVar& iter : block.iters) bindings.push_back({iter.binding, 0});
    std::vector<Stmt> varying = loops_above(path_to(loops.front(), s.get()));
    std::set<const ExprNode*> told = recoverable(bindings, varying, known);
    for (const Stmt& loop : loops) {
      if (told.count(loop_of(loop).var.get())) continue;
      tree.refuse(RefusalKind::Dependence,
                  fmt::format("loop '{}' may repeat iterations of block '{}', whose reduction is "
                              "among the loops",
                              loop_of(loop).var.name(), block.name),
                  {loop, s});
    }
    for (const Stmt& reader : blocks) {
      if (reader.same_as(s)) continue;
      for (const Buffer& buffer : buffers_written(block)) {
        if (!contains(buffers_read(block_of(reader)), buffer)) continue;
        tree.refuse(RefusalKind::Dependence,
                    fmt::format("block '{}' reads '{}', which block '{}' still reduces into under "
                                "these loops",
                                block_of(reader).name, buffer->name, block.name),
                    {s, reader});
      }
    }
  }
  require_local_flow(tree, loops, body, known);
}

}  // namespace tilewright
