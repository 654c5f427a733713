// How the tensor cores of each generation accumulate: with fewer bits than the accumulator's type
// has.
#pragma once

#include "ir/oracle/evaluate.h"
#include "kernel/instructions/instruction.h"

namespace tilewright {

/// The arithmetic of one instruction. Its products and the accumulator are aligned to the largest
/// exponent among them. They are cut behind `fraction_bits` bits, toward zero, and added without
/// further rounding. The result is cut behind `kept_bits` bits, or rounded to nearest where
/// accumulators are f16. The rules come from experiments that agree bit by bit with the devices.
/// Sources: Xie et al., "MMA-Sim: Bit-Accurate Reference Model of Tensor Cores and Matrix Cores",
/// 2025; Khattak and Mikaitis, "Accurate Models of NVIDIA Tensor Cores", 2025.
struct TensorSums {
  int fraction_bits = 0;  ///< 0: the sum is exact, and rounded once
  int kept_bits = 23;
  int parts = 1;  ///< groups of products that are added one after the other

  bool is_exact() const { return fraction_bits == 0; }
};

/// The arithmetic of a `mma.sync` row on a device of this compute capability times ten. A sparse
/// row counts by its stored elements, as nobody has published otherwise. Sums of integers are
/// exact. All sums are exact for capability 0, which names no device.
TensorSums tensor_sums(const Instruction& row, int compute_capability);
/// The arithmetic of a `wgmma` row on sm_90.
TensorSums wgmma_sums(const Instruction& row);

/// Products of 8-bit floats that wgmma accumulates before kernels add the result in f32.
inline constexpr int64_t kPromotedTerms = 128;

/// The accuracy that a correct kernel for this GPU may lose where an operand's elements are 8-bit
/// floats. Where tensor cores keep f32's bits, it loses only f32 rounding. On sm_90 it loses what
/// tensor cores cut from 128 products, whose sums are added in f32. On sm_89, whose kernels
/// accumulate all products there, it loses what they cut from all.
NarrowSums narrow_sums(int compute_capability);

}  // namespace tilewright
