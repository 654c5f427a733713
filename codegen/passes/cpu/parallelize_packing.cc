#include <map>
#include <set>

#include "codegen/own_stretch.h"
#include "codegen/passes/ranged_mutator.h"

namespace tilewright {
namespace {

constexpr int64_t kWorthThreads = 1 << 15;  // iterations

// Collects the accesses of one loop's iterations.
class ApartFinder : public RangedMutator {
 public:
  explicit ApartFinder(const ForNode& loop) : loop_(loop) {
    known_.bind(loop.var, loop.min, loop.extent);
    mutate(loop.body);
  }

  // Whether no two iterations touch the same byte of a buffer that one of them writes.
  bool apart() const {
    for (const auto& [buffer, use] : uses_) {
      if (own_.count(buffer) || !use.written) continue;
      bool one = use.stretches.size() == 1 && *use.stretches.begin() != 0;
      if (!one || *use.stretches.begin() * bits_of(buffer->elem) % 8 != 0) return false;
    }
    return true;
  }
  int64_t work() const { return work_; }

 protected:
  Stmt mutate_for(const ForNode& n, const Stmt& s) override {
    int64_t times = as_int(n.extent).value_or(1), before = times_;
    times_ *= times;
    Stmt result = RangedMutator::mutate_for(n, s);
    times_ = before;
    return result;
  }
  Stmt mutate_allocate(const AllocateNode& n, const Stmt& s) override {
    own_.insert(n.buffer.get());
    return Mutator::mutate_allocate(n, s);
  }
  Stmt mutate_store(const StoreNode& n, const Stmt& s) override {
    use(n.buffer, n.indices).written = true;
    work_ += times_;
    return Mutator::mutate_store(n, s);
  }
  Expr mutate_load(const LoadNode& n, const Expr& e) override {
    use(n.buffer, n.indices);
    return Mutator::mutate_load(n, e);
  }

 private:
  struct Use {
    bool written = false;
    std::set<int64_t> stretches;  // 0: iterations may meet
  };
  Use& use(const Buffer& buffer, const std::vector<Expr>& indices) {
    Use& use = uses_[buffer.get()];
    auto stretch = indices.size() == 1 ? own_stretch(indices[0], loop_, known_) : std::nullopt;
    use.stretches.insert(stretch.value_or(0));
    return use;
  }

  const ForNode& loop_;
  std::map<const BufferNode*, Use> uses_;
  std::set<const BufferNode*> own_;  // allocated inside an iteration
  int64_t times_ = 1, work_ = 0;     // per iteration
};

class Parallelizer : public Mutator {
 protected:
  Stmt mutate_for(const ForNode& n, const Stmt& s) override {
    auto extent = as_int(n.extent);
    if (n.for_kind != ForKind::Serial || !extent || *extent < 2) return s;
    ApartFinder found(n);
    if (!found.apart() || found.work() * *extent < kWorthThreads) return s;
    return make_for(n.var, n.min, n.extent, ForKind::Parallel, n.body, n.annotations);
  }
};

}  // namespace

std::optional<int64_t> own_stretch(const Expr& index, const ForNode& loop, Analyzer& known) {
  auto* ramp = index.as<RampNode>();
  if (ramp && !is_int(ramp->stride, 1)) return std::nullopt;
  const Expr& first = ramp ? ramp->base : index;
  if (!uses_var(first, loop.var) || first.type().lanes > 1) return std::nullopt;
  Expr next = substitute(first, {{loop.var.get(), loop.var + Expr(1)}});
  std::optional<int64_t> stretch = as_int(known.simplify(next - first));
  if (!stretch || *stretch <= 0) return std::nullopt;
  Interval within = known.bounds(known.simplify(first - loop.var * Expr(*stretch)));
  int64_t last = index.type().lanes - 1;
  bool inside = within.min >= 0 && within.max != Interval::kPosInf && within.max + last < *stretch;
  return inside ? stretch : std::nullopt;
}

Program parallelize_packing(const Program& lowered) {
  Program result = lowered;
  result.body = Parallelizer()(lowered.body);
  return result;
}

}  // namespace tilewright
