// Weights that matrix instructions of GPUs may take from registers.
#pragma once

#include <optional>

#include "codegen/sparse_mma_rows.h"
#include "tuner/rules/gpu_roles.h"
#include "tuner/rules/gpu_sparse.h"

namespace tilewright {

// The weight of a contraction, as far as matrix instructions may take it from registers.
struct Packable {
  std::optional<Block> value;  // says what an element is worth, where that is not the element
  ElemType codes, operand;
  MmaRow row;                  // its first operand is the weight, without what is left out
  const SparseMmaRow* sparse;  // whose stored operand that is; null where instructions are dense
  bool scaled;
  int64_t group;  // 0 where one scale serves all of k
  int64_t k;
  int64_t keep = 1, of = 1, vector = 1;  // of the pattern by which elements are left out
  bool doubled = false;  // elements are two of the operand's type each, whose products are summed
  WeightFormat format = {};  // of a plain weight its name and dimensions alone
  // Where instructions take the other operand as the parameter `stored` has it: what makes bytes of
  // that, and has to be inlined first.
  std::optional<Block> bytes = {};
  std::string stored = {};

  // Dimensions of the stored weight: those of stacks in front.
  int rank() const { return static_cast<int>(format.own_dims.size()) + 2; }
  bool is_compressed() const { return keep < of; }
  // Whether the activations that belong to the kept elements are gathered for dense instructions.
  bool gathers() const { return is_compressed() && !sparse; }
  // Terms along k of what the marked nest carries out.
  int64_t terms() const { return sparse ? gpu_sparse_terms(*sparse) : row.k / keep * of; }
  // Of so many terms those that are stored.
  int64_t kept(int64_t k) const { return k / of * keep; }
};

// What of a sparse weight is multiplied: all of it, what sparse instructions keep, or what the pattern
// keeps, by dense instructions.
enum class Multiplied : uint8_t { All, Halves, Kept };

// Nothing where the weight's type, its groups or its pattern do not fit, or the other operand.
std::optional<Packable> packable(RuleContext& c, const Block& block, const GpuRoles& r,
                                 Multiplied how);
// Likewise beside an operand of fewer than 8 bits, for instructions on such elements.
std::optional<Packable> packable_beside_few_bits(RuleContext& c, const Block& block,
                                                 const GpuRoles& r);
// Likewise of a plain weight, whose elements are those of the instruction.
std::optional<Packable> packable_as_it_is(RuleContext& c, const Block& block, const GpuRoles& r);

// The type of a parameter; nothing where there is none of this name.
std::optional<ElemType> gpu_param_elem(const Schedule& s, const std::string& buffer);

}  // namespace tilewright
