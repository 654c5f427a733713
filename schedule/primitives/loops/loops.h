// Primitives that rewrite loops. They change the order of execution, never the result.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "schedule/primitive.h"

namespace tilewright {

// split(loop="i", factors=[4, 16]):
//   for i in 0..60 { B(vi = i) }
// ->
//   for i_0 in 0..4 { for i_1 in 0..16 { B(vi = i_0*16 + i_1) where i_0*16 + i_1 < 60 }}
// One factor may be -1: the smallest one that covers the extent. Blocks get a predicate where the
// product is not proven to equal the extent. Results: the new loops, outermost first.
// Requires: a serial loop; factors of 1 or more whose product reaches the (largest) extent.
struct Split {
  static constexpr std::string_view kName = "split";
  std::string loop;
  std::vector<int64_t> factors;
  template <class F>
  void visit_fields(F&& f) {
    f("loop", loop);
    f("factors", factors);
  }
  Applied apply(const Module& module) const;
};

// fuse(loops=["i", "j"]):
//   for i in 0..4 { for j in 0..8 { B(vi = i, vj = j) }}
// ->
//   for i_j_fused in 0..32 { B(vi = floordiv(i_j_fused, 8), vj = floormod(i_j_fused, 8)) }
// Results: the new loop.
// Requires: serial loops, each the whole body of the one before, no extent that depends on another.
struct Fuse {
  static constexpr std::string_view kName = "fuse";
  std::vector<std::string> loops;
  template <class F>
  void visit_fields(F&& f) {
    f("loops", loops);
  }
  Applied apply(const Module& module) const;
};

// reorder(loops=["j", "i"]):
//   for i { for k { for j { B }}}  ->  for j { for k { for i { B }}}
// The loops take the given order; loops between them stay in place.
//
// Requires: one chain with no branching from the outermost to the innermost of them. No extent may
// depend on a loop that would move inside, and iterations may run in any order. Each element's init
// must still come first, which a loop fused of spatial and reduce ones may prevent.
struct Reorder {
  static constexpr std::string_view kName = "reorder";
  std::vector<std::string> loops;
  template <class F>
  void visit_fields(F&& f) {
    f("loops", loops);
  }
  Applied apply(const Module& module) const;
};

// merge(loops=["i", "i_1"]):
//   for i in 0..4 { A(vi = i) }  for i_1 in 0..4 { B(vi = i_1) }
// ->
//   for i in 0..4 { A(vi = i)  B(vi = i) }
// Results: the merged loop.
//
// Requires: serial loops that follow each other in one sequence, with equal ranges. An iteration of
// a later loop reads only what the same iteration of an earlier one wrote, and writes nothing that
// an earlier one touches.
struct Merge {
  static constexpr std::string_view kName = "merge";
  std::vector<std::string> loops;
  template <class F>
  void visit_fields(F&& f) {
    f("loops", loops);
  }
  Applied apply(const Module& module) const;
};

// add_unit_loop(block="B"):  B  ->  for B_u in 0..1 { B }
// Results: the new loop. Requires: not the program's outermost block.
struct AddUnitLoop {
  static constexpr std::string_view kName = "add_unit_loop";
  std::string block;
  template <class F>
  void visit_fields(F&& f) {
    f("block", block);
  }
  Applied apply(const Module& module) const;
};

std::vector<PrimitiveEntry> loop_primitives();

}  // namespace tilewright
