// Turns terms of a sum into branches where a condition on the loops alone makes them zero (padding,
// the holes of a transposed convolution). The branches move outwards as far as they can. oneDNN's
// direct convolutions do this by hand at borders.
#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <tuple>

#include "codegen/lowering.h"
#include "ir/compare.h"
#include "ir/predicates.h"
#include "ir/visitor.h"

namespace tilewright {
namespace {

using Conjuncts = std::vector<Expr>;

Expr join(const Conjuncts& list) {
  Expr all;
  for (const Expr& e : list) all = conjunction(all, e);
  return all;
}

bool holds(const Conjuncts& list, const Expr& e) {
  return std::any_of(list.begin(), list.end(), [&](const Expr& x) { return equal(x, e); });
}

Conjuncts common(const Conjuncts& a, const Conjuncts& b) {
  Conjuncts both;
  std::copy_if(a.begin(), a.end(), std::back_inserter(both),
               [&](const Expr& e) { return holds(b, e); });
  return both;
}

// The conditions of an if without else; none for other statements.
Conjuncts conditions(const Stmt& s) {
  auto* n = s.as<IfNode>();
  return n && !n->else_case.defined() ? conjuncts(n->cond) : Conjuncts{};
}

// `s`, an if, without those of its conditions that are known to hold.
Stmt without(const Stmt& s, const Conjuncts& known) {
  Conjuncts rest;
  for (const Expr& e : conditions(s)) {
    if (!holds(known, e)) rest.push_back(e);
  }
  auto* n = s.as<IfNode>();
  return rest.empty() ? n->then_case : make_if(join(rest), n->then_case);
}

// A factor "select(cond, value, 0)" with one condition for all lanes, which depends on the loops
// alone. Branches on data would be unpredictable, and could not be moved. The value may be the same
// in all lanes, or converted.
struct Guarded {
  Expr cond, value;
};

Guarded guarded(const Expr& factor) {
  if (auto* b = factor.as<BroadcastNode>()) {
    Guarded inner = guarded(b->value);
    if (inner.cond.defined()) inner.value = broadcast(inner.value, factor.type().lanes);
    return inner;
  }
  if (auto* c = factor.as<CastNode>()) {
    Guarded inner = guarded(c->value);
    if (inner.cond.defined()) inner.value = cast(factor.type(), inner.value);
    return inner;
  }
  auto* n = factor.as<SelectNode>();
  if (!n || !is_zero(n->on_false)) return {};
  Expr cond = n->cond;
  if (auto* b = cond.as<BroadcastNode>()) cond = b->value;
  if (!cond.type().is_scalar() || reads_memory(cond)) return {};
  return {cond, n->on_true};
}

bool same_mask(const LoadNode& load, const StoreNode& store) {
  bool masked = load.predicate.defined();
  return masked == store.predicate.defined() && (!masked || equal(load.predicate, store.predicate));
}

// Lanes [begin, end) of a buffer that one statement adds to.
struct SumLanes {
  const BufferNode* buffer;
  int64_t begin, end;
  bool operator<(const SumLanes& o) const {
    return std::tie(buffer, begin, end) < std::tie(o.buffer, o.begin, o.end);
  }
  bool overlaps(const SumLanes& o) const {
    return buffer == o.buffer && begin < o.end && o.begin < end;
  }
};

// The constant place that a store, or an if around it, changes; empty for other statements, and where it
// reads another place of the `written` buffers.
std::optional<SumLanes> place_of(const Stmt& s, const std::set<const BufferNode*>& written) {
  auto* n = s.as<IfNode>();
  auto* store = (n && !n->else_case.defined() ? n->then_case : s).as<StoreNode>();
  if (!store || store->is_async) return {};
  const Expr& index = store->indices[0];
  auto* ramp = index.as<RampNode>();
  const auto begin = as_int(ramp ? ramp->base : index);
  if (!begin || (ramp && !is_int(ramp->stride, 1))) return {};
  bool reads_others = false;
  for_each_expr(s, [&](const Expr& e) {
    auto* load = e.as<LoadNode>();
    if (load == nullptr || written.count(load->buffer.get()) == 0) return;
    reads_others |= load->buffer != store->buffer || !equal(load->indices[0], index);
  });
  if (reads_others) return {};
  return SumLanes{store->buffer.get(), *begin, *begin + index.type().lanes};
}

// The places of statements that may change their order where they add to different places; empty if
// some may not.
std::vector<SumLanes> places_of(const std::vector<Stmt>& stmts) {
  std::set<const BufferNode*> written;
  for (const Stmt& s : stmts) {
    for_each_stmt(s, [&](const Stmt& inner) {
      if (auto* store = inner.as<StoreNode>()) written.insert(store->buffer.get());
    });
  }
  std::vector<SumLanes> places;
  for (const Stmt& s : stmts) {
    const auto place = place_of(s, written);
    if (!place) return {};
    places.push_back(*place);
  }
  const std::set<SumLanes> known(places.begin(), places.end());
  const auto overlap = [](const SumLanes& a, const SumLanes& b) { return a.overlaps(b); };
  if (std::ranges::adjacent_find(known, overlap) != known.end()) return {};
  return places;
}

class ZeroTermSkipper : public Mutator {
 protected:
  // sum = sum + select(c, a, 0) * b  ->  if (c) sum = sum + a * b
  Stmt mutate_store(const StoreNode& n, const Stmt& s) override {
    auto* sum = n.value.as<BinaryNode>();
    if (!sum || sum->op != BinaryOp::Add) return s;
    auto* old = sum->a.as<LoadNode>();
    auto* term = sum->b.as<BinaryNode>();
    bool accumulates = old && term && term->op == BinaryOp::Mul && old->buffer == n.buffer &&
                       equal(old->indices[0], n.indices[0]) && same_mask(*old, n) && !n.is_async;
    if (!accumulates) return s;
    Guarded a = guarded(term->a), b = guarded(term->b);
    Expr cond = conjunction(a.cond, b.cond);
    if (!cond.defined()) return s;
    Expr product = (a.cond.defined() ? a.value : term->a) * (b.cond.defined() ? b.value : term->b);
    return make_if(cond, make_store(n.buffer, n.indices, sum->a + product, n.predicate));
  }

  Stmt mutate_seq(const SeqNode& n, const Stmt& s) override {
    std::vector<Stmt> done;
    bool changed = false;
    for (const Stmt& child : n.stmts) {
      done.push_back(mutate(child));
      changed |= !done.back().same_as(child);
    }
    return changed ? group(gathered(done)) : s;
  }

  // for (i) if (c) …  ->  if (c) for (i) …, where c does not depend on i.
  Stmt mutate_for(const ForNode& n, const Stmt& s) override {
    Stmt loop = Mutator::mutate_for(n, s);
    auto* now = loop.as<ForNode>();
    if (!now || now->for_kind != ForKind::Serial) return loop;
    Conjuncts out;
    for (const Expr& e : conditions(now->body)) {
      if (!uses_var(e, now->var) && !reads_memory(e)) out.push_back(e);
    }
    if (out.empty()) return loop;
    Stmt inner = make_for(now->var, now->min, now->extent, now->for_kind, without(now->body, out),
                          now->annotations);
    return make_if(join(out), inner);
  }

 private:
  // Conditions that stores between two statements do not change.
  static Conjuncts movable(const Stmt& s) {
    Conjuncts list = conditions(s);
    std::erase_if(list, reads_memory);  // from ifs that stood here before
    return list;
  }

  // Statements of the same conditions side by side, each no earlier than others that add to its place: sums
  // keep their order. An unrolled loop then has a branch for each condition and not for each copy,
  // whose loads and conversions the compiler shares.
  static std::vector<Stmt> gathered(const std::vector<Stmt>& stmts) {
    if (!has_short_branches(stmts)) return stmts;
    const std::vector<SumLanes> places = places_of(stmts);
    if (places.empty()) return stmts;
    struct Group {
      Conjuncts conditions;
      std::vector<Stmt> stmts;
    };
    std::vector<Group> groups;
    std::map<SumLanes, size_t> last;  // group that adds to a place
    for (size_t i = 0; i < stmts.size(); ++i) {
      const Conjuncts own = movable(stmts[i]);
      size_t& at = last[places[i]];
      while (at < groups.size() && !same_conditions(groups[at].conditions, own)) ++at;
      if (at == groups.size()) groups.push_back({own, {}});
      groups[at].stmts.push_back(stmts[i]);
    }
    std::vector<Stmt> result;
    for (const Group& g : groups) result.insert(result.end(), g.stmts.begin(), g.stmts.end());
    return result;
  }

  // Whether branches around neighbours of the same conditions would hold few statements.
  static bool has_short_branches(const std::vector<Stmt>& stmts) {
    constexpr size_t kFewStatements = 4;
    size_t branches = 0, inside = 0;
    Conjuncts last;
    for (const Stmt& s : stmts) {
      Conjuncts own = movable(s);
      if (!own.empty()) ++inside;
      if (!own.empty() && !same_conditions(own, last)) ++branches;
      last = std::move(own);
    }
    return inside < kFewStatements * branches;
  }

  static bool same_conditions(const Conjuncts& a, const Conjuncts& b) {
    return a.size() == b.size() && common(a, b).size() == a.size();
  }

  // Neighbouring statements share their common conditions.
  static Stmt group(const std::vector<Stmt>& stmts) {
    std::vector<Stmt> result;
    for (size_t i = 0; i < stmts.size();) {
      Conjuncts shared = movable(stmts[i]);
      size_t end = i + 1;
      for (; end < stmts.size(); ++end) {
        Conjuncts still = common(shared, movable(stmts[end]));
        if (still.empty()) break;
        shared = still;
      }
      if (end == i + 1) {
        result.push_back(stmts[i++]);
        continue;
      }
      std::vector<Stmt> run;
      for (; i < end; ++i) run.push_back(without(stmts[i], shared));
      // A statement freed of one condition may share others with its neighbours.
      result.push_back(make_if(join(shared), group(run)));
    }
    return make_seq(std::move(result));
  }
};

}  // namespace

Program skip_zero_terms(const Program& program) {
  Program result = program;
  result.body = ZeroTermSkipper()(program.body);
  return result;
}

}  // namespace tilewright
