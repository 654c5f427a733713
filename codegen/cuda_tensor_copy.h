// Loops that are copies of boxes, or of neighbouring bytes, between an operand and shared memory.
//
// A schedule marks the loops of a copy with the annotation kTensorCopyKey; it is bound to no threads:
//
//   for s in 0..4 @{tensor_copy: 1} { for k in 0..64 { for x in 0..64 {
//     B_shared[s, k, x] = select(k0 + k < 200, B[k0 + k, n0 + s * 64 + x], 0) }}}
//
// One thread asks for it by tensor copies. The tensor map and its box come from the indices: each
// dimension of the operand is run along by one loop, in steps of 1, or by none; loops in larger steps
// (s) are repeated copies. Zeros beyond the operand are what such copies read, and beyond it they write
// nothing. Neighbouring dimensions of which one loop counts digits are taken for one, and a loop that
// counts the pixels of images moves windows (codegen/cuda_window_copy.h).
//
// No map holds elements below 8 bits, nor boxes of more than 256 elements along a dimension; but what
// lies in memory as it is to lie in shared memory, as a weight does that is laid out in tiles, is copied
// as so many neighbouring bytes, with no map. So is a single row of a box. Such copies begin at multiples
// of 16 bytes, and know no zeros beyond the operand: there must be no condition.
//
// A pipelined loop of which all copies are so marked says by the annotation kCopiesKey who asks for
// them: kByThreads, all of whose threads meet at a barrier an iteration, or kByRoles, whose copies
// warps of their own run ahead with, as far as a ring of mbarriers lets them
// (codegen/passes/gpu_tensor_pipeline.cc).
#pragma once

#include <optional>
#include <vector>

#include "codegen/cuda_async_op.h"
#include "codegen/cuda_window_copy.h"
#include "ir/simplify.h"
#include "ir/stmt.h"

namespace tilewright {

inline constexpr const char* kTensorCopyKey = "tensor_copy";
inline constexpr const char* kCopiesKey = "copies";
inline constexpr const char* kByThreads = "tensor";
inline constexpr const char* kByRoles = "roles";

/// Whether the loop is so marked.
bool is_tensor_copy(const ForNode& loop);

struct TensorCopy {
  Buffer operand, shared;
  bool is_store = false;    ///< to the operand
  TensorBox box;            ///< of the first copy, in terms of the repeated loops
  int64_t stretch = 0;      ///< neighbouring elements from box.at on; 0 where it is a box
  std::vector<Expr> start;  ///< where it begins in shared memory
  std::vector<const ForNode*> repeats;  ///< outermost first
  /// A dimension of the operand each: that of the array in shared memory in which it lies, in steps of
  /// 1; -1 where there is none.
  std::vector<int> places;
  std::optional<PixelWalk> walk = {};  ///< of windows: what the coordinates come from

  /// What all copies bring, and what one does.
  int64_t bytes() const;
  int64_t bytes_each() const;
  /// `copy` in the repeated loops.
  Stmt repeated(Stmt copy) const;
  /// The part `rank` of so many, by which each box is cut along its outermost dimension: neighbouring
  /// bytes, in which swizzles begin anew. Throws LoweringError where there are none such.
  TensorCopy part(const Expr& rank, int64_t parts) const;
};

/// Throws LoweringError that names the loop, what no tensor map describes, and why what it copies is no
/// stretch of bytes. Buffers are those of programs whose indices are not flat yet; `known` has the
/// ranges of dynamic dimensions.
TensorCopy match_tensor_copy(const ForNode& loop, Analyzer& known);

}  // namespace tilewright
