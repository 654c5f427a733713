// Weights whose scales apply to the sums of groups instead of to each element.
#pragma once

#include <optional>

#include "tuner/rules/cpu/tensor.h"
#include "tuner/rules/rules.h"

namespace tilewright {

// A contraction whose reduction is cut within groups, so that factor_scale can factor out their
// scales, zero points and offsets.
struct GroupScale {
  ElemType sums;   // the accumulator type of a group
  int k;           // the reduction iterator whose elements share a scale
  int64_t length;  // its iterations per scale
  // Whether the other reductions (a convolution's window) share the scale, too; else they stay
  // outside.
  bool whole_window = true;
  // Whether there is anything to factor out. A plain integer weight has neither scales nor zero
  // points; its group sums are separate only if they have another type.
  bool factored = true;
  // Whether few-bit codes are extracted from packed words by masks.
  bool masked = false;
  // With an intrinsic: the block's form. For few-bit codes also the block that widens them to the
  // intrinsic's type, and the number of iterations whose codes share a word.
  std::optional<TensorTile> tensor;
  std::optional<Block> widened;
  int64_t word = 1;
  // The block that pads the other operand, if groups are padded.
  std::optional<Block> padding;
  // Beside a compressed weight: the block that gathers the other operand's elements for one lane of
  // the intrinsic, and whether their sums are needed, too.
  std::optional<Block> gathered;
  bool summed = false;
  // Whether each lane multiplies elements of its own, at positions whose codes are packed like the
  // weight's.
  bool each_lane = false;
};

// Whether the workload's weight, with an element-wise pattern, can be multiplied without its zeros:
// by dot products for which each lane looks up its operands. `other` is the other operand's type.
bool looks_up_for_each_lane(const Workload& workload, ElemType other, const Target& target);

// Asks whether scales apply to sums, and which intrinsic computes these. If an intrinsic fits and
// is chosen, brings the block into its form; else the block stays as it is. Returns nothing if the
// weight is stored as it is multiplied, or if elements are to be scaled. Short groups, or groups
// that end within the reduction, also give nothing. `kept` is the rest of a compressed weight.
std::optional<GroupScale> prepare_group_scale(RuleContext& c, const Block& block,
                                              const std::optional<KeptWeight>& kept);

}  // namespace tilewright
