// Matches contractions with the target's intrinsics, and brings their operands into an intrinsic's
// form.
#pragma once

#include <optional>
#include <string>

#include "codegen/intrinsics/intrinsics.h"
#include "ir/arith/index_map.h"
#include "tuner/rules/rules.h"

namespace tilewright {

// A contraction whose last iterators are those of an intrinsic: the accumulator's lanes (spatial)
// and the k elements that one lane sums (a reduction). An intrinsic that multiplies tiles also has
// the rows of a tile, and the k neighbours of which the second operand holds groups.
struct TensorTile {
  const Intrinsic* row;
  int tiles;  // the iterator over whole vectors of lanes
  int lanes;
  int terms;
  int rows = -1, pairs = -1;  // for intrinsics that multiply tiles
  int64_t neighbours =
      0;  // of a copied window's elements, those that lie together; 0: it is no window

  bool is_tile() const { return rows >= 0; }
  bool has_terms(int iter) const { return iter == terms || (is_tile() && iter == pairs); }
};

// The map of `rank` indices that splits index j by the row's lanes and index k by its terms, and
// appends both remainders. Iterators or elements in that order are as the row takes them.
IndexMap intrinsic_digits(const Intrinsic& row, int rank, int j, int k);

// After pad_einsum: readers of the block's result read the padded one instead of the unpadded copy,
// unless that copy is the program's output.
void unpad_result(RuleContext& c, const Block& block);

// Asks which of the mappings that fit (tensor_mapping.h) turns the block into one of the target's
// intrinsics. If one is chosen, brings the block into the intrinsic's form. That fuses iterators,
// pads operands to whole tiles, converts them to its types and lays them out (a weight at load).
// Returns nothing if no row of the target fits, or none is chosen.
std::optional<TensorTile> prepare_tensor(RuleContext& c, const Block& block);

// Explains why no intrinsic of `target` computes the block: the iterator or operand that fails.
// Empty if one does.
std::string explain_match(const Schedule& s, const Block& block, const Target& target);

}  // namespace tilewright
