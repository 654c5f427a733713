// Rows of back-to-back products (attention, for example) in one kernel. The block's threads hold
// scores and accumulators as mma leaves them: each warp has whole rows, four of its lanes share a
// row.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ir/type.h"
#include "kernel/instructions/mma_rows.h"
#include "tuner/rules/rules.h"
#include "tuner/rules/softmax_chain.h"

namespace tilewright {

/// The common type of all three operands and of the rounded weights. Empty if they differ, or if
/// the two products have accumulators of different types.
std::optional<ElemType> chain_operand_elem(const Schedule& s, const SoftmaxChain& chain);

/// The `mma.sync` row for operands of this type and these accumulators, such that two accumulator
/// fragments make a fragment of operand A. Null if the target has none.
const Instruction* chained_row(ElemType elem, ElemType sums, const Target& target);

/// Pads a product. Its readers read the result without the padding; `operands` become its new
/// inputs.
void pad_chain_product(Schedule& s, const Block& block, const std::vector<int64_t>& multiples,
                       const std::vector<std::string*>& operands = {});

/// The block that copies an operand to `scope`: the one that makes or pads it, if there is one.
Block chain_copy_of(RuleContext& c, const Block& reader, const std::string& operand, Scope scope);

/// Elements of a copy's source that lie side by side, as one 16-byte vector at most.
int64_t chain_vector(const RuleContext& c, const Block& copy);

/// Copies a tile by all threads in turns, as vectors; a thread's first `unrolled` are unrolled.
void share_chain_copy(RuleContext& c, const Block& copy, int64_t threads, int64_t unrolled);

/// Pads to whole tiles of `rows` rows and `keys` keys, and k to a multiple of `terms`. Padding is
/// zero where it is multiplied, and no row attends to a padded key.
void pad_softmax_chain(Schedule& s, const SoftmaxChain& chain, int64_t rows, int64_t keys,
                       int64_t terms);

/// A block's tile of rows, with `warp_rows` of them per warp, a multiple of 16. Accumulators lie in
/// the layout of a warp's instruction (gpu_lay_out_sums()).
class ChainRows {
 public:
  ChainRows(RuleContext& c, int64_t rows, int64_t warp_rows)
      : c_(c), rows_(rows), warp_rows_(warp_rows) {}

  /// Splits a loop over the tile's rows into warps, fragments and rows of a fragment.
  std::vector<Loop> split(const Loop& i) const;
  /// Binds everything between the two products, the blocks `made` by online_softmax(), and the
  /// result to the threads that hold the rows, in registers. `keys` is the number of keys per step.
  void bind_softmax(const SoftmaxChain& chain, const std::vector<Block>& made, int64_t keys) const;
  /// A value per row, computed by each lane of the row.
  void bind_values(const Block& block) const;
  /// Binds a block over rows and `columns` columns to the threads that hold their accumulators.
  void bind_sums(const Block& block, int64_t columns) const;
  /// Lays out the block's result as operand A of this row's instructions.
  void lay_out_operand(const Block& block, const Instruction& row) const;
  /// Keeps a copy of the tile's rows in registers in that layout; each thread copies its own
  /// elements.
  void hold(const Block& copy, const Instruction& row) const;
  /// A product with instructions of this row; its last loops run over rows, columns and k. Its
  /// accumulators are initialized in memory or registers. Operand A is in registers or in
  /// shared-memory tiles, which hold `span` elements of k side by side for warpgroups. Returns the
  /// loop that stands for the instructions.
  Loop multiply(const Block& block, const Instruction& row, int64_t span = 0) const;

 private:
  // A loop over the tile's rows, split into a warp, a team (the lanes that hold a row) and the rows
  // of a team (`band`).
  struct RowLoops {
    Loop warp, band, team;
  };
  RowLoops split_teams(const Loop& i) const;
  void bind_team(const RowLoops& rows) const;
  void begin(const Block& block, const Loop& warp, const Instruction& row) const;
  void reduce(const Block& block) const;

  RuleContext& c_;
  int64_t rows_, warp_rows_;
};

}  // namespace tilewright
