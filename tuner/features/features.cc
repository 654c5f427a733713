#include "tuner/features/features.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "base/error.h"
#include "codegen/lowering.h"
#include "ir/arith/interval.h"
#include "ir/arith/simplify.h"
#include "ir/visitor.h"
#include "tuner/features/feature_row.h"

namespace tilewright {
namespace {

constexpr int kStatements = 2;
constexpr int kAccesses = 3;

struct LoopInfo {
  const ForNode* node;
  double extent;
  double working_set = 0;                              // bytes that one run of the loop touches
  std::map<const BufferNode*, double> footprint = {};  // the same by buffer
  bool in_intrinsic = false;                           // inside a tensorized loop
};

// A store with its surrounding loops, outermost first.
struct Work {
  const StoreNode* store;
  std::vector<LoopInfo> loops;
  double trips = 1;
  double ops = 0;  // arithmetic operations per trip
  bool guarded = false;
  double cost() const { return trips * (1 + ops); }
};

constexpr double kUnknown = 64;  // extent of an unbounded size

// A loop extent with dynamic dimensions at their maximum.
double largest(const Expr& extent, Analyzer& known) {
  int64_t most = known.bounds(extent).max;
  return most == Interval::kPosInf ? kUnknown : static_cast<double>(std::max<int64_t>(0, most));
}

// Bytes of the bounding box that a statement touches in each buffer.
std::map<const BufferNode*, double> footprints(const Stmt& s, Analyzer& known) {
  std::map<const BufferNode*, double> bytes;
  Accesses found = accesses(s);
  for (const auto* list : {&found.reads, &found.writes}) {
    for (const BufferRegion& r : *list) {
      double volume = bits_of(r.buffer->elem) / 8.0;
      for (const Range& range : r.region) {
        volume *= std::max(1.0, largest(range.extent, known));
      }
      bytes[r.buffer.get()] = std::max(bytes[r.buffer.get()], volume);
    }
  }
  return bytes;
}

class WorkFinder : public Visitor {
 public:
  explicit WorkFinder(const std::vector<DimVar>& dims) {
    for (const DimVar& d : dims) known_.bind(d.var, Interval{d.min, d.max});
  }

  std::vector<Work> found;
  double parallel_extent = 1, code_size = 0;

 protected:
  void visit_for(const ForNode& n) override {
    LoopInfo info{&n, largest(n.extent, known_)};
    info.in_intrinsic =
        n.annotations.count("intrinsic") != 0 || (!loops_.empty() && loops_.back().in_intrinsic);
    info.footprint = footprints(make_for(n.var, n.min, n.extent, n.for_kind, n.body), known_);
    for (const auto& [buffer, bytes] : info.footprint) info.working_set += bytes;
    if (n.for_kind == ForKind::Parallel) parallel_extent = std::max(parallel_extent, info.extent);
    double copies = n.for_kind == ForKind::Unrolled ? info.extent : 1;
    copies_ *= copies;
    known_.push();
    known_.bind(n.var, n.min, n.extent);
    loops_.push_back(std::move(info));
    Visitor::visit_for(n);
    loops_.pop_back();
    known_.pop();
    copies_ /= copies;
  }
  void visit_if(const IfNode& n) override {
    ++guards_;
    Visitor::visit_if(n);
    --guards_;
  }
  void visit_store(const StoreNode& n) override {
    Work work{&n, loops_};
    for (const LoopInfo& l : loops_) work.trips *= l.extent;
    for_each_expr(n.value, [&](const Expr& e) {
      bool index = e.type().elem == ElemType::index || e.type().elem == ElemType::boolean;
      if (!index && e.as<BinaryNode>()) work.ops += 1;
      if (e.as<UnaryNode>()) work.ops += 10;
    });
    work.guarded = guards_ > 0;
    code_size += copies_;
    found.push_back(std::move(work));
  }

 private:
  std::vector<LoopInfo> loops_;
  Analyzer known_;
  double copies_ = 1;
  int guards_ = 0;
};

// Bytes of `buffer` (null: of all buffers) that are loaded into a cache of `size` bytes.
double traffic(const Work& work, const BufferNode* buffer, double size) {
  double outer = 1;
  for (const LoopInfo& l : work.loops) {
    if (l.working_set <= size || &l == &work.loops.back()) {
      if (!buffer) return outer * l.working_set;
      auto it = l.footprint.find(buffer);
      return it == l.footprint.end() ? 0 : outer * it->second;
    }
    outer *= l.extent;
  }
  return 0;
}

struct Access {
  const BufferNode* buffer;
  const std::vector<Expr>* indices;
  double bytes;  // over the whole nest
};

std::vector<Access> accesses_of(const Work& work) {
  std::map<const BufferNode*, const std::vector<Expr>*> first;
  first[work.store->buffer.get()] = &work.store->indices;
  for_each_expr(work.store->value, [&](const Expr& e) {
    if (auto* n = e.as<LoadNode>()) first.emplace(n->buffer.get(), &n->indices);
  });
  std::vector<Access> list;
  for (auto [buffer, indices] : first) {
    double bytes = 0;
    if (!work.loops.empty()) {
      auto it = work.loops[0].footprint.find(buffer);
      if (it != work.loops[0].footprint.end()) bytes = it->second;
    }
    list.push_back({buffer, indices, bytes});
  }
  std::sort(list.begin(), list.end(), [](const Access& a, const Access& b) {
    return a.bytes != b.bytes ? a.bytes > b.bytes : a.buffer->name < b.buffer->name;
  });
  return list;
}

// Elements between neighbouring accesses along a loop. 0: the same element. 1e6 if not affine.
double stride_along(const Access& a, const Expr& var) {
  double stride = 0, unit = 1;
  VarMap next{{var.get(), var + 1}};
  for (size_t d = a.indices->size(); d-- > 0;) {
    const Expr& index = (*a.indices)[d];
    if (uses_var(index, var)) {
      auto step = as_int(simplify(substitute(index, next) - index));
      stride += step ? unit * static_cast<double>(*step) : 1e6;
    }
    unit *= static_cast<double>(as_int(a.buffer->shape[d]).value_or(64));
  }
  return std::abs(stride);
}

struct CacheLevel {
  const char* name;
  int64_t size;
};

std::vector<CacheLevel> levels(const Target& t) {
  return {{".l1", t.l1_bytes}, {".l2", t.l2_bytes}, {".l3", t.l3_bytes}};
}

void add_access(FeatureRow& row, const std::string& prefix, const Work* work, const Access* a,
                const Target& target) {
  const ForNode* inner = work && !work->loops.empty() ? work->loops.back().node : nullptr;
  row.add(prefix + ".stride", a && inner ? log2p(stride_along(*a, inner->var)) : -1);
  row.add(prefix + ".is_write", a && work->store->buffer.get() == a->buffer);
  row.add(prefix + ".bytes", a ? log2p(a->bytes) : -1);
  for (const CacheLevel& level : levels(target)) {
    row.add(prefix + level.name,
            a ? log2p(traffic(*work, a->buffer, static_cast<double>(level.size))) : -1);
  }
}

// The execution structure of the loops around a statement.
struct Structure {
  double vector = 1, unrolled = 1, inner_trips = 1, serial = 0, outer = 1, accumulators = 1;
};

Structure structure_of(const Work& work) {
  Structure s;
  bool inside = true;
  Access out{work.store->buffer.get(), &work.store->indices, 0};
  for (size_t i = work.loops.size(); i-- > 0;) {
    const LoopInfo& l = work.loops[i];
    bool vectorized = l.node->for_kind == ForKind::Vectorized || l.in_intrinsic;
    bool unrolled = l.node->for_kind == ForKind::Unrolled;
    if (vectorized) s.vector *= l.extent;
    if (unrolled) s.unrolled *= l.extent;
    if (vectorized || unrolled) {
      if (stride_along(out, l.node->var) != 0) s.accumulators *= l.extent;
      continue;
    }
    if (inside) s.inner_trips = l.extent;
    inside = false;
    ++s.serial;
    s.outer *= l.extent;
  }
  return s;
}

void add_statement(FeatureRow& row, const std::string& prefix, const Work* work,
                   const Target& target) {
  Structure s = work ? structure_of(*work) : Structure{};
  double lanes = target.f32_lanes();
  double registers = std::ceil(s.accumulators / lanes);
  row.add(prefix + ".trips", work ? log2p(work->trips) : -1);
  row.add(prefix + ".ops", work ? work->ops : -1);
  row.add(prefix + ".guarded", work && work->guarded);
  row.add(prefix + ".vector", s.vector);
  row.add(prefix + ".whole_vectors", std::fmod(s.vector, lanes) == 0);
  row.add(prefix + ".unrolled", log2p(s.unrolled));
  row.add(prefix + ".registers", registers);
  row.add(prefix + ".spill", std::max(0.0, registers + 4 - target.vector_registers));
  row.add(prefix + ".inner_trips", log2p(s.inner_trips));
  row.add(prefix + ".serial_loops", s.serial);
  row.add(prefix + ".outer_trips", log2p(s.outer));
  double flops = work ? std::max(1.0, work->trips * work->ops) : 1;
  for (const CacheLevel& level : levels(target)) {
    double bytes = work ? traffic(*work, nullptr, static_cast<double>(level.size)) : 0;
    row.add(prefix + level.name + "_bytes", log2p(bytes));
    row.add(prefix + level.name + "_intensity", log2p(flops / std::max(1.0, bytes)));
  }
  std::vector<Access> list = work ? accesses_of(*work) : std::vector<Access>{};
  for (int i = 0; i < kAccesses; ++i) {
    const Access* a = i < static_cast<int>(list.size()) ? &list[i] : nullptr;
    add_access(row, prefix + ".access" + std::to_string(i), work, a, target);
  }
}

void add_estimate(FeatureRow& row, const CpuEstimate& e, const CpuCore& core) {
  const CpuPasses& passes = e.cycles.passes;
  const double cycles = std::max(e.cycles.total, 1.0), seconds = std::max(e.seconds, 1e-12);
  row.add("seconds", log2p(1e9 * e.seconds));
  row.add("compute", e.compute / seconds);
  row.add("l2", e.memory[0] / seconds);
  row.add("l3", e.memory[1] / seconds);
  row.add("memory", e.memory[2] / seconds);
  row.add("translation", e.translation / seconds);
  row.add("multiply", passes.multiply / core.multiply / cycles);
  row.add("floats", passes.floats / core.floats / cycles);
  row.add("shuffle", passes.shuffle / core.shuffle / cycles);
  row.add("vector", passes.vector / core.vector / cycles);
  row.add("load", passes.load / core.load / cycles);
  row.add("store", passes.store / core.store / cycles);
  row.add("issue", passes.instructions / core.issue / cycles);
  row.add("waiting", e.cycles.waiting / cycles);
  row.add("control", e.cycles.control / cycles);
  row.add("spills", e.cycles.spills / cycles);
  row.add("stores", log2p(e.stores));
}

void fill(FeatureRow& row, const Program& nest, const CpuEstimate& estimate, const CpuCore& core,
          const Target& target, int threads) {
  WorkFinder finder(nest.dims);
  finder(nest.body);
  std::vector<Work>& works = finder.found;
  std::stable_sort(works.begin(), works.end(),
                   [](const Work& a, const Work& b) { return a.cost() > b.cost(); });
  double total = 0;
  for (const Work& w : works) total += w.cost();
  add_estimate(row, estimate, core);
  double rounds = std::ceil(finder.parallel_extent / threads) * threads;
  row.add("total_cost", log2p(total));
  row.add("statements", static_cast<double>(works.size()));
  row.add("code_size", log2p(finder.code_size));
  row.add("parallel", log2p(finder.parallel_extent));
  row.add("threads", threads);
  row.add("imbalance", rounds / std::max(1.0, finder.parallel_extent));
  row.add("grain", log2p(total / std::max(1.0, finder.parallel_extent)));
  for (int i = 0; i < kStatements; ++i) {
    const Work* w = i < static_cast<int>(works.size()) ? &works[i] : nullptr;
    add_statement(row, "s" + std::to_string(i), w, target);
  }
}

}  // namespace

std::vector<float> extract_features(const Program& scheduled, const Target& target, int threads) {
  Program nest = compact_buffers(lower_blocks(scheduled));
  nest.body = simplify(nest.body, /*drop_unit_loops=*/true);
  return features_of_nest(nest, {}, {}, target, threads);
}

std::vector<float> features_of_nest(const Program& nest, const CpuEstimate& estimate,
                                    const CpuCore& core, const Target& target, int threads) {
  FeatureRow row;
  fill(row, nest, estimate, core, target, threads);
  return std::move(row.values);
}

const std::vector<std::string>& feature_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> list;
    FeatureRow row(&list);
    Buffer b = make_buffer("x", ElemType::f32, {});
    Program p{
        "names", {{b, ParamRole::Output}}, {}, make_store(b, {}, make_float(ElemType::f32, 0))};
    fill(row, p, {}, {}, Target::parse("generic"), 1);
    return list;
  }();
  return names;
}

}  // namespace tilewright
