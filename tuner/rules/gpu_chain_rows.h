// Rows of products one behind the other (attention, say) in one kernel, whose scores and sums matrix
// instructions leave with the threads of a block: each warp has whole rows, four lanes of it one of them.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "codegen/mma_rows.h"
#include "ir/type.h"
#include "tuner/rules/rules.h"
#include "tuner/rules/softmax_chain.h"

namespace tilewright {

/// The type of all three operands and of the rounded weights, where there is one and both products have
/// sums of the same type.
std::optional<ElemType> chain_operand_elem(const Schedule& s, const SoftmaxChain& chain);

/// The row of `mma.sync` for operands of this type with these sums, of whose operand A two fragments of sums
/// are one; null where the target has none.
const MmaRow* chained_row(ElemType elem, ElemType sums, const Target& target);

/// Whole tiles of so many rows and keys, and of `terms` a score. What hangs over is zero where it is
/// multiplied, and no key that a row sees.
void pad_softmax_chain(Schedule& s, const SoftmaxChain& chain, int64_t rows, int64_t keys,
                       int64_t terms);

/// A block's tile of rows, `warp_rows` of them a warp, a multiple of 16. Sums lie as an instruction of a
/// warp leaves them (gpu_lay_out_sums()).
class ChainRows {
 public:
  ChainRows(RuleContext& c, int64_t rows, int64_t warp_rows)
      : c_(c), rows_(rows), warp_rows_(warp_rows) {}

  /// The warp, the fragment and the row in it of a loop over the tile's rows.
  std::vector<Loop> split(const Loop& i) const;
  /// Everything between the two products, what online_softmax() has `made`, and the result, by the
  /// threads that hold the rows, in registers. `keys` are those of a step.
  void bind_softmax(const SoftmaxChain& chain, const std::vector<Block>& made, int64_t keys) const;
  /// A value of a row, by each of its lanes.
  void bind_values(const Block& block) const;
  /// A block over rows and so many columns by the threads that hold their sums.
  void bind_sums(const Block& block, int64_t columns) const;
  /// What a block stores lies as instructions of this row take it as operand A.
  void lay_out_operand(const Block& block, const MmaRow& row) const;
  /// A copy of the tile's rows lies so in registers, each thread copying what it has.
  void hold(const Block& copy, const MmaRow& row) const;
  /// A product by instructions of this row, whose last loops run over rows, columns and terms; its sums
  /// begin in memory or registers. Operand A is in registers or tiles of shared memory.
  void multiply(const Block& block, const MmaRow& row) const;

 private:
  // A loop over the tile's rows as one over teams of the lanes that hold a row, and what of it is left:
  // the rows of a team.
  struct RowLoops {
    Loop warp, band, team;
  };
  RowLoops split_teams(const Loop& i) const;
  void bind_team(const RowLoops& rows) const;
  void begin(const Block& block, const Loop& warp) const;
  void reduce(const Block& block) const;

  RuleContext& c_;
  int64_t rows_, warp_rows_;
};

}  // namespace tilewright
