// Which contractions an intrinsic of the target computes, and bringing their operands into its form.
#pragma once

#include <optional>
#include <string>

#include "codegen/intrinsics.h"
#include "ir/index_map.h"
#include "tuner/rules/rules.h"

namespace tilewright {

// A contraction whose last iterators are those of an intrinsic: the lanes of its accumulator
// (spatial) and the terms that one lane sums (a reduction). Where it multiplies tiles, the rows of
// one and the neighbouring terms of which the second operand holds groups are its own, too.
struct TensorTile {
  const Intrinsic* row;
  int tiles;  // the iterator over whole vectors of lanes
  int lanes;
  int terms;
  int rows = -1, pairs = -1;  // of tiles

  bool is_tile() const { return rows >= 0; }
  bool has_terms(int iter) const { return iter == terms || (is_tile() && iter == pairs); }
};

// The map of `rank` indices that splits index j by the lanes of the row and index k by its terms, and
// appends both remainders: what is iterated over, or stored, in that order lies as the row takes it.
IndexMap intrinsic_digits(const Intrinsic& row, int rank, int j, int k);

// Behind pad_einsum: what reads the block's result reads the padded one in place of the copy without
// the padding, unless that is the program's output.
void unpad_result(RuleContext& c, const Block& block);

// Asks in which of the ways that fit (tensor_mapping.h) the block is to be one of the target's
// intrinsics. If so, brings it into the intrinsic's form: iterators fused to its own, operands padded
// to whole tiles, converted to its types and, a weight at load, laid out as it takes them. Nothing
// when no row of the target fits, or none is to be used.
std::optional<TensorTile> prepare_tensor(RuleContext& c, const Block& block);

// Why no intrinsic of `target` computes the block, by the iterator or operand that fails; empty when
// one does.
std::string explain_match(const Schedule& s, const Block& block, const Target& target);

}  // namespace tilewright
