// Products one behind the other in one kernel: the hidden layer of a small network, a low-rank update.
#pragma once

#include "tuner/rules/rules.h"

namespace tilewright {

// D = f(A B) C, f an elementwise stage that leaves elements of A's type: asks "NAME.chain", NAME the
// first product's block: "fused", where a block takes a tile of rows through one loop over the hidden
// columns, or "apart". Of the first product's sums, made elements where an instruction leaves them,
// the second product's instructions take their operand A from registers (as scores and weights of
// attention: gpu_tensor_chain.h), so that nothing hidden is ever stored.
// True when all is scheduled so. False, and nothing changed, for "apart", and where there are other
// blocks, types that no instruction takes, columns that are no multiple of 16, or more terms and columns
// than registers and shared memory hold.
bool gpu_product_chain(RuleContext& c);

}  // namespace tilewright
