#include "tuner/gpu/gpu_work.h"

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "base/ceil_div.h"
#include "codegen/cuda/cuda_cluster.h"
#include "codegen/cuda/cuda_expr.h"
#include "codegen/cuda/cuda_roles.h"
#include "codegen/cuda/cuda_tile_order.h"
#include "codegen/cuda/instructions/cuda_instruction.h"
#include "codegen/cuda_lowering.h"
#include "ir/predicates.h"
#include "tuner/gpu/gpu_work_counter.h"

namespace tilewright {
namespace gpu_work_detail {
namespace {

// Up to kAllIterations are all visited; of more, a prime number is sampled. Powers of two (blocks
// per head) sampled at equal steps would show only a few positions.
constexpr int64_t kAllIterations = 128, kSampledIterations = 127;
constexpr int64_t kSharedAlign = 128;
constexpr int kOtherRegisters = 28;           // addresses, loops, values in flight
constexpr double kUnrolledLoads = 4;          // of a loop's iterations that compilers batch
constexpr double kFunctionInstructions = 10;  // of an elementary function; others take one
// Instructions of an exponential that is rounded to 16 bits (rounds_to_half()): a multiplication
// and a power of two. An exponential of a difference takes one more.
constexpr double kRoundedExpInstructions = 2;

// Instructions per register of elements unpacked from packed 32-bit registers: a mask, a
// subtraction of the codes' bias, and a shift for every other register.
constexpr double kUnpackInstructions = 2.5;

// Instructions that turn a zero point into the number to subtract, for codes at both positions in a
// mantissa.
constexpr double kZeroInstructions = 6;

constexpr int kRegisterUnit = 8;  // per thread, for setmaxnreg

// Instructions of an asynchronous copy: mostly its two addresses.
constexpr double kCopyInstructions = 5;

// Instructions per variable that leads to a tile along a curve: a few integer operations.
constexpr double kNameInstructions = 3;

bool is_function(UnaryOp op) {
  return op != UnaryOp::Neg && op != UnaryOp::Not && op != UnaryOp::Abs;
}

// Whether the loop leaves memory as it was: all iterations read the same values.
bool leaves_memory(const Stmt& body) {
  bool leaves = true;
  for_each_stmt(body, [&](const Stmt& s) {
    auto* store = s.as<StoreNode>();
    auto* nest = s.as<ForNode>();
    leaves &= s.kind() != StmtKind::Evaluate && !(store && !is_private(store->buffer)) &&
              !(nest && wgmma_mark(*nest));
  });
  return leaves;
}

// Whether the store fills a register with elements unpacked from codes in registers
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

}  // namespace

GpuKernelWork Counter::count() {
  walk(kernel_.body);
  work_.waits.exposed += waits_.rounds * kGlobalLatency;
  count_transfers();
  count_bare();
  work_.registers += kOtherRegisters;
  if (!products_.from_shared || !products_.from_registers) work_.products.turn_takers = 0;
  // Consumers receive the registers that producers release: the kernel starts with an even share of
  // the SM's registers per thread.
  if (work_.registers <= role_.budget) {
    const int64_t even = target_.gpu.registers_per_sm / work_.threads / kRegisterUnit;
    work_.registers = static_cast<int>(even * kRegisterUnit);
  }
  return std::move(work_);
}

void Counter::walk(const Stmt& s) {
  switch (s.kind()) {
    case StmtKind::For: return loop(*s.as<ForNode>());
    case StmtKind::Store: return store(*s.as<StoreNode>());
    case StmtKind::If: return branch(*s.as<IfNode>());
    case StmtKind::Allocate: return allocate(*s.as<AllocateNode>());
    case StmtKind::Evaluate: return evaluate(s.as<EvaluateNode>()->value);
    case StmtKind::Seq: return sequence(*s.as<SeqNode>());
    case StmtKind::Let: {
      auto* n = s.as<LetNode>();
      place_.lets[n->var.get()] = substitute(n->value, place_.lets);
      work_.values.define(n->var, n->value);
      known_.bind(n->var, known_.bounds(n->value));
      if (order_.along_curve) issue(kNameInstructions);
      return walk(n->body);
    }
    case StmtKind::Block: return;  // lowering removed them
  }
}

void Counter::axis(const ForNode& n) {
  const auto order = tile_order(n);
  order_.along_curve = order_.along_curve || (order && order->is_done);
  order_.in_cluster = order_.in_cluster || n.annotations.count(kClusterKey) != 0;
  const auto consumers = n.annotations.find(kConsumersKey);
  if (consumers != n.annotations.end()) role_.consumers = std::get<int64_t>(consumers->second);
  const auto teams = n.annotations.find(kTeamsOfConsumersKey);
  if (teams != n.annotations.end()) {
    work_.teams.count = static_cast<double>(std::get<int64_t>(teams->second));
  }
  int64_t extent = work_.values.at(n.extent);
  known_.bind_kept(n.var, n.min, n.extent);
  if (is_block_axis(n.for_kind)) {
    work_.grid.emplace_back(n.var, extent);
    work_.blocks *= extent;
  } else {
    // Lowering nests axes outermost first; x, which runs fastest, comes before y and z.
    place_.thread_axes.emplace_back(n.var, static_cast<int>(extent));
    work_.threads *= static_cast<int>(extent);
  }
  walk(n.body);
}

// A loop without a barrier overlaps the loads of some of its iterations. Loads between two barriers
// do not overlap loads between others.
void Counter::loop(const ForNode& n) {
  if (is_block_axis(n.for_kind) || is_thread_axis(n.for_kind)) return axis(n);
  if (auto* nest = kernel_.instruction(n)) return instruction(*nest);
  const int64_t iterations = std::max<int64_t>(0, work_.values.at(n.extent));
  const double trips = trips_of(n);
  const bool is_one = n.for_kind == ForKind::Unrolled && leaves_memory(n.body);
  place_.loops.push_back({n.var, work_.values.at(n.min), iterations, is_one});
  work_.values.set(n.var, place_.loops.back().min);
  known_.bind_kept(n.var, n.min, n.extent);
  double times = place_.times, rounds = waits_.rounds;
  bool had_barrier = waits_.has_barrier;
  place_.times *= trips;
  waits_.rounds = 0;
  waits_.has_barrier = false;
  if (n.for_kind != ForKind::Unrolled) issue(2);  // counter and branch
  const bool had_pending =
      std::exchange(products_.has_pending, products_.has_pending || leaves_wgmma_pending(n));
  const Beginning beginning = begin_loop();
  walk(n.body);
  end_loop(beginning, times);
  products_.has_pending = had_pending;
  place_.loops.pop_back();
  if (waits_.has_barrier) {
    work_.waits.exposed += place_.times * waits_.rounds * kGlobalLatency;
    waits_.rounds = rounds;
  } else {
    bool all = n.for_kind == ForKind::Unrolled;
    waits_.rounds = rounds + waits_.rounds * (all ? 1 : std::max(1.0, trips / kUnrolledLoads));
    waits_.has_barrier = had_barrier;
  }
  place_.times = times;
  if (leaves_wgmma_pending(n) && !had_pending) wait_for_group();  // for the last group
}

// Calls `fn` for sampled iterations of the innermost loop that decides the value of `e`, or of the
// block axis if no loop does. Skips iterations that the enclosing branches do not take. Returns
// false if threads decide the value, or nothing does.
bool Counter::sample(const Expr& e, const std::function<void()>& fn) {
  const Expr value = substitute(e, place_.lets);
  for (const auto& [var, extent] : place_.thread_axes) {
    if (uses_var(value, var)) return false;
  }
  std::vector<Loop> deciding;
  for (const auto& [var, extent] : work_.grid) deciding.push_back({var, 0, extent});
  deciding.insert(deciding.end(), place_.loops.begin(), place_.loops.end());
  auto it = std::find_if(deciding.rbegin(), deciding.rend(),
                         [&](const Loop& l) { return uses_var(value, l.var); });
  if (it == deciding.rend()) return false;
  const int64_t samples = it->trips <= kAllIterations ? it->trips : kSampledIterations;
  for (int64_t s = 0; s < samples; ++s) {
    work_.values.set(it->var, it->min + s * it->trips / samples);
    bool taken = std::all_of(place_.branches.begin(), place_.branches.end(), [&](const auto& b) {
      return (work_.values.at(b.first) != 0) == b.second;
    });
    if (taken) fn();
  }
  work_.values.set(it->var, it->min);
  return true;
}

// The share of sampled iterations in which the condition holds; nothing if threads decide it.
std::optional<double> Counter::share_of(const Expr& cond) {
  int samples = 0, holds = 0;
  bool decided = sample(cond, [&] {
    ++samples;
    holds += work_.values.at(cond) != 0 ? 1 : 0;
  });
  if (!decided) return std::nullopt;
  return samples > 0 ? static_cast<double>(holds) / samples : 0;
}

// The average trip count, if an enclosing loop or the team of the threads decides it.
double Counter::trips_of(const ForNode& n) {
  const auto teams = static_cast<int64_t>(work_.teams.count);
  if (teams > 1 && role_.consumers > 0) {
    const Var& thread = place_.thread_axes.front().first;
    const Expr extent = substitute(n.extent, place_.lets);
    if (uses_var(extent, thread)) {
      double sum = 0;
      for (int64_t team = 0; team < teams; ++team) {
        const Expr first(team * (role_.consumers / teams));
        sum += average_trips(substitute(extent, VarMap{{thread.get(), first}})).first;
      }
      return sum / work_.teams.count;
    }
  }
  const auto [trips, is_average] = average_trips(n.extent);
  if (is_average) keep_lengths(n);
  return trips;
}

// The trip count, and whether it is the average of those that an enclosing loop decides.
std::pair<double, bool> Counter::average_trips(const Expr& extent) {
  double samples = 0, sum = 0;
  auto trips = [&] { return static_cast<double>(std::max<int64_t>(0, work_.values.at(extent))); };
  sample(extent, [&] {
    samples += 1;
    sum += trips();
  });
  return samples == 0 ? std::pair(trips(), false) : std::pair(sum / samples, true);
}

// Keeps a loop's trip count per block, if it differs between blocks and the loop is the block's
// main loop. Loops over the tiles of a persistent block and loops inside these do not count.
void Counter::keep_lengths(const ForNode& n) {
  constexpr int64_t kMost = 4096;
  const Expr& extent = n.extent;
  bool stores_results = false;
  for_each_stmt(n.body, [&](const Stmt& s) {
    auto* store = s.as<StoreNode>();
    stores_results |= store && store->buffer->scope == Scope::Global;
  });
  if (place_.times != 1 || stores_results) return;
  const Expr value = substitute(extent, place_.lets);
  if (work_.grid.size() != 1 || !uses_var(value, work_.grid[0].first)) return;
  const Var& block = work_.grid[0].first;
  const int64_t count = std::min(work_.blocks, kMost);
  std::vector<double> lengths;
  for (int64_t b = 0; b < count; ++b) {
    work_.values.set(block, b * work_.blocks / count);
    lengths.push_back(static_cast<double>(std::max<int64_t>(0, work_.values.at(extent))));
  }
  work_.values.set(block, 0);
  const auto [least, most] = std::minmax_element(lengths.begin(), lengths.end());
  auto known = std::max_element(work_.lengths.begin(), work_.lengths.end());
  const bool is_longest = known == work_.lengths.end() || *most > *known;
  if (*least < *most && is_longest) work_.lengths = std::move(lengths);
}

void Counter::branch(const IfNode& n) {
  if (role_.consumers > 0 && role_.warps == 0 && n.else_case.defined()) return part(n);
  if (auto share = share_of(n.cond); share && !reads_memory(n.cond)) {
    const double times = place_.times;
    auto take = [&](const Stmt& s, bool holds, double part) {
      if (!s.defined()) return;
      place_.times = times * part;
      place_.branches.emplace_back(n.cond, holds);
      walk(s);
      place_.branches.pop_back();
    };
    take(n.then_case, true, *share);
    take(n.else_case, false, 1 - *share);
    place_.times = times;
    return;
  }
  place_.guards.emplace_back(n.cond, true);
  walk(n.then_case);
  if (n.else_case.defined()) {
    place_.guards.back().second = false;
    walk(n.else_case);
  }
  place_.guards.pop_back();
}

void Counter::allocate(const AllocateNode& n) {
  int64_t bytes = bytes_for(n.buffer->elem, num_elements(n.buffer).value_or(0));
  if (n.buffer->scope == Scope::Shared) {
    work_.shared_bytes += round_up(bytes, kSharedAlign);
  }
  walk(n.body);
  if (!is_private(n.buffer)) return;
  int64_t used = bytes_for(n.buffer->elem, registers_.own[n.buffer.get()]);
  const auto registers = static_cast<int>((std::min(bytes, used) + 3) / 4);
  // Peeled iterations use the same registers as their loop.
  int& counted = registers_.peeled[n.buffer->name];
  work_.registers += std::max(0, registers - counted);
  counted = std::max(counted, registers);
}

// Records how many elements of a private array a thread uses: compilers keep these in registers.
void Counter::use_own(const Buffer& b, int64_t elements) {
  int64_t& known = registers_.own[b.get()];
  known = std::max(known, elements);
}

void Counter::evaluate(const Expr& e) {
  if (e.as<CallNode>()) asynchronous(e);
}

void Counter::under(const Expr& cond, bool holds, const Expr& e) {
  place_.guards.emplace_back(cond, holds);
  value(e);
  place_.guards.pop_back();
}

void Counter::binary(const BinaryNode& n) {
  is_rounded_ = false;
  // A multiplication inside an addition is free (FMA).
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
  if (!is_float(n.type.elem)) return;
  work_.units.fma += lanes * warps() * place_.times;
  if (n.op == BinaryOp::Div) work_.units.special += lanes * warps() * place_.times;
}

// The exponential of a difference; one multiply-add absorbs its factors (CudaExpr::power_text()).
void Counter::power(const BinaryNode& difference) {
  auto* product = difference.a.as<BinaryNode>();
  auto* all = product ? product->b.as<BroadcastNode>() : nullptr;
  const bool is_scaled =
      product && product->op == BinaryOp::Mul && (all ? all->value : product->b).as<FloatImmNode>();
  value(is_scaled ? product->a : difference.a);
  value(difference.b);
  const double lanes = difference.type.lanes, products = is_scaled ? 1 : 2;
  issue(lanes * (kRoundedExpInstructions + products - 1));
  work_.units.special += lanes * warps() * place_.times;
  work_.units.fma += products * lanes * warps() * place_.times;
}

void Counter::value(const Expr& e) {
  if (!e.defined() || e.type().elem == ElemType::index) return;
  double lanes = e.type().lanes;
  if (auto* n = e.as<LoadNode>()) {
    if (n->predicate.defined()) place_.guards.emplace_back(n->predicate, true);
    access(n->buffer, n->indices[0], false, false);
    if (n->predicate.defined()) place_.guards.pop_back();
  } else if (auto* b = e.as<BinaryNode>()) {
    binary(*b);
  } else if (auto* u = e.as<UnaryNode>()) {
    const bool rounded = std::exchange(is_rounded_, false) && u->op == UnaryOp::Exp;
    auto* difference = u->a.as<BinaryNode>();
    if (rounded && difference && difference->op == BinaryOp::Sub) return power(*difference);
    value(u->a);
    if (is_function(u->op)) work_.units.special += lanes * warps() * place_.times;
    issue(lanes * (rounded              ? kRoundedExpInstructions
                   : is_function(u->op) ? kFunctionInstructions
                                        : 1));
  } else if (auto* s = e.as<SelectNode>()) {
    under(s->cond, true, s->on_true);
    under(s->cond, false, s->on_false);
    issue(lanes);
  } else if (auto* c = e.as<CastNode>()) {
    is_rounded_ = rounds_to_half(*c);
    value(c->value);
    is_rounded_ = false;
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

// A copy under conditions, else zeros: conditions of a partial tile and of im2col. A condition `>=`
// belongs to padding before the first element. The sampled first tile has more padding than all
// others, so these conditions are assumed to hold.
void Counter::padded(const SelectNode& n) {
  Expr cond, copied = n.on_true;
  auto keep = [&](const SelectNode& choice) {
    auto* lanes = choice.cond.as<BroadcastNode>();
    for (const Expr& e : conjuncts(lanes ? lanes->value : choice.cond)) {
      auto* bound = e.as<BinaryNode>();
      if (!bound || bound->op != BinaryOp::GE) cond = conjunction(cond, e);
    }
  };
  keep(n);
  for (auto* inner = copied.as<SelectNode>(); inner && is_zero(inner->on_false);
       inner = copied.as<SelectNode>()) {
    keep(*inner);
    copied = inner->on_true;
  }
  if (!cond.defined()) return value(copied);
  under(cond, true, copied);
}

void Counter::store(const StoreNode& n) {
  bool is_async = n.is_async && target_.gpu.has_async_copy();
  if (n.predicate.defined()) place_.guards.emplace_back(n.predicate, true);
  double rounds = waits_.rounds, issued = work_.instructions;
  const size_t accesses = work_.global.size();
  auto* copied = is_async ? n.value.as<SelectNode>() : nullptr;
  if (makes_register(n)) {
    unpack(n);
  } else if (copied && is_zero(copied->on_false)) {
    padded(*copied);
  } else {
    value(n.value);
  }
  if (is_async) {
    waits_.rounds = rounds;  // no thread waits for the copy
    work_.instructions = issued;
    issue(kCopyInstructions);
    for (size_t i = accesses; i < work_.global.size(); ++i)
      rings_.received += work_.global[i].bytes;
  } else {
    // Loads of neighbouring statements are in flight together.
    waits_.rounds = waits_.rounds > rounds ? std::max(rounds, 1.0) : rounds;
  }
  access(n.buffer, n.indices[0], true, is_async);
  if (is_private(n.buffer)) {
    int64_t elements = n.indices[0].type().lanes;
    for (const Loop& l : place_.loops) elements *= uses_var(n.indices[0], l.var) ? l.trips : 1;
    use_own(n.buffer, elements);
  }
  if (n.predicate.defined()) place_.guards.pop_back();
}

// Loads that all elements share are counted once, in any memory scope.
void Counter::unpack(const StoreNode& n) {
  for_each_expr(n.value, [&](const Expr& e) {
    auto* load = e.as<LoadNode>();
    if (!load) return;
    access(load->buffer, load->indices[0], false, false);
    if (load->type.is_scalar()) issue(kZeroInstructions / repeats(load->indices[0]));
  });
  issue(kUnpackInstructions);
}

}  // namespace gpu_work_detail

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

std::vector<GpuKernelWork> gpu_work_of(const Program& lowered, const Target& target,
                                       const std::map<std::string, int64_t>& sizes) {
  std::vector<GpuKernelWork> works;
  map_kernels(lowered.body, [&](const Stmt& kernel) {
    works.push_back(gpu_work_detail::Counter(lowered, kernel, target, sizes).count());
    return kernel;
  });
  return works;
}

}  // namespace tilewright
