// Contractions as products of an intrinsic's tiles.
#pragma once

#include <optional>

#include "tuner/rules/cpu/tensor.h"
#include "tuner/rules/rules.h"

namespace tilewright {

// Asks whether an intrinsic that multiplies tiles (AMX) computes a product of a matrix and a
// weight. Its form is C[i, j] += A[i, k, p] * B[k, j, p]. If chosen, brings the product into that
// form: both operands and the result are padded to whole tiles, each contiguous. The weight is laid
// out at load, the others in copies of each run. Returns nothing if no row of the target fits, or
// none is chosen.
std::optional<TensorTile> prepare_tiles(RuleContext& c, const Block& block);

// Whether the product's result stands in tiles, and the reader's two iterators are its row and column.
bool reads_tiles(const Schedule& s, const Block& product, const Block& reader,
                 const std::optional<TensorTile>& tensor);
// The reader's loops over rows and columns, its last two, go tile by tile.
void split_into_tiles(Schedule& s, const Block& reader, const Intrinsic& row);

}  // namespace tilewright
