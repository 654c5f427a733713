#include "graph/layouts/minimum_cut.h"

#include <algorithm>
#include <optional>

namespace tilewright::graph {

// An arc from the source to an item has the cost of the second side, one to the sink that of the first.
void TwoSides::add(size_t item, int64_t on_first, int64_t on_second) {
  add_arcs(source(), item, on_second, 0);
  add_arcs(item, sink(), on_first, 0);
}

void TwoSides::add_apart(size_t a, size_t b, int64_t b_last, int64_t a_last) {
  add_arcs(a, b, b_last, a_last);
}

void TwoSides::add_arcs(size_t from, size_t to, int64_t forward, int64_t backward) {
  arcs_of_[from].push_back(arcs_.size());
  arcs_.push_back({to, forward});
  arcs_of_[to].push_back(arcs_.size());
  arcs_.push_back({from, backward});
}

// Breadth first, against the arcs that can take more: by which arc the sink is reached from each place.
std::vector<std::optional<size_t>> TwoSides::ways_to_sink() const {
  std::vector<std::optional<size_t>> ways(arcs_of_.size());
  std::vector<size_t> queue = {sink()};
  for (size_t q = 0; q < queue.size(); ++q) {
    for (size_t back : arcs_of_[queue[q]]) {
      const size_t arc = back ^ 1, from = arcs_[back].to;
      if (arcs_[arc].left == 0 || ways[from] || from == sink()) continue;
      ways[from] = arc;
      queue.push_back(from);
    }
  }
  return ways;
}

std::vector<bool> TwoSides::choose() {
  auto ways = ways_to_sink();
  for (; ways[source()]; ways = ways_to_sink()) {
    int64_t flow = arcs_[*ways[source()]].left;
    for (size_t at = source(); at != sink(); at = arcs_[*ways[at]].to) {
      flow = std::min(flow, arcs_[*ways[at]].left);
    }
    for (size_t at = source(); at != sink(); at = arcs_[*ways[at]].to) {
      arcs_[*ways[at]].left -= flow;
      arcs_[*ways[at] ^ 1].left += flow;
    }
  }
  std::vector<bool> second;
  for (size_t item = 0; item < source(); ++item) second.push_back(ways[item].has_value());
  return second;
}

}  // namespace tilewright::graph
