// Iterations of a loop nest that stand for all of them, in order to tell how often conditions hold.
#pragma once

#include <unordered_map>
#include <utility>
#include <vector>

#include "ir/stmt.h"
#include "tuner/index_value.h"

namespace tilewright {

// Draws give each variable of the loops around a statement a value. Loops of at most 64 iterations that hold
// conditions are enumerated together, the outermost first, up to 512 combinations: shares of tiles that
// these loops guard are exact where their number divides that of the draws. Other loops are drawn evenly
// and independently of each other (a Kronecker sequence).
class Iterations {
 public:
  using Draws = std::vector<int>;

  // `nest`: all loops are of it. Dynamic dimensions are at their maximum.
  explicit Iterations(const Program& nest);

  Draws all() const;
  const IndexValues& at(int draw) const { return values_[static_cast<size_t>(draw)]; }

  // Gives each draw a value of the variable of a loop of the nest, which is not unrolled. Returns the average
  // extent.
  double draw(const ForNode& loop, const Draws& draws);
  // Enters a copy of an unrolled loop's body, whose variable has the given distance from its first value.
  void set(const ForNode& loop, int64_t distance);
  void define(const LetNode& let);

  // The draws for which the condition holds, and the others.
  std::pair<Draws, Draws> parted(const Expr& condition, const Draws& draws) const;

 private:
  // A loop inside `depth` others, which enumerate `outer` combinations, enumerates `extent` values; 1: it is drawn.
  struct Place {
    size_t depth;
    int64_t outer, extent;
  };
  class Places;

  std::vector<IndexValues> values_;
  std::unordered_map<const ForNode*, Place> places_;
};

}  // namespace tilewright
