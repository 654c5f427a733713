// The order in which the blocks of a kernel take its tiles, where it is not that of their loop.
#pragma once

#include <cstdint>
#include <optional>

#include "ir/stmt.h"

namespace tilewright {

/// Annotations of a kernel's loop over blocks, both numbers: the loop runs through so many rows of so
/// many columns of tiles (of clusters, where blocks run in these), and through that again and again;
/// they are to run along a Hilbert curve, on which those that run at a time lie close to each other both
/// ways, so that they read little of both operands.
inline constexpr const char* kHilbertRowsKey = "hilbert_rows";
inline constexpr const char* kHilbertColumnsKey = "hilbert_columns";

/// An annotation of a kernel's loop over blocks, a number: the loop runs through so many tiles of rising
/// length again and again (rows of which a causal mask leaves the later ones more keys). All last ones are
/// to come first, then those before them, so that the short ones fill what is left of the chip at the end.
inline constexpr const char* kLongestLastKey = "longest_last";

/// The tiles of such a loop from the longest ones on.
class LongestFirst {
 public:
  /// Of so many tiles again and again.
  explicit LongestFirst(int64_t tiles) : tiles_(tiles) {}

  /// `body`, in which the variable `tile` is the `turn`-th of `all`, a multiple of these.
  Stmt around(const Var& tile, const Expr& turn, const Expr& all, const Stmt& body) const;

 private:
  int64_t tiles_;
};

/// What the annotation asks for, if it is there; throws LoweringError where it is no number from 1 on, or
/// the loop does not run through whole times so many.
std::optional<LongestFirst> longest_first(const ForNode& loop);

/// The annotation of a loop along a curve once it is lowered: its blocks find their tiles along the curve.
inline constexpr const char* kAlongCurveKey = "along_curve";

/// Squares of a power of two of tiles, as large as fit but no more than 16 x 16, along each of which runs
/// a Hilbert curve (Hilbert, 1891), one square behind the other along a row of squares and back along
/// the next one. What is left at the right and below runs forth and back. A few integer operations.
class HilbertOrder {
 public:
  HilbertOrder(int64_t rows, int64_t columns);

  /// `body`, in which the variable `tile` is the `turn`-th of rows x columns, times however many there
  /// are of these, in clusters of so many neighbours.
  Stmt around(const Var& tile, const Expr& turn, int64_t cluster, const Stmt& body) const;

 private:
  int64_t rows_, columns_;
  int levels_ = 0;  // squares have 2^levels rows
};

/// What the annotations of a loop over blocks ask for, if they do; throws LoweringError where they are
/// no numbers from 1 on.
std::optional<HilbertOrder> hilbert_order(const ForNode& loop);

}  // namespace tilewright
