// Index maps from a logical index to a physical one (layouts, fragments, packings).
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "ir/expr.h"

namespace tilewright {

// (i, j) -> (floordiv(j, 16), i, floormod(j, 16)): the inputs are variables, the outputs
// expressions of the inputs.
struct IndexMap {
  std::vector<Var> inputs;
  std::vector<Expr> outputs;

  static IndexMap make(int rank,
                       const std::function<std::vector<Expr>(const std::vector<Var>&)>& fn);
  // Parses "(i, j) -> (floordiv(j, 16), i, floormod(j, 16))"; throws IrError with the place.
  static IndexMap parse(const std::string& text);

  std::vector<Expr> apply(const std::vector<Expr>& indices) const;
  // Extents of the image of a box of `shape`, rounded up where a floor does not divide evenly.
  std::vector<Expr> image(const std::vector<Expr>& shape) const;
  // The inverse map. Throws IrError unless the map is a bijection from a box of `shape` to the
  // image, which rounding up may have padded. With padding, the inverse gives logical indices
  // outside `shape` for physical indices that hold no element.
  IndexMap inverse(const std::vector<Expr>& shape) const;
  std::string str() const;
};

}  // namespace tilewright
