// Names the quotients and remainders of a parallel loop's variable.
#include <fmt/core.h>

#include <set>
#include <vector>

#include "codegen/lowering.h"
#include "ir/compare.h"
#include "ir/visitor.h"

namespace tilewright {
namespace {

using Dims = std::set<const ExprNode*>;

// True for expressions of numbers and dynamic dimensions only.
bool is_size(const Expr& e, const Dims& dims) {
  bool only = true;
  for_each_expr(e, [&](const Expr& x) {
    only &= !x.as<LoadNode>() && (!x.as<VarNode>() || dims.count(x.get()) != 0);
  });
  return only;
}

// The index of a fused loop appears as floordiv(f, a), floormod(f, b), floormod(floordiv(f, a), b).
bool is_quotient_of(const Expr& e, const Expr& var, const Dims& dims) {
  auto* n = e.as<BinaryNode>();
  if (!n || (n->op != BinaryOp::FloorDiv && n->op != BinaryOp::FloorMod)) return false;
  if (!is_size(n->b, dims)) return false;
  return n->a.same_as(var) || is_quotient_of(n->a, var, dims);
}

class Collector : public Visitor {
 public:
  Collector(Expr var, const Dims& dims) : var_(std::move(var)), dims_(dims) {}
  std::vector<Expr> found;

 protected:
  void visit_binary(const BinaryNode& n) override {
    Expr e = binary(n.op, n.a, n.b);
    if (!is_quotient_of(e, var_, dims_)) return Visitor::visit_binary(n);
    for (const Expr& f : found) {
      if (equal(f, e)) return;
    }
    found.push_back(e);
  }

 private:
  Expr var_;
  const Dims& dims_;
};

class Replacer : public Mutator {
 public:
  Replacer(const std::vector<Expr>& from, const std::vector<Var>& to) : from_(from), to_(to) {}

 protected:
  Expr mutate_binary(const BinaryNode& n, const Expr& e) override {
    for (size_t i = 0; i < from_.size(); ++i) {
      if (equal(from_[i], e)) return to_[i];
    }
    return Mutator::mutate_binary(n, e);
  }

 private:
  const std::vector<Expr>& from_;
  const std::vector<Var>& to_;
};

class Namer : public Mutator {
 public:
  explicit Namer(const std::vector<DimVar>& dims) {
    for (const DimVar& d : dims) dims_.insert(d.var.get());
  }

 protected:
  Stmt mutate_for(const ForNode& n, const Stmt& s) override {
    if (n.for_kind != ForKind::Parallel) return Mutator::mutate_for(n, s);
    Collector collector(n.var, dims_);
    collector(n.body);
    if (collector.found.empty()) return s;
    std::vector<Var> names;
    for (size_t i = 0; i < collector.found.size(); ++i) {
      names.emplace_back(fmt::format("{}_{}", n.var.name(), i));
    }
    Stmt body = Replacer(collector.found, names)(n.body);
    for (size_t i = names.size(); i-- > 0;) body = make_let(names[i], collector.found[i], body);
    return make_for(n.var, n.min, n.extent, n.for_kind, body, n.annotations);
  }

 private:
  Dims dims_;
};

}  // namespace

Program name_fused_indices(const Program& program) {
  Program result = program;
  result.body = Namer(program.dims)(program.body);
  return result;
}

}  // namespace tilewright
