// Copies of buffers in other memory scopes.
#pragma once

#include <string>
#include <vector>

#include "ir/buffer.h"
#include "schedule/primitive.h"

namespace tilewright {

// The arguments that all of them share.
struct CopyOfBuffer {
  std::string block, buffer;
  Scope scope = Scope::Local;
  template <class F>
  void visit_fields(F&& f) {
    f("block", block);
    f("buffer", buffer);
    f("scope", scope);
  }
};

// Makes `block` read a copy of `buffer` in `scope`. The copy's buffer and block are both called
// "<buffer>_<scope>"; other readers keep the original:
//
//   C[i] = A[i]   ->   A_local[a] = A[a]   C[i] = A_local[i]
//
// The copy stands behind all writers of the buffer and before the outermost loops of `block` that
// hold none of them. There it covers the whole buffer, or, under loops that a writer shares, the
// region that one iteration reads. compute_at moves it further in.
//
// Requires: a leaf block that reads `buffer` and does not write it; writers before the block.
struct CacheRead : CopyOfBuffer {
  static constexpr std::string_view kName = "cache_read";
  Applied apply(const Module& module) const;
};

// Makes `block` compute into a copy of `buffer` in `scope`, which is copied to `buffer` behind it.
// The copy's buffer and block are both called "<buffer>_<scope>":
//
//   C[i] += A[i, k]   ->   C_register[i] += A[i, k]   C[a] = C_register[a]
//
// The copy stands behind the outermost loops of `block` that hold no reader of `buffer`.
// reverse_compute_at moves it further in.
//
// Requires: a leaf block, the only writer of `buffer`.
struct CacheWrite : CopyOfBuffer {
  static constexpr std::string_view kName = "cache_write";
  Applied apply(const Module& module) const;
};

// Like cache_read, for a buffer whose index an iterator of the block looks up in memory, such as
// the weight of a group. The copy gathers the elements that the iterator's values find, in their
// order:
//
//   C[b, i] += W[G[b], i]   ->   W_shared[v0, v1] = W[G[v0], v1]   C[b, i] += W_shared[b, i]
//
// The copy's buffer and block are both called "<buffer>_<scope>". It stands before the outermost
// loops of the block.
//
// Requires: a leaf block whose reads of `buffer` look up equal indices in the same dimensions. One
// iterator looks up each index, and all its values find an element there. Nothing writes `buffer`
// or the buffers that hold the indices.
struct CacheLookup : CopyOfBuffer {
  static constexpr std::string_view kName = "cache_lookup";
  Applied apply(const Module& module) const;
};

std::vector<PrimitiveEntry> cache_primitives();

}  // namespace tilewright
