// Whether tiles of operands that are gathered come to shared memory by tensor copies: windows of a
// convolution, its weight, matrices whose rows are numbered by several dimensions.
#pragma once

#include <string>

#include "tuner/rules/rules.h"

namespace tilewright {

/// Whether a tile of `operand`, which `block` reads and a block that gathers it writes, is what one tensor
/// map describes (codegen/cuda_tensor_copy.h): `terms` of the iterator `k`, and any rows beside them, or
/// where the operand runs across its terms a span of 128 bytes.
bool gpu_is_one_copy(const RuleContext& c, const Block& block, const std::string& operand, int k,
                     int64_t terms);

}  // namespace tilewright
