#include "tuner/cpu/cpu_traffic.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "ir/arith/interval.h"
#include "ir/arith/simplify.h"
#include "ir/visitor.h"

namespace tilewright {
namespace {

constexpr double kCacheLine = 64;        // bytes of a cache line
constexpr double kUnboundedExtent = 64;  // extent of an unbounded size
constexpr double kUsable = 0.8;          // of a cache: not everything that passes is old

struct Touched {
  double bytes = 0;  // in whole lines
  bool written = false;
  double moved() const { return written ? 2 * bytes : bytes; }
};
using Footprint = std::map<const BufferNode*, Touched>;

double total(const Footprint& f) {
  double bytes = 0;
  for (const auto& [buffer, touched] : f) bytes += touched.bytes;
  return bytes;
}

double moved(const Footprint& f) {
  double bytes = 0;
  for (const auto& [buffer, touched] : f) bytes += touched.moved();
  return bytes;
}

class TrafficFinder {
 public:
  TrafficFinder(const Program& p, const Target& target, int threads)
      : caches_{static_cast<double>(target.l1_bytes), static_cast<double>(target.l2_bytes),
                static_cast<double>(target.l3_bytes)},
        threads_(threads) {
    for (const DimVar& d : p.dims) known_.bind(d.var, Interval{d.min, d.max});
  }

  CpuTraffic of_runs(const Stmt& body) {
    const Part all = find(body);
    CpuTraffic result = {};
    for (size_t level = 0; level < result.size(); ++level) {
      if (total(all.touched) > kUsable * caches_[level]) result[level] = all.traffic[level];
    }
    return result;
  }

 private:
  struct Part {
    Footprint touched;
    CpuTraffic traffic = {};
  };

  double largest(const Expr& extent) {
    const int64_t most = known_.bounds(extent).max;
    return most == Interval::kPosInf ? kUnboundedExtent
                                     : static_cast<double>(std::max<int64_t>(0, most));
  }

  // The box that a statement touches of a buffer, as lines of its longest contiguous runs.
  double bytes_of(const BufferRegion& r) {
    double run = bits_of(r.buffer->elem) / 8.0, rows = 1;
    bool whole = true;
    for (size_t d = r.region.size(); d-- > 0;) {
      const double extent = std::max(1.0, largest(r.region[d].extent));
      if (whole) {
        run *= extent;
        whole = extent >= largest(r.buffer->shape[d]);
      } else {
        rows *= extent;
      }
    }
    return rows * std::ceil(run / kCacheLine) * kCacheLine;
  }

  Footprint footprint(const Stmt& s) {
    Footprint result;
    const Accesses found = accesses(s);
    for (const BufferRegion& r : found.reads) {
      Touched& t = result[r.buffer.get()];
      t.bytes = std::max(t.bytes, bytes_of(r));
    }
    for (const BufferRegion& r : found.writes) {
      Touched& t = result[r.buffer.get()];
      t.bytes = std::max(t.bytes, bytes_of(r));
      t.written = true;
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
    part.traffic.fill(moved(part.touched));
    return part;
  }

  Part of_loop(const ForNode& n) {
    double extent = largest(n.extent);
    Expr count = n.extent;
    if (n.for_kind == ForKind::Parallel && threads_ > 1) {
      extent = std::ceil(extent / threads_);
      count = Expr(static_cast<int64_t>(extent));
    }
    const KnowledgeScope scope(known_);
    Part part{footprint(make_for(n.var, n.min, count, n.for_kind, n.body))};
    known_.bind(n.var, n.min, n.extent);
    const Part body = find(n.body);
    for (size_t level = 0; level < caches_.size(); ++level) {
      const bool fits = total(body.touched) <= kUsable * caches_[level];
      part.traffic[level] = fits ? moved(part.touched) : extent * body.traffic[level];
    }
    return part;
  }

  Part of_sequence(const Stmt& s, const SeqNode& n) {
    Part part{footprint(s)};
    CpuTraffic sum = {};
    for (const Stmt& child : n.stmts) {
      const Part p = find(child);
      for (size_t level = 0; level < sum.size(); ++level) sum[level] += p.traffic[level];
    }
    for (size_t level = 0; level < caches_.size(); ++level) {
      const bool fits = total(part.touched) <= kUsable * caches_[level];
      part.traffic[level] = fits ? moved(part.touched) : sum[level];
    }
    return part;
  }

  Analyzer known_;
  std::array<double, 3> caches_;
  int threads_;
};

}  // namespace

CpuTraffic traffic_of(const Program& nest, const Target& target, int threads) {
  return TrafficFinder(nest, target, threads).of_runs(nest.body);
}

}  // namespace tilewright
