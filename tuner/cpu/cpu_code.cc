#include "tuner/cpu/cpu_code.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <string_view>
#include <tuple>
#include <utility>

#include "codegen/c/c_narrow.h"
#include "codegen/intrinsics/intrinsics.h"
#include "ir/dot_shape.h"
#include "ir/predicates.h"
#include "ir/visitor.h"

namespace tilewright {
namespace {

constexpr int kLineBytes = 64;      // bytes of a cache line
constexpr int64_t kMostPicked = 4;  // strides between lanes that permutations serve
constexpr size_t kAddresses = 4;    // draws that tell where an access begins

// The type in which arithmetic on these elements is done.
int computed_bits(const Type& type) {
  const int bits = bits_of(type.elem);
  if (type.elem == ElemType::boolean) return 0;
  return is_float(type.elem) ? std::max(bits, 32) : std::max(bits, 8);
}

bool is_index(const Type& t) { return t.elem == ElemType::index || t.elem == ElemType::boolean; }

bool is_contiguous(const Expr& index) {
  auto* r = index.as<RampNode>();
  return r && is_int(r->stride, 1);
}

}  // namespace

double CpuPasses::cycles(const CpuCore& core) const {
  return std::max({multiply / core.multiply, floats / core.floats, shuffle / core.shuffle,
                   vector / core.vector, load / core.load, store / core.store,
                   instructions / core.issue});
}

CpuCodeCounter::CpuCodeCounter(const CpuCore& core, const Target& target, ValueTable& values,
                               const std::set<const BufferNode*>& registers,
                               std::vector<const IndexValues*> draws, int loop)
    : core_(core), target_(target), table_(values), registers_(registers), draws_(std::move(draws)),
      loop_(loop) {}

double CpuCodeCounter::registers_of(const Type& type) const {
  return std::max(
      1.0, std::ceil(static_cast<double>(type.lanes) * computed_bits(type) / target_.vector_bits));
}

double CpuCodeCounter::passes_of(const Type& type) const {
  const double bits = static_cast<double>(type.lanes) * computed_bits(type);
  return std::max(registers_of(type), std::ceil(bits / core_.bits));
}

void CpuCodeCounter::arithmetic(double CpuPasses::*pipe, const Type& type, double count) {
  const double passes = share_ * count * passes_of(type);
  passes_.vector += passes;
  if (pipe == &CpuPasses::multiply) passes_.floats += passes;
  if (pipe != &CpuPasses::vector) passes_.*pipe += passes;
  passes_.instructions += share_ * count * registers_of(type);
  operations_ += share_ * count * registers_of(type);
}

// The share of a vector's accesses that cross a cache line.
double CpuCodeCounter::splits(const Buffer& buffer, const Expr& index, const Type& type) {
  const Expr start = index.as<RampNode>() ? index.as<RampNode>()->base : index;
  const ValueFacts f = table_.of(start);
  auto [it, is_new] = addresses_.try_emplace(f.hash);
  const size_t count = std::min(draws_.size(), kAddresses);
  for (size_t i = 0; is_new && i < count; ++i) {
    it->second.push_back(draws_[i * draws_.size() / count]->at(start) - f.constant);
  }
  const int bits = bits_of(buffer->elem);
  const int64_t width = std::min<int64_t>(int64_t{type.lanes} * bits, target_.vector_bits) / 8;
  double crossing = 0;
  for (int64_t base : it->second) {
    const int64_t at = (base + f.constant) * bits / 8 % kLineBytes;
    crossing += (at + kLineBytes) % kLineBytes + width > kLineBytes ? 1 : 0;
  }
  return count == 0 ? 0 : crossing / static_cast<double>(count);
}

// An access of memory, without what makes its value.
void CpuCodeCounter::memory(double CpuPasses::*port, const Expr& index, const Buffer& buffer,
                            const Type& type) {
  const int bits = bits_of(buffer->elem);
  const double parts =
      std::max(1.0, std::ceil(static_cast<double>(type.lanes) * bits / core_.bits));
  if (index.type().is_scalar()) {
    passes_.*port += share_;
  } else if (is_contiguous(index)) {
    passes_.*port += share_ * parts * (1 + splits(buffer, index, type));
  } else if (bits < 8) {  // codes at one position of consecutive words, which serve all positions
    const ValueFacts f = table_.of(index.as<RampNode>() ? index.as<RampNode>()->base : index);
    const int64_t word = (f.constant * bits) >> 5;
    const bool is_new = words_.insert({buffer.get(), f.hash, scope_, word}).second;
    if (port == &CpuPasses::load && !is_new) return;
    passes_.*port += share_ * passes_of(Type(ElemType::i32, type.lanes));
  } else {
    // Lanes that are no neighbours take an access each, except where whole vectors of a few neighbours are
    // permuted.
    auto* r = index.as<RampNode>();
    const int64_t stride = r ? as_int(r->stride).value_or(0) : 0;
    const bool near = port == &CpuPasses::load && stride > 0 && stride <= kMostPicked;
    const double lanes = share_ * (near ? 2 * parts * static_cast<double>(stride) : type.lanes);
    passes_.*port += lanes;
    passes_.shuffle += lanes;
    passes_.vector += lanes;
    passes_.instructions += 2 * lanes;
  }
}

// Only an index that reads memory costs more than a part of an address.
void CpuCodeCounter::visit_index(const Expr& index) {
  if (!reads_memory(index)) return;
  for_each_expr(index, [&](const Expr& e) {
    if (auto* n = e.as<LoadNode>()) visit_load(*n, e);
  });
}

void CpuCodeCounter::visit_load(const LoadNode& n, const Expr& e) {
  const Expr& index = n.indices.back();
  visit_index(index);
  const bool own = in_registers(n.buffer);
  const ValueFacts f = table_.of(e);
  auto [it, is_new] = values_.try_emplace(name_of(f));
  Value& v = it->second;
  v.first = std::min(v.first, time_);
  v.last = std::max(v.last, time_);
  ++v.uses;
  if (!is_new) return;
  const double registers = index.type().is_scalar() ? 1 : registers_of(n.type);
  v = {time_, time_, 1, registers, !own, varies(f), share_, values_.size()};
  if (own || !v.varies) return;  // it is there, or loaded once, before the loop
  memory(&CpuPasses::load, index, n.buffer, n.type);
  if (n.predicate.defined()) arithmetic(&CpuPasses::vector, n.type);
}

void CpuCodeCounter::visit_cast(const CastNode& n) {
  visit(n.value);
  if (auto* codes = n.value.as<LoadNode>();
      codes && bits_of(codes->type.elem) < 8 && !n.type.is_scalar()) {
    if (is_float(n.type.elem)) return visit_codes(*codes, n.type);
    if (bits_of(n.type.elem) == 8) return visit_byte_codes(*codes, n.type);
  }
  const Type &from = n.value.type(), &to = n.type;
  if (is_index(from) && to.is_scalar()) return;
  const Type& wide = computed_bits(from) > computed_bits(to) ? from : to;
  const bool narrows = is_float(to.elem) && bits_of(to.elem) < 32 && bits_of(from.elem) >= 32;
  if (narrows) {  // rounding to even, by integer arithmetic except for f16
    arithmetic(&CpuPasses::vector, wide, to.elem == ElemType::f16 ? 1 : 5);
    arithmetic(&CpuPasses::shuffle, wide);
    return;
  }
  if (bits_of(from.elem) != bits_of(to.elem)) arithmetic(&CpuPasses::shuffle, wide);
  if (is_float(to.elem) != is_float(from.elem)) arithmetic(&CpuPasses::multiply, wide);
  if (from.elem == ElemType::bf16) arithmetic(&CpuPasses::vector, wide);
  if (bits_of(from.elem) < 8) arithmetic(&CpuPasses::vector, wide, 3);  // shifts and masks
  if (is_float(from.elem) && bits_of(from.elem) == 8) {  // to f16, with a test for NaN, and on
    arithmetic(&CpuPasses::vector, wide, 6);
    arithmetic(&CpuPasses::shuffle, wide);
    arithmetic(&CpuPasses::multiply, wide);
  }
}

void CpuCodeCounter::visit_binary(const BinaryNode& n) {
  const Type type = is_comparison(n.op) ? n.a.type() : n.type;
  auto is_product = [](const Expr& e) {
    auto* m = e.as<BinaryNode>();
    return m && m->op == BinaryOp::Mul && is_float(e.type().elem);
  };
  if ((n.op == BinaryOp::Add || n.op == BinaryOp::Sub) && is_float(n.type.elem)) {
    const Expr* product = is_product(n.b) ? &n.b : is_product(n.a) ? &n.a : nullptr;
    if (product != nullptr) {  // one multiply-add
      auto* m = product->as<BinaryNode>();
      visit(product == &n.b ? n.a : n.b);
      visit(m->a);
      visit(m->b);
      return arithmetic(&CpuPasses::multiply, type);
    }
  }
  visit(n.a);
  visit(n.b);
  switch (n.op) {
    case BinaryOp::Add:
    case BinaryOp::Sub:
      return arithmetic(is_float(type.elem) ? &CpuPasses::floats : &CpuPasses::vector, type);
    case BinaryOp::Mul: return arithmetic(&CpuPasses::multiply, type, is_float(type.elem) ? 1 : 2);
    case BinaryOp::Div: return arithmetic(&CpuPasses::multiply, type, core_.divide);
    case BinaryOp::FloorDiv:
    case BinaryOp::FloorMod: return arithmetic(&CpuPasses::vector, type, 4);
    default: return arithmetic(&CpuPasses::vector, type);
  }
}

// Counted in codegen/c/c_math.cc.
void CpuCodeCounter::visit_unary(const UnaryNode& n) {
  visit(n.a);
  struct Count {
    double multiply, vector;
  };
  auto count = [&]() -> Count {
    switch (n.op) {
      case UnaryOp::Exp: return {10, 5};
      case UnaryOp::Log: return {14, 12};
      case UnaryOp::Sqrt: return {core_.divide, 0};
      case UnaryOp::Rsqrt: return {2 * core_.divide, 0};
      case UnaryOp::Tanh: return {11 + core_.divide, 4};
      case UnaryOp::Erf: return {13 + core_.divide, 4};
      default: return {0, 1};
    }
  }();
  arithmetic(&CpuPasses::multiply, n.type, count.multiply);
  arithmetic(&CpuPasses::vector, n.type, count.vector);
}

void CpuCodeCounter::visit_broadcast(const BroadcastNode& n) {
  auto* cast = n.value.as<CastNode>();
  auto* half = cast ? cast->value.as<LoadNode>() : nullptr;
  // It goes to all lanes of a register before it is widened.
  const bool spreads = half && has_spread(half->type.elem, target_.vector_bits / 32, target_);
  visit(spreads ? cast->value : n.value);
  arithmetic(&CpuPasses::shuffle, n.type);
  if (!spreads) return;
  const bool is_f16 = half->type.elem == ElemType::f16;
  arithmetic(is_f16 ? &CpuPasses::shuffle : &CpuPasses::vector, n.type);
}

void CpuCodeCounter::visit_call(const CallNode& n) {
  for (const Expr& a : n.args) visit(a);
  if (n.op == CallOp::IfThenElse) return arithmetic(&CpuPasses::vector, n.type);
  if (n.op == CallOp::Dot) visit_dot(n);
  if (n.op == CallOp::LaneSum || n.op == CallOp::LaneMax) visit_lane_reduction(n);
}

// Two vectors, or two halves, are permuted and combined at a time (codegen/c/c_lanes.cc).
void CpuCodeCounter::visit_lane_reduction(const CallNode& n) {
  const Type vector = n.args[0].type();
  const auto count = static_cast<int>(n.args.size()), together = std::min(count, vector.lanes);
  const double folds = std::log2(vector.lanes / together);
  const double steps = folds + static_cast<double>(count) * (together - 1) / together;
  arithmetic(&CpuPasses::shuffle, vector, 2 * steps);
  arithmetic(n.op == CallOp::LaneSum ? &CpuPasses::floats : &CpuPasses::vector, vector, steps);
  arithmetic(&CpuPasses::shuffle, n.type, static_cast<double>(count) / together - 1);
}

void CpuCodeCounter::visit_dot(const CallNode& n) {
  const Type a = n.args[1].type(), b = n.args[2].type();
  const auto shape = DotShape::of(n.type, a, b);
  if (shape && shape->is_tile()) {  // a tile's rows, one each cycle
    passes_.multiply += share_ * shape->rows * core_.multiply;
    passes_.instructions += share_;
    return;
  }
  arithmetic(&CpuPasses::multiply, n.type, b.elem == ElemType::bf16 ? core_.pairs : 1);
  const Intrinsic* row = find_dot(target_, n.type, a, b);
  if (row == nullptr || row->name.find("vpmadd") == std::string_view::npos) return;
  // Pairs of products are added by further instructions.
  arithmetic(&CpuPasses::vector, n.type);
  if (b.lanes == 4 * n.type.lanes) arithmetic(&CpuPasses::multiply, n.type);
  if (b.lanes == 2 * n.type.lanes && bits_of(b.elem) == 8) arithmetic(&CpuPasses::shuffle, n.type);
}

// A condition for all lanes at once is a branch where the values come from memory: one of them is loaded.
void CpuCodeCounter::visit_select(const SelectNode& n) {
  auto* all = n.cond.as<BroadcastNode>();
  const Expr cond = all ? all->value : n.cond;
  visit(n.cond);
  bool loads = false;
  for (const Expr& value : {n.on_true, n.on_false}) {
    for_each_expr(value, [&](const Expr& e) {
      auto* load = e.as<LoadNode>();
      loads |= load != nullptr && !in_registers(load->buffer);
    });
  }
  const bool agrees = cond.type().is_scalar() && !n.type.is_scalar() && !reads_memory(cond);
  if (!loads || !agrees || draws_.empty()) {
    visit(n.on_true);
    visit(n.on_false);
    return arithmetic(&CpuPasses::vector, n.type);
  }
  const double share = share_of(cond);
  passes_.instructions +=
      share_ * (1 + core_.mispredict * core_.issue * std::min(share, 1 - share) / 2);
  for (const bool holds : {true, false}) {
    outer_.emplace_back(scope_, share_);
    scope_ = scope_under(cond, holds);
    share_ *= holds ? share : 1 - share;
    visit(holds ? n.on_true : n.on_false);
    leave();
  }
}

void CpuCodeCounter::visit(const Expr& e) {
  if (!e.defined()) return;
  if (e.type() == Type(ElemType::index)) return visit_index(e);
  if (auto* n = e.as<LoadNode>()) return visit_load(*n, e);
  if (e.as<IntImmNode>() || e.as<FloatImmNode>() || e.as<VarNode>() || e.as<RampNode>()) return;
  auto* all = e.as<BroadcastNode>();
  if (all != nullptr && zero_elsewhere(e).defined()) return visit(all->value);
  if (all != nullptr && (all->value.as<LoadNode>() || all->value.as<FloatImmNode>() ||
                         all->value.as<IntImmNode>() || is_index(all->value.type()))) {
    return visit(all->value);
  }
  const ValueFacts f = table_.of(e);
  auto [it, is_new] = values_.try_emplace(name_of(f));
  it->second.first = std::min(it->second.first, time_);
  it->second.last = std::max(it->second.last, time_);
  ++it->second.uses;
  if (!is_new) return;
  it->second = {time_, time_, 1, registers_of(e.type()), false, varies(f)};
  const double share = share_;
  if (!varies(f)) share_ = 0;  // made once, before the loop
  switch (e.kind()) {
    case ExprKind::Cast: visit_cast(*e.as<CastNode>()); break;
    case ExprKind::Unary: visit_unary(*e.as<UnaryNode>()); break;
    case ExprKind::Binary: visit_binary(*e.as<BinaryNode>()); break;
    case ExprKind::Call: visit_call(*e.as<CallNode>()); break;
    case ExprKind::Select:
      if (zero_elsewhere(e).defined()) {  // a branch around the term
        visit(e.as<SelectNode>()->on_true);
        break;
      }
      visit_select(*e.as<SelectNode>());
      break;
    case ExprKind::Broadcast: visit_broadcast(*all); break;
    default: break;
  }
  share_ = share;
}

// Cycles from the value at `from` to the end of `e`.
double CpuCodeCounter::latency(const Expr& e, uint64_t from, bool* found) {
  if (auto* n = e.as<LoadNode>()) {
    *found |= table_.place(n->buffer, n->indices.back()) == from;
    return 0;
  }
  auto through = [&](const Expr& child, double cycles) {
    bool here = false;
    const double before = latency(child, from, &here);
    *found |= here;
    return here ? before + cycles : 0;
  };
  switch (e.kind()) {
    case ExprKind::Cast: return through(e.as<CastNode>()->value, core_.latency);
    case ExprKind::Unary: return through(e.as<UnaryNode>()->a, 8 * core_.latency);
    case ExprKind::Broadcast: return through(e.as<BroadcastNode>()->value, 1);
    case ExprKind::Binary: {
      auto* n = e.as<BinaryNode>();
      const bool is_sum = n->op == BinaryOp::Add || n->op == BinaryOp::Sub;
      const bool is_slow = n->op == BinaryOp::Mul || (is_sum && is_float(e.type().elem));
      const double cycles = is_slow ? core_.latency : n->op == BinaryOp::Div ? 11 : 1;
      // A multiply-add waits once.
      const double a = through(n->a, cycles), b = through(n->b, cycles);
      return std::max(a, b);
    }
    case ExprKind::Select: {
      auto* n = e.as<SelectNode>();
      return std::max({through(n->cond, 1), through(n->on_true, 1), through(n->on_false, 1)});
    }
    case ExprKind::Call: {
      double most = 0;
      for (const Expr& a : e.as<CallNode>()->args) most = std::max(most, through(a, core_.latency));
      return most;
    }
    default: return 0;
  }
}

// Whether no lane is ever stored, as the compiler knows: a copy behind the end of a row.
bool CpuCodeCounter::stores_nothing(const StoreNode& n) {
  if (!n.predicate.defined() || draws_.empty() || table_.of(n.predicate).loops != 0) return false;
  const int last = n.predicate.type().lanes - 1;
  return draws_[0]->at(n.predicate, 0) == 0 && draws_[0]->at(n.predicate, last) == 0;
}

void CpuCodeCounter::add(const StoreNode& n) {
  if (stores_nothing(n)) return;
  const Expr& index = n.indices.back();
  const Type type = n.value.type();
  const Expr cond = condition_of_term(n.value);
  if (cond.defined()) enter(cond, true, share_of_term(cond));
  // Statements of the same conditions stand side by side.
  constexpr int kMostStatements = 1 << 16;
  const int group = static_cast<int>(groups_.try_emplace(scope_, groups_.size()).first->second);
  time_ = group * kMostStatements + ++statements_;
  most_share_ = std::max(most_share_, share_);
  const uint64_t here = table_.place(n.buffer, index);
  bool found = false;
  const double cycles = share_ * latency(n.value, here, &found);
  const ValueFacts at = table_.of(index);
  const bool own = in_registers(n.buffer);
  const bool is_sum = found && (own || (loop_ >= 0 && !varies(at)));
  if (is_sum) {  // its load stands before the loop, its store behind
    for_each_expr(n.value, [&](const Expr& e) {
      auto* load = e.as<LoadNode>();
      if (load && table_.place(load->buffer, load->indices.back()) == here) {
        values_.try_emplace(name_of(table_.of(e)), Value{time_, time_, 1, 0, false, true});
      }
    });
  }
  visit(n.value);
  visit_index(index);
  if (found && !varies(at)) chains_[here] += cycles;
  if (is_sum) {
    Sum& sum = sums_[here];
    sum = {at.loops, registers_of(type), own ? 0 : passes_of(type), sum.updates + 1};
  } else if (!own) {
    memory(&CpuPasses::store, index, n.buffer, type);
    passes_.instructions += share_ * registers_of(type);
    // Stores under a mask are slow without AVX-512.
    if (n.predicate.defined()) passes_.instructions += share_ * (target_.has("avx512f") ? 1 : 12);
  }
  if (cond.defined()) leave();
}

// Registers that are needed at once, in the order of the stores, which the compiler keeps.
void CpuCodeCounter::add_pressure(CpuCode& code) {
  double accumulators = 0, kept = 0;
  int copies = 1;  // of the code that uses all sums once
  for (const auto& [place, sum] : sums_) {
    accumulators += sum.registers;
    if (loop_ >= 0) copies = std::max(copies, sum.updates);
  }
  std::map<int, double> change;
  for (const auto& [hash, v] : values_) {
    if (!v.varies) {
      kept += v.registers;
    } else if (v.uses > 1 && v.last > v.first) {
      change[v.first] += v.registers;
      change[v.last] -= v.registers;
    }
  }
  double live = 0, most = 0;
  for (const auto& [time, by] : change) most = std::max(most, live += by);
  constexpr double kTemporaries = 2;
  const double over = accumulators + kept + most + kTemporaries - target_.vector_registers;
  if (over <= 0) return;
  // Operands are loaded again, then accumulators are stored and loaded.
  const double again = std::min(over, kept + most);
  const double spilled = std::min(over - again, accumulators);
  const double width = std::max(1.0, static_cast<double>(target_.vector_bits) / core_.bits);
  const double times = copies * most_share_;
  passes_.load += times * (again + spilled) * width;
  passes_.store += times * spilled * width;
  passes_.instructions += times * (again + 2 * spilled);
  code.spills = spilled;
  if (spilled > 0 && code.chain > 0) code.chain += core_.forward;
}

CpuCode CpuCodeCounter::finish() {
  CpuCode code;
  // In the order of the code: sums of shares round alike in each run.
  std::vector<const Value*> loads;
  for (const auto& [hash, v] : values_) {
    if (v.is_load && v.varies) loads.push_back(&v);
  }
  std::ranges::sort(loads, {}, &Value::number);
  double alone = 0;
  for (const Value* v : loads) {
    const double count = v->share * std::max(1.0, v->registers);
    passes_.instructions += count;
    if (v->uses == 1) alone += count;
  }
  passes_.instructions -= std::min(alone, operations_);
  for (const auto& [place, cycles] : chains_) code.chain = std::max(code.chain, cycles);
  add_pressure(code);
  code.passes = passes_;
  return code;
}

}  // namespace tilewright
