// Choices between two sides, by a minimum cut.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace tilewright::graph {

// Chooses a side for each item with the least sum of costs: of an item on a side, and of two items on
// different sides. A cost is a whole number of 0 or more. Edmonds and Karp, Theoretical improvements in
// algorithmic efficiency for network flow problems, JACM 1972.
class TwoSides {
 public:
  explicit TwoSides(size_t items) : arcs_of_(items + 2) {}

  void add(size_t item, int64_t on_first, int64_t on_second);
  // `b_last`: of `a` on the first side and `b` on the second; `a_last`: the other way around.
  void add_apart(size_t a, size_t b, int64_t b_last, int64_t a_last);
  // Whether each item is on the second side. All that may be on the first at equal cost are. Called once.
  std::vector<bool> choose();

 private:
  struct Arc {
    size_t to;
    int64_t left;  // what more it can take
  };
  size_t source() const { return arcs_of_.size() - 2; }
  size_t sink() const { return arcs_of_.size() - 1; }
  void add_arcs(size_t from, size_t to, int64_t forward, int64_t backward);
  std::vector<std::optional<size_t>> ways_to_sink() const;

  std::vector<Arc> arcs_;                     // each beside the one that leads back
  std::vector<std::vector<size_t>> arcs_of_;  // by item, then source and sink
};

}  // namespace tilewright::graph
