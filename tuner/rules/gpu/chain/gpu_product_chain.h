// Back-to-back GEMM in one kernel: the hidden layer of a small network, a low-rank update.
#pragma once

#include "tuner/rules/rules.h"

namespace tilewright {

// D = f(A B) C, where f is an elementwise stage whose results have A's type. Asks the knob
// "NAME.chain", NAME the first product's block. "fused": a block takes a tile of rows through one
// loop over the hidden columns. "apart": one kernel per product. The second product takes the first
// one's accumulators, converted in place, as operand A from registers (like attention's weights,
// gpu_tensor_chain.h). No hidden value is ever stored.
//
// Returns true if everything is scheduled. Returns false, with nothing changed, for "apart", other
// blocks, types without an instruction, and columns that are not a multiple of 16. The same holds
// if k and the columns exceed registers or shared memory.
bool gpu_product_chain(RuleContext& c);

}  // namespace tilewright
