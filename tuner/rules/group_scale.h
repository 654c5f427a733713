// Weights whose scales are applied to sums over groups instead of to each element.
#pragma once

#include <optional>

#include "tuner/rules/rules.h"
#include "tuner/rules/tensor.h"

namespace tilewright {

// A contraction of which the reduction is to be cut within groups, so that factor_scale can take
// their scales and zero points out.
struct GroupScale {
  ElemType sums;   // the type of the sums over a group
  int k;           // the reduction iterator along which elements share a scale
  int64_t length;  // iterations of it that do
  // Whether the other reductions (a convolution's window) share it, too; else they stand outside.
  bool whole_window = true;
  // Whether there is anything to take out: a weight of plain integers has neither scales nor zero
  // points, and its sums are of their own only where they are formed in another type.
  bool factored = true;
  // Whether codes of a few bits are to be taken from whole words, by masks.
  bool masked = false;
  // With an intrinsic: how the block stands in its form, and, for codes of a few bits, the block
  // that makes elements of its type of them, and the iterations whose codes share a word.
  std::optional<TensorTile> tensor;
  std::optional<Block> widened;
  int64_t word = 1;
  // Where groups are padded: the block that does so with the other operand.
  std::optional<Block> padding;
  // Beside a compressed weight: the block that brings the elements of the other operand together
  // which the intrinsic multiplies with one lane's, and whether their sums are needed besides.
  std::optional<Block> gathered;
  bool summed = false;
  // Whether each lane multiplies elements of its own, at places whose codes are packed as the
  // weight's are.
  bool each_lane = false;
};

// Whether the workload's weight, of an element-wise pattern, can be multiplied without its zeros by
// dot products of which each lane looks up what it multiplies. `other`: the other operand's type.
bool looks_up_for_each_lane(const Workload& workload, ElemType other, const Target& target);

// Asks whether scales are to be applied to sums, and by which intrinsic these are to be formed. If
// one fits and is to be used, brings the block into its form; else the block stays as it is. Nothing
// when the workload's weight is stored as it is multiplied, when its groups are short or end within
// the reduction, or when the answer is to scale elements. `kept`: what is left of the weight, where
// it was compressed.
std::optional<GroupScale> prepare_group_scale(RuleContext& c, const Block& block,
                                              const std::optional<KeptWeight>& kept);

}  // namespace tilewright
