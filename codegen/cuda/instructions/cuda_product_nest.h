// Nests that add products of elements, and the indices in them: what matrix instructions of warps
// and of warpgroups, dense and sparse, are matched by.
#pragma once

#include <cstdint>
#include <optional>

#include "codegen/loop_nest.h"
#include "ir/arith/simplify.h"
#include "ir/visitor.h"
#include "kernel/instructions/instruction.h"

namespace tilewright {

/// C[…] = C[…] + A[…] * B[…], with conversions around A and B.
struct ProductSum {
  const LoadNode *sums, *a, *b;

  /// Whether an operand lies in registers; it then has to be A.
  bool in_registers() const;
  /// Whether the elements have the row's types. Operands lie in shared memory, A also in registers.
  bool fits(const Instruction& row) const;
};
/// Nothing for other stores, and where there is none.
std::optional<ProductSum> product_sum(const StoreNode* store);

/// Indices of a nest at given values of its variables, 0 for all others.
class NestIndex {
 public:
  NestIndex(const std::vector<const ForNode*>& loops, Analyzer& known);
  Expr at(const Expr& index, const Expr& var, const Expr& value) const;
  Expr first(const Expr& index) const;
  /// The distance that the index moves from 0 to `value` of the variable; nothing where that is no
  /// number.
  std::optional<int64_t> moved(const Expr& index, const Expr& var, int64_t value) const;
  /// The distance per iteration, where that to iteration `last` is as many times as large; nothing
  /// for other indices.
  std::optional<int64_t> step(const Expr& index, const Expr& var, int64_t last) const;

 private:
  Analyzer& known_;
  VarMap zero_;
};

}  // namespace tilewright
