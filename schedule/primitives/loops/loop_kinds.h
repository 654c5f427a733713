// Primitives that set the execution kind of a loop, and annotations.
#pragma once

#include <string>
#include <vector>

#include "schedule/primitive.h"

namespace tilewright {

// parallel(loop="i"):  for i in 0..4 { … }  ->  for i in 0..4 parallel { … }
//
// Requires: a serial loop, no parallel loop around or under it, independent iterations.
struct Parallel {
  static constexpr std::string_view kName = "parallel";
  std::string loop;
  template <class F>
  void visit_fields(F&& f) {
    f("loop", loop);
  }
  Applied apply(const Module& module) const;
};

// vectorize(loop="j"):  for j in 0..16 { … }  ->  for j in 0..16 vectorized { … }
//
// Requires: a serial loop of constant extent with no loop under it, independent iterations.
struct Vectorize {
  static constexpr std::string_view kName = "vectorize";
  std::string loop;
  template <class F>
  void visit_fields(F&& f) {
    f("loop", loop);
  }
  Applied apply(const Module& module) const;
};

// vectorize_reduction(loop="j"):
//   for j in 0..16 { for k in 0..64 { C(j, k): C[j] += A[k] * B[j, k] }}
// ->
//   for j in 0..16 vectorized @{reduce_lanes: 1} { … }
// Vectors lie along the innermost loop, the reduction, and their lanes are added at the end (a
// horizontal reduction). The results of a loop around it are the lanes of one vector. The loop may be
// the reduction itself. Float sums are reassociated.
//
// Requires: a serial loop of constant extent; under it at most one such loop, and a block that sums
// or takes the maximum along the innermost one, without an init (decompose_reduction comes first).
// Along the outer loop the results are different elements; their number is a power of two.
struct VectorizeReduction {
  static constexpr std::string_view kName = "vectorize_reduction";
  std::string loop;
  template <class F>
  void visit_fields(F&& f) {
    f("loop", loop);
  }
  Applied apply(const Module& module) const;
};

// The annotation of a vectorized loop whose lanes are reduced.
inline constexpr const char* kReduceLanes = "reduce_lanes";

// unroll(loop="i"):  for i in 0..4 { … }  ->  for i in 0..4 unrolled { … }
// Requires: a serial loop of constant extent.
struct Unroll {
  static constexpr std::string_view kName = "unroll";
  std::string loop;
  template <class F>
  void visit_fields(F&& f) {
    f("loop", loop);
  }
  Applied apply(const Module& module) const;
};

// bind(loop="i", axis="thread_x"):  for i in 0..64 { … }  ->  for i in 0..64 thread_x { … }
//
// Requires: a serial loop, an axis of a GPU's grid that is not bound around or under it,
// independent iterations.
struct Bind {
  static constexpr std::string_view kName = "bind";
  std::string loop;
  ForKind axis = ForKind::Serial;
  template <class F>
  void visit_fields(F&& f) {
    f("loop", loop);
    f("axis", axis);
  }
  Applied apply(const Module& module) const;
};

// annotate_loop(loop="i", key="unroll", value=16): sets the annotation and replaces an earlier one.
// Requires: a key that is not empty.
struct AnnotateLoop {
  static constexpr std::string_view kName = "annotate_loop";
  std::string loop, key;
  Annotation value;
  template <class F>
  void visit_fields(F&& f) {
    f("loop", loop);
    f("key", key);
    f("value", value);
  }
  Applied apply(const Module& module) const;
};

// annotate_block(block="C", key="intrinsic", value="mma"): the same for a block.
struct AnnotateBlock {
  static constexpr std::string_view kName = "annotate_block";
  std::string block, key;
  Annotation value;
  template <class F>
  void visit_fields(F&& f) {
    f("block", block);
    f("key", key);
    f("value", value);
  }
  Applied apply(const Module& module) const;
};

std::vector<PrimitiveEntry> loop_kind_primitives();

// Refuses when a loop under `s` (itself included) is parallel, vectorized or bound and is not legal
// as such. For rewrites that change what stands around or under such a loop.
class Tree;
void require_legal_kinds(const Tree& tree, const Stmt& s);

}  // namespace tilewright
