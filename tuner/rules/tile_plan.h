// The decisions of multi-level tiling: how each iterator of a contraction is cut, and in which order
// the loops stand.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ir/index_map.h"
#include "tuner/rules/analysis.h"
#include "tuner/rules/group_scale.h"
#include "tuner/rules/rules.h"
#include "tuner/rules/tensor.h"

namespace tilewright {

// The loops of a contraction, outermost first. Spatial iterators are split into S0 S1 S2 S3 and
// reductions into R0 R1 R2 (R2 is unrolled); those that meet in a periodic condition have their
// phase besides: SP in front of all loops, RP in front of R1, so that the condition is decided
// outside the loops that do the work.
enum class Level { SP, S0, S1, R0, S2, RP, R1, R2, S3 };

// Where codes become elements: in registers for the rows of a tile, in a tile for a chunk of the
// reduction, or in a panel of a tile's columns for all of it, under S0.
enum class Widening { Registers, Tile, Panel };

// Which factor of its iterator a level is.
size_t place_of(Level level);

class TilePlan {
 public:
  // The block's loops are as written. With a `tensor` its last two iterators stay whole inside all
  // others, in the order of the intrinsic. With `groups` the reduction is cut within them. Must not
  // outlive the context.
  TilePlan(RuleContext& c, Block block, std::optional<TensorTile> tensor,
           std::optional<GroupScale> groups);

  // Answers all questions, in an order that does not depend on what was not asked.
  void choose();

  const BlockFacts& facts() const { return facts_; }
  // The iterator that runs along vectors.
  int vector_iter() const { return vector_iter_; }
  const std::optional<TensorTile>& tensor() const { return tensor_; }
  // Of one iterator in the order of their weight: S0 S1 S2 S3 SP or R0 R1 R2 RP (the phases only
  // where there are any).
  const std::vector<int64_t>& factors(int iter) const { return factors_.at(iter); }
  // The same for the primitive: where the extent is dynamic, what the largest one decides is -1.
  std::vector<int64_t> split_factors(int iter) const;
  int64_t factor(int iter, Level level) const { return factors(iter)[place_of(level)]; }
  // Where the codes of the stored weight become elements that the intrinsic takes.
  const std::optional<Widening>& widening() const { return widening_; }
  // How often an element at these indices is read, and whether that is worth a place in a cache for
  // what it takes work to make.
  int64_t reuse(const std::vector<Expr>& indices) const;
  bool worth_a_tile(const std::vector<Expr>& indices) const;
  // The order in which the loops stand: (level, iterator) pairs, outermost first.
  std::vector<std::pair<Level, int>> nest() const;
  // Digits of an operand's indices, each an iterator, in the order of the loops. With `words` the
  // unrolled part of the reduction is innermost instead: each lane's elements of it share a word.
  IndexMap packing(const std::vector<Expr>& indices, bool words = false) const;
  // Where some index is looked up in memory, so that the loops do not tell the order: the rows of a
  // register tile side by side, behind all else. Nothing where tiles are of one row.
  std::optional<IndexMap> rows_together(const std::vector<Expr>& indices) const;
  // Whether the unrolled part of the reduction fills words of 32 bits with such elements.
  bool fills_words(ElemType elem) const;
  // Producers that are to be read in place, so that phases decide where they are zero.
  const std::vector<Block>& apart() const { return apart_; }

  // Elements of the result in a vector register, and registers that are kept for sums.
  int64_t lanes() const;
  int64_t accumulator_budget() const;
  // The name of a question about the block, or about one of its iterators.
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
  bool is_terms(int iter) const { return tensor_ && tensor_->has_terms(iter); }
  // The rows of an intrinsic's tiles.
  bool is_rows(int iter) const { return tensor_ && tensor_->is_tile() && iter == tensor_->rows; }
  // The iterator whose register tile is a number of vectors, and its elements in one.
  int vectors_iter() const { return tensor_ ? tensor_->tiles : vector_iter_; }
  int64_t vector_step() const { return tensor_ ? 1 : lanes(); }
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
