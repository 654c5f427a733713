#include "tests/ir/random_program.h"

#include <limits>

namespace tilewright::test {
namespace {

constexpr int kDepth = 4;

}  // namespace

std::string RandomProgram::name() {
  static const std::vector<std::string> kNames = {
      "i",     "j",           "k",      "i_1", "T",    "B.scale", "for",    "if",
      "min",   "exp",         "cast",   "inf", "true", "block",   "select", "odd name",
      "tick`", "back\\slash", "0digit", "x.0", "_",    "where",   "dims"};
  return kNames[static_cast<size_t>(below(static_cast<int>(kNames.size())))];
}

ElemType RandomProgram::any_type() { return static_cast<ElemType>(below(25)); }

Annotations RandomProgram::notes() {
  Annotations result;
  if (chance(70)) return result;
  result[name()] = int64_t{below(9)} - 4;
  if (chance(50)) result["text"] = "a \"quoted\" text\\with\na line " + name();
  return result;
}

Buffer RandomProgram::buffer(Scope scope) {
  std::vector<Expr> shape;
  for (int d = below(4); d > 0; --d) {
    shape.push_back(chance(80) || !dim_.defined() ? Expr(1 + below(9)) : dim_ + 1);
  }
  std::string unique = name() + " " + std::to_string(num_buffers_++);
  if (chance(50)) unique = "b" + std::to_string(num_buffers_);
  buffers_.push_back(make_buffer(unique, any_type(), std::move(shape), scope));
  return buffers_.back();
}

Expr RandomProgram::constant(Type type) {
  if (is_float(type.elem)) {
    static const std::vector<double> kValues = {0.0,
                                                -0.0,
                                                1.0,
                                                -1.0,
                                                0.1,
                                                3.14159,
                                                1e22,
                                                -1e-7,
                                                5e-324,
                                                1e300,
                                                448,
                                                0.5,
                                                std::numeric_limits<double>::infinity(),
                                                -std::numeric_limits<double>::infinity(),
                                                std::numeric_limits<double>::quiet_NaN()};
    return make_float(type, kValues[static_cast<size_t>(below(static_cast<int>(kValues.size())))]);
  }
  if (type.elem == ElemType::boolean) return make_int(type, below(2));
  static const std::vector<int64_t> kValues = {0, 1, -1, 7, -128, 1 << 20, INT64_MIN, INT64_MAX};
  return make_int(type, kValues[static_cast<size_t>(below(static_cast<int>(kValues.size())))]);
}

Expr RandomProgram::leaf(Type type) {
  if (chance(60)) {
    for (int tries = 0; tries < 5 && !vars_.empty(); ++tries) {
      const Var& v = vars_[static_cast<size_t>(below(static_cast<int>(vars_.size())))];
      if (v.type() == type) return v;
    }
  }
  return constant(type);
}

Expr RandomProgram::index(int depth) { return value(ElemType::index, depth); }

Expr RandomProgram::condition(int lanes, int depth) {
  static const std::vector<BinaryOp> kOps = {BinaryOp::EQ, BinaryOp::NE, BinaryOp::LT,
                                             BinaryOp::LE, BinaryOp::GT, BinaryOp::GE};
  if (depth <= 0) return constant({ElemType::boolean, lanes});
  if (chance(20)) return unary(UnaryOp::Not, condition(lanes, depth - 1));
  if (chance(30)) {
    return binary(chance(50) ? BinaryOp::And : BinaryOp::Or, condition(lanes, depth - 1),
                  condition(lanes, depth - 1));
  }
  Type type(chance(50) ? ElemType::index : ElemType::f32, lanes);
  return binary(kOps[static_cast<size_t>(below(6))], value(type, depth - 1),
                value(type, depth - 1));
}

Expr RandomProgram::ramp_index(int lanes) { return ramp(index(1), index(0), lanes); }

// A load of the requested type when some buffer has it; undefined otherwise.
Expr RandomProgram::load_of(Type type, int depth) {
  for (int tries = 0; tries < 6 && !buffers_.empty(); ++tries) {
    Buffer b = buffers_[static_cast<size_t>(below(static_cast<int>(buffers_.size())))];
    if (b->elem != type.elem || (type.lanes > 1 && b->rank() == 0)) continue;
    std::vector<Expr> indices;
    for (int d = 0; d < b->rank(); ++d) {
      bool wide = type.lanes > 1 && d + 1 == b->rank();
      indices.push_back(wide ? ramp_index(type.lanes) : index(depth - 1));
    }
    return load(b, indices, chance(30) ? condition(type.lanes, 1) : Expr());
  }
  return {};
}

Expr RandomProgram::arithmetic(Type type, int depth) {
  bool real = is_float(type.elem);
  static const std::vector<BinaryOp> kBoth = {BinaryOp::Add, BinaryOp::Sub, BinaryOp::Mul,
                                              BinaryOp::Min, BinaryOp::Max};
  if (real && chance(30)) {
    static const std::vector<UnaryOp> kOps = {UnaryOp::Exp,   UnaryOp::Log,  UnaryOp::Sqrt,
                                              UnaryOp::Rsqrt, UnaryOp::Tanh, UnaryOp::Erf,
                                              UnaryOp::Floor, UnaryOp::Round};
    return unary(kOps[static_cast<size_t>(below(8))], value(type, depth - 1));
  }
  if (chance(20)) return unary(chance(60) ? UnaryOp::Neg : UnaryOp::Abs, value(type, depth - 1));
  BinaryOp op = kBoth[static_cast<size_t>(below(5))];
  if (chance(20)) {
    op = real ? BinaryOp::Div : chance(50) ? BinaryOp::FloorDiv : BinaryOp::FloorMod;
  }
  return binary(op, value(type, depth - 1), value(type, depth - 1));
}

Expr RandomProgram::value(Type type, int depth) {
  if (type.elem == ElemType::boolean) return condition(type.lanes, depth);
  if (depth <= 0) return leaf(type);
  switch (below(9)) {
    case 0: return cast(type, value({any_type(), type.lanes}, depth - 1));
    case 1: {
      Expr cond = condition(chance(50) ? 1 : type.lanes, depth - 1);
      return select(cond, value(type, depth - 1), value(type, depth - 1));
    }
    case 2: {
      Expr e = load_of(type, depth);
      return e.defined() ? e : leaf(type);
    }
    case 3:
      return call(type, CallOp::IfThenElse,
                  {condition(1, depth - 1), value(type, depth - 1), value(type, depth - 1)});
    case 4: {
      if (type.lanes == 1 || type.elem != ElemType::index) break;
      return ramp_index(type.lanes);
    }
    case 5:
      if (type.lanes == 1) break;
      return broadcast(value(type.with_lanes(1), depth - 1), type.lanes);
    case 6:
      if (bits_of(type.elem) != 32) break;
      return call(type, CallOp::Bitcast, {value({ElemType::u32, type.lanes}, depth - 1)});
    case 7: {
      if (type.elem == ElemType::boolean || type.elem == ElemType::e8m0) break;
      Type a{ElemType::u8, 2}, b{ElemType::i8, 2 * type.lanes};
      return call(type, CallOp::Dot,
                  {value(type, depth - 1), value(a, depth - 1), value(b, depth - 1)});
    }
    default: break;
  }
  return arithmetic(type, depth);
}

Stmt RandomProgram::store(int depth) {
  Buffer b = buffers_[static_cast<size_t>(below(static_cast<int>(buffers_.size())))];
  int lanes = b->rank() > 0 && chance(30) ? 2 + below(15) : 1;
  std::vector<Expr> indices;
  for (int d = 0; d < b->rank(); ++d) {
    indices.push_back(lanes > 1 && d + 1 == b->rank() ? ramp_index(lanes) : index(2));
  }
  Expr predicate = chance(25) ? condition(lanes, 2) : Expr();
  return make_store(b, indices, value({b->elem, lanes}, depth), predicate, chance(15));
}

Stmt RandomProgram::for_loop(int depth) {
  Expr min = chance(70) ? Expr(0) : index(2);
  Expr extent = index(2);
  Var var(name());
  vars_.push_back(var);
  Stmt inner = body(depth - 1);
  vars_.pop_back();
  return make_for(var, min, extent, static_cast<ForKind>(below(11)), inner, notes());
}

Stmt RandomProgram::block(int depth) {
  std::vector<IterVar> iters;
  for (int i = below(4); i > 0; --i) {
    IterKind kind = chance(60) ? IterKind::Spatial : IterKind::Reduce;
    iters.push_back({Var(name()), index(1), kind, index(2)});
  }
  size_t vars = vars_.size(), buffers = buffers_.size();
  for (const IterVar& iter : iters) vars_.push_back(iter.var);
  Expr predicate = chance(30) ? condition(1, 2) : Expr();
  std::vector<Buffer> allocs;
  for (int i = below(3); i > 0; --i) allocs.push_back(buffer(static_cast<Scope>(below(7))));
  Stmt init = chance(40) ? body(1) : Stmt();
  Stmt inner = body(depth - 1);
  vars_.resize(vars);
  buffers_.resize(buffers);
  return make_block(name(), iters, inner, init, predicate, allocs, notes());
}

Stmt RandomProgram::evaluate() {
  switch (below(4)) {
    case 0: return make_evaluate(call(ElemType::boolean, CallOp::Barrier, {}));
    case 1: return make_evaluate(call(ElemType::boolean, CallOp::AsyncCommit, {}));
    case 2: return make_evaluate(call(ElemType::boolean, CallOp::AsyncWait, {index(1)}));
    default: break;
  }
  Expr address = load_of(buffers_[0]->elem, 2);
  if (!address.defined()) return make_evaluate(call(ElemType::boolean, CallOp::Barrier, {}));
  return make_evaluate(call(ElemType::boolean, CallOp::Prefetch, {address, Expr(3)}));
}

Stmt RandomProgram::stmt(int depth) {
  if (depth <= 0) return chance(85) ? store(3) : evaluate();
  switch (below(7)) {
    case 0:
    case 1: return for_loop(depth);
    case 2: return block(depth);
    case 3: return make_if(condition(1, 2), body(depth - 1), chance(50) ? body(depth - 1) : Stmt());
    case 4: {
      Var var(name(), Type(any_type(), chance(70) ? 1 : 4));
      Expr bound = value(var.type(), 2);
      vars_.push_back(var);
      Stmt inner = body(depth - 1);
      vars_.pop_back();
      return make_let(var, bound, inner);
    }
    case 5: {
      Buffer b = buffer(static_cast<Scope>(below(7)));
      Stmt inner = body(depth - 1);
      buffers_.pop_back();
      return make_allocate(b, inner);
    }
    default: return store(kDepth);
  }
}

Stmt RandomProgram::body(int depth) {
  std::vector<Stmt> stmts;
  for (int i = 1 + below(3); i > 0; --i) stmts.push_back(stmt(depth));
  return make_seq(std::move(stmts));
}

Program RandomProgram::make() {
  Program p;
  p.name = name();
  for (int i = below(3); i > 0; --i) {
    Var v("dim" + std::to_string(i));
    vars_.push_back(v);
    dim_ = v;
    p.dims.push_back({v, below(5), 5 + below(100)});
  }
  for (int i = 1 + below(4); i > 0; --i) {
    p.params.push_back({buffer(Scope::Global), static_cast<ParamRole>(below(3))});
  }
  p.body = make_block("root", {}, body(kDepth));
  return p;
}

}  // namespace tilewright::test
