// How much of a kernel's pipeline and of its order of tiles a run goes through. A ring of stages
// whose stages are never released looks right until it wraps.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "ir/stmt.h"

namespace tilewright {

struct Exercise {
  // The pipelined loop that wraps least: its stages, and the iterations of one tile. 0 without
  // one of two stages or more.
  int64_t stages = 0, iterations = 0;
  // Iterations that a block has behind its last whole turn of that ring. 0 where some tiles or all
  // blocks end with a whole turn: there a stage that is taken for its neighbour is made up for.
  int64_t remainder = 0;
  // Tiles of each block of a persistent grid, or of each of its teams of consumers, at least; 0 for other grids.
  int64_t turns = 0;
  // Rows and columns of tiles (of clusters, if blocks run in these) along a Hilbert curve; 0 for
  // other orders.
  int64_t curve_rows = 0, curve_columns = 0;

  // How much is missing of what a check asks for: twice as many iterations as stages and one more,
  // a remainder, two tiles per block, and a curve of two rows and columns. Each counts up to 1.
  double missing() const;
  bool is_whole() const { return missing() == 0; }
  // The fewest iterations of a tile that are enough and more than these. There are stages.
  int64_t next_iterations() const;
  // For the description of a kernel.
  std::map<std::string, int64_t> by_name() const;
};

// The exercise of a scheduled program, before it is lowered, at its largest sizes.
Exercise exercise_of(const Program& program);

}  // namespace tilewright
