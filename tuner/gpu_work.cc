#include "tuner/gpu_work.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <unordered_set>

#include "codegen/cuda_expr.h"
#include "codegen/cuda_lowering.h"
#include "codegen/cuda_mma.h"
#include "ir/predicates.h"
#include "ir/simplify.h"
#include "ir/visitor.h"
#include "runtime/emulator/counters.h"

namespace tilewright {
namespace {

constexpr int kLanes = 32;
constexpr int kSampledWarps = 4;
constexpr int64_t kSampledIterations = 64;
constexpr int64_t kAccessBytes = 16;  // of a thread at a time, at most
constexpr int64_t kSharedAlign = 128;
constexpr int kOtherRegisters = 28;  // addresses, loops, what is on its way
// Loads of a loop's iterations that compilers bring together.
constexpr double kUnrolledLoads = 4;
// Instructions that an elementary function takes, where one is all that other operations do.
constexpr double kFunctionInstructions = 10;

// Of a place that a lane reads to an address.
constexpr double kGatherInstructions = 4;

// A register of elements made of codes in a word: a shift, a mask, and one that takes off what the
// codes became.
constexpr double kUnpackInstructions = 3;

// A shuffle and an operation for each halving of a warp.
constexpr double kShuffleInstructions = 10;

using emulator::LaneAccess;

bool is_function(UnaryOp op) {
  return op != UnaryOp::Neg && op != UnaryOp::Not && op != UnaryOp::Abs;
}

// Whether the store fills a register with elements that are worked out from codes in registers
// (CudaExpr::word_store()).
bool makes_register(const StoreNode& n) {
  const int lanes = n.value.type().lanes;
  if (!is_private(n.buffer) || lanes == 1 || lanes * bits_of(n.buffer->elem) != 32) return false;
  bool codes = false, others = false;
  for_each_expr(n.value, [&](const Expr& e) {
    auto* load = e.as<LoadNode>();
    if (!load || load->type.is_scalar()) return;
    codes |= is_private(load->buffer) && bits_of(load->buffer->elem) <= 8;
    others |= !is_private(load->buffer);
  });
  return codes && !others;
}

class Counter {
 public:
  Counter(const Program& program, const Target& target) : target_(target) {
    for (const DimVar& d : program.dims) {
      work_.values.set(d.var, d.max);
      known_.bind(d.var, Interval{d.min, d.max});
    }
  }

  GpuKernelWork count(const Stmt& kernel) {
    walk(kernel);
    work_.exposed += rounds_ * kGlobalLatency;
    work_.registers += kOtherRegisters;
    return std::move(work_);
  }

 private:
  void walk(const Stmt& s);
  void loop(const ForNode& n);
  void axis(const ForNode& n);
  void lanes(const StoreNode& n);
  void branch(const IfNode& n);
  std::optional<double> share_of(const Expr& cond);
  void store(const StoreNode& n);
  void unpack(const StoreNode& n);
  void allocate(const AllocateNode& n);
  void use_own(const Buffer& b, int64_t elements);
  void evaluate(const Expr& e);
  void mma(const ForNode& n);
  void matrices(const MmaOperand& o, int64_t count, int per_load);
  // The first byte of the element in its array: elsewhere where rows are swizzled.
  int64_t byte_of(const Buffer& b, int64_t element) const;

  // The loads and the arithmetic of a value.
  void value(const Expr& e);
  void binary(const BinaryNode& n);
  void under(const Expr& cond, bool holds, const Expr& e);
  void access(const Buffer& b, const Expr& index, bool is_store, bool is_async);
  void issue(double instructions) { work_.instructions += instructions * warps() * times_; }

  int warps() const { return (work_.threads + kLanes - 1) / kLanes; }
  bool is_active() const;
  // Calls `fn` for each active lane of a sampled warp.
  template <class F>
  void for_each_lane(int warp, const F& fn);
  std::vector<int> sampled_warps() const;
  void stand_at(int thread);

  const Target& target_;
  GpuKernelWork work_;
  Analyzer known_;
  std::vector<std::pair<Var, int>> thread_axes_;  // the fastest first
  struct Loop {
    Var var;
    int64_t min, trips;
  };
  std::vector<Loop> loops_;
  std::map<const BufferNode*, int64_t> own_elements_;
  std::map<std::string, int64_t> swizzled_rows_;  // of shared arrays by their names
  std::vector<std::pair<Expr, bool>> guards_;
  double times_ = 1;   // iterations of the loops around
  double rounds_ = 0;  // global latencies since the last barrier
  bool has_barrier_ = false;
};

void Counter::stand_at(int thread) {
  for (const auto& [var, extent] : thread_axes_) {
    work_.values.set(var, thread % extent);
    thread /= extent;
  }
}

bool Counter::is_active() const {
  return std::all_of(guards_.begin(), guards_.end(), [&](const auto& g) {
    return reads_memory(g.first) || (work_.values.at(g.first) != 0) == g.second;
  });
}

std::vector<int> Counter::sampled_warps() const {
  std::set<int> sampled;
  for (int i = 0; i < kSampledWarps; ++i) sampled.insert(i * warps() / kSampledWarps);
  return {sampled.begin(), sampled.end()};
}

template <class F>
void Counter::for_each_lane(int warp, const F& fn) {
  for (int lane = 0; lane < kLanes; ++lane) {
    int thread = warp * kLanes + lane;
    if (thread >= work_.threads) break;
    stand_at(thread);
    if (is_active()) fn();
  }
  stand_at(0);
}

void Counter::walk(const Stmt& s) {
  switch (s.kind()) {
    case StmtKind::For: return loop(*s.as<ForNode>());
    case StmtKind::Store: return store(*s.as<StoreNode>());
    case StmtKind::If: return branch(*s.as<IfNode>());
    case StmtKind::Allocate: return allocate(*s.as<AllocateNode>());
    case StmtKind::Evaluate: return evaluate(s.as<EvaluateNode>()->value);
    case StmtKind::Seq:
      for (const Stmt& child : s.as<SeqNode>()->stmts) walk(child);
      return;
    case StmtKind::Let: {
      auto* n = s.as<LetNode>();
      work_.values.define(n->var, n->value);
      known_.bind(n->var, known_.bounds(n->value));
      return walk(n->body);
    }
    case StmtKind::Block: return;  // lowering left none
  }
}

void Counter::axis(const ForNode& n) {
  const std::string swizzled = kSwizzledRowKey;
  for (const auto& [name, value] : n.annotations) {
    if (name.starts_with(swizzled)) {
      swizzled_rows_[name.substr(swizzled.size())] = std::get<int64_t>(value);
    }
  }
  int64_t extent = work_.values.at(n.extent);
  known_.bind_kept(n.var, n.min, n.extent);
  if (is_block_axis(n.for_kind)) {
    work_.grid.emplace_back(n.var, extent);
    work_.blocks *= extent;
  } else {
    // Lowering nests axes outermost first; x, which runs fastest, comes before y and z.
    thread_axes_.emplace_back(n.var, static_cast<int>(extent));
    work_.threads *= static_cast<int>(extent);
  }
  walk(n.body);
}

// A loop without a barrier in it overlaps the loads of some of its iterations; what lies between
// barriers does not overlap what lies between others.
void Counter::loop(const ForNode& n) {
  if (is_block_axis(n.for_kind) || is_thread_axis(n.for_kind)) return axis(n);
  if (!mma_mark(n).empty()) return mma(n);
  if (n.annotations.count(kLanesKey) != 0) return lanes(*n.body.as<StoreNode>());
  if (n.annotations.count(kDotKey) != 0) return issue(1);
  const int64_t iterations = std::max<int64_t>(0, work_.values.at(n.extent));
  const auto trips = static_cast<double>(iterations);
  loops_.push_back({n.var, work_.values.at(n.min), iterations});
  work_.values.set(n.var, loops_.back().min);
  known_.bind_kept(n.var, n.min, n.extent);
  double times = times_, rounds = rounds_;
  bool had_barrier = has_barrier_;
  times_ *= trips;
  rounds_ = 0;
  has_barrier_ = false;
  if (n.for_kind != ForKind::Unrolled) issue(2);  // count and branch
  walk(n.body);
  loops_.pop_back();
  if (has_barrier_) {
    work_.exposed += times_ * rounds_ * kGlobalLatency;
    rounds_ = rounds;
  } else {
    bool all = n.for_kind == ForKind::Unrolled;
    rounds_ = rounds + rounds_ * (all ? 1 : std::max(1.0, trips / kUnrolledLoads));
    has_barrier_ = had_barrier;
  }
  times_ = times;
}

// A term of each lane; the first lane stores what all of them come to.
void Counter::lanes(const StoreNode& n) {
  if (auto* step = n.value.as<BinaryNode>()) {
    for (const Expr& side : {step->a, step->b}) {
      auto* load = side.as<LoadNode>();
      if (!load || load->buffer != n.buffer) value(side);
    }
  }
  issue(kShuffleInstructions);
  guards_.emplace_back(eq(floormod(thread_axes_.front().first, Expr(kLanes)), 0), true);
  access(n.buffer, n.indices[0], true, false);
  guards_.pop_back();
}

// Of the iterations of the innermost loop that decides the condition, the share in which it holds;
// nothing when threads decide.
std::optional<double> Counter::share_of(const Expr& cond) {
  for (const auto& [var, extent] : thread_axes_) {
    if (uses_var(cond, var)) return std::nullopt;
  }
  for (size_t i = loops_.size(); i-- > 0;) {
    const Loop& loop = loops_[i];
    if (!uses_var(cond, loop.var)) continue;
    const int64_t samples = std::min<int64_t>(loop.trips, kSampledIterations);
    int64_t holds = 0;
    for (int64_t s = 0; s < samples; ++s) {
      work_.values.set(loop.var, loop.min + s * loop.trips / samples);
      holds += work_.values.at(cond) != 0 ? 1 : 0;
    }
    work_.values.set(loop.var, loop.min);
    return samples > 0 ? static_cast<double>(holds) / static_cast<double>(samples) : 0;
  }
  return std::nullopt;
}

void Counter::branch(const IfNode& n) {
  if (auto share = share_of(n.cond); share && !reads_memory(n.cond)) {
    const double times = times_;
    times_ = times * *share;
    walk(n.then_case);
    times_ = times * (1 - *share);
    if (n.else_case.defined()) walk(n.else_case);
    times_ = times;
    return;
  }
  guards_.emplace_back(n.cond, true);
  walk(n.then_case);
  if (n.else_case.defined()) {
    guards_.back().second = false;
    walk(n.else_case);
  }
  guards_.pop_back();
}

void Counter::allocate(const AllocateNode& n) {
  int64_t bytes = bytes_for(n.buffer->elem, num_elements(n.buffer).value_or(0));
  if (n.buffer->scope == Scope::Shared) {
    work_.shared_bytes += (bytes + kSharedAlign - 1) / kSharedAlign * kSharedAlign;
  }
  walk(n.body);
  if (!is_private(n.buffer)) return;
  int64_t used = bytes_for(n.buffer->elem, own_elements_[n.buffer.get()]);
  work_.registers += static_cast<int>((std::min(bytes, used) + 3) / 4);
}

// A private array of which a thread uses so many elements: what compilers keep in registers.
void Counter::use_own(const Buffer& b, int64_t elements) {
  int64_t& known = own_elements_[b.get()];
  known = std::max(known, elements);
}

void Counter::evaluate(const Expr& e) {
  auto* c = e.as<CallNode>();
  if (!c) return;
  issue(1);
  if (c->op == CallOp::Barrier) {
    work_.exposed += times_ * (kBarrierLatency + kSharedLatency + rounds_ * kGlobalLatency);
    rounds_ = 0;
    has_barrier_ = true;
  } else if (c->op == CallOp::AsyncWait && target_.gpu.has_async_copy()) {
    double ahead = static_cast<double>(work_.values.at(c->args[0])) + 1;
    work_.overlapped += times_ * kGlobalLatency / ahead;
  }
}

int64_t Counter::byte_of(const Buffer& b, int64_t element) const {
  const int bits = bits_of(b->elem);
  auto row = b->scope == Scope::Shared ? swizzled_rows_.find(b->name) : swizzled_rows_.end();
  if (row == swizzled_rows_.end()) return element * bits / 8;
  return Swizzle::of_rows(row->second, b->elem).of(element) * bits / 8;
}

// Rows of 16 bytes of the 8x8 matrices that `count` ldmatrix bring in.
void Counter::matrices(const MmaOperand& o, int64_t count, int per_load) {
  if (o.buffer->scope != Scope::Shared) return;  // its fragments lie in registers already
  const int64_t pitch = std::max(o.row, o.column);
  std::vector<LaneAccess> rows;
  for (int64_t r = 0; r < 8; ++r) {
    rows.push_back({byte_of(o.buffer, r * pitch), static_cast<int>(kAccessBytes)});
  }
  double loads = static_cast<double>(count) * warps() * times_;
  work_.shared_passes += loads * per_load * emulator::bank_passes(rows);
  work_.instructions += loads;
}

void Counter::mma(const ForNode& n) {
  MmaNest nest = match_mma(n, known_);
  double products = static_cast<double>(nest.a_fragments * nest.b_fragments) * warps() * times_;
  const MmaRow& row = *nest.row;
  work_.mma = nest.row;
  use_own(nest.sums, nest.a_fragments * nest.b_fragments * row.acc_registers());
  // Sparse operands are multiplied at twice the rate: their kept elements at that of others.
  work_.mma_operations += products * 2 * static_cast<double>(nest.products());
  work_.instructions += products * nest.steps();
  matrices(nest.a, nest.a_fragments, row.a_registers());
  matrices(nest.b, nest.b_fragments * nest.steps(), row.b_registers());
  if (nest.gather.row.defined()) {  // a place, and what it makes an address with
    issue(kGatherInstructions);
    work_.shared_passes += warps() * times_;
  }
  work_.registers += static_cast<int>(nest.a_fragments * nest.a_registers() +
                                      nest.b_fragments * row.b_registers());
  work_.exposed += times_ * (kSharedLatency + kMmaLatency);
}

void Counter::under(const Expr& cond, bool holds, const Expr& e) {
  guards_.emplace_back(cond, holds);
  value(e);
  guards_.pop_back();
}

void Counter::binary(const BinaryNode& n) {
  // A product that is added takes no instruction of its own.
  for (const Expr& side : {n.a, n.b}) {
    auto* product = n.op == BinaryOp::Add ? side.as<BinaryNode>() : nullptr;
    if (product && product->op == BinaryOp::Mul) {
      value(product->a);
      value(product->b);
    } else {
      value(side);
    }
  }
  if (n.type.elem == ElemType::index || n.type.elem == ElemType::boolean) return;
  double lanes = n.type.lanes;
  issue(lanes);
  if (is_float(n.type.elem)) work_.fma += lanes * warps() * times_;
}

void Counter::value(const Expr& e) {
  if (!e.defined() || e.type().elem == ElemType::index) return;
  double lanes = e.type().lanes;
  if (auto* n = e.as<LoadNode>()) {
    if (n->predicate.defined()) guards_.emplace_back(n->predicate, true);
    access(n->buffer, n->indices[0], false, false);
    if (n->predicate.defined()) guards_.pop_back();
  } else if (auto* b = e.as<BinaryNode>()) {
    binary(*b);
  } else if (auto* u = e.as<UnaryNode>()) {
    value(u->a);
    issue(lanes * (is_function(u->op) ? kFunctionInstructions : 1));
  } else if (auto* s = e.as<SelectNode>()) {
    under(s->cond, true, s->on_true);
    under(s->cond, false, s->on_false);
    issue(lanes);
  } else if (auto* c = e.as<CastNode>()) {
    value(c->value);
    issue(lanes);
  } else if (auto* r = e.as<BroadcastNode>()) {
    value(r->value);
  } else if (auto* k = e.as<CallNode>(); k && k->op == CallOp::IfThenElse) {
    under(k->args[0], true, k->args[1]);
    under(k->args[0], false, k->args[2]);
  } else if (k) {
    for (const Expr& argument : k->args) value(argument);
  }
}

void Counter::store(const StoreNode& n) {
  bool is_async = n.is_async && target_.gpu.has_async_copy();
  if (n.predicate.defined()) guards_.emplace_back(n.predicate, true);
  double rounds = rounds_, issued = work_.instructions;
  if (makes_register(n)) {
    unpack(n);
  } else {
    value(n.value);
  }
  if (is_async) {
    rounds_ = rounds;  // nobody waits for what it copies
    work_.instructions = issued;
  } else {
    // Loads of neighbouring statements are on their way together.
    rounds_ = rounds_ > rounds ? std::max(rounds, 1.0) : rounds;
  }
  access(n.buffer, n.indices[0], true, is_async);
  if (is_private(n.buffer)) {
    int64_t elements = n.indices[0].type().lanes;
    for (const Loop& l : loops_) elements *= uses_var(n.indices[0], l.var) ? l.trips : 1;
    use_own(n.buffer, elements);
  }
  if (n.predicate.defined()) guards_.pop_back();
}

// What all elements share is read once, wherever it lies.
void Counter::unpack(const StoreNode& n) {
  for_each_expr(n.value, [&](const Expr& e) {
    if (auto* load = e.as<LoadNode>()) access(load->buffer, load->indices[0], false, false);
  });
  issue(kUnpackInstructions);
}

void Counter::access(const Buffer& b, const Expr& index, bool is_store, bool is_async) {
  if (is_private(b)) return;
  const int lanes = index.type().lanes, bits = bits_of(b->elem);
  bool is_run = work_.values.at(index, lanes - 1) - work_.values.at(index, 0) == lanes - 1;
  const int64_t bytes = is_run ? (int64_t{lanes} * bits + 7) / 8 : (bits + 7) / 8;
  const int64_t pieces_of_run = (bytes + kAccessBytes - 1) / kAccessBytes;
  const auto pieces = static_cast<double>(is_run ? pieces_of_run : lanes);
  const bool is_shared = b->scope == Scope::Shared;
  double touched = 0, active = 0;
  std::vector<int> sampled = sampled_warps();
  for (int warp : sampled) {
    std::vector<LaneAccess> at;
    for_each_lane(warp, [&] {
      at.push_back({byte_of(b, work_.values.at(index)), static_cast<int>(bytes)});
    });
    if (at.empty()) continue;
    active += 1;
    touched += is_shared ? emulator::bank_passes(at) : emulator::sectors(at) * 32.0;
  }
  const double warp_times = static_cast<double>(warps()) / static_cast<double>(sampled.size());
  touched *= warp_times * times_ * (is_run ? 1 : lanes);
  work_.instructions += pieces * active * warp_times * times_;
  if (is_shared) {
    work_.shared_passes += touched;
    return;
  }
  if (!is_store && !is_async && active > 0) rounds_ += 1;
  if (touched > 0) work_.global.push_back({b, index, is_store, touched, reads_memory(index)});
}

}  // namespace

int64_t GpuKernelWork::distinct_tiles(const GlobalAccess& access, int64_t count) const {
  count = std::min(count, blocks);
  if (access.is_scattered) return count;
  IndexValues at = values;
  std::unordered_set<int64_t> tiles;
  for (int64_t block = 0; block < count; ++block) {
    int64_t rest = block;
    for (const auto& [var, extent] : grid) {
      at.set(var, rest % extent);
      rest /= extent;
    }
    tiles.insert(at.at(access.index));
  }
  return static_cast<int64_t>(tiles.size());
}

std::vector<GpuKernelWork> gpu_work_of(const Program& lowered, const Target& target) {
  std::vector<GpuKernelWork> works;
  map_kernels(lowered.body, [&](const Stmt& kernel) {
    works.push_back(Counter(lowered, target).count(kernel));
    return kernel;
  });
  return works;
}

}  // namespace tilewright
