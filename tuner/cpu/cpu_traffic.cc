#include "tuner/cpu/cpu_traffic.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <vector>

#include "ir/arith/interval.h"
#include "ir/arith/simplify.h"
#include "ir/predicates.h"
#include "ir/visitor.h"

namespace tilewright {
namespace {

constexpr int64_t kLine = 64;            // bytes of a cache line
constexpr int64_t kSets = 64;            // that a line's place in its page tells apart
constexpr double kUnboundedExtent = 64;  // extent of an unbounded size
constexpr double kUsable = 0.8;          // of a cache: not everything that passes is old
constexpr double kPageBytes = 4096;      // bytes
constexpr double kEntries = 64;          // pages in the first table of addresses

// The levels: three caches in bytes, and the table of addresses in pages.
constexpr size_t kCaches = 3, kLevels = kCaches + 1;
using Amounts = std::array<double, kLevels>;

struct Touched {
  double bytes = 0;  // in whole lines
  // Bytes of a cache with as many lines in each set as in those that the runs fill.
  double room = 0;
  double pages = 0;
  bool written = false;
};
using Footprint = std::map<const BufferNode*, Touched>;

double total(const Footprint& f, size_t level) {
  double amount = 0;
  for (const auto& [buffer, touched] : f) amount += level < kCaches ? touched.bytes : touched.pages;
  return amount;
}

// Whether all of it stays in a cache of this size. Lines that are a power of two apart share few sets.
bool stays(const Footprint& f, size_t level, double cache) {
  if (total(f, level) > kUsable * cache) return false;
  return level == kCaches ||
         std::ranges::all_of(f, [&](const auto& entry) { return entry.second.room <= cache; });
}

// The same with what is written counted twice; a page is looked up once.
double moved(const Footprint& f, size_t level) {
  if (level == kCaches) return total(f, level);
  double bytes = 0;
  for (const auto& [buffer, touched] : f) bytes += touched.bytes * (touched.written ? 2 : 1);
  return bytes;
}

class TrafficFinder {
 public:
  TrafficFinder(const Program& p, const Target& target, int threads)
      : caches_{static_cast<double>(target.l1_bytes), static_cast<double>(target.l2_bytes),
                static_cast<double>(target.l3_bytes), kEntries},
        threads_(threads) {
    for (const DimVar& d : p.dims) known_.bind(d.var, Interval{d.min, d.max});
    for_each_expr(p.body, [&](const Expr& e) {
      auto* load = e.as<LoadNode>();
      if (load && std::ranges::any_of(load->indices, reads_memory))
        tables_.insert(load->buffer.get());
    });
  }

  CpuTraffic of_runs(const Stmt& body) {
    const Part all = find(body);
    CpuTraffic result;
    for (size_t level = 0; level < kLevels; ++level) {
      if (stays(all.touched, level, caches_[level])) continue;
      (level < kCaches ? result.bytes[level] : result.pages) = all.traffic[level];
    }
    return result;
  }

 private:
  struct Part {
    Footprint touched;
    Amounts traffic = {};
  };

  double largest(const Expr& extent) {
    const int64_t most = known_.bounds(extent).max;
    return most == Interval::kPosInf ? kUnboundedExtent
                                     : static_cast<double>(std::max<int64_t>(0, most));
  }

  // Whether other iterations of a loop may read other elements of the buffer.
  static bool moves_reads(const ForNode& loop, const BufferNode* buffer) {
    bool moves = false;
    for_each_stmt(loop.body, [&](const Stmt& s) {
      auto* let = s.as<LetNode>();
      moves |= let != nullptr && uses_var(let->value, loop.var);
    });
    for_each_expr(loop.body, [&](const Expr& e) {
      auto* load = e.as<LoadNode>();
      if (load == nullptr || load->buffer.get() != buffer) return;
      for (const Expr& index : load->indices) moves |= uses_var(index, loop.var);
    });
    return moves;
  }

  // How many elements of a buffer a statement reads at indices that memory tells, as a table of pages does: its box
  // then has all that the table may name. Nothing where no index does.
  std::optional<double> looked_up(const Stmt& s, const BufferNode* buffer) {
    if (auto* n = s.as<ForNode>()) {
      auto body = looked_up(n->body, buffer);
      if (body && moves_reads(*n, buffer)) *body *= std::max(1.0, largest(n->extent));
      return body;
    }
    std::vector<Stmt> parts;
    if (auto* n = s.as<SeqNode>()) parts = n->stmts;
    if (auto* n = s.as<AllocateNode>()) parts = {n->body};
    if (auto* n = s.as<LetNode>()) parts = {n->body};
    auto* branch = s.as<IfNode>();
    if (branch != nullptr) parts = {branch->then_case, branch->else_case};
    std::optional<double> count;
    for (const Stmt& part : parts) {
      const auto more = part.defined() ? looked_up(part, buffer) : std::nullopt;
      if (!more) continue;
      count = branch ? std::max(count.value_or(0), *more) : count.value_or(0) + *more;
    }
    if (!s.as<StoreNode>()) return count;
    for_each_expr(s, [&](const Expr& e) {
      auto* load = e.as<LoadNode>();
      if (!load || load->buffer.get() != buffer) return;
      if (std::ranges::any_of(load->indices, reads_memory)) {
        count = count.value_or(0) + load->type.lanes;
      }
    });
    return count;
  }

  // The box that a statement touches of a buffer, as lines and pages of its longest contiguous runs: no more runs
  // than hold so many `elements`.
  Touched touched_of(const BufferRegion& r, std::optional<double> elements = {}) {
    double run = bits_of(r.buffer->elem) / 8.0, rows = 1, stride = run, pages = 0;
    int64_t apart = 0;  // bytes that divide all distances between runs
    bool known = true;  // whether the distance of runs is the same at all sizes
    bool whole = true;
    for (size_t d = r.region.size(); d-- > 0;) {
      const double extent = std::max(1.0, largest(r.region[d].extent));
      if (whole) {
        run *= extent;
        whole = extent >= largest(r.buffer->shape[d]);
        pages = std::max(1.0, run / kPageBytes);
      } else {
        rows *= extent;
        if (extent > 1) apart = known ? std::gcd(apart, static_cast<int64_t>(stride)) : 1;
        pages =
            stride >= kPageBytes ? pages * extent : std::max(pages, extent * stride / kPageBytes);
      }
      stride *= largest(r.buffer->shape[d]);
      known = known && as_int(r.buffer->shape[d]) && stride < 0x1p62;
    }
    if (elements) {
      const double bytes = *elements * bits_of(r.buffer->elem) / 8;
      run = std::min(run, bytes);
      rows = std::clamp(bytes / std::max(run, 1.0), 1.0, rows);
      pages = std::min(pages, rows * std::max(1.0, run / kPageBytes));
      apart = 1;
    }
    const double lines = std::ceil(run / kLine), bytes = rows * lines * kLine;
    // Runs begin in `period` of the sets.
    const int64_t period = kLine * kSets / std::gcd(kLine * kSets, apart);
    const double sets = std::min<double>(kSets, lines * static_cast<double>(period));
    return {bytes, bytes * kSets / sets, pages};
  }

  static void add(Touched& all, const Touched& more) {
    all.bytes = std::max(all.bytes, more.bytes);
    all.room = std::max(all.room, more.room);
    all.pages = std::max(all.pages, more.pages);
  }

  Footprint footprint(const Stmt& s) {
    Footprint result;
    const Accesses found = accesses(s);
    for (const BufferRegion& r : found.reads) {
      add(result[r.buffer.get()],
          touched_of(
              r, tables_.contains(r.buffer.get()) ? looked_up(s, r.buffer.get()) : std::nullopt));
    }
    for (const BufferRegion& r : found.writes) {
      add(result[r.buffer.get()], touched_of(r));
      result[r.buffer.get()].written = true;
    }
    return result;
  }

  Part find(const Stmt& s) {
    if (auto* n = s.as<ForNode>()) return of_loop(*n);
    if (auto* n = s.as<SeqNode>()) return of_sequence(s, *n);
    if (auto* n = s.as<AllocateNode>()) return find(n->body);
    if (auto* n = s.as<LetNode>()) return find(n->body);
    if (auto* n = s.as<IfNode>(); n && !n->else_case.defined()) return find(n->then_case);
    return once(s);
  }

  Part once(const Stmt& s) {
    Part part{footprint(s)};
    for (size_t level = 0; level < kLevels; ++level)
      part.traffic[level] = moved(part.touched, level);
    return part;
  }

  // The iterations of a fused loop after which an outer index changes, in rising order: what it is divided by, at the
  // largest sizes.
  std::set<int64_t> periods_of(const ForNode& n) {
    std::set<int64_t> periods;
    for_each_expr(n.body, [&](const Expr& e) {
      auto* division = e.as<BinaryNode>();
      if (!division || division->op != BinaryOp::FloorDiv || !division->a.same_as(n.var)) return;
      if (uses_var(division->b, n.var)) return;
      const int64_t by = known_.bounds(division->b).max;
      if (by > 1 && by != Interval::kPosInf) periods.insert(by);
    });
    return periods;
  }

  // Loops that were fused count one within the other: what an inner one uses again may be gone when the outer one comes
  // back to it. A quotient of a loop that never was fused only adds a step whose sum is the same.
  Part of_loop(const ForNode& n) {
    double extent = largest(n.extent);
    Expr count = n.extent;
    if (n.for_kind == ForKind::Parallel && threads_ > 1) {
      extent = std::ceil(extent / threads_);
      count = Expr(static_cast<int64_t>(extent));
    }
    const auto touched = [&](const Expr& iterations) {
      const KnowledgeScope scope(known_);
      return footprint(make_for(n.var, n.min, iterations, n.for_kind, n.body));
    };
    Part inner = [&] {
      const KnowledgeScope scope(known_);
      known_.bind(n.var, n.min, n.extent);
      return find(n.body);
    }();
    double done = 1;  // iterations that `inner` has
    const auto widen = [&](double iterations, const Expr& range) {
      Part part{touched(range)};
      for (size_t level = 0; level < kLevels; ++level) {
        const bool fits = stays(inner.touched, level, caches_[level]);
        part.traffic[level] =
            fits ? moved(part.touched, level) : iterations / done * inner.traffic[level];
      }
      inner = std::move(part);
      done = iterations;
    };
    for (const int64_t period : periods_of(n)) {
      if (static_cast<double>(period) < extent) widen(static_cast<double>(period), Expr(period));
    }
    widen(extent, count);
    return inner;
  }

  Part of_sequence(const Stmt& s, const SeqNode& n) {
    Part part{footprint(s)};
    Amounts sum = {};
    for (const Stmt& child : n.stmts) {
      const Part p = find(child);
      for (size_t level = 0; level < kLevels; ++level) sum[level] += p.traffic[level];
    }
    for (size_t level = 0; level < kLevels; ++level) {
      const bool fits = stays(part.touched, level, caches_[level]);
      part.traffic[level] = fits ? moved(part.touched, level) : sum[level];
    }
    return part;
  }

  Analyzer known_;
  std::set<const BufferNode*> tables_;  // buffers that are read at indices that memory tells
  Amounts caches_;
  int threads_;
};

}  // namespace

CpuTraffic traffic_of(const Program& nest, const Target& target, int threads) {
  return TrafficFinder(nest, target, threads).of_runs(nest.body);
}

}  // namespace tilewright
