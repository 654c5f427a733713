// The choices of multi-level tiling: how each iterator of a contraction is split, and the order of
// the loops.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ir/arith/index_map.h"
#include "tuner/rules/analysis.h"
#include "tuner/rules/cpu/group_scale.h"
#include "tuner/rules/cpu/tensor.h"
#include "tuner/rules/rules.h"

namespace tilewright {

// The loops of a contraction, outermost first. Spatial iterators are split into S0 S1 S2 S3,
// reductions into R0 R1 R2 (R2 is unrolled). Iterators in a periodic condition also have their
// phase: SP before all loops, RP before R1. So the condition is decided outside the loops that do
// the work.
enum class Level { SP, S0, S1, R0, S2, RP, R1, R2, S3 };

// The place where codes become elements. Registers serve a tile's rows, a tile a chunk of the
// reduction. A panel of a tile's columns serves the whole reduction, under S0.
enum class Widening { Registers, Tile, Panel };

// The index of a level among its iterator's factors.
size_t place_of(Level level);

class TilePlan {
 public:
  // The block's loops must be as lowered. With `tensor`, the block's last two iterators stay whole
  // inside all others, in the intrinsic's order. With `groups`, the reduction is cut within them.
  // Must not outlive the context.
  TilePlan(RuleContext& c, Block block, std::optional<TensorTile> tensor,
           std::optional<GroupScale> groups);

  // Makes all choices, in an order that does not depend on skipped knobs.
  void choose();

  const BlockFacts& facts() const { return facts_; }
  // The vectorized iterator.
  int vector_iter() const { return vector_iter_; }
  const std::optional<TensorTile>& tensor() const { return tensor_; }
  // Whether each lane has elements of its own in every operand, as in a window over each channel. Where
  // they are no neighbours, all loads of the innermost code would be made lane by lane.
  bool lanes_in_all() const;
  // The factors of one iterator by significance: S0 S1 S2 S3 SP or R0 R1 R2 RP (phases only if
  // there are any).
  const std::vector<int64_t>& factors(int iter) const { return factors_.at(iter); }
  // The same for the primitive: in a dynamic extent, the factor that depends on the maximum is -1.
  std::vector<int64_t> split_factors(int iter) const;
  int64_t factor(int iter, Level level) const { return factors(iter)[place_of(level)]; }
  // The place where the stored weight's codes become elements for the intrinsic.
  const std::optional<Widening>& widening() const { return widening_; }
  // How often an element at these indices is read, and whether that justifies a place in a cache
  // for elements that are costly to make.
  int64_t reuse(const std::vector<Expr>& indices) const;
  bool worth_a_tile(const std::vector<Expr>& indices) const;
  // The loop order: (level, iterator) pairs, outermost first.
  std::vector<std::pair<Level, int>> nest() const;
  // The reduction iterator that an index divides by the length of groups; -1 for other indices.
  int grouped_iterator(const Expr& index) const;
  // The digits of an operand's indices, each an iterator or its group, in loop order. With `words`, the unrolled
  // part of the reduction is innermost instead: each lane's elements of it share a packed word.
  IndexMap packing(const std::vector<Expr>& indices, bool words = false) const;
  // A packing for an operand with an index looked up in memory, for which the loops give no order.
  // It puts the rows of a register tile side by side, innermost. Nothing if tiles have one row.
  std::optional<IndexMap> rows_together(const std::vector<Expr>& indices) const;
  // Whether the unrolled part of the reduction fills 32-bit words with such elements.
  bool fills_words(ElemType elem) const;
  // Producers to be read in place, so that phases decide where they are zero.
  const std::vector<Block>& apart() const { return apart_; }

  // Elements of the result per vector register, and registers reserved for accumulators.
  int64_t lanes() const;
  int64_t accumulator_budget() const;
  // The name of a knob of the block, or of one of its iterators.
  std::string key(const std::string& what) const { return block_.name + "." + what; }

 private:
  const BlockNode& node() const { return c_.s.node(block_); }
  std::string key(int iter, const std::string& what) const {
    return key(names_[static_cast<size_t>(iter)] + "." + what);
  }
  int64_t phase(int iter) const;
  bool dynamic(int iter) const { return facts_.dynamic[static_cast<size_t>(iter)]; }
  int64_t extent(int iter) const;  // of one phase
  int pick_vector_iter();
  std::optional<int> weight_lanes(int last) const;
  bool scatters(int iter) const;
  bool is_terms(int iter) const { return tensor_ && tensor_->has_terms(iter); }
  // The rows of an intrinsic's tiles.
  bool is_rows(int iter) const { return tensor_ && tensor_->is_tile() && iter == tensor_->rows; }
  // The iterator whose register tile is a number of vectors, and its elements per vector.
  int vectors_iter() const { return tensor_ ? tensor_->tiles : vector_iter_; }
  int64_t vector_step() const { return tensor_ ? 1 : lanes(); }
  std::vector<int> row_order() const;
  int64_t round_up_lanes(int64_t extent) const;
  int64_t other_work() const;
  void find_phases();
  void choose_widening();
  bool panel_fits(const std::vector<Expr>& indices) const;
  bool in_panel() const { return widening_ == Widening::Panel; }
  void choose_registers(int64_t budget);
  void choose_outer_levels(int iter);
  void choose_reduction();
  std::vector<int64_t> chunks_of(int64_t length) const;
  std::vector<int64_t> unrolls_of(int64_t chunk) const;
  const WeightFormat* weight() const;
  int word_elements() const;
  void choose_orders();

  RuleContext& c_;
  Block block_;
  BlockFacts facts_;
  std::optional<TensorTile> tensor_;
  std::optional<GroupScale> groups_;
  std::optional<Widening> widening_;
  std::vector<std::string> names_;
  std::map<int, std::vector<int64_t>> factors_;
  std::map<int, int64_t> phases_;
  std::vector<Block> apart_;
  int vector_iter_ = 0;
  int64_t registers_ = 1;  // accumulators of the register tile
  bool reverse_outer_ = false, reverse_inner_ = false;
};

}  // namespace tilewright
