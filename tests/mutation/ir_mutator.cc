#include "tests/mutation/ir_mutator.h"

#include <map>

#include "base/error.h"
#include "ir/visitor.h"
#include "schedule/trial.h"

namespace tilewright::mutation {
namespace {

enum class Fault : uint8_t {
  LoopShort,
  LoopLong,
  LoopParallel,
  BindingShifted,
  BindingsSwapped,
  PredicateDropped,
  InitDropped,
  InitOfZero,
  IndexShifted,
  IndicesSwapped,
  OperatorChanged,
  SelectTurned,
  ConditionRelaxed,
  StatementDropped,
  StatementsSwapped,
  ValueNarrowed,
  TermOmitted,
};

const std::map<std::string, Fault>& faults() {
  static const std::map<std::string, Fault> table = {
      {"ir loop one short", Fault::LoopShort},
      {"ir loop one long", Fault::LoopLong},
      {"ir loop in parallel", Fault::LoopParallel},
      {"ir binding shifted", Fault::BindingShifted},
      {"ir bindings swapped", Fault::BindingsSwapped},
      {"ir predicate dropped", Fault::PredicateDropped},
      {"ir init dropped", Fault::InitDropped},
      {"ir init of zero", Fault::InitOfZero},
      {"ir index shifted", Fault::IndexShifted},
      {"ir indices swapped", Fault::IndicesSwapped},
      {"ir operator changed", Fault::OperatorChanged},
      {"ir select turned", Fault::SelectTurned},
      {"ir condition relaxed", Fault::ConditionRelaxed},
      {"ir statement dropped", Fault::StatementDropped},
      {"ir statements swapped", Fault::StatementsSwapped},
      {"ir value narrowed", Fault::ValueNarrowed},
      {"ir term omitted", Fault::TermOmitted},
  };
  return table;
}

// Makes the fault at one place, or counts the possible places.
class FaultMutator : public Mutator {
 public:
  // A `place` of -1 changes nothing.
  FaultMutator(Fault fault, int64_t place) : fault_(fault), place_(place) {}
  int64_t places() const { return seen_; }

 protected:
  bool here(Fault fault) { return fault == fault_ && seen_++ == place_; }

  Stmt mutate_for(const ForNode& n, const Stmt& s) override {
    Stmt inner = Mutator::mutate_for(n, s);
    const auto& f = *inner.as<ForNode>();
    Expr extent = f.extent;
    ForKind kind = f.for_kind;
    const bool longer_than_one = as_int(f.extent).value_or(2) > 1;
    if (longer_than_one && here(Fault::LoopShort)) extent = extent - Expr(1);
    if (here(Fault::LoopLong)) extent = extent + Expr(1);
    if (kind == ForKind::Serial && longer_than_one && here(Fault::LoopParallel)) {
      kind = ForKind::Parallel;
    }
    if (extent.same_as(f.extent) && kind == f.for_kind) return inner;
    return make_for(f.var, f.min, constant(extent), kind, f.body, f.annotations);
  }

  Stmt mutate_block(const BlockNode& n, const Stmt& s) override {
    Stmt inner = Mutator::mutate_block(n, s);
    const auto& b = *inner.as<BlockNode>();
    std::vector<IterVar> iters = b.iters;
    Expr predicate = b.predicate;
    Stmt init = b.init;
    bool changed = false;
    for (size_t i = 0; i < iters.size(); ++i) {
      if (here(Fault::BindingShifted)) {
        iters[i].binding = iters[i].binding + Expr(1);
        changed = true;
      }
      if (i > 0 && here(Fault::BindingsSwapped)) {
        std::swap(iters[i].binding, iters[i - 1].binding);
        changed = true;
      }
    }
    if (predicate.defined() && here(Fault::PredicateDropped)) {
      predicate = Expr();
      changed = true;
    }
    if (init.defined() && here(Fault::InitDropped)) {
      init = Stmt();
      changed = true;
    }
    const auto* store = init.defined() ? init.as<StoreNode>() : nullptr;
    if (store != nullptr && here(Fault::InitOfZero)) {
      const auto* zero = store->value.as<FloatImmNode>();
      const double other = zero != nullptr && zero->value == 0 ? 0.25 : 0;
      init = make_store(store->buffer, store->indices, make_const(store->value.type(), other));
      changed = true;
    }
    if (!changed) return inner;
    return make_block(b.name, iters, b.body, init, predicate, b.allocs, b.annotations);
  }

  Stmt mutate_store(const StoreNode& n, const Stmt& s) override {
    Stmt inner = Mutator::mutate_store(n, s);
    const auto& store = *inner.as<StoreNode>();
    const Type type = store.value.type();
    if (type.elem == ElemType::f32 && here(Fault::ValueNarrowed)) {
      Expr narrow = cast(type, cast(Type(ElemType::bf16, type.lanes), store.value));
      return make_store(store.buffer, store.indices, narrow, store.predicate, store.is_async);
    }
    const auto* sum = store.value.as<BinaryNode>();
    if (sum != nullptr && sum->op == BinaryOp::Add && here(Fault::TermOmitted)) {
      return make_store(store.buffer, store.indices, sum->a, store.predicate, store.is_async);
    }
    return inner;
  }

  Expr mutate_load(const LoadNode& n, const Expr& e) override {
    Expr inner = Mutator::mutate_load(n, e);
    const auto& l = *inner.as<LoadNode>();
    std::vector<Expr> indices = l.indices;
    for (size_t i = 0; i < indices.size(); ++i) {
      if (here(Fault::IndexShifted)) {
        indices[i] = floormod(indices[i] + Expr(1), l.buffer->shape[i]);
        return load(l.buffer, indices, l.predicate);
      }
      if (i > 0 && here(Fault::IndicesSwapped)) {
        std::swap(indices[i], indices[i - 1]);
        for (size_t d : {i - 1, i}) indices[d] = floormod(indices[d], l.buffer->shape[d]);
        return load(l.buffer, indices, l.predicate);
      }
    }
    return inner;
  }

  Expr mutate_binary(const BinaryNode& n, const Expr& e) override {
    Expr inner = Mutator::mutate_binary(n, e);
    const auto& b = *inner.as<BinaryNode>();
    if (b.type.elem != ElemType::index && b.type.elem != ElemType::boolean) {
      static const std::map<BinaryOp, BinaryOp> others = {
          {BinaryOp::Add, BinaryOp::Sub}, {BinaryOp::Sub, BinaryOp::Add},
          {BinaryOp::Mul, BinaryOp::Add}, {BinaryOp::Div, BinaryOp::Mul},
          {BinaryOp::Max, BinaryOp::Min}, {BinaryOp::Min, BinaryOp::Max}};
      auto other = others.find(b.op);
      if (other != others.end() && here(Fault::OperatorChanged)) {
        return binary(other->second, b.a, b.b);
      }
    }
    static const std::map<BinaryOp, BinaryOp> relaxed = {{BinaryOp::LT, BinaryOp::LE},
                                                         {BinaryOp::LE, BinaryOp::LT},
                                                         {BinaryOp::GE, BinaryOp::GT},
                                                         {BinaryOp::GT, BinaryOp::GE},
                                                         {BinaryOp::EQ, BinaryOp::NE}};
    auto other = relaxed.find(b.op);
    if (other != relaxed.end() && here(Fault::ConditionRelaxed)) {
      return binary(other->second, b.a, b.b);
    }
    return inner;
  }

  Expr mutate_select(const SelectNode& n, const Expr& e) override {
    Expr inner = Mutator::mutate_select(n, e);
    const auto& s = *inner.as<SelectNode>();
    if (here(Fault::SelectTurned)) return select(s.cond, s.on_false, s.on_true);
    return inner;
  }

  Stmt mutate_seq(const SeqNode& n, const Stmt& s) override {
    Stmt inner = Mutator::mutate_seq(n, s);
    const auto* seq = inner.as<SeqNode>();
    if (seq == nullptr) return inner;
    std::vector<Stmt> stmts = seq->stmts;
    for (size_t i = 0; i < stmts.size(); ++i) {
      if (here(Fault::StatementDropped)) {
        stmts.erase(stmts.begin() + static_cast<std::ptrdiff_t>(i));
        return make_seq(stmts);
      }
      if (i > 0 && here(Fault::StatementsSwapped)) {
        std::swap(stmts[i], stmts[i - 1]);
        return make_seq(stmts);
      }
    }
    return inner;
  }

 private:
  static Expr constant(const Expr& extent) {
    const auto* sum = extent.as<BinaryNode>();
    auto a = sum ? as_int(sum->a) : std::nullopt, b = sum ? as_int(sum->b) : std::nullopt;
    if (!a || !b) return extent;
    return Expr(sum->op == BinaryOp::Add ? *a + *b : *a - *b);
  }

  Fault fault_;
  int64_t place_;
  int64_t seen_ = 0;
};

int64_t places_in(const Stmt& body, Fault fault) {
  FaultMutator count(fault, -1);
  count(body);
  return count.places();
}

}  // namespace

const std::vector<std::string>& ir_kinds() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> list;
    for (const auto& [name, fault] : faults()) list.push_back(name);
    return list;
  }();
  return names;
}

std::optional<Module> mutate_module(const Module& module, const std::string& kind, uint64_t seed) {
  const Fault fault = faults().at(kind);
  Module result = module;
  std::vector<Program*> programs = {&result.main};
  for (Program& pack : result.packs) programs.push_back(&pack);
  int64_t all = 0;
  for (const Program* p : programs) all += places_in(p->body, fault);
  if (all == 0) return std::nullopt;
  auto place = static_cast<int64_t>(Rng(seed).below(static_cast<uint64_t>(all)));
  for (Program* p : programs) {
    const int64_t here = places_in(p->body, fault);
    if (place < here) {
      try {
        p->body = FaultMutator(fault, place)(p->body);
      } catch (const IrError&) {
        return std::nullopt;
      }
      return result;
    }
    place -= here;
  }
  return std::nullopt;
}

}  // namespace tilewright::mutation
