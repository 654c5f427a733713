// Reads and writes of buffer elements in CUDA kernels.
#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "codegen/c/c_types.h"
#include "codegen/cuda/cuda_expr.h"
#include "codegen/cuda_lowering.h"
#include "ir/arith/linear.h"
#include "ir/predicates.h"
#include "ir/visitor.h"

namespace tilewright {
namespace {

constexpr int kMostBytes = 16;  // in the widest access
constexpr int kLineBits = 3;    // log2 of how many 16-byte vectors fill all banks once

bool is_access_size(int64_t bytes) { return bytes == 2 || bytes == 4 || bytes == 8 || bytes == 16; }

// The number of array elements that so many neighbours of a buffer take.
int units_of(const Buffer& b, int lanes) {
  int bits = bits_of(b->elem);
  return bits < 8 ? lanes * bits / 8 : lanes;
}

// The load that a value copies as stored: alone, or selected with zero. Conditions of the
// selections are put into `cond`.
const LoadNode* as_copy(const Expr& value, ElemType elem, Expr& cond) {
  if (auto* n = value.as<SelectNode>()) {
    if (!is_zero(n->on_false)) return nullptr;
    const LoadNode* load = as_copy(n->on_true, elem, cond);
    if (load) cond = cond.defined() ? n->cond && cond : n->cond;
    return load;
  }
  auto* load = value.as<LoadNode>();
  return load && load->type.elem == elem ? load : nullptr;
}

int log2_of(int64_t power) { return std::bit_width(static_cast<uint64_t>(power)) - 1; }

}  // namespace

std::optional<Swizzle> swizzle_of(const Buffer& b) {
  if (b->swizzled_row == 0) return std::nullopt;
  int base = log2_of(kMostBytes * 8 / bits_of(b->elem));
  int pieces = log2_of(b->swizzled_row) - base;
  return Swizzle{std::min(pieces, kLineBits), base, std::max(pieces, kLineBits)};
}

Expr CudaExpr::place_of(const Buffer& b, const Expr& index) const {
  int bits = bits_of(b->elem);
  return bits < 8 ? known_.simplify(floordiv(index, Expr(8 / bits))) : index;
}

std::string CudaExpr::pointer(const Buffer& b, const Expr& index) {
  const std::string& name = buffers.at(b.get());
  Expr at = place_of(b, index);
  return is_int(at, 0) ? name : fmt::format("{} + {}", name, place(b, at));
}

std::string CudaExpr::element(const Buffer& b, const Expr& index) {
  const Expr at = place_of(b, index);
  return fmt::format("{}[{}]", buffers.at(b.get()),
                     b->swizzled_row > 0 ? place(b, at) : print_bare(at));
}

std::string CudaExpr::place(const Buffer& b, const std::string& index) const {
  const auto s = swizzle_of(b);
  return s ? fmt::format("tw_swizzle<{}, {}, {}>({})", s->bits, s->base, s->shift, index) : index;
}

std::string CudaExpr::place(const Buffer& b, const Expr& index) {
  const auto swizzle = swizzle_of(b);
  if (!swizzle) return print(index);
  const int64_t period = swizzle->period();
  arith::Linear outside, inside;
  for (const arith::Term& t : arith::Linear::of(index).terms) {
    (t.coef % period == 0 ? outside : inside).add(t.atom, t.coef);
  }
  const int64_t constant = arith::Linear::of(index).constant;
  inside.add(arith::floor_mod(constant, period));
  outside.add(constant - arith::floor_mod(constant, period));
  if (outside.is_zero()) return place(b, print_bare(index));
  if (inside.is_zero()) return print(index);
  return fmt::format("{} + {}", print(outside.expr()), place(b, print_bare(inside.expr())));
}

bool CudaExpr::keeps_place(const Buffer& b, int64_t distance) const {
  const auto swizzle = swizzle_of(b);
  return !swizzle || distance % swizzle->period() == 0;
}

Expr CudaExpr::uniform(const Expr& mask) {
  if (mask.type().is_scalar()) return mask;
  const int lanes = mask.type().lanes;
  auto* n = mask.as<BinaryNode>();
  if (auto* same = mask.as<BroadcastNode>()) return same->value;
  if (!n) return {};
  if (n->op == BinaryOp::And || n->op == BinaryOp::Or) {
    Expr a = uniform(n->a), b = uniform(n->b);
    return a.defined() && b.defined() ? known_.simplify(binary(n->op, a, b)) : Expr();
  }
  if (n->op != BinaryOp::LT && n->op != BinaryOp::GE) return {};
  // base + lane < bound is the same in all lanes where both are multiples of the number of lanes.
  Expr first = lane_of(n->a, 0), bound = lane_of(n->b, 0);
  bool moves = false;
  for (int l = 1; l < lanes; ++l) {
    auto a = as_int(known_.simplify(lane_of(n->a, l) - first));
    bool kept = is_int(known_.simplify(lane_of(n->b, l) - bound), 0);
    if (!kept || !a || (*a != 0 && *a != l)) return {};
    moves |= *a != 0;
  }
  auto is_multiple = [&](const Expr& e) {
    return is_int(known_.simplify(floormod(e, Expr(lanes))), 0);
  };
  if (moves && !(is_multiple(first) && is_multiple(bound))) return {};
  return known_.simplify(binary(n->op, first, bound));
}

Expr CudaExpr::start_of(const Buffer& b, const Expr& index) {
  const int lanes = index.type().lanes;
  auto* r = index.as<RampNode>();
  const bool in_words = bits_of(b->elem) <= 16;  // packed in registers where the array is private
  if (!r || !is_int(r->stride, 1) || (is_private(b) && !in_words)) return {};
  int64_t bytes = int64_t{lanes} * bits_of(b->elem) / 8;
  bool is_aligned = is_int(known_.simplify(floormod(r->base, Expr(lanes))), 0);
  if (is_private(b) && bytes < 4) return {};
  return is_access_size(bytes) && bytes <= kMostBytes && is_aligned ? r->base : Expr();
}

std::string CudaExpr::load_text(const LoadNode& n, int lane) {
  if (is_coded(n.type.elem)) return coded_value(n, lane);
  std::string value;
  if (auto it = loaded_.find(&n); it != loaded_.end()) {
    value = fmt::format("{}[{}]", it->second, lane);
  } else {
    const Expr& index = n.indices[0];
    value = element(n.buffer, index.type().is_scalar() ? index : lane_of(index, lane));
  }
  if (compute_elem(n.type.elem) != n.type.elem) value = "(float)" + value;
  if (!n.predicate.defined() || loaded_.count(&n) != 0) return value;
  return fmt::format("({} ? {} : 0)", text(n.predicate, lane), value);
}

std::string CudaExpr::vector_load(const LoadNode& n, const Expr& start, const Expr& condition) {
  const int lanes = units_of(n.buffer, n.type.lanes);
  std::string vector = fmt::format("tw_ld<{}>({})", lanes, pointer(n.buffer, start));
  if (!condition.defined() || is_int(condition, 1)) return vector;
  return fmt::format("{} ? {} : tw_vec<{}, {}>{{}}", print(condition), vector,
                     cuda_type(n.type.elem), lanes);
}

// Vector loads in an expression, each with the condition for reading it. The condition joins the
// load's own mask and those of the selects around it, which keep other lanes from reading.
class CudaExpr::GuardedLoads : public Visitor {
 public:
  GuardedLoads(CudaExpr& expr, Lines& lines) : expr_(expr), lines_(lines) {}

 protected:
  void visit_load(const LoadNode& n) override {
    if (!n.type.is_scalar() && !mixed_) expr_.open_load(n, guard_, lines_, opened_);
    Visitor::visit_load(n);
  }
  void visit_select(const SelectNode& n) override {
    visit(n.cond);
    visit_under(n.cond, n.on_true);
    visit_under(!n.cond, n.on_false);
  }
  void visit_call(const CallNode& n) override {
    if (n.op != CallOp::IfThenElse) return Visitor::visit_call(n);
    visit(n.args[0]);
    visit_under(n.args[0], n.args[1]);
    visit_under(!n.args[0], n.args[2]);
  }

 private:
  // A load under a condition that differs between lanes is read by its lanes only, one element
  // each.
  void visit_under(const Expr& condition, const Expr& e) {
    bool outer_mixed = mixed_;
    Expr outer = guard_, same = expr_.uniform(condition);
    mixed_ = mixed_ || !same.defined();
    if (same.defined()) guard_ = guard_.defined() ? guard_ && same : same;
    visit(e);
    mixed_ = outer_mixed;
    guard_ = outer;
  }

  CudaExpr& expr_;
  Lines& lines_;
  Expr guard_;
  bool mixed_ = false;
  std::map<std::string, std::string> opened_;
};

void CudaExpr::open_loads(const Expr& e, Lines& lines) { GuardedLoads(*this, lines)(e); }

void CudaExpr::open_load(const LoadNode& n, const Expr& guard, Lines& lines,
                         std::map<std::string, std::string>& opened) {
  Expr start = is_private(n.buffer) ? Expr() : start_of(n.buffer, n.indices[0]);
  Expr condition = n.predicate.defined() ? uniform(n.predicate) : make_bool(true);
  if (!start.defined() || !condition.defined()) return;
  if (guard.defined()) condition = known_.simplify(condition && guard);
  std::string vector = vector_load(n, start, condition);
  auto [it, added] = opened.emplace(vector, "");
  if (added) {
    it->second = fresh(buffers.at(n.buffer.get()) + "_v");
    lines.push_back(fmt::format("const tw_vec<{}, {}> {} = {};", cuda_type(n.type.elem),
                                units_of(n.buffer, n.type.lanes), it->second, vector));
  }
  loaded_[&n] = it->second;
}

// An asynchronous copy from global to shared memory.
bool CudaExpr::async_store(const StoreNode& n, Lines& lines) {
  if (!n.is_async || !target_.gpu.has_async_copy()) return false;
  Expr cond = make_bool(true);
  const LoadNode* from = as_copy(n.value, n.buffer->elem, cond);
  if (!from) return false;
  const int lanes = n.value.type().lanes;
  int64_t bytes = int64_t{lanes} * bits_of(n.buffer->elem) / 8;
  bool one = lanes == 1;
  Expr to_start = one ? n.indices[0] : start_of(n.buffer, n.indices[0]);
  Expr from_start = one ? from->indices[0] : start_of(from->buffer, from->indices[0]);
  Expr taken = uniform(cond);
  if (bytes < 4 || !is_access_size(bytes) || !to_start.defined() || !from_start.defined() ||
      !taken.defined()) {
    return false;
  }
  taken = known_.simplify(taken);
  std::string to = pointer(n.buffer, to_start);
  if (is_int(taken, 1)) {
    lines.push_back(
        fmt::format("tw_cp_async<{}>({}, {});", bytes, to, pointer(from->buffer, from_start)));
    return true;
  }
  std::string valid = fresh("valid");
  lines.push_back(fmt::format("const bool {} = {};", valid, print_bare(taken)));
  lines.push_back(fmt::format("tw_cp_async_zfill<{}>({}, {} + ({} ? {} : 0), {} ? {} : 0);", bytes,
                              to, buffers.at(from->buffer.get()), valid,
                              print(place_of(from->buffer, from_start)), valid, bytes));
  return true;
}

// A store of neighbours at once.
bool CudaExpr::vector_store(const StoreNode& n, Lines& lines) {
  const int lanes = n.value.type().lanes;
  Expr start = lanes > 1 ? start_of(n.buffer, n.indices[0]) : Expr();
  if (!start.defined()) return false;
  Expr cond;
  const LoadNode* copied = as_copy(n.value, n.buffer->elem, cond);
  std::string to = pointer(n.buffer, start);
  if (copied && !cond.defined()) cond = copied->predicate;
  Expr taken = cond.defined() ? uniform(cond) : make_bool(true);
  bool from_memory = copied && !is_private(copied->buffer);
  Expr from = from_memory ? start_of(copied->buffer, copied->indices[0]) : Expr();
  if (from.defined() && taken.defined()) {
    lines.push_back(fmt::format("tw_st<{}>({}, {});", units_of(n.buffer, lanes), to,
                                vector_load(*copied, from, taken)));
    return true;
  }
  if (is_coded(n.buffer->elem) || is_private(n.buffer)) return false;
  open_loads(n.value, lines);
  std::string vector = fresh("v");
  lines.push_back(fmt::format("tw_vec<{}, {}> {};", cuda_type(n.buffer->elem), lanes, vector));
  bool is_narrow = compute_elem(n.buffer->elem) != n.buffer->elem;
  for (int l = 0; l < lanes; ++l) {
    std::string value = is_narrow ? stored_text(n.value, n.buffer->elem, l) : text(n.value, l);
    lines.push_back(fmt::format("{}[{}] = {};", vector, l, value));
  }
  lines.push_back(fmt::format("tw_st<{}>({}, {});", lanes, to, vector));
  return true;
}

std::vector<std::string> CudaExpr::store(const StoreNode& n) {
  Lines lines;
  const int lanes = n.value.type().lanes;
  Expr all = n.predicate.defined() ? uniform(n.predicate) : make_bool(true);
  bool guarded = all.defined() && !is_int(all, 1);
  loaded_.clear();
  bool at_once =
      all.defined() && (async_store(n, lines) || word_store(n, lines) || vector_store(n, lines));
  if (!at_once && is_coded(n.buffer->elem)) {
    code_store(n, lines);
  } else if (!at_once) {
    lines.clear();
    open_loads(n.value, lines);
    bool is_narrow = compute_elem(n.buffer->elem) != n.buffer->elem;
    for (int l = 0; l < lanes; ++l) {
      const Expr& index = n.indices[0];
      std::string at = element(n.buffer, index.type().is_scalar() ? index : lane_of(index, l));
      std::string value = is_narrow ? stored_text(n.value, n.buffer->elem, l) : text(n.value, l);
      std::string mask = all.defined() ? "" : fmt::format("if ({}) ", text(n.predicate, l));
      lines.push_back(fmt::format("{}{} = {};", mask, at, value));
    }
  }
  loaded_.clear();
  if (!guarded) return lines;
  lines.insert(lines.begin(), fmt::format("if ({}) {{", print(all)));
  for (size_t i = 1; i < lines.size(); ++i) lines[i] = "  " + lines[i];
  lines.push_back("}");
  return lines;
}

}  // namespace tilewright
