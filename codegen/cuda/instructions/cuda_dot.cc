#include "codegen/cuda/instructions/cuda_dot.h"

#include <fmt/format.h>

#include "codegen/cuda_lowering.h"
#include "codegen/lowering.h"
#include "ir/visitor.h"

namespace tilewright {
namespace {

constexpr int kTerms = 4;

[[noreturn]] void fail_dot(const ForNode& loop, const std::string& reason) {
  throw LoweringError(
      fmt::format("loop '{}' is marked as a dot product of bytes: {}", loop.var.name(), reason));
}

const LoadNode* factor_of(const Expr& e) {
  auto* n = e.as<CastNode>();
  auto* load = n ? n->value.as<LoadNode>() : nullptr;
  bool is_byte = load && (load->type == Type(ElemType::i8) || load->type == Type(ElemType::u8));
  return is_byte && is_private(load->buffer) && !load->predicate.defined() ? load : nullptr;
}

// The index of the first of the four elements, which fill a word of their own.
Expr word_of(const ForNode& loop, const LoadNode& load, Analyzer& known) {
  auto at = [&](int i) {
    return known.simplify(substitute(load.indices[0], VarMap{{loop.var.get(), Expr(i)}}));
  };
  Expr first = at(0);
  bool is_word = is_int(known.simplify(floormod(first, Expr(kTerms))), 0);
  for (int i = 1; i < kTerms; ++i) is_word &= is_int(known.simplify(at(i) - first), i);
  if (!is_word) {
    fail_dot(loop, fmt::format("the elements of '{}' do not fill a register", load.buffer->name));
  }
  return first;
}

}  // namespace

DotNest match_dot(const ForNode& loop, Analyzer& known) {
  auto* store = loop.body.as<StoreNode>();
  auto* sum = store && !store->predicate.defined() ? store->value.as<BinaryNode>() : nullptr;
  auto* before = sum && sum->op == BinaryOp::Add ? sum->a.as<LoadNode>() : nullptr;
  auto* product = before ? sum->b.as<BinaryNode>() : nullptr;
  bool is_sum = product && product->op == BinaryOp::Mul && before->buffer == store->buffer &&
                !uses_var(store->indices[0], loop.var);
  const LoadNode* x = is_sum ? factor_of(product->a) : nullptr;
  const LoadNode* y = is_sum ? factor_of(product->b) : nullptr;
  if (!x || !y || !is_int(loop.min, 0) || !is_int(loop.extent, kTerms)) {
    fail_dot(
        loop,
        "it must have four iterations, each of which adds a product of two bytes in registers");
  }
  // The instruction takes signed bytes behind unsigned ones.
  if (x->type.elem == ElemType::i8 && y->type.elem == ElemType::u8) std::swap(x, y);
  return {store->buffer,
          store->indices[0],
          {x->buffer, word_of(loop, *x, known)},
          {y->buffer, word_of(loop, *y, known)}};
}

std::string dot_line(const DotNest& nest, CudaExpr& expr) {
  auto word = [&](const DotNest::Word& w) {
    return fmt::format("({})tw_word_at({} + ({}))",
                       w.buffer->elem == ElemType::i8 ? "int" : "unsigned",
                       expr.buffers.at(w.buffer.get()), expr.print(w.first));
  };
  const bool is_unsigned = nest.y.buffer->elem == ElemType::u8;
  const std::string to = expr.element(nest.sums, nest.index);
  return fmt::format("{} = {}tw_dp4a({}, {}, {}{});", to, is_unsigned ? "(int)" : "", word(nest.x),
                     word(nest.y), is_unsigned ? "(unsigned)" : "", to);
}

}  // namespace tilewright
