// Loops that are TMA copies of tiles, or 1-D bulk copies, between an operand and shared memory.
//
// A schedule marks the loops of a copy as kTma. The loops are bound to no threads:
//
//   for s in 0..4 @{instruction: "tma"} { for k in 0..64 { for x in 0..64 {
//     B_shared[s, k, x] = select(k0 + k < 200, B[k0 + k, n0 + s * 64 + x], 0) }}}
//
// One thread issues the TMA copies. The tensor map and its box come from the indices. One loop runs
// along each dimension of the operand, in steps of 1, or none does. Loops in larger steps (s) are
// repeated copies. Such copies read zeros beyond the operand, and write nothing beyond it.
// Neighbouring dimensions whose digits one loop counts are taken for one. A loop that counts the
// pixels of images makes an im2col copy (codegen/cuda/cuda_window_copy.h).
//
// No map holds elements below 8 bits, nor boxes of more than 256 elements along a dimension. A 1-D
// bulk copy needs no map. It copies contiguous bytes that lie in memory as they are to lie in
// shared memory. A weight that is laid out in tiles is copied so, and so is a single row of a box.
// Such copies begin at multiples of 16 bytes, and know no zeros beyond the operand: there must be
// no condition.
//
// A pipelined loop whose copies are all so marked says by the annotation kCopiesKey who issues
// them. With kByThreads, all threads meet at a barrier per iteration. With kByRoles (warp
// specialization), producer warps run ahead with the copies, as far as a ring of mbarriers lets
// them (codegen/passes/gpu/gpu_tensor_pipeline.cc).
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "codegen/cuda/cuda_async_op.h"
#include "codegen/cuda/cuda_window_copy.h"
#include "ir/arith/simplify.h"
#include "ir/stmt.h"

namespace tilewright {

inline constexpr const char* kCopiesKey = "copies";
// The annotation of a loop with TMA stores right in it, a number: its iterations take turns in so
// many arrays in shared memory. Threads write one while stores still read the others.
inline constexpr const char* kStoreRingKey = "store_ring";
inline constexpr const char* kByThreads = "tensor";
inline constexpr const char* kByRoles = "roles";
// Producer warps, and two teams of consumers instead of one. Each has every second tile of a
// persistent grid for itself: one multiplies while the other one stores.
inline constexpr const char* kPingPong = "ping_pong";

/// Teams of consumers where a loop has this choice of kCopiesKey. Each has tiles of its own.
inline int64_t teams_of_consumers(std::string_view copies) { return copies == kPingPong ? 2 : 1; }

/// Whether the loop is so marked.
bool is_tensor_copy(const ForNode& loop);

struct TensorCopy {
  Buffer operand, shared;
  bool is_store = false;    ///< the copy goes to the operand
  TensorBox box;            ///< the first copy, in terms of the repeated loops
  int64_t stretch = 0;      ///< 1-D bulk copy: contiguous elements from box.at on; 0 for a TMA tile
  std::vector<Expr> start;  ///< the start of the copy in shared memory
  std::vector<const ForNode*> repeats;  ///< outermost first
  /// One entry per dimension of the operand. It is the dimension of the array in shared memory
  /// along which that dimension lies, in steps of 1; -1 where there is none.
  std::vector<int> places;
  std::optional<PixelWalk> walk = {};  ///< for im2col: the source of the coordinates

  /// The bytes that all copies bring, and those of one.
  int64_t bytes() const;
  int64_t bytes_each() const;
  /// `copy` inside the repeated loops.
  Stmt repeated(Stmt copy) const;
  /// Part `rank` of `parts`, into which each box is cut along its outermost dimension. A part is
  /// contiguous bytes, in which swizzles begin anew. Throws LoweringError where there are no such
  /// parts.
  TensorCopy part(const Expr& rank, int64_t parts) const;
};

/// Throws LoweringError that names the loop, why no tensor map describes it, and why it is no 1-D
/// bulk copy. Buffers are those of programs whose indices are not flat yet; `known` has the ranges
/// of dynamic dimensions.
TensorCopy match_tensor_copy(const ForNode& loop, Analyzer& known);

}  // namespace tilewright
