#include "schedule/init_order.h"

#include <algorithm>
#include <iterator>
#include <set>

#include <fmt/core.h>

#include "ir/visitor.h"
#include "schedule/tree.h"

namespace tilewright {
namespace {

using Vars = std::set<const ExprNode*>;

Vars vars_in(const Expr& e) {
  Vars vars;
  for_each_expr(e, [&](const Expr& x) {
    if (x.as<VarNode>()) vars.insert(x.get());
  });
  return vars;
}

bool meet(const Vars& a, const Vars& b) {
  return std::any_of(a.begin(), a.end(), [&](const ExprNode* var) { return b.count(var) > 0; });
}

// The variables in bindings of both kinds, and those that share a binding or a condition with them,
// directly or through others.
Vars entangled(const BlockNode& block) {
  Vars spatial, reduce, found;
  std::vector<Vars> links;
  for (const IterVar& iter : block.iters) {
    links.push_back(vars_in(iter.binding));
    Vars& of_kind = iter.kind == IterKind::Reduce ? reduce : spatial;
    of_kind.insert(links.back().begin(), links.back().end());
  }
  if (block.predicate.defined()) {
    for (const Expr& condition : conjuncts(block.predicate)) links.push_back(vars_in(condition));
  }
  std::set_intersection(spatial.begin(), spatial.end(), reduce.begin(), reduce.end(),
                        std::inserter(found, found.end()));
  for (size_t before = 0; before != found.size();) {
    before = found.size();
    for (const Vars& link : links) {
      if (meet(link, found)) found.insert(link.begin(), link.end());
    }
  }
  return found;
}

std::vector<Stmt> those_of(const std::vector<Stmt>& loops, const Vars& vars) {
  std::vector<Stmt> found;
  std::copy_if(loops.begin(), loops.end(), std::back_inserter(found),
               [&](const Stmt& s) { return vars.count(loop_of(s).var.get()) > 0; });
  return found;
}

}  // namespace

void require_init_first(const Tree& tree, const std::vector<Stmt>& loops,
                        const std::vector<Stmt>& order) {
  for (const Stmt& s : child_blocks(loops.front())) {
    const BlockNode& block = *s.as<BlockNode>();
    if (!block.init.defined()) continue;
    Vars vars = entangled(block);
    std::vector<Stmt> before = those_of(loops, vars), after = those_of(order, vars);
    auto moved = std::mismatch(before.begin(), before.end(), after.begin(),
                               [](const Stmt& a, const Stmt& b) { return a.same_as(b); });
    if (moved.first == before.end()) continue;
    tree.refuse(RefusalKind::Dependence,
                fmt::format("loop '{}' would come outside of loop '{}', and which iteration of "
                            "block '{}' is the first of an element, and runs the init, depends on "
                            "their order, for spatial and reduce loops were fused; decompose the "
                            "reduction before that, or keep the order",
                            loop_of(*moved.second).var.name(), loop_of(*moved.first).var.name(),
                            block.name),
                {*moved.first, *moved.second, s});
  }
}

}  // namespace tilewright
