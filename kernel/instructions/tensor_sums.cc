#include "kernel/instructions/tensor_sums.h"

namespace tilewright {
namespace {

constexpr int kNarrowBits = 13;  // fraction bits for 8-bit floats on sm_89, and in wgmma
constexpr int kAda = 89, kHopper = 90;

int fraction_bits_of(int compute_capability) {
  if (compute_capability < 75) return 23;
  return compute_capability < kHopper ? 24 : 25;
}

bool multiplies_small_floats(const Instruction& row) {
  return is_float(row.operand) && row.operand_bits() == 8;
}

// True for Ampere's and Ada's instructions with 32 bytes of k in a row.
bool adds_by_halves(const Instruction& row, int compute_capability) {
  return compute_capability >= 80 && compute_capability < kHopper && row.a_bytes() == 32;
}

TensorSums sums_of(const Instruction& row, int fraction_bits) {
  TensorSums sums;
  if (!is_float(row.acc)) return sums;
  sums.fraction_bits = fraction_bits;
  if (fraction_bits == kNarrowBits) sums.kept_bits = kNarrowBits;
  return sums;
}

}  // namespace

TensorSums tensor_sums(const Instruction& row, int compute_capability) {
  if (compute_capability == 0) return {};
  const bool narrow = compute_capability == kAda && multiplies_small_floats(row);
  TensorSums sums = sums_of(row, narrow ? kNarrowBits : fraction_bits_of(compute_capability));
  if (adds_by_halves(row, compute_capability)) sums.parts = 2;
  return sums;
}

TensorSums wgmma_sums(const Instruction& row) {
  return sums_of(row, multiplies_small_floats(row) ? kNarrowBits : fraction_bits_of(kHopper));
}

NarrowSums narrow_sums(int compute_capability) {
  if (compute_capability == kHopper) return {kNarrowBits, kPromotedTerms};
  if (compute_capability == kAda) return {kNarrowBits, 0};
  return {};
}

}  // namespace tilewright
