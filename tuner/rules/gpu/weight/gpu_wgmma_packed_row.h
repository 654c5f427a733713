// The wgmma instruction for a packed weight, and the k that is unpacked at a time.
#pragma once

#include <cstdint>

#include "kernel/instructions/wgmma_rows.h"
#include "tuner/rules/gpu/gpu_packable.h"
#include "tuner/rules/rules.h"

namespace tilewright {

// The row that takes the weight from registers, and `n` rows of activations; a sparse row for a
// weight reduced to kept elements. Null if there is none.
const Instruction* wgmma_packed_row(const RuleContext& c, const Packable& w, int64_t n);

// The k that is unpacked and multiplied as one group: a swizzle atom of activations, or less if a
// scale serves less. 0 if a scale does not serve even an instruction, or the instructions that
// share metadata.
int64_t wgmma_packed_chunk(const Packable& w);

}  // namespace tilewright
