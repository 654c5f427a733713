// Inlining of blocks into their consumers and producers.
#pragma once

#include <string>
#include <vector>

#include "schedule/primitive.h"

namespace tilewright {

// Removes an injective producer and computes its value at each read:
//
//   T[i] = A[i] + 1   C[i] = T[i] * 2   ->   C[i] = (A[i] + 1) * 2
//
// The consumers' bodies are simplified over their iterators' extents.
// Requires: a leaf block of one unconditional store and no reduction, whose indices are different
// iterators of the block (0 along dimensions of extent 1); the buffer is intermediate, with no other
// writer; its consumers have no predicated loads of it.
struct ComputeInline {
  static constexpr std::string_view kName = "compute_inline";
  std::string block;
  template <class F>
  void visit_fields(F&& f) {
    f("block", block);
  }
  Applied apply(const Module& module) const;
};

// Removes an elementwise consumer and stores its value where the producer stored its own:
//
//   T[i] = A[i] + 1   C[i] = T[i] * 2   ->   C[i] = (A[i] + 1) * 2
//
// Requires: both blocks are leaves of one unconditional store with no reduction (move a consumer of
// a reduction with reverse_compute_at); the consumer is the only reader of its producer's buffer,
// reads it at its own iterators, each once, and iterates over all of it; what else it reads is
// stored before the producer's outermost loop.
struct ReverseComputeInline {
  static constexpr std::string_view kName = "reverse_compute_inline";
  std::string block;
  template <class F>
  void visit_fields(F&& f) {
    f("block", block);
  }
  Applied apply(const Module& module) const;
};

std::vector<PrimitiveEntry> inline_primitives();

}  // namespace tilewright
