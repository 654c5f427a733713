// The elements of an array in another order of its axes.
#pragma once

#include <algorithm>
#include <vector>

#include "graph/graph.h"

namespace tilewright::graph {

// Calls `fn` with the place of each element of a row-major array, in the order in which the elements stand when
// these axes come first and the others follow.
template <class Fn>
void for_each_ordered(const Shape& shape, const std::vector<size_t>& first, const Fn& fn) {
  std::vector<int64_t> strides(shape.size(), 1);
  for (size_t d = shape.size(); d-- > 1;) strides[d - 1] = strides[d] * shape[d];
  std::vector<size_t> order = first;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (std::ranges::find(first, d) == first.end()) order.push_back(d);
  }
  std::vector<int64_t> at(shape.size(), 0);
  int64_t place = 0;
  for (bool more = true; more;) {
    fn(place);
    more = false;
    for (size_t o = order.size(); o-- > 0 && !more;) {
      const size_t d = order[o];
      place += strides[d];
      more = ++at[d] < shape[d];
      if (more) break;
      place -= shape[d] * strides[d];
      at[d] = 0;
    }
  }
}

}  // namespace tilewright::graph
