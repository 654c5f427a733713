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
  // A part of an output: floormod(floordiv(inputs[input], unit), extent) * scale.
  struct Digit {
    int input;
    int64_t unit, extent, scale;
    bool operator==(const Digit&) const = default;
  };

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
  // The parts of each output over a box of `shape`, highest first. Throws IrError for a map that
  // is no sum of such parts, and for a shape that is no constant.
  std::vector<std::vector<Digit>> digits(const std::vector<int64_t>& shape) const;
  // The outputs at one point.
  std::vector<int64_t> at(const std::vector<int64_t>& point) const;
  std::string str() const;
};

// The map x -> f(g(x)). Throws IrError unless f takes as many indices as g gives.
IndexMap compose(const IndexMap& f, const IndexMap& g);
// Whether two maps give the same digits over a box of `shape`. False for a map that has none.
bool same_digits(const IndexMap& f, const IndexMap& g, const std::vector<int64_t>& shape);
// A map of a box of `shape`, repeated over larger boxes: (x, …) -> (floordiv(x, shape), …,
// f(floormod(x, shape), …)). Each copy of the box is numbered along each of its dimensions.
IndexMap repeat(const IndexMap& f, const std::vector<int64_t>& shape);

}  // namespace tilewright
