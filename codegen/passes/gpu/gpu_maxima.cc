// Takes factors out of maxima (scale_maxima).
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "codegen/cuda_lowering.h"
#include "codegen/statements.h"
#include "ir/compare.h"
#include "ir/visitor.h"

namespace tilewright {
namespace {

bool is_lowest(const Expr& e) {
  auto* n = e.as<FloatImmNode>();
  return n && std::isinf(n->value) && n->value < 0;
}

// A value and its positive factor.
struct Scaled {
  Expr value, factor;
};

// `e` as a product with a positive number, also under a mask whose other side is the lowest number.
std::optional<Scaled> scaled(const Expr& e) {
  if (auto* n = e.as<SelectNode>()) {
    auto inside = is_lowest(n->on_false) ? scaled(n->on_true) : std::nullopt;
    if (inside) inside->value = select(n->cond, inside->value, n->on_false);
    return inside;
  }
  auto* call_node = e.as<CallNode>();
  if (call_node && call_node->op == CallOp::IfThenElse) {
    const std::vector<Expr>& args = call_node->args;
    auto inside = is_lowest(args[2]) ? scaled(args[1]) : std::nullopt;
    if (inside) {
      inside->value = call(e.type().elem, CallOp::IfThenElse, {args[0], inside->value, args[2]});
    }
    return inside;
  }
  auto* product = e.as<BinaryNode>();
  if (!product || product->op != BinaryOp::Mul || product->type != Type(ElemType::f32)) {
    return std::nullopt;
  }
  auto* factor = product->b.as<FloatImmNode>();
  if (!factor || !(factor->value > 0) || std::isinf(factor->value)) return std::nullopt;
  return Scaled{product->a, product->b};
}

// The only statement in a nest of loops; undefined where there are others.
Stmt innermost(const Stmt& s) {
  auto* loop = s.as<ForNode>();
  if (!loop) return s;
  return loop->for_kind == ForKind::Serial || loop->for_kind == ForKind::Unrolled
             ? innermost(loop->body)
             : Stmt();
}

Stmt with_innermost(const Stmt& s, const Stmt& inner) {
  auto* n = s.as<ForNode>();
  return n ? make_for(n->var, n->min, n->extent, n->for_kind, with_innermost(n->body, inner),
                      n->annotations)
           : inner;
}

class Rewriter : public Mutator {
 protected:
  Stmt mutate_seq(const SeqNode& n, const Stmt& s) override {
    std::vector<Stmt> stmts;
    for (size_t i = 0; i < n.stmts.size(); ++i) {
      const Stmt child = mutate(n.stmts[i]);
      if (i > 0 && take_out(n.stmts[i - 1], child, stmts)) continue;
      stmts.push_back(child);
    }
    return make_seq(std::move(stmts));
  }

 private:
  // Adds the nest without its factor, and the product behind it.
  static bool take_out(const Stmt& before, const Stmt& nest, std::vector<Stmt>& stmts) {
    auto* start = before.as<StoreNode>();
    const Stmt inner = nest.as<ForNode>() ? innermost(nest) : Stmt();
    auto* store = inner.defined() ? inner.as<StoreNode>() : nullptr;
    if (!start || !store || !is_lowest(start->value) || start->buffer != store->buffer ||
        !is_private(store->buffer) || store->indices.size() != 1 || start->indices.size() != 1 ||
        !equal(start->indices[0], store->indices[0])) {
      return false;
    }
    auto* maximum = store->value.as<BinaryNode>();
    if (!maximum || maximum->op != BinaryOp::Max) return false;
    const Expr own = load(store->buffer, store->indices);
    if (!equal(maximum->a, own)) return false;
    const auto term = scaled(maximum->b);
    if (!term) return false;
    stmts.push_back(
        with_innermost(nest, make_store(store->buffer, store->indices, max(own, term->value))));
    stmts.push_back(make_store(store->buffer, store->indices, own * term->factor));
    return true;
  }
};

}  // namespace

Program scale_maxima(const Program& program) {
  return with_body(program, Rewriter()(program.body));
}

}  // namespace tilewright
