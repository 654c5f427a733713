// Separates the iterations in which a condition always holds from those in which it does not.
#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "codegen/lowering.h"
#include "codegen/passes/guards.h"
#include "ir/arith/simplify.h"
#include "ir/compare.h"
#include "ir/visitor.h"

namespace tilewright {
namespace {

constexpr int kMostPieces = 3;

int64_t floor_div(int64_t a, int64_t b) {
  int64_t q = a / b;
  return q * b != a && (a < 0) != (b < 0) ? q - 1 : q;
}

// A comparison under a loop over v: `slope * (v + outer) + inner < 0`. The surrounding loops add
// `outer` to v (undefined: nothing); `inner` varies with the loops inside.
struct Inequality {
  Expr condition;
  int64_t slope;
  Expr outer, inner;
  Interval inner_range;
};

// Collects the comparisons that guard statements under a loop and are best decided there; `terms`: those
// that choose between the lanes of a value, too, as in a reduction whose last vector is not whole.
// Comparisons that a spatial loop further inside takes part in are left out.
class Conditions : public Visitor {
 public:
  Conditions(Expr var, Interval range, bool terms, Analyzer& known)
      : var_(std::move(var)), terms_(terms), known_(known) {
    known_.push();
    known_.bind(var_, range);
  }
  ~Conditions() override { known_.pop(); }
  std::vector<Inequality> found;

 protected:
  void visit_for(const ForNode& n) override {
    bool later = n.for_kind == ForKind::Serial && !carries_reduction(n.var, n.body);
    inside(n.var, later, [&] {
      known_.bind(n.var, n.min, n.extent);
      if (n.for_kind == ForKind::Vectorized) lanes_.push_back(n.var);
      Visitor::visit_for(n);
      if (n.for_kind == ForKind::Vectorized) lanes_.pop_back();
    });
  }
  void visit_let(const LetNode& n) override {
    inside(n.var, true, [&] {
      known_.bind(n.var, known_.bounds(n.value));
      Visitor::visit_let(n);
    });
  }
  void visit_if(const IfNode& n) override {
    collect(n.cond);
    Visitor::visit_if(n);
  }
  void visit_select(const SelectNode& n) override {
    const auto chooses = [&](const Expr& lane) { return uses_var(n.cond, lane); };
    if (terms_ && std::ranges::any_of(lanes_, chooses)) collect(n.cond);
    Visitor::visit_select(n);
  }

 private:
  template <class F>
  void inside(const Expr& var, bool later, F&& visit) {
    known_.push();
    inner_.push_back(var);
    if (later) later_.push_back(var);
    visit();
    if (later) later_.pop_back();
    inner_.pop_back();
    known_.pop();
  }

  void collect(const Expr& cond) {
    auto* n = cond.as<BinaryNode>();
    if (!n) return;
    if (n->op == BinaryOp::And || n->op == BinaryOp::Or) {
      collect(n->a);
      collect(n->b);
      return;
    }
    Expr difference = below_zero(cond);
    if (!difference.defined() || !uses_var(cond, var_)) return;
    for (const Expr& l : later_) {
      if (uses_var(cond, l)) return;
    }
    add(cond, difference);
  }

  void add(const Expr& cond, const Expr& difference) {
    VarMap next{{var_.get(), var_ + 1}};
    auto slope = as_int(known_.simplify(substitute(difference, next) - difference));
    if (!slope || *slope == 0) return;
    Expr rest = known_.simplify(substitute(difference, VarMap{{var_.get(), Expr(0)}}));
    VarMap no_inner, nothing;
    for (const Expr& v : inner_) no_inner[v.get()] = 0;
    Expr around = simplify(substitute(rest, no_inner));
    for_each_expr(around, [&](const Expr& e) {
      if (e.as<VarNode>()) nothing[e.get()] = 0;
    });
    auto constant = as_int(simplify(substitute(around, nothing)));
    if (!constant) return;
    Inequality q{cond, *slope, {}, {}, {}};
    Expr linear = simplify(around - Expr(*constant));
    if (!is_int(linear, 0)) {
      q.outer = simplify(floordiv(linear, *slope));
      if (!is_int(simplify(q.outer * Expr(*slope) - linear), 0)) return;
    }
    q.inner = known_.simplify(rest - linear);
    q.inner_range = known_.bounds(q.inner);
    if (q.inner_range.is_bounded()) found.push_back(std::move(q));
  }

  Expr var_;
  bool terms_;
  Analyzer& known_;
  std::vector<Expr> inner_, later_, lanes_;
};

// Puts every let inside the stages that it spans, so that the stages can be told apart.
class SinkLets : public Mutator {
 protected:
  Stmt mutate_let(const LetNode& n, const Stmt&) override { return sink(n, mutate(n.body)); }

 private:
  static Stmt sink(const LetNode& n, const Stmt& body) {
    if (auto* a = body.as<AllocateNode>()) return make_allocate(a->buffer, sink(n, a->body));
    auto* seq = body.as<SeqNode>();
    if (!seq) return make_let(n.var, n.value, body);
    std::vector<Stmt> stages;
    for (const Stmt& stage : seq->stmts) stages.push_back(make_let(n.var, n.value, stage));
    return make_seq(std::move(stages));
  }
};

// Neighbouring lets of one name and value as one.
Stmt join_lets(const std::vector<Stmt>& stmts) {
  std::vector<Stmt> joined;
  for (const Stmt& s : stmts) {
    auto* let = s.as<LetNode>();
    auto* last = joined.empty() ? nullptr : joined.back().as<LetNode>();
    if (let && last && let->var.same_as(last->var) && equal(let->value, last->value)) {
      joined.back() = make_let(let->var, let->value, make_seq({last->body, let->body}));
    } else {
      joined.push_back(s);
    }
  }
  return make_seq(std::move(joined));
}

// Undoes SinkLets where stages stayed together, and drops names that no stage uses.
class JoinLets : public Mutator {
 protected:
  Stmt mutate_seq(const SeqNode& n, const Stmt&) override {
    const Stmt joined = join_lets(n.stmts);
    auto* seq = joined.as<SeqNode>();
    return seq ? Mutator::mutate_seq(*seq, joined) : mutate(joined);
  }
  Stmt mutate_let(const LetNode& n, const Stmt& s) override {
    bool used = false;
    for_each_expr(n.body, [&](const Expr& e) { used |= e.same_as(n.var); });
    return used ? Mutator::mutate_let(n, s) : mutate(n.body);
  }
};

// The values at which an inequality starts or stops to hold, for all or for some inner values.
void add_cuts(const Inequality& q, std::set<int64_t>& cuts) {
  for (int64_t rest : {q.inner_range.max, q.inner_range.min}) {
    // slope > 0: holds up to floor((-rest - 1) / slope); slope < 0: holds from one past a floor.
    cuts.insert(q.slope > 0 ? floor_div(-rest - 1, q.slope) + 1 : floor_div(rest, -q.slope) + 1);
  }
}

// The places at which inequalities cut the range of a variable, and of each tile that it selects with the loops around it.
struct Division {
  std::set<int64_t> cuts;
  std::vector<std::pair<Expr, std::set<int64_t>>> of_tiles;

  explicit Division(const std::vector<Inequality>& found) {
    for (const Inequality& q : found) {
      if (!q.outer.defined()) {
        add_cuts(q, cuts);
        continue;
      }
      auto tile = std::ranges::find_if(of_tiles, [&](auto& t) { return equal(t.first, q.outer); });
      if (tile == of_tiles.end()) tile = of_tiles.insert(tile, {q.outer, {}});
      add_cuts(q, tile->second);
    }
  }
  bool operator==(const Division& other) const {
    return cuts == other.cuts &&
           std::ranges::equal(of_tiles, other.of_tiles, [](const auto& a, const auto& b) {
             return equal(a.first, b.first) && a.second == b.second;
           });
  }
};

class Partitioner : public Mutator {
 public:
  explicit Partitioner(const std::vector<DimVar>& dims) {
    for (const DimVar& d : dims) known_.bind(d.var, Interval{d.min, d.max});
  }

 protected:
  Stmt mutate_for(const ForNode& n, const Stmt& s) override {
    auto min = as_int(n.min), extent = as_int(n.extent);
    bool divisible = n.for_kind == ForKind::Serial || n.for_kind == ForKind::Parallel;
    if (!min || !extent || *extent < 1 || !divisible) return descend(n, s);
    Interval range{*min, *min + *extent - 1};
    const bool reduces = carries_reduction(n.var, n.body);
    std::vector<Inequality> found = conditions(n.var, range, n.body, reduces);
    if (n.for_kind == ForKind::Serial) {
      std::vector<int64_t> edges = edges_of(found, range);
      if (edges.size() > 2) return pieces(n, edges);
      if (!has_composite(found) || reduces) return descend(n, s);
    } else if (found.empty()) {
      return descend(n, s);
    }
    Stmt body = by_stage(n.var, range, n.body);
    return body.defined() ? make_for(n.var, n.min, n.extent, n.for_kind, body, n.annotations)
                          : body;
  }

  Stmt mutate_let(const LetNode& n, const Stmt& s) override {
    Interval range = known_.bounds(n.value);
    Stmt body = range.is_bounded() ? by_stage(n.var, range, n.body) : piece(n.var, range, n.body);
    if (body.same_as(n.body)) return s;
    return body.defined() ? make_let(n.var, n.value, body) : body;
  }

  Stmt mutate_seq(const SeqNode& n, const Stmt&) override {
    const Stmt joined = join_lets(n.stmts);
    auto* seq = joined.as<SeqNode>();
    return seq ? Mutator::mutate_seq(*seq, joined) : mutate(joined);
  }

 private:
  Stmt descend(const ForNode& n, const Stmt& s) {
    known_.push();
    known_.bind(n.var, n.min, n.extent);
    Stmt result = Mutator::mutate_for(n, s);
    known_.pop();
    return result;
  }

  std::vector<Inequality> conditions(const Expr& var, Interval range, const Stmt& body,
                                     bool terms) {
    Conditions conditions(var, range, terms, known_);
    conditions(body);
    return std::move(conditions.found);
  }

  static bool has_composite(const std::vector<Inequality>& found) {
    return std::any_of(found.begin(), found.end(),
                       [](const Inequality& q) { return q.outer.defined(); });
  }

  // Neighbouring stages share branches where the variable divides them alike. Others have their own: each
  // branch of one would hold a copy of the others.
  Stmt by_stage(const Expr& var, Interval range, const Stmt& body) {
    if (auto* a = body.as<AllocateNode>()) {
      Stmt inside = by_stage(var, range, a->body);
      return inside.defined() ? make_allocate(a->buffer, inside) : inside;
    }
    auto* seq = body.as<SeqNode>();
    if (!seq) return branched(var, range, body);
    std::vector<Stmt> groups, group;
    std::optional<Division> last;
    for (const Stmt& stage : seq->stmts) {
      Division division(conditions(var, range, stage, false));
      if (last && !(division == *last)) {
        groups.push_back(branched(var, range, make_seq(std::exchange(group, {}))));
      }
      last = std::move(division);
      group.push_back(stage);
    }
    groups.push_back(branched(var, range, make_seq(std::move(group))));
    return make_seq(std::move(groups));
  }

  // Decides what a variable decides, where it does not change: by branches.
  Stmt branched(const Expr& var, Interval range, const Stmt& body) {
    std::vector<Inequality> found = conditions(var, range, body, false);
    std::vector<int64_t> edges = edges_of(found, range);
    if (edges.size() > 2) return branches(var, edges, body);
    if (!has_composite(found)) return piece(var, range, body);
    known_.push();
    known_.bind(var, range);
    Stmt result = by_tile(var, found, body);
    known_.pop();
    return result;
  }

  // One loop per piece.
  Stmt pieces(const ForNode& n, const std::vector<int64_t>& edges) {
    std::vector<Stmt> parts;
    for (size_t i = 0; i + 1 < edges.size(); ++i) {
      Interval range{edges[i], edges[i + 1] - 1};
      Var var(n.var.name(), n.var.type());
      VarMap map{{n.var.get(), range.is_point() ? Expr(range.min) : Expr(var)}};
      Stmt body = piece(var, range, substitute(n.body, map));
      if (!body.defined()) continue;
      parts.push_back(range.is_point() ? body
                                       : make_for(var, range.min, range.max - range.min + 1,
                                                  n.for_kind, body, n.annotations));
    }
    return make_seq(std::move(parts));
  }

  // Names the tile, which the surrounding loops and this one select together, and branches on it.
  Stmt by_tile(const Expr& var, const std::vector<Inequality>& found, const Stmt& body) {
    auto first = std::find_if(found.begin(), found.end(),
                              [](const Inequality& q) { return q.outer.defined(); });
    Expr index = simplify(var + first->outer);
    Var tile(Var(var).name() + "_tile");
    std::map<const ExprNode*, Expr> replaced;
    std::vector<Inequality> same, rest;
    for (const Inequality& q : found) {
      if (!q.outer.defined()) continue;
      if (!equal(q.outer, first->outer)) {
        rest.push_back(q);
        continue;
      }
      replaced[q.condition.get()] = tile * Expr(q.slope) + q.inner < Expr(0);
      same.push_back(q);
      same.back().outer = {};
    }
    Interval range = known_.bounds(index);
    if (!range.is_bounded()) return piece(var, known_.bounds(var), body);
    Stmt named = ReplaceConditions(std::move(replaced))(body);
    if (!rest.empty()) named = by_tile(var, rest, named);
    if (!named.defined()) return named;
    std::vector<int64_t> edges = edges_of(same, range);
    Stmt inside = edges.size() > 2 ? branches(tile, edges, named) : piece(tile, range, named);
    return inside.defined() ? make_let(tile, index, inside) : inside;
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
  static std::vector<int64_t> edges_of(const std::vector<Inequality>& found, Interval range) {
    std::set<int64_t> cuts;
    for (const Inequality& q : found) {
      if (!q.outer.defined()) add_cuts(q, cuts);
    }
    std::vector<int64_t> edges = {range.min};
    for (int64_t c : cuts) {
      if (c > range.min && c <= range.max) edges.push_back(c);
    }
    edges.push_back(range.max + 1);
    // Many cuts mean many copies of the body: join the shortest neighbouring pieces.
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
    edges.erase(edges.begin() + static_cast<long>(best) + 1);
  }

  Analyzer known_;
};

}  // namespace

Program partition_loops(const Program& program) {
  Program result = program;
  result.body = Partitioner(program.dims)(SinkLets()(program.body));
  if (result.body.defined()) result.body = JoinLets()(result.body);
  if (!result.body.defined()) throw LoweringError("the program does nothing");
  return result;
}

}  // namespace tilewright
