// Masks of tiles that are decided for whole tiles at once.
#pragma once

#include "ir/stmt.h"

namespace tilewright {

// The annotation of a loop over tiles: a statement of its body whose values are selected by conditions
// that hold for all of it in most iterations stands there twice, the conditions left out where they do:
//
//   for k in 0..n @{masks_apart: 1} { for i in 0..8 thread_x { for j in 0..8 {
//     S[i, j] = select(k*8 + j <= b*8 + i, X[i, j], 0) }}}
//   ->  for k in 0..n { if k*8 + 7 <= b*8 { for i { for j { S[i, j] = X[i, j] }}}
//                       else { for i { for j { S[i, j] = select(…) }}} }
//
// Conditions are comparisons of indices, alone or several that must all hold; a limit may be read from
// memory (the length of a sequence), or be a selection of two, of which a tile is whole where the first
// one is taken throughout. Copies from global memory stay as they are.
inline constexpr const char* kMasksApartKey = "masks_apart";

// The pass that carries it out.
Program set_masks_apart(const Program& program);

}  // namespace tilewright
