// Peeled masked iterations: masks of tiles that are decided once per tile.
#pragma once

#include "ir/stmt.h"

namespace tilewright {

// The annotation of a loop over tiles. It doubles a statement of the body whose values are selected
// by conditions that hold for all of it in most iterations. One copy leaves out the conditions and
// runs where they hold:
//
//   for k in 0..n @{masks_apart: 1} { for i in 0..8 thread_x { for j in 0..8 {
//     S[i, j] = select(k*8 + j <= b*8 + i, X[i, j], 0) }}}
//   ->  for k in 0..n { if k*8 + 7 <= b*8 { for i { for j { S[i, j] = X[i, j] }}}
//                       else { for i { for j { S[i, j] = select(…) }}} }
//
// Conditions are comparisons of indices, alone or several that must all hold. A limit may be read
// from memory (the length of a sequence). It may also be a selection of two; a tile is then whole
// where it takes the first one throughout. Copies from global memory stay as they are.
inline constexpr const char* kMasksApartKey = "masks_apart";

// The pass that peels these iterations.
Program set_masks_apart(const Program& program);

}  // namespace tilewright
