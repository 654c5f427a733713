#include "codegen/cuda/instructions/cuda_product_nest.h"

#include "codegen/cuda_lowering.h"
#include "ir/predicates.h"

namespace tilewright {

std::optional<ProductSum> product_sum(const StoreNode* store) {
  auto* sum = store ? store->value.as<BinaryNode>() : nullptr;
  auto* product = sum && sum->op == BinaryOp::Add ? sum->b.as<BinaryNode>() : nullptr;
  auto* before = sum ? sum->a.as<LoadNode>() : nullptr;
  const bool is_sum =
      product && product->op == BinaryOp::Mul && before && before->buffer == store->buffer;
  if (!is_sum) return std::nullopt;
  const LoadNode *a = load_under_casts(product->a), *b = load_under_casts(product->b);
  return a && b ? std::optional(ProductSum{before, a, b}) : std::nullopt;
}

bool ProductSum::in_registers() const { return is_private(a->buffer) || is_private(b->buffer); }

bool ProductSum::fits(const Instruction& row) const {
  const bool is_placed = (is_private(a->buffer) || a->buffer->scope == Scope::Shared) &&
                         b->buffer->scope == Scope::Shared;
  return is_placed && a->buffer->elem == row.operand && b->buffer->elem == row.b_operand() &&
         sums->buffer->elem == row.acc;
}

NestIndex::NestIndex(const std::vector<const ForNode*>& loops, Analyzer& known) : known_(known) {
  for (const ForNode* l : loops) zero_[l->var.get()] = 0;
}

Expr NestIndex::at(const Expr& index, const Expr& var, const Expr& value) const {
  VarMap map = zero_;
  map[var.get()] = value;
  return known_.simplify(substitute(index, map));
}

Expr NestIndex::first(const Expr& index) const { return known_.simplify(substitute(index, zero_)); }

std::optional<int64_t> NestIndex::moved(const Expr& index, const Expr& var, int64_t value) const {
  return as_int(known_.simplify(at(index, var, value) - first(index)));
}

std::optional<int64_t> NestIndex::step(const Expr& index, const Expr& var, int64_t last) const {
  const auto one = moved(index, var, 1), all = moved(index, var, last);
  return one && all && *all == last * *one ? one : std::nullopt;
}

}  // namespace tilewright
