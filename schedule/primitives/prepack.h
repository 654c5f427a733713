// Constant operands that are laid out once, at load.
#pragma once

#include <string>
#include <vector>

#include "ir/index_map.h"
#include "schedule/primitive.h"

namespace tilewright {

// Lays a weight out by `map` in a program of its own, which runs once when the weight is loaded:
//
//   main(B: f32[k, n] weight)  … B[k, j] …
//   ->  pack_B(B: f32[k, n] weight, B_packed: f32[image] output)  B_packed[p] = B[inverse(p)]
//       main(B_packed: f32[image] weight)  … B_packed[map(k, j)] …
//
// Where the image is rounded up, the elements with no logical counterpart are 0, so main may read
// them. Prepacking a buffer that a pack program makes applies the map to its layout: the two pack
// programs become one (by a copy at its end where it has several blocks), and the buffer keeps its
// name.
// Requires: a parameter of role weight; a map of its rank that can be inverted on its shape; no load
// of it is predicated or a vector's.
struct Prepack {
  static constexpr std::string_view kName = "prepack";
  std::string buffer;
  IndexMap map;
  template <class F>
  void visit_fields(F&& f) {
    f("buffer", buffer);
    f("map", map);
  }
  Applied apply(const Module& module) const;
};

// Moves a block that computes an intermediate from a weight alone into a program that runs once, when
// the weight is loaded; the intermediate becomes a weight of main:
//
//   main(B: i8[k, n] weight)  T[j] += B[k, j] …  C[i, j] = … T[j]
//   ->  pack_T(B: i8[k, n] weight, T: i32[n] output)  T[j] += B[k, j]
//       main(B: i8[k, n] weight, T: i32[n] weight)  C[i, j] = … T[j]
//
// A weight that main does not read any more is no parameter of it. Results: the intermediate's name.
// Requires: a block as it was lowered, the only one that writes its buffer, which is allocated in
// "root" and written whole; it reads one weight, which no pack program reduces to, and nothing else.
// What a pack program makes of a weight is worked out again in the new one.
struct Precompute {
  static constexpr std::string_view kName = "precompute";
  std::string block;
  template <class F>
  void visit_fields(F&& f) {
    f("block", block);
  }
  Applied apply(const Module& module) const;
};

// The block of a pack program that computes each packed element by itself, at the indices that its
// iterators are: its value may be formed anywhere else. Null for other programs, such as one with
// several blocks, with a reduction, or with iterators of its own.
const BlockNode* elementwise_block(const Program& pack);

std::vector<PrimitiveEntry> prepack_primitives();

}  // namespace tilewright
