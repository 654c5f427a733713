// Which instruction of warpgroups takes a packed weight, and how many terms it is unpacked for at a time.
#pragma once

#include <cstdint>

#include "codegen/wgmma_rows.h"
#include "tuner/rules/gpu_packable.h"
#include "tuner/rules/rules.h"

namespace tilewright {

// The row that takes the weight from registers and `n` rows of activations, one with a sparse operand for
// a weight without what that leaves out; null where there is none.
const WgmmaRow* wgmma_packed_row(const RuleContext& c, const Packable& w, int64_t n);

// Terms that are unpacked and multiplied as one group: those of a span of activations, or fewer where a
// scale serves fewer. 0 where not even those of an instruction, or of those that share metadata, are
// served by one.
int64_t wgmma_packed_chunk(const Packable& w);

}  // namespace tilewright
