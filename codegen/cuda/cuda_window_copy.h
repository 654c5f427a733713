// Im2col copies: the windows of a convolution as TMA copies of im2col maps (PixelBox,
// kernel/tensor_map.h). The indices of a gathered operand give each tile row's place in the
// images.
//
//   for p in t * 64 .. + 64 { for c in 0..64 {
//     A_shared[p - t * 64, c] = select(…, X[p / 784, p / 28 % 28 * 2 + r - 1, p % 28 * 2 + s - 1, c], 0) }}
//
// The variable p counts the windows' pixels, along the width first. The variables r and s do not
// depend on it: they are the offsets to the element of the filter. Other loops around may be those
// over spans of k, each of which is another copy. A span has channels of one element of the filter.
// It has those of none where a condition says so, as behind the last one.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "ir/arith/simplify.h"
#include "ir/stmt.h"

namespace tilewright {

/// One dimension of an image as a function of the pixel: step * (pixel / divisor % extent) + lower.
struct PixelDigit {
  int64_t divisor = 1, extent = 1, step = 1, lower = 0;
};

/// How the rows of a tile run along the pixels of a stack of images.
struct PixelWalk {
  Expr first;                      ///< the number of the first row's pixel
  Expr image;                      ///< the number of pixel 0's image
  std::vector<PixelDigit> digits;  ///< one per dimension of an image, the outermost first
  std::vector<Expr> offsets;       ///< offsets of the filter's element, likewise

  /// The image of the pixel `first + shift` and its place there, without offsets.
  std::vector<Expr> place(const Expr& shift) const;
};

/// Whether a part of the index is a digit of the loop's variable, floored or a remainder.
bool runs_by_digits(const Expr& index, const Var& row);

/// The walk of `row`, whose minimum is the first pixel, along the operand's indices without the
/// last one, simplified. `pixels` is how many there are, where a condition of the copy says so.
/// Where there is no such walk, calls `fail`, which does not return, with the reason.
PixelWalk pixel_walk(const std::vector<Expr>& at, const std::vector<Expr>& dims, const ForNode& row,
                     std::optional<int64_t> pixels, Analyzer& known,
                     const std::function<void(const std::string&)>& fail);

}  // namespace tilewright
