// The mappings of a contraction to an intrinsic of the target: its iterators match the intrinsic's
// by their use in the operands.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "codegen/intrinsics/intrinsics.h"
#include "schedule/schedule.h"

namespace tilewright {

// An exact conversion from one integer type to another, with an offset added if the values do not
// fit without.
struct Conversion {
  ElemType from, to;
  int64_t offset;
};
std::optional<Conversion> conversion(ElemType from, ElemType to);

// The source of the k elements that one lane takes from the first operand.
enum class Fetch {
  InPlace,   // contiguous as they are
  Rows,      // contiguous with the last two dimensions fused: a row of a convolution's window
  Moved,     // a copy with k as last dimension
  Gathered,  // a copy in the order of the block's iterators (im2col)
};

// One mapping. The intrinsic is C[j] += A[k] * B[j, k]. `j` is an iterator of the result and of
// `b`, but not of `a`. `k` are reduction iterators of both operands; several are fused into one.
struct TensorMapping {
  const Intrinsic* row = nullptr;
  std::string name;  // an option: "avx512.vpdpbusd", "avx512.vpdpbusd over kh,kw,ci"
  std::string a, b;  // buffers
  int j = -1;        // indices of the block's iterators
  std::vector<int> k;
  int64_t group = 0;  // `a` depends on floordiv(j, group), a batch dimension; else 0
  Fetch fetch = Fetch::InPlace;
  int k_dim = -1;      // for Moved: the dimension of `a` along k
  bool weight = true;  // `b` is a weight: its changes happen at load
  // The usual mapping, beside a weight: `j` is the last index of the result and `k` the last of
  // `a`, in place. Elements have at least 8 bits. Only the first such row is usual.
  bool usual = false;
  double work = 0;  // instruction lanes per product, padding included
};

struct TensorMappings {
  std::vector<TensorMapping> list;  // best first
  std::string refusal;  // if the list is empty: the iterator or operand that fails, and why
};

// The mappings of a block in its lowered form to `rows`; of two rows that compute the same, the
// faster one first.
TensorMappings find_tensor_mappings(const Schedule& s, const Block& block,
                                    const std::vector<const Intrinsic*>& rows);

}  // namespace tilewright
