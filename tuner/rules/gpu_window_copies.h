// Whether tiles of operands that are gathered come to shared memory by tensor copies: windows of a
// convolution, its weight, matrices whose rows are numbered by several dimensions.
#pragma once

#include <string>

#include "tuner/rules/rules.h"

namespace tilewright {

/// Whether a tile of `operand`, which `block` reads and a block that gathers it writes, is what one tensor
/// map describes (codegen/cuda_tensor_copy.h): `terms` of the iterator `k`, and any rows beside them, or
/// where the operand runs across its terms a span of 128 bytes. Along them a tile may lie in spans of
/// `span` terms, a copy each; `span` divides `terms`.
bool gpu_is_one_copy(const RuleContext& c, const Block& block, const std::string& operand, int k,
                     int64_t terms, int64_t span);

/// The most terms of the operand that a copy brings, of a tile of `terms` that fill 128 bytes: all of them
/// or, of windows whose channels are no multiples of those, as many as fill 64 or 32 bytes, the spans of
/// narrower swizzles. 0 where there are no such copies, and of operands that run across their terms.
int64_t gpu_span_of_windows(const RuleContext& c, const Block& block, const std::string& operand,
                            int k, int64_t terms);

}  // namespace tilewright
