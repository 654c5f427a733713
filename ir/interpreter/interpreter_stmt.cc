#include "ir/interpreter/interpreter_stmt.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "base/error.h"
#include "ir/visitor.h"

namespace tilewright::interp {
namespace {

// Gives a buffer fresh elements; reuses those of an earlier entry when nobody else holds them.
void allocate(Frame& f, int slot, const Buffer& buffer, const std::vector<ExprPtr>& extents) {
  std::vector<int64_t> shape;
  for (const ExprPtr& e : extents) shape.push_back(e->integer(f));
  std::shared_ptr<Storage>& storage = f.buffers[static_cast<size_t>(slot)];
  if (storage && storage.use_count() == 1 && storage->shape == shape) {
    std::fill(storage->written.begin(), storage->written.end(), 0);
  } else {
    storage = Storage::make(buffer, std::move(shape));
  }
}

struct Allocation {
  int slot;
  Buffer buffer;
  std::vector<ExprPtr> extents;
  void enter(Frame& f) const { allocate(f, slot, buffer, extents); }
};

struct IterCode {
  const IterVar* iter;
  size_t slot;
  ExprPtr binding, extent;
};

class BlockCode : public StmtCode {
 public:
  BlockCode(const BlockNode& node, std::vector<IterCode> iters, ExprPtr predicate,
            std::vector<Allocation> allocs, StmtPtr init, StmtPtr body)
      : StmtCode(body->has_barrier()), node_(node), iters_(std::move(iters)),
        predicate_(std::move(predicate)), allocs_(std::move(allocs)), init_(std::move(init)),
        body_(std::move(body)) {}

  void run(Frame& f) const override {
    if (enter(f)) body_->run(f);
  }
  Steps steps(Frame& f) const override {
    if (!enter(f)) co_return;
    Steps body = body_->steps(f);
    while (body.next()) co_yield Steps::Barrier{};
  }

 private:
  // Runs everything before the body; false when the predicate does not hold.
  bool enter(Frame& f) const {
    f.state->at = &node_;
    for (const IterCode& iter : iters_) f.vars[iter.slot] = iter.binding->scalar(f);
    if (predicate_ && predicate_->scalar(f) == 0) return false;
    bool first = true;
    for (const IterCode& iter : iters_) {
      check_range(f, iter);
      if (iter.iter->kind == IterKind::Reduce) first &= f.vars[iter.slot] == 0;
    }
    for (const Allocation& a : allocs_) a.enter(f);
    if (init_ && first) init_->run(f);
    return true;
  }

  void check_range(const Frame& f, const IterCode& iter) const {
    auto value = static_cast<int64_t>(f.vars[iter.slot]);
    int64_t extent = iter.extent->integer(f);
    if (value >= 0 && value < extent) return;
    throw Fault{fmt::format("block '{}': the iterator '{}' is {}, outside of its extent {}",
                            node_.name, iter.iter->var.name(), value, extent),
                f.vars};
  }

  const BlockNode& node_;
  std::vector<IterCode> iters_;
  ExprPtr predicate_;
  std::vector<Allocation> allocs_;
  StmtPtr init_, body_;
};

class StoreCode : public StmtCode {
 public:
  StoreCode(const StoreNode& node, AccessCode access, ExprPtr value, ExprPtr predicate)
      : StmtCode(false), node_(node), access_(std::move(access)), value_(std::move(value)),
        predicate_(std::move(predicate)) {}

  void run(Frame& f) const override {
    f.state->at = &node_;
    if (predicate_ && predicate_->lanes() == 1 && predicate_->scalar(f) == 0) return;
    if (access_.lanes() > 1) return run_lanes(f);
    double value = 0;
    uint8_t written = 1;
    evaluate(f, &value, &written);
    int64_t offset = 0;
    access_.offsets(f, nullptr, "store", &offset);
    put(f, offset, value, written);
  }

 private:
  // A store to an output may not copy an element that was never written.
  void evaluate(const Frame& f, double* values, uint8_t* written) const {
    if (access_.storage(f)->is_output) return value_->eval(f, nullptr, values);
    value_->eval_copied(f, nullptr, values, written);
  }

  // The value is evaluated in every lane; its loads carry predicates of their own.
  void run_lanes(Frame& f) const {
    auto lanes = static_cast<size_t>(access_.lanes());
    std::vector<double> values(lanes);
    std::vector<uint8_t> on(lanes, 1), written(lanes, 1);
    evaluate(f, values.data(), written.data());
    if (value_->lanes() == 1) {
      std::fill(values.begin(), values.end(), values[0]);
      std::fill(written.begin(), written.end(), written[0]);
    }
    if (predicate_ && predicate_->lanes() > 1) {
      std::vector<double> p(lanes);
      predicate_->eval(f, nullptr, p.data());
      std::transform(p.begin(), p.end(), on.begin(), [](double v) { return v != 0; });
    }
    std::vector<int64_t> offsets(lanes);
    access_.offsets(f, on.data(), "store", offsets.data());
    for (size_t l = 0; l < lanes; ++l) {
      if (offsets[l] >= 0) put(f, offsets[l], values[l], written[l]);
    }
  }

  void put(Frame& f, int64_t offset, double value, uint8_t written) const {
    const std::shared_ptr<Storage>& s = access_.storage(f);
    if (s->read_only) {
      throw Fault{fmt::format("stores into '{}', which is an input", s->buffer->name), f.vars};
    }
    if (node_.is_async) return f.async.issue({s, offset, value, written});
    s->data[offset] = value;
    if (!s->written.empty()) s->written[static_cast<size_t>(offset)] = written;
  }

  const StoreNode& node_;
  AccessCode access_;
  ExprPtr value_, predicate_;
};

class IfCode : public StmtCode {
 public:
  IfCode(const IfNode& node, ExprPtr cond, StmtPtr then_case, StmtPtr else_case)
      : StmtCode(then_case->has_barrier() || (else_case && else_case->has_barrier())), node_(node),
        cond_(std::move(cond)), then_(std::move(then_case)), else_(std::move(else_case)) {}

  void run(Frame& f) const override {
    if (const StmtCode* taken = choose(f)) taken->run(f);
  }
  Steps steps(Frame& f) const override {
    const StmtCode* taken = choose(f);
    if (!taken) co_return;
    Steps inner = taken->steps(f);
    while (inner.next()) co_yield Steps::Barrier{};
  }

 private:
  const StmtCode* choose(Frame& f) const {
    f.state->at = &node_;
    return cond_->scalar(f) != 0 ? then_.get() : else_.get();
  }
  const IfNode& node_;
  ExprPtr cond_;
  StmtPtr then_, else_;
};

class SeqCode : public StmtCode {
 public:
  explicit SeqCode(std::vector<StmtPtr> stmts)
      : StmtCode(std::any_of(stmts.begin(), stmts.end(),
                             [](const StmtPtr& s) { return s->has_barrier(); })),
        stmts_(std::move(stmts)) {}

  void run(Frame& f) const override {
    for (const StmtPtr& s : stmts_) s->run(f);
  }
  Steps steps(Frame& f) const override {
    for (const StmtPtr& s : stmts_) {
      if (!s->has_barrier()) {
        s->run(f);
        continue;
      }
      Steps inner = s->steps(f);
      while (inner.next()) co_yield Steps::Barrier{};
    }
  }

 private:
  std::vector<StmtPtr> stmts_;
};

class EvaluateCode : public StmtCode {
 public:
  EvaluateCode(const EvaluateNode& node, CallOp op, ExprPtr arg)
      : StmtCode(op == CallOp::Barrier), node_(node), op_(op), arg_(std::move(arg)) {}

  // A prefetch has no effect, even where its address is outside the buffer.
  void run(Frame& f) const override {
    f.state->at = &node_;
    if (op_ == CallOp::AsyncCommit) f.async.commit();
    if (op_ == CallOp::AsyncWait) f.async.wait(arg_->integer(f));
  }
  Steps steps(Frame& f) const override {
    run(f);
    if (has_barrier()) co_yield Steps::Barrier{};
  }

 private:
  const EvaluateNode& node_;
  CallOp op_;
  ExprPtr arg_;
};

class LetCode : public StmtCode {
 public:
  LetCode(const LetNode& node, int slot, ExprPtr value, StmtPtr body)
      : StmtCode(body->has_barrier()), node_(node), slot_(static_cast<size_t>(slot)),
        value_(std::move(value)), body_(std::move(body)) {}

  void run(Frame& f) const override {
    bind(f);
    body_->run(f);
  }
  Steps steps(Frame& f) const override {
    bind(f);
    Steps body = body_->steps(f);
    while (body.next()) co_yield Steps::Barrier{};
  }

 private:
  void bind(Frame& f) const {
    f.state->at = &node_;
    std::vector<double> lanes(static_cast<size_t>(value_->lanes()));
    value_->eval(f, nullptr, lanes.data());
    std::copy(lanes.begin(), lanes.end(), f.vars.begin() + static_cast<std::ptrdiff_t>(slot_));
  }
  const LetNode& node_;
  size_t slot_;
  ExprPtr value_;
  StmtPtr body_;
};

class AllocateCode : public StmtCode {
 public:
  AllocateCode(const AllocateNode& node, Allocation allocation, StmtPtr body)
      : StmtCode(body->has_barrier()), node_(node), allocation_(std::move(allocation)),
        body_(std::move(body)) {}

  void run(Frame& f) const override {
    f.state->at = &node_;
    allocation_.enter(f);
    body_->run(f);
  }
  Steps steps(Frame& f) const override {
    f.state->at = &node_;
    allocation_.enter(f);
    Steps body = body_->steps(f);
    while (body.next()) co_yield Steps::Barrier{};
  }

 private:
  const AllocateNode& node_;
  Allocation allocation_;
  StmtPtr body_;
};

}  // namespace

Steps StmtCode::steps(Frame& f) const {
  run(f);
  co_return;
}

int Compiler::define(const Expr& var) {
  int slot = num_vars_;
  num_vars_ += var.type().lanes;
  slots_.vars[var.get()] = slot;
  all_vars_[var.get()] = slot;
  return slot;
}

int Compiler::define(const Buffer& buffer) {
  slots_.buffers[buffer.get()] = num_buffers_;
  return num_buffers_++;
}

Frame Compiler::frame() const {
  Frame f;
  f.vars.resize(static_cast<size_t>(num_vars_));
  f.buffers.resize(static_cast<size_t>(num_buffers_));
  f.state = &state_;
  return f;
}

std::vector<ExprPtr> Compiler::compile_all(const std::vector<Expr>& list) {
  std::vector<ExprPtr> codes;
  for (const Expr& e : list) codes.push_back(compile(e));
  return codes;
}

StmtPtr Compiler::compile_for(const ForNode& n) {
  ExprPtr min = compile(n.min), extent = compile(n.extent);
  int slot = define(n.var);
  StmtPtr body = compile(n.body);
  slots_.vars.erase(n.var.get());
  return make_loop(n, slot, std::move(min), std::move(extent), std::move(body));
}

StmtPtr Compiler::compile_block(const BlockNode& n) {
  std::vector<IterCode> iters;
  for (const IterVar& iter : n.iters) {
    iters.push_back({&iter, 0, compile(iter.binding), compile(iter.extent)});
  }
  for (IterCode& iter : iters) iter.slot = static_cast<size_t>(define(iter.iter->var));
  ExprPtr predicate = n.predicate.defined() ? compile(n.predicate) : nullptr;
  std::vector<Allocation> allocs;
  for (const Buffer& b : n.allocs) {
    std::vector<ExprPtr> extents = compile_all(b->shape);
    allocs.push_back({define(b), b, std::move(extents)});
  }
  StmtPtr init = n.init.defined() ? compile(n.init) : nullptr;
  StmtPtr body = compile(n.body);
  for (const IterVar& iter : n.iters) slots_.vars.erase(iter.var.get());
  for (const Buffer& b : n.allocs) slots_.buffers.erase(b.get());
  return std::make_unique<BlockCode>(n, std::move(iters), std::move(predicate), std::move(allocs),
                                     std::move(init), std::move(body));
}

StmtPtr Compiler::compile_store(const StoreNode& n) {
  int lanes = n.value.type().lanes;
  for (const Expr& i : n.indices) lanes = std::max(lanes, i.type().lanes);
  ExprPtr predicate = n.predicate.defined() ? compile(n.predicate) : nullptr;
  AccessCode access = compile_access(n.buffer, n.indices, lanes, slots_);
  return std::make_unique<StoreCode>(n, std::move(access), compile(n.value), std::move(predicate));
}

StmtPtr Compiler::compile_evaluate(const EvaluateNode& n) {
  auto* call = n.value.as<CallNode>();
  constexpr std::array kKnown = {CallOp::Prefetch, CallOp::Barrier, CallOp::AsyncCommit,
                                 CallOp::AsyncWait};
  if (std::find(kKnown.begin(), kKnown.end(), call->op) == kKnown.end()) {
    throw Error(fmt::format("{} has no meaning to the interpreter", name_of(call->op)));
  }
  ExprPtr arg = call->op == CallOp::AsyncWait ? compile(call->args[0]) : nullptr;
  return std::make_unique<EvaluateCode>(n, call->op, std::move(arg));
}

StmtPtr Compiler::compile(const Stmt& s) {
  state_.at = s.kind() == StmtKind::Seq ? state_.at : s.get();
  switch (s.kind()) {
    case StmtKind::For: return compile_for(*s.as<ForNode>());
    case StmtKind::Block: return compile_block(*s.as<BlockNode>());
    case StmtKind::Store: return compile_store(*s.as<StoreNode>());
    case StmtKind::If: {
      auto* n = s.as<IfNode>();
      ExprPtr cond = compile(n->cond);
      StmtPtr then_case = compile(n->then_case);
      StmtPtr else_case = n->else_case.defined() ? compile(n->else_case) : nullptr;
      return std::make_unique<IfCode>(*n, std::move(cond), std::move(then_case),
                                      std::move(else_case));
    }
    case StmtKind::Seq: {
      std::vector<StmtPtr> stmts;
      for (const Stmt& child : s.as<SeqNode>()->stmts) stmts.push_back(compile(child));
      return std::make_unique<SeqCode>(std::move(stmts));
    }
    case StmtKind::Evaluate: return compile_evaluate(*s.as<EvaluateNode>());
    case StmtKind::Let: {
      auto* n = s.as<LetNode>();
      ExprPtr value = compile(n->value);
      int slot = define(n->var);
      StmtPtr body = compile(n->body);
      slots_.vars.erase(n->var.get());
      return std::make_unique<LetCode>(*n, slot, std::move(value), std::move(body));
    }
    case StmtKind::Allocate: {
      auto* n = s.as<AllocateNode>();
      std::vector<ExprPtr> extents = compile_all(n->buffer->shape);
      Allocation allocation{define(n->buffer), n->buffer, std::move(extents)};
      StmtPtr body = compile(n->body);
      slots_.buffers.erase(n->buffer.get());
      return std::make_unique<AllocateCode>(*n, std::move(allocation), std::move(body));
    }
  }
  return nullptr;
}

}  // namespace tilewright::interp
