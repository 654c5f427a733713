// The windows of a convolution as copies of im2col maps (PixelBox, codegen/tensor_map.h): which places of
// images the rows of a tile are, read off the indices of a gathered operand.
//
//   for p in t * 64 .. + 64 { for c in 0..64 {
//     A_shared[p - t * 64, c] = select(…, X[p / 784, p / 28 % 28 * 2 + r - 1, p % 28 * 2 + s - 1, c], 0) }}
//
// p counts the windows' pixels, along the width first; r and s, which do not depend on it, are the offsets
// to the element of the filter. Other loops around may be those over spans of the terms, each of which is
// another copy: of channels of one element of the filter, or of none where a condition says so, as behind
// the last one.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "ir/simplify.h"
#include "ir/stmt.h"

namespace tilewright {

/// What one dimension of an image is for a pixel: step * (pixel / divisor % extent) + lower.
struct PixelDigit {
  int64_t divisor = 1, extent = 1, step = 1, lower = 0;
};

/// How the rows of a tile run along the pixels of a stack of images.
struct PixelWalk {
  Expr first;                      ///< the number of the first row's pixel
  Expr image;                      ///< of the image of pixel 0
  std::vector<PixelDigit> digits;  ///< of each dimension of an image, the outermost first
  std::vector<Expr> offsets;       ///< of the filter's element, likewise

  /// The image and the place in it of the pixel `first + shift`, without offsets.
  std::vector<Expr> place(const Expr& shift) const;
};

/// Whether a part of the index is a digit of the loop's variable, floored or a remainder.
bool runs_by_digits(const Expr& index, const Var& row);

/// The walk of `row`, whose minimum is the first pixel, along the operand's indices without the last one,
/// simplified. `pixels` is how many there are, where a condition of the copy says so. Calls `fail`, which
/// does not return, with what is no such walk.
PixelWalk pixel_walk(const std::vector<Expr>& at, const std::vector<Expr>& dims, const ForNode& row,
                     std::optional<int64_t> pixels, Analyzer& known,
                     const std::function<void(const std::string&)>& fail);

}  // namespace tilewright
