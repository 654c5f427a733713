// Shrinks each allocated buffer to the box that is live inside its allocation.
#include <optional>

#include "codegen/lowering.h"
#include "ir/arith/interval.h"
#include "ir/arith/simplify.h"
#include "ir/visitor.h"

namespace tilewright {
namespace {

// Rewrites the accesses of one buffer: index - origin in the new buffer.
class Rebase : public Mutator {
 public:
  Rebase(const BufferNode* from, Buffer to, std::vector<Expr> origin)
      : from_(from), to_(std::move(to)), origin_(std::move(origin)) {}

 protected:
  Expr mutate_load(const LoadNode& n, const Expr& e) override {
    if (n.buffer.get() != from_) return Mutator::mutate_load(n, e);
    return load(to_, rebased(n.indices), mutate(n.predicate));
  }
  Stmt mutate_store(const StoreNode& n, const Stmt& s) override {
    if (n.buffer.get() != from_) return Mutator::mutate_store(n, s);
    return make_store(to_, rebased(n.indices), mutate(n.value), mutate(n.predicate), n.is_async);
  }

 private:
  std::vector<Expr> rebased(const std::vector<Expr>& indices) {
    std::vector<Expr> result;
    for (size_t d = 0; d < indices.size(); ++d) {
      result.push_back(simplify(mutate(indices[d]) - origin_[d]));
    }
    return result;
  }

  const BufferNode* from_;
  Buffer to_;
  std::vector<Expr> origin_;
};

class Compactor : public Mutator {
 public:
  explicit Compactor(const std::vector<DimVar>& dims) {
    for (const DimVar& d : dims) known_.bind(d.var, Interval{d.min, d.max});
  }

 protected:
  Stmt mutate_for(const ForNode& n, const Stmt& s) override {
    known_.push();
    known_.bind(n.var, n.min, n.extent);
    Stmt result = Mutator::mutate_for(n, s);
    known_.pop();
    return result;
  }

  Stmt mutate_allocate(const AllocateNode& n, const Stmt&) override {
    Stmt body = mutate(n.body);
    Buffer buffer = n.buffer;
    std::optional<Region> live;  // an empty one is that of a buffer without dimensions
    for (const Accesses found = accesses(body); const auto* list : {&found.reads, &found.writes}) {
      for (const BufferRegion& r : *list) {
        if (r.buffer == buffer) live = live ? unite(*live, r.region) : r.region;
      }
    }
    if (!live) return body;  // no access
    std::vector<Expr> shape, origin;
    bool changed = false;
    for (int d = 0; d < buffer->rank(); ++d)
      changed |= shrink(buffer->shape[d], (*live)[d], shape, origin);
    if (!changed) return make_allocate(buffer, body);
    Buffer smaller = with_shape(buffer, shape);
    return make_allocate(smaller, Rebase(buffer.get(), smaller, origin)(body));
  }

 private:
  // Appends the new extent and origin of one dimension; true when it shrank.
  bool shrink(const Expr& extent, const Range& live, std::vector<Expr>& shape,
              std::vector<Expr>& origin) {
    int64_t most = known_.bounds(simplify(live.extent)).max;
    // A dynamic dimension has room for its largest size.
    const int64_t whole = known_.bounds(extent).max;
    if (most == Interval::kPosInf || most < 1 || most >= whole) {
      // A partial tile (a predicated tail) needs no more room than the buffer has. Its origin may
      // lie anywhere, so the dimension stays as it is.
      bool sized = as_int(extent) || whole == Interval::kPosInf;
      shape.push_back(sized ? extent : Expr(whole));
      origin.push_back(0);
      return !sized;
    }
    shape.push_back(most);
    origin.push_back(simplify(live.min));
    return true;
  }

  // The bounding box of two boxes, one dimension at a time.
  static Region unite(const Region& a, const Region& b) {
    Region result;
    for (size_t d = 0; d < a.size(); ++d) {
      Expr lo = simplify(min(a[d].min, b[d].min));
      Expr hi = simplify(max(a[d].min + a[d].extent, b[d].min + b[d].extent));
      result.push_back({lo, simplify(hi - lo)});
    }
    return result;
  }

  Analyzer known_;
};

}  // namespace

Program compact_buffers(const Program& program) {
  Program result = program;
  result.body = Compactor(program.dims)(program.body);
  return result;
}

}  // namespace tilewright
