// The order in which the blocks of a kernel take its tiles, where it is not that of their loop.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "ir/stmt.h"

namespace tilewright {

/// The annotation of a kernel's loop over blocks: the order of its tiles, as text (TileOrder).
inline constexpr const char* kTileOrderKey = "tile_order";

/// An order of tiles.
struct TileOrder {
  /// "hilbert 4x8": the loop runs through so many rows of so many columns of tiles, again and again;
  /// where blocks run in clusters, these are counts of clusters. Tiles run along a Hilbert curve.
  /// Those that run at a time then lie close to each other both ways, and read little of both
  /// operands. 0 in other orders.
  int64_t rows = 0, columns = 0;
  /// "longest_last 8": the loop runs through so many tiles of rising length, again and again. Rows
  /// under a causal mask are such tiles: later ones have more keys. All last ones come first, then
  /// those before them. The short ones then fill the rest of the chip at the end. 0 in other orders.
  int64_t longest_last = 0;
  /// "done": the loop is lowered; its blocks find their tiles along the curve.
  bool is_done = false;

  std::string text() const;
};

/// The order that a loop over blocks is annotated with; nothing where it is not. Throws LoweringError
/// where the text is no order, or the loop runs through no multiple of `longest_last` tiles.
std::optional<TileOrder> tile_order(const ForNode& loop);

/// Tiles of rising length from the longest ones on.
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

}  // namespace tilewright
