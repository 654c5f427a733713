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
