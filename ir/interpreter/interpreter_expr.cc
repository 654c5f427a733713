#include "ir/interpreter/interpreter_expr.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "ir/bits.h"
#include "ir/dot_shape.h"
#include "ir/interpreter/interpreter_math.h"

namespace tilewright::interp {
namespace {

bool is_on(const uint8_t* mask, int lane) { return !mask || mask[lane]; }

bool any_on(const uint8_t* mask, int lanes) {
  for (int l = 0; l < lanes; ++l) {
    if (is_on(mask, l)) return true;
  }
  return false;
}

// The lanes of one expression, evaluated on construction.
class Lanes {
 public:
  Lanes(const ExprCode& code, const Frame& f, const uint8_t* mask)
      : values_(static_cast<size_t>(code.lanes())) {
    code.eval(f, mask, values_.data());
  }
  // A scalar stands for every lane.
  double operator[](int lane) const {
    return values_.size() == 1 ? values_[0] : values_[static_cast<size_t>(lane)];
  }

 private:
  std::vector<double> values_;
};

class ConstCode : public ExprCode {
 public:
  explicit ConstCode(double value) : ExprCode(1), value_(value) {}
  void eval(const Frame&, const uint8_t*, double* out) const override { *out = value_; }

 private:
  double value_;
};

class VarCode : public ExprCode {
 public:
  VarCode(int slot, int lanes) : ExprCode(lanes), slot_(slot) {}
  void eval(const Frame& f, const uint8_t*, double* out) const override {
    for (int l = 0; l < lanes(); ++l)
      out[l] = f.vars[static_cast<size_t>(slot_) + static_cast<size_t>(l)];
  }

 private:
  int slot_;
};

class CastCode : public ExprCode {
 public:
  CastCode(Type type, ExprPtr value)
      : ExprCode(type.lanes), elem_(type.elem), value_(std::move(value)) {}
  void eval(const Frame& f, const uint8_t* mask, double* out) const override {
    value_->eval(f, mask, out);
    for (int l = 0; l < lanes(); ++l) out[l] = round_to(elem_, out[l]);
  }

 private:
  ElemType elem_;
  ExprPtr value_;
};

class UnaryCode : public ExprCode {
 public:
  UnaryCode(Type type, UnaryOp op, ExprPtr a)
      : ExprCode(type.lanes), elem_(type.elem), fn_(function_of(op)),
        round_(needs_rounding(op, type.elem)), a_(std::move(a)) {}
  void eval(const Frame& f, const uint8_t* mask, double* out) const override {
    a_->eval(f, mask, out);
    for (int l = 0; l < lanes(); ++l) {
      out[l] = fn_(out[l]);
      if (round_) out[l] = round_to(elem_, out[l]);
    }
  }

 private:
  ElemType elem_;
  UnaryFn fn_;
  bool round_;
  ExprPtr a_;
};

class BinaryCode : public ExprCode {
 public:
  BinaryCode(Type type, BinaryOp op, ExprPtr a, ExprPtr b)
      : ExprCode(type.lanes), elem_(type.elem), fn_(function_of(op)),
        round_(needs_rounding(op, type.elem)),
        divides_(op == BinaryOp::FloorDiv || op == BinaryOp::FloorMod), a_(std::move(a)),
        b_(std::move(b)) {}

  void eval(const Frame& f, const uint8_t* mask, double* out) const override {
    if (lanes() == 1) {
      double a = 0, b = 0;
      a_->eval(f, mask, &a);
      b_->eval(f, mask, &b);
      *out = is_on(mask, 0) ? apply(f, a, b) : 0;
      return;
    }
    Lanes a(*a_, f, mask), b(*b_, f, mask);
    for (int l = 0; l < lanes(); ++l) out[l] = is_on(mask, l) ? apply(f, a[l], b[l]) : 0;
  }

 private:
  double apply(const Frame& f, double a, double b) const {
    if (divides_ && b == 0) throw Fault{"an integer is divided by zero", f.vars};
    double value = fn_(a, b);
    return round_ ? round_to(elem_, value) : value;
  }

  ElemType elem_;
  BinaryFn fn_;
  bool round_, divides_;
  ExprPtr a_, b_;
};

// Select and IfThenElse: each side is evaluated for the lanes that take it.
class SelectCode : public ExprCode {
 public:
  SelectCode(int lanes, ExprPtr cond, ExprPtr on_true, ExprPtr on_false)
      : ExprCode(lanes), cond_(std::move(cond)), on_true_(std::move(on_true)),
        on_false_(std::move(on_false)) {}

  void eval(const Frame& f, const uint8_t* mask, double* out) const override {
    choose(f, mask, out, nullptr);
  }
  // A choice among copies is a copy.
  void eval_copied(const Frame& f, const uint8_t* mask, double* out,
                   uint8_t* written) const override {
    choose(f, mask, out, written);
  }

 private:
  static void side(const ExprCode& code, const Frame& f, const uint8_t* mask, double* out,
                   uint8_t* written) {
    if (written) return code.eval_copied(f, mask, out, written);
    code.eval(f, mask, out);
  }

  void choose(const Frame& f, const uint8_t* mask, double* out, uint8_t* written) const {
    if (cond_->lanes() == 1) {
      bool on = any_on(mask, lanes());
      bool taken = on && cond_->scalar(f) != 0;
      return side(taken ? *on_true_ : *on_false_, f, mask, out, written);
    }
    Lanes cond(*cond_, f, mask);
    auto count = static_cast<size_t>(lanes());
    std::vector<uint8_t> on_true(count), on_false(count);
    for (int l = 0; l < lanes(); ++l) {
      bool on = is_on(mask, l), taken = cond[l] != 0;
      on_true[static_cast<size_t>(l)] = on && taken;
      on_false[static_cast<size_t>(l)] = on && !taken;
    }
    std::vector<double> t(count), e(count);
    side(*on_true_, f, on_true.data(), t.data(), written);
    side(*on_false_, f, on_false.data(), e.data(), written);
    for (size_t l = 0; l < count; ++l) out[l] = on_true[l] ? t[l] : e[l];
  }

  ExprPtr cond_, on_true_, on_false_;
};

class LoadCode : public ExprCode {
 public:
  LoadCode(AccessCode access, ExprPtr predicate)
      : ExprCode(access.lanes()), access_(std::move(access)), predicate_(std::move(predicate)) {}

  void eval(const Frame& f, const uint8_t* mask, double* out) const override {
    load(f, mask, out, nullptr);
  }
  void eval_copied(const Frame& f, const uint8_t* mask, double* out,
                   uint8_t* written) const override {
    load(f, mask, out, written);
  }

 private:
  void load(const Frame& f, const uint8_t* mask, double* out, uint8_t* written) const {
    if (lanes() == 1) {
      bool on = is_on(mask, 0) && (!predicate_ || predicate_->scalar(f) != 0);
      int64_t offset = -1;
      if (on) access_.offsets(f, nullptr, "read", &offset);
      *out = value(f, offset, written);
      return;
    }
    auto count = static_cast<size_t>(lanes());
    std::vector<uint8_t> on(count, 1);
    if (predicate_) {
      Lanes predicate(*predicate_, f, mask);
      for (int l = 0; l < lanes(); ++l) on[static_cast<size_t>(l)] = predicate[l] != 0;
    }
    for (int l = 0; l < lanes(); ++l) on[static_cast<size_t>(l)] &= is_on(mask, l);
    std::vector<int64_t> offsets(count);
    access_.offsets(f, on.data(), "read", offsets.data());
    for (int l = 0; l < lanes(); ++l) {
      out[l] = value(f, offsets[static_cast<size_t>(l)], written ? written + l : nullptr);
    }
  }

  // Clears `written` for an element that was never written. Throws Fault for it when `written` is
  // null.
  double value(const Frame& f, int64_t offset, uint8_t* written) const {
    if (offset < 0) return 0;
    const Storage& s = *access_.storage(f);
    if (s.written.empty() || s.written[static_cast<size_t>(offset)]) return s.data[offset];
    if (!written) {
      throw Fault{fmt::format("reads {}, an element that was never written", s.element(offset)),
                  f.vars};
    }
    *written = 0;
    return 0;
  }

  AccessCode access_;
  ExprPtr predicate_;
};

class RampCode : public ExprCode {
 public:
  RampCode(Type type, ExprPtr base, ExprPtr stride)
      : ExprCode(type.lanes), elem_(type.elem), base_(std::move(base)), stride_(std::move(stride)) {
  }
  void eval(const Frame& f, const uint8_t* mask, double* out) const override {
    uint8_t on = any_on(mask, lanes());
    double base = 0, stride = 0;
    base_->eval(f, &on, &base);
    stride_->eval(f, &on, &stride);
    for (int l = 0; l < lanes(); ++l) out[l] = round_to(elem_, base + l * stride);
  }

 private:
  ElemType elem_;
  ExprPtr base_, stride_;
};

class BroadcastCode : public ExprCode {
 public:
  BroadcastCode(int lanes, ExprPtr value) : ExprCode(lanes), value_(std::move(value)) {}
  void eval(const Frame& f, const uint8_t* mask, double* out) const override {
    uint8_t on = any_on(mask, lanes());
    double value = 0;
    value_->eval(f, &on, &value);
    for (int l = 0; l < lanes(); ++l) out[l] = value;
  }

 private:
  ExprPtr value_;
};

// The bits of all lanes, lowest lane first, regrouped as lanes of the other type.
class BitcastCode : public ExprCode {
 public:
  BitcastCode(Type to, Type from, ExprPtr value)
      : ExprCode(to.lanes), to_(to), from_(from), value_(std::move(value)) {}

  void eval(const Frame& f, const uint8_t* mask, double* out) const override {
    uint8_t on = any_on(mask, lanes());
    std::vector<uint8_t> all(static_cast<size_t>(from_.lanes), on);
    Lanes values(*value_, f, all.data());
    int from_bits_each = bits_of(from_.elem), to_bits_each = bits_of(to_.elem);
    std::vector<bool> bits;
    for (int l = 0; l < from_.lanes; ++l) {
      uint64_t pattern = on ? to_bits(from_.elem, values[l]) : 0;
      for (int b = 0; b < from_bits_each; ++b) bits.push_back((pattern >> b) & 1);
    }
    size_t next = 0;
    for (int l = 0; l < lanes(); ++l) {
      uint64_t pattern = 0;
      for (int b = 0; b < to_bits_each; ++b) pattern |= uint64_t{bits[next++]} << b;
      out[l] = from_bits(to_.elem, pattern);
    }
  }

 private:
  Type to_, from_;
  ExprPtr value_;
};

// Sums of products over groups of lanes, with no rounding in between.
class DotCode : public ExprCode {
 public:
  DotCode(Type type, DotShape shape, ExprPtr acc, ExprPtr a, ExprPtr b)
      : ExprCode(type.lanes), elem_(type.elem), shape_(shape), acc_(std::move(acc)),
        a_(std::move(a)), b_(std::move(b)) {}

  void eval(const Frame& f, const uint8_t* mask, double* out) const override {
    if (!any_on(mask, lanes())) {
      std::fill(out, out + lanes(), 0);
      return;
    }
    acc_->eval(f, mask, out);
    Lanes a(*a_, f, nullptr), b(*b_, f, nullptr);
    const auto [rows, columns, terms, group, each] = shape_;
    for (int l = 0; l < lanes(); ++l) {
      const int row = l / columns, column = l % columns;
      for (int p = 0; p < terms; ++p) {
        int at = each ? l * terms + p : (p / group * columns + column) * group + p % group;
        out[l] += a[row * terms + p] * b[at];
      }
      out[l] = round_to(elem_, out[l]);
    }
  }

 private:
  ElemType elem_;
  DotShape shape_;
  ExprPtr acc_, a_, b_;
};

// Reduces the lanes of each argument, with no rounding in between.
class LaneReductionCode : public ExprCode {
 public:
  LaneReductionCode(const CallNode& n, std::vector<ExprPtr> vectors)
      : ExprCode(n.type.lanes), elem_(n.type.elem), is_sum_(n.op == CallOp::LaneSum),
        vectors_(std::move(vectors)) {}

  void eval(const Frame& f, const uint8_t* mask, double* out) const override {
    for (int l = 0; l < lanes(); ++l) {
      out[l] = 0;
      if (mask != nullptr && mask[l] == 0) continue;
      const ExprCode& vector = *vectors_[static_cast<size_t>(l)];
      Lanes values(vector, f, nullptr);
      out[l] = values[0];
      for (int i = 1; i < vector.lanes(); ++i) {
        out[l] = is_sum_ ? out[l] + values[i] : std::max(out[l], values[i]);
      }
      out[l] = round_to(elem_, out[l]);
    }
  }

 private:
  ElemType elem_;
  bool is_sum_;
  std::vector<ExprPtr> vectors_;
};

ExprPtr compile_call(const CallNode& n, const Slots& slots) {
  switch (n.op) {
    case CallOp::Bitcast:
      return std::make_unique<BitcastCode>(n.type, n.args[0].type(), compile(n.args[0], slots));
    case CallOp::IfThenElse:
      return std::make_unique<SelectCode>(n.type.lanes, compile(n.args[0], slots),
                                          compile(n.args[1], slots), compile(n.args[2], slots));
    case CallOp::Dot:
      return std::make_unique<DotCode>(
          n.type, *DotShape::of(n.type, n.args[1].type(), n.args[2].type()),
          compile(n.args[0], slots), compile(n.args[1], slots), compile(n.args[2], slots));
    case CallOp::LaneSum:
    case CallOp::LaneMax: {
      std::vector<ExprPtr> vectors;
      for (const Expr& a : n.args) vectors.push_back(compile(a, slots));
      return std::make_unique<LaneReductionCode>(n, std::move(vectors));
    }
    default: break;
  }
  throw Fault{fmt::format("{} is a statement and has no value", name_of(n.op)), {}};
}

[[noreturn]] void fail_bounds(const Frame& f, const Storage& s, const char* verb,
                              const std::vector<int64_t>& index) {
  std::string at, shape;
  for (size_t d = 0; d < index.size(); ++d) {
    at += fmt::format("{}{}", d ? ", " : "", index[d]);
    shape += fmt::format("{}{}", d ? ", " : "", s.shape[d]);
  }
  throw Fault{fmt::format("{}s {}[{}], outside of the shape [{}]", verb, s.buffer->name, at, shape),
              f.vars};
}

}  // namespace

void ExprCode::eval_copied(const Frame& f, const uint8_t* mask, double* out, uint8_t*) const {
  eval(f, mask, out);
}

int64_t AccessCode::scalar_offset(const Frame& f, const char* verb) const {
  const Storage& s = *storage(f);
  int64_t offset = 0;
  for (size_t d = 0; d < indices_.size(); ++d) {
    int64_t i = indices_[d]->integer(f);
    if (i < 0 || i >= s.shape[d]) {
      std::vector<int64_t> index;
      for (const ExprPtr& e : indices_) index.push_back(e->integer(f));
      fail_bounds(f, s, verb, index);
    }
    offset = offset * s.shape[d] + i;
  }
  return offset;
}

void AccessCode::offsets(const Frame& f, const uint8_t* mask, const char* verb,
                         int64_t* out) const {
  if (lanes_ == 1) {
    *out = is_on(mask, 0) ? scalar_offset(f, verb) : -1;
    return;
  }
  if (!any_on(mask, lanes_)) {
    std::fill(out, out + lanes_, -1);
    return;
  }
  const Storage& s = *storage(f);
  std::vector<Lanes> lanes;
  for (const ExprPtr& e : indices_) lanes.emplace_back(*e, f, e->lanes() == 1 ? nullptr : mask);
  std::vector<int64_t> index(indices_.size());
  for (int l = 0; l < lanes_; ++l) {
    out[l] = -1;
    if (!is_on(mask, l)) continue;
    for (size_t d = 0; d < index.size(); ++d) index[d] = static_cast<int64_t>(lanes[d][l]);
    int64_t offset = 0;
    for (size_t d = 0; d < index.size(); ++d) {
      if (index[d] < 0 || index[d] >= s.shape[d]) fail_bounds(f, s, verb, index);
      offset = offset * s.shape[d] + index[d];
    }
    out[l] = offset;
  }
}

AccessCode compile_access(const Buffer& b, const std::vector<Expr>& indices, int lanes,
                          const Slots& slots) {
  auto it = slots.buffers.find(b.get());
  if (it == slots.buffers.end()) {
    throw Fault{fmt::format("'{}' is no parameter and is not allocated around its use", b->name),
                {}};
  }
  std::vector<ExprPtr> codes;
  for (const Expr& i : indices) codes.push_back(compile(i, slots));
  return AccessCode(it->second, std::move(codes), lanes);
}

ExprPtr compile(const Expr& e, const Slots& slots) {
  switch (e.kind()) {
    case ExprKind::IntImm:
      return std::make_unique<ConstCode>(static_cast<double>(e.as<IntImmNode>()->value));
    case ExprKind::FloatImm: return std::make_unique<ConstCode>(e.as<FloatImmNode>()->value);
    case ExprKind::Var: {
      auto it = slots.vars.find(e.get());
      if (it == slots.vars.end()) {
        throw Fault{
            fmt::format("the variable '{}' is used where it is not bound", e.as<VarNode>()->name),
            {}};
      }
      return std::make_unique<VarCode>(it->second, e.type().lanes);
    }
    case ExprKind::Cast:
      return std::make_unique<CastCode>(e.type(), compile(e.as<CastNode>()->value, slots));
    case ExprKind::Unary: {
      auto* n = e.as<UnaryNode>();
      return std::make_unique<UnaryCode>(n->type, n->op, compile(n->a, slots));
    }
    case ExprKind::Binary: {
      auto* n = e.as<BinaryNode>();
      return std::make_unique<BinaryCode>(n->type, n->op, compile(n->a, slots),
                                          compile(n->b, slots));
    }
    case ExprKind::Select: {
      auto* n = e.as<SelectNode>();
      return std::make_unique<SelectCode>(n->type.lanes, compile(n->cond, slots),
                                          compile(n->on_true, slots), compile(n->on_false, slots));
    }
    case ExprKind::Load: {
      auto* n = e.as<LoadNode>();
      ExprPtr predicate = n->predicate.defined() ? compile(n->predicate, slots) : nullptr;
      return std::make_unique<LoadCode>(compile_access(n->buffer, n->indices, n->type.lanes, slots),
                                        std::move(predicate));
    }
    case ExprKind::Ramp: {
      auto* n = e.as<RampNode>();
      return std::make_unique<RampCode>(n->type, compile(n->base, slots),
                                        compile(n->stride, slots));
    }
    case ExprKind::Broadcast:
      return std::make_unique<BroadcastCode>(e.type().lanes,
                                             compile(e.as<BroadcastNode>()->value, slots));
    case ExprKind::Call: return compile_call(*e.as<CallNode>(), slots);
  }
  return nullptr;
}

}  // namespace tilewright::interp
