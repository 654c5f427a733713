// Memory scopes and layouts of buffers.
#pragma once

#include <string>
#include <vector>

#include "ir/arith/index_map.h"
#include "ir/buffer.h"
#include "schedule/primitive.h"

namespace tilewright {

// Moves an intermediate buffer into another memory scope. Requires: not a parameter of the program.
struct SetScope {
  static constexpr std::string_view kName = "set_scope";
  std::string buffer;
  Scope scope = Scope::Global;
  template <class F>
  void visit_fields(F&& f) {
    f("buffer", buffer);
    f("scope", scope);
  }
  Applied apply(const Module& module) const;
};

// Changes the layout of an intermediate buffer. Its shape becomes the image of the old one, and
// each load and store goes through the map:
//
//   T: f32[4, 32]  T[i, j]   -- (i, j) -> (floordiv(j, 16), i, floormod(j, 16)) -->
//   T: f32[2, 4, 16]  T[floordiv(j, 16), i, floormod(j, 16)]
//
// Where the image is rounded up, its padding is neither written nor read.
//
// Requires:
//  - Not a parameter.
//  - A map that has the buffer's rank and can be inverted on its shape.
//  - No predicated or vector access of the buffer.
struct TransformLayout {
  static constexpr std::string_view kName = "transform_layout";
  std::string buffer;
  IndexMap map;
  template <class F>
  void visit_fields(F&& f) {
    f("buffer", buffer);
    f("map", map);
  }
  Applied apply(const Module& module) const;
};

// Rewrites the iterators of a block by a bijection of its iteration domain. The new iterators are
// the map's outputs, under fresh loops "<block>_ax0", … in the order of the outputs:
//
//   block C(vi: 4 = i, vj: 32 = j)   -- (i, j) -> (floordiv(j, 16), i, floormod(j, 16)) -->
//   block C(v0: 2 = C_ax0, v1: 4 = C_ax1, v2: 16 = C_ax2)  with vj = v0 * 16 + v2
//
// Where the image is rounded up, a predicate excludes points outside the old domain.
//
// Requires:
//  - A leaf block alone under its loops.
//  - A map with as many inputs as the block has iterators, which can be inverted on their extents.
//  - No output that mixes spatial and reduce iterators.
struct TransformBlockLayout {
  static constexpr std::string_view kName = "transform_block_layout";
  std::string block;
  IndexMap map;
  template <class F>
  void visit_fields(F&& f) {
    f("block", block);
    f("map", map);
  }
  Applied apply(const Module& module) const;
};

std::vector<PrimitiveEntry> layout_primitives();

}  // namespace tilewright
