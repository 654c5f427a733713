// Constant operands that are laid out once, at load.
#pragma once

#include <string>
#include <vector>

#include "ir/arith/index_map.h"
#include "schedule/primitive.h"

namespace tilewright {

// Lays a weight out by `map` in a separate program, which runs once when the weight is loaded:
//
//   main(B: f32[k, n] weight)  … B[k, j] …
//   ->  pack_B(B: f32[k, n] weight, B_packed: f32[image] output)  B_packed[p] = B[inverse(p)]
//       main(B_packed: f32[image] weight)  … B_packed[map(k, j)] …
//
// Where the image is rounded up, the elements with no logical counterpart are 0, so main may read
// them. Prepacking a buffer that a pack program makes applies the map to its layout, and the buffer
// keeps its name. The two pack programs become one; a program with several blocks gets a copy at
// its end.
//
// Requires: a parameter of role weight; a map of its rank that can be inverted on its shape; no
// predicated or vector load of it.
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

// Moves a block that computes an intermediate from a weight alone into a program that runs once,
// when the weight is loaded. The intermediate becomes a weight of main:
//
//   main(B: i8[k, n] weight)  T[j] += B[k, j] …  C[i, j] = … T[j]
//   ->  pack_T(B: i8[k, n] weight, T: i32[n] output)  T[j] += B[k, j]
//       main(B: i8[k, n] weight, T: i32[n] weight)  C[i, j] = … T[j]
//
// A weight that main no longer reads is dropped from its parameters. Results: the intermediate's
// name.
//
// Requires:
//  - A block as it was lowered, the only writer of its buffer, which is allocated in "root" and
//    written whole.
//  - It reads one weight and nothing else. No pack program reduces into that weight.
//
// The new program recomputes whatever a pack program makes of the weight.
struct Precompute {
  static constexpr std::string_view kName = "precompute";
  std::string block;
  template <class F>
  void visit_fields(F&& f) {
    f("block", block);
  }
  Applied apply(const Module& module) const;
};

// The block of a pack program that computes each packed element by itself, at the indices that are
// its iterators. Its value may be computed at any other place. Null for other programs, such as one
// with several blocks, with a reduction, or with iterators of its own.
const BlockNode* elementwise_block(const Program& pack);

std::vector<PrimitiveEntry> prepack_primitives();

}  // namespace tilewright
