// Replacement of a constant index 0 by an iterator that is always 0.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "schedule/primitive.h"
#include "schedule/schedule.h"

namespace tilewright {

// unit_index(block="P", buffer="M", dim=0, iterator="vi"), for a single row i:
//   P(i: 1, j): P[i, j] = X[i, j] - M[0]
// ->
//   P(i: 1, j): P[i, j] = X[i, j] - M[i]
// The element is the same. Simplification had turned the index into 0. A primitive that pads the
// iterator, or that distributes it over threads, then knows that the element belongs to the row.
// All accesses of the block to the buffer at 0 along this dimension change.
//
// Requires: a spatial iterator of the block with one iteration, and an access to the buffer at such
// a 0.
struct UnitIndex {
  static constexpr std::string_view kName = "unit_index";
  std::string block;
  std::string buffer;
  int64_t dim = 0;
  std::string iterator;
  template <class F>
  void visit_fields(F&& f) {
    f("block", block);
    f("buffer", buffer);
    f("dim", dim);
    f("iterator", iterator);
  }
  Applied apply(const Module& module) const;
};

std::vector<PrimitiveEntry> unit_index_primitives();

}  // namespace tilewright
