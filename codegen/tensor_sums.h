// How the tensor cores of each generation add: with fewer bits than the type of their sums has.
#pragma once

#include "codegen/mma_rows.h"
#include "ir/evaluate.h"

namespace tilewright {

/// The arithmetic of one instruction. Its terms and the sum that it adds to are aligned to the largest
/// exponent among them, cut behind `fraction_bits` bits, toward zero, and added without further rounding;
/// what comes out is cut behind `kept_bits` bits, or rounded to nearest where sums are f16. Found by
/// experiments that agree bit by bit with the devices: Xie et al., "MMA-Sim: Bit-Accurate Reference Model
/// of Tensor Cores and Matrix Cores", 2025; Khattak and Mikaitis, "Accurate Models of NVIDIA Tensor
/// Cores", 2025.
struct TensorSums {
  int fraction_bits = 0;  ///< 0: the sum is exact, and rounded once
  int kept_bits = 23;
  int parts = 1;  ///< halves of the terms that are added one after the other

  bool is_exact() const { return fraction_bits == 0; }
};

/// Of a row of `mma.sync` on a device of this compute capability times ten; of a sparse one by its stored
/// terms, as nobody has published otherwise. Sums of integers are exact; so are all for capability 0,
/// where no device is meant.
TensorSums tensor_sums(const MmaRow& row, int compute_capability);
/// Of `wgmma`, by what one of its warps computes: that of sm_90.
TensorSums wgmma_sums(const MmaRow& warp);

/// The terms of 8-bit floats that kernels sum by wgmma before they add up in f32.
inline constexpr int64_t kPromotedTerms = 128;

/// What a right kernel for this GPU may lose where an operand's elements are 8-bit floats: nothing but
/// what f32 rounds where tensor cores keep its bits; on sm_90 what they leave of 128 terms, whose sums
/// are added in f32; on sm_89, whose kernels sum all terms there, what they leave of all.
NarrowSums narrow_sums(int compute_capability);

}  // namespace tilewright
