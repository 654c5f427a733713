// Splits loops where a condition inside changes from always true to sometimes true.
#include <algorithm>
#include <optional>
#include <set>

#include "codegen/lowering.h"
#include "ir/simplify.h"
#include "ir/visitor.h"

namespace tilewright {
namespace {

constexpr int kMostPieces = 3;

int64_t floor_div(int64_t a, int64_t b) {
  int64_t q = a / b;
  return q * b != a && (a < 0) != (b < 0) ? q - 1 : q;
}

// `slope * v + rest < 0` with rest in [rest.min, rest.max].
struct Inequality {
  int64_t slope;
  Interval rest;
};

// All comparisons that guard statements (or select values) under a loop, with the ranges of the
// variables that are bound inside it.
class Conditions : public Visitor {
 public:
  Conditions(Expr var, Interval range, Analyzer& known) : var_(std::move(var)), known_(known) {
    known_.push();
    known_.bind(var_, range);
  }
  ~Conditions() override { known_.pop(); }
  std::vector<Inequality> found;

 protected:
  void visit_for(const ForNode& n) override {
    known_.push();
    known_.bind(n.var, n.min, n.extent);
    Visitor::visit_for(n);
    known_.pop();
  }
  void visit_let(const LetNode& n) override {
    known_.push();
    known_.bind(n.var, known_.bounds(n.value));
    Visitor::visit_let(n);
    known_.pop();
  }
  void visit_if(const IfNode& n) override {
    collect(n.cond);
    Visitor::visit_if(n);
  }
  void visit_select(const SelectNode& n) override {
    collect(n.cond);
    Visitor::visit_select(n);
  }

 private:
  void collect(const Expr& cond) {
    auto* n = cond.as<BinaryNode>();
    if (!n) return;
    if (n->op == BinaryOp::And || n->op == BinaryOp::Or) {
      collect(n->a);
      collect(n->b);
      return;
    }
    if (n->a.type() != Type(ElemType::index)) return;
    switch (n->op) {
      case BinaryOp::LT: return add(n->a - n->b);
      case BinaryOp::LE: return add(n->a - n->b - 1);
      case BinaryOp::GT: return add(n->b - n->a);
      case BinaryOp::GE: return add(n->b - n->a - 1);
      default: return;
    }
  }

  void add(const Expr& below_zero) {
    VarMap next{{var_.get(), var_ + 1}};
    auto slope = as_int(known_.simplify(substitute(below_zero, next) - below_zero));
    if (!slope || *slope == 0) return;
    VarMap zero{{var_.get(), Expr(0)}};
    Interval rest = known_.bounds(known_.simplify(substitute(below_zero, zero)));
    if (rest.is_bounded()) found.push_back({*slope, rest});
  }

  Expr var_;
  Analyzer& known_;
};

// The values of v at which an inequality starts or stops to hold for sure, or for some.
void add_cuts(const Inequality& q, std::set<int64_t>& cuts) {
  for (int64_t rest : {q.rest.max, q.rest.min}) {
    // slope > 0: holds up to floor((-rest - 1) / slope); slope < 0: holds from ceil.
    if (q.slope > 0) {
      cuts.insert(floor_div(-rest - 1, q.slope) + 1);
    } else {
      cuts.insert(floor_div(rest, -q.slope) + 1);
    }
  }
}

class Partitioner : public Mutator {
 protected:
  Stmt mutate_for(const ForNode& n, const Stmt& s) override {
    auto min = as_int(n.min), extent = as_int(n.extent);
    bool divisible = n.for_kind == ForKind::Serial || n.for_kind == ForKind::Parallel;
    if (!min || !extent || !divisible) return descend(n, s);
    std::vector<int64_t> edges = cut(n.var, {*min, *min + *extent - 1}, n.body);
    if (edges.size() <= 2) return descend(n, s);
    if (n.for_kind == ForKind::Parallel) {
      Stmt body = branches(n.var, edges, n.body);
      return make_for(n.var, n.min, n.extent, n.for_kind, body, n.annotations);
    }
    std::vector<Stmt> pieces;
    for (size_t i = 0; i + 1 < edges.size(); ++i) {
      Interval range{edges[i], edges[i + 1] - 1};
      Var var(n.var.name(), n.var.type());
      VarMap map{{n.var.get(), range.is_point() ? Expr(range.min) : Expr(var)}};
      Stmt body = piece(var, range, substitute(n.body, map));
      if (!body.defined()) continue;
      pieces.push_back(range.is_point() ? body
                                        : make_for(var, range.min, range.max - range.min + 1,
                                                   n.for_kind, body, n.annotations));
    }
    return make_seq(std::move(pieces));
  }

  Stmt mutate_let(const LetNode& n, const Stmt& s) override {
    Interval range = known_.bounds(n.value);
    std::vector<int64_t> edges;
    if (range.is_bounded()) edges = cut(n.var, range, n.body);
    Stmt body = edges.size() > 2 ? branches(n.var, edges, n.body) : piece(n.var, range, n.body);
    if (body.same_as(n.body)) return s;
    return body.defined() ? make_let(n.var, n.value, body) : body;
  }

 private:
  Stmt descend(const ForNode& n, const Stmt& s) {
    known_.push();
    known_.bind(n.var, n.min, n.extent);
    Stmt result = Mutator::mutate_for(n, s);
    known_.pop();
    return result;
  }

  // Simplifies and partitions a body in which var has the given range.
  Stmt piece(const Expr& var, Interval range, const Stmt& body) {
    known_.push();
    known_.bind(var, range);
    Stmt result = mutate(simplify(body, known_));
    known_.pop();
    return result;
  }

  // if v < edge_1 { … } else if v < edge_2 { … } …; v is a constant in pieces of one value.
  Stmt branches(const Expr& var, const std::vector<int64_t>& edges, const Stmt& body) {
    Stmt chain;
    for (size_t i = edges.size() - 1; i-- > 0;) {
      Interval range{edges[i], edges[i + 1] - 1};
      VarMap map{{var.get(), range.is_point() ? Expr(range.min) : var}};
      Stmt part = piece(var, range, substitute(body, map));
      if (i + 2 == edges.size()) {
        chain = part;
      } else if (part.defined()) {
        chain = make_if(var < Expr(edges[i + 1]), part, chain);
      } else if (chain.defined()) {
        chain = make_if(var >= Expr(edges[i + 1]), chain);
      }
    }
    return chain;
  }

  // The edges of the pieces of a range: first value, cuts, one past the last.
  std::vector<int64_t> cut(const Expr& var, Interval range, const Stmt& body) {
    Conditions conditions(var, range, known_);
    conditions(body);
    std::set<int64_t> cuts;
    for (const Inequality& q : conditions.found) add_cuts(q, cuts);
    std::vector<int64_t> edges = {range.min};
    for (int64_t c : cuts) {
      if (c > range.min && c <= range.max) edges.push_back(c);
    }
    edges.push_back(range.max + 1);
    // Many cuts mean many copies of the body: keep the longest piece whole, join the others.
    while (static_cast<int>(edges.size()) - 1 > kMostPieces) join_shortest(edges);
    return edges;
  }

  static void join_shortest(std::vector<int64_t>& edges) {
    size_t best = 0;
    int64_t shortest = INT64_MAX;
    for (size_t i = 0; i + 2 < edges.size(); ++i) {
      int64_t joined = edges[i + 2] - edges[i];
      if (joined < shortest) {
        shortest = joined;
        best = i;
      }
    }
    edges.erase(edges.begin() + best + 1);
  }

  Analyzer known_;
};

}  // namespace

Program partition_loops(const Program& program) {
  Program result = program;
  result.body = Partitioner()(program.body);
  if (!result.body.defined()) throw LoweringError("the program does nothing");
  return result;
}

}  // namespace tilewright
