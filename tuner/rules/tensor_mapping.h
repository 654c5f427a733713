// In which ways a contraction is an intrinsic of the target: its iterators mapped to the
// intrinsic's, by their use in the operands.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "codegen/intrinsics.h"
#include "schedule/schedule.h"

namespace tilewright {

// How values of one integer type are stored as another, exactly: with an offset added where it does
// not hold them as they are.
struct Conversion {
  ElemType from, to;
  int64_t offset;
};
std::optional<Conversion> conversion(ElemType from, ElemType to);

// Where the terms that one lane sums are taken from the first operand.
enum class Fetch {
  InPlace,   // they are neighbours as it lies
  Rows,      // they are, once its last two dimensions are one: a row of a convolution's window
  Moved,     // from a copy whose last dimension they are
  Gathered,  // from a copy in the order of the block's iterators: a matrix product's operand
};

// One way. The intrinsic is C[j] += A[k] * B[j, k]: `j` is an iterator that the result and `b` have,
// and `a` has not; `k` reduction iterators that both operands have, several of them as digits of one.
struct TensorMapping {
  const Intrinsic* row = nullptr;
  std::string name;  // an answer: "avx512.vpdpbusd", "avx512.vpdpbusd over kh,kw,ci"
  std::string a, b;  // buffers
  int j = -1;        // positions among the block's iterators
  std::vector<int> k;
  int64_t group = 0;  // where `a` depends on floordiv(j, group), that is a batch dimension; else 0
  Fetch fetch = Fetch::InPlace;
  int k_dim = -1;      // for Moved, the dimension of `a` in which k runs
  bool weight = true;  // `b` is a weight: what is done to it is done at load
  // `j` is the last index of the result, `k` the last of `a`, the first row so: of bytes or more.
  bool usual = false;
  double work = 0;  // lanes of instructions for a product, padding included
};

struct TensorMappings {
  std::vector<TensorMapping> list;  // the best first
  std::string refusal;  // when the list is empty: which iterator or operand fails, and why

  // Whether there is the usual mapping beside a weight, which is all that sketches knew at first.
  bool has_usual() const;
};

// The mappings of a block that is as it was lowered to `rows` (of two that compute the same the
// faster one first).
TensorMappings find_tensor_mappings(const Schedule& s, const Block& block,
                                    const std::vector<const Intrinsic*>& rows);

}  // namespace tilewright
