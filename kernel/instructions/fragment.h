// The places of a matrix's elements among the lanes and the registers of an instruction.
#pragma once

#include <vector>

#include "ir/arith/index_map.h"

namespace tilewright {

inline constexpr int kWarp = 32;  ///< lanes that carry out an instruction together
/// Lanes that carry out an instruction of a warpgroup together: four warps, the first of which has
/// a number that is a multiple of four.
inline constexpr int kWarpgroup = 128;
inline constexpr int kCoreRows = 8;   ///< rows of a core matrix
inline constexpr int kCoreLanes = 4;  ///< lanes per row of a core matrix

/// An element of a matrix.
struct MatrixPlace {
  int row, column;
  bool operator==(const MatrixPlace&) const = default;
};

/// A matrix that lanes hold together, each element once.
class Fragment {
 public:
  /// `place` maps the row and the column to the lane and to the number among the lane's elements.
  Fragment(int rows, int columns, IndexMap place);

  int rows() const { return rows_; }
  int columns() const { return columns_; }
  int lanes() const { return static_cast<int>(of_lane_.size()); }
  int elements() const { return static_cast<int>(of_element_.size()); }  ///< per lane
  /// (row, column) -> (lane, element). A lane's elements fill its registers one after the other,
  /// each from the lowest bits on.
  const IndexMap& place() const { return place_; }
  /// The element of the matrix with that number among the lane's: the inverse of place().
  MatrixPlace at(int lane, int element) const {
    const MatrixPlace &l = of_lane_[static_cast<size_t>(lane)],
                      &e = of_element_[static_cast<size_t>(element)];
    return {l.row + e.row, l.column + e.column};
  }
  /// The places of a larger matrix: (row, column) -> (fragment along rows, fragment along columns,
  /// lane, element).
  IndexMap tiles() const;
  /// The places in memory of a larger matrix, cut into tiles of `rows` x `columns`: (row, column) ->
  /// (tile along rows, tile along columns, position). A tile has fragment by fragment, row by row of
  /// them, and of each lane by lane its elements, each at the position `order` (element).
  IndexMap packed(int64_t rows, int64_t columns, const IndexMap& order) const;
  Fragment transposed() const;

 private:
  int rows_, columns_;
  IndexMap place_;
  // The lane and the element each add to the row and the column.
  std::vector<MatrixPlace> of_lane_, of_element_;
};

/// 8 rows of four lanes, each of which holds `unit` neighbours of a row.
Fragment core_matrix(int unit);
/// Copies side by side in further elements of the same lanes. Those along rows come first.
Fragment repeat(const Fragment& f, int along_rows, int along_columns);
/// Copies along rows, each in a warp of its own.
Fragment over_warps(const Fragment& f, int warps);

/// A map of two indices, applied to the dimensions `row` and `column`, the last two of `rank`. Those
/// before stay.
IndexMap on_dimensions(const IndexMap& map, int rank, int row, int column);

/// A matrix of core matrices in every one of `warps` warps.
struct FragmentShape {
  int rows, columns;  ///< before the transposition
  int unit;           ///< of core_matrix()
  int warps = 1;
  bool transposed = false;
  auto operator<=>(const FragmentShape&) const = default;  // NOLINT(modernize-use-nullptr)
};
/// The fragment of that shape, which lives as long as the program.
const Fragment& fragment_of(const FragmentShape& shape);

/// `rows` x 8 accumulators: a lane holds pairs.
inline const Fragment& accumulators(int rows) { return fragment_of({rows, kCoreRows, 2}); }

/// The matrix of 8 x 8 elements of 16 bits that `ldmatrix` and `stmatrix` move per register. With
/// `transposed`, lanes hold neighbours of a column.
const Fragment& ldmatrix_fragment(bool transposed);

}  // namespace tilewright
