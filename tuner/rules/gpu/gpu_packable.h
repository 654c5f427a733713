// Weights that GPU matrix instructions may take from registers.
#pragma once

#include <optional>

#include "kernel/instructions/mma_rows.h"
#include "tuner/rules/gpu/gpu_roles.h"
#include "tuner/rules/gpu/weight/gpu_sparse.h"

namespace tilewright {

// A contraction's weight, in the terms of matrix instructions that take it from registers.
struct Packable {
  std::optional<Block> value;  // computes the dequantized values, if these are not the elements
  ElemType codes, operand;
  Instruction row;            // its operand A is the weight, reduced to kept elements
  const Instruction* sparse;  // mma.sp row with `row` as stored operand; null: dense
  bool scaled;
  int64_t group;  // 0: one scale for all of k
  int64_t k;
  int64_t keep = 1, of = 1, vector = 1;  // pattern by which elements are left out
  bool doubled = false;      // an element is two of the operand's type, whose products are added
  WeightFormat format = {};  // plain weight: only its name and dimensions
  // For instructions that take the other operand as the parameter `stored` has it: the block that
  // widens `stored` to bytes, to be inlined first.
  std::optional<Block> bytes = {};
  std::string stored = {};

  // Dimensions of the stored weight: stacks come in front.
  int rank() const { return static_cast<int>(format.own_dims.size()) + 2; }
  bool is_compressed() const { return keep < of; }
  // Whether dense instructions get gathered activations, those of the kept elements.
  bool gathers() const { return is_compressed() && !sparse; }
  // k of the marked nest.
  int64_t terms() const { return sparse ? gpu_sparse_terms(*sparse) : row.k / keep * of; }
  // The number of stored elements among `k`.
  int64_t kept(int64_t k) const { return k / of * keep; }
};

// The multiplied part of a sparse weight: all of it, what sparse instructions keep, or what the
// pattern keeps (with dense instructions).
enum class Multiplied : uint8_t { All, Halves, Kept };

// Nothing if the weight's type, its groups, its pattern or the other operand does not fit.
std::optional<Packable> packable(RuleContext& c, const Block& block, const GpuRoles& r,
                                 Multiplied how);
// The same beside an operand of fewer than 8 bits, for instructions on such elements.
std::optional<Packable> packable_beside_few_bits(RuleContext& c, const Block& block,
                                                 const GpuRoles& r);
// The same for a plain weight, whose elements are the instruction's.
std::optional<Packable> packable_as_it_is(RuleContext& c, const Block& block, const GpuRoles& r);

// The type of a parameter; nothing if there is no parameter with this name.
std::optional<ElemType> gpu_param_elem(const Schedule& s, const std::string& buffer);

}  // namespace tilewright
