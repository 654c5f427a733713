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

std::vector<PrimitiveEntry> prepack_primitives();

}  // namespace tilewright
