// The order in which the blocks of a kernel take its tiles, where it is not that of their loop.
#pragma once

#include <cstdint>
#include <optional>

#include "ir/stmt.h"

namespace tilewright {

/// Annotations of a kernel's loop over blocks, both numbers. The loop runs through so many rows of
/// so many columns of tiles, again and again. Where blocks run in clusters, these are counts of
/// clusters. Tiles are to run along a Hilbert curve. Those that run at a time then lie close to
/// each other both ways, and read little of both operands.
inline constexpr const char* kHilbertRowsKey = "hilbert_rows";
inline constexpr const char* kHilbertColumnsKey = "hilbert_columns";

/// An annotation of a kernel's loop over blocks, a number. The loop runs through so many tiles of
/// rising length, again and again. Rows under a causal mask are such tiles: later ones have more
/// keys. All last ones are to come first, then those before them. The short ones then fill the rest
/// of the chip at the end.
inline constexpr const char* kLongestLastKey = "longest_last";

/// The tiles of such a loop from the longest ones on.
class LongestFirst {
 public:
  /// Lengths begin anew after so many tiles.
  explicit LongestFirst(int64_t tiles) : tiles_(tiles) {}

  /// `body`, in which the variable `tile` is the `turn`-th of `all`, a multiple of the number of
  /// tiles.
  Stmt around(const Var& tile, const Expr& turn, const Expr& all, const Stmt& body) const;

 private:
  int64_t tiles_;
};

/// The order that the annotation asks for, if it is there. Throws LoweringError where it is no
/// number from 1 on, or where the loop does not run through a multiple of it.
std::optional<LongestFirst> longest_first(const ForNode& loop);

/// The annotation of a loop along a curve once it is lowered: its blocks find their tiles along the
/// curve.
inline constexpr const char* kAlongCurveKey = "along_curve";

/// Squares of a power of two of tiles, as large as fit but no more than 16 x 16. A Hilbert curve
/// (Hilbert, 1891) runs along each of them. One square follows the other along a row of squares,
/// and back along the next row. The rest at the right and below runs forth and back. This takes a
/// few integer operations.
class HilbertOrder {
 public:
  HilbertOrder(int64_t rows, int64_t columns);

  /// `body`, in which the variable `tile` is the `turn`-th of rows x columns, in clusters of
  /// `cluster` neighbours. There may be several times rows x columns.
  Stmt around(const Var& tile, const Expr& turn, int64_t cluster, const Stmt& body) const;

 private:
  int64_t rows_, columns_;
  int levels_ = 0;  // squares have 2^levels rows
};

/// The order that the annotations of a loop over blocks ask for, if they do. Throws LoweringError
/// where they are no numbers from 1 on.
std::optional<HilbertOrder> hilbert_order(const ForNode& loop);

}  // namespace tilewright
