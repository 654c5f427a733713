#include "kernel/instructions/fragment.h"

#include <gtest/gtest.h>

#include "tests/kernel/instructions/fragments.h"

namespace tilewright {
namespace {

using test::expect_fragment;

TEST(Fragment, CoreMatricesRepeatAlongRowsFirst) {
  const Fragment core = core_matrix(2);
  EXPECT_EQ(core.place().str(), "(i0, i1) -> (((i0 * 4) + floordiv(i1, 2)), floormod(i1, 2))");
  expect_fragment(core, 8, 8, 32, 2);
  const Fragment wide = repeat(core, 2, 3);
  expect_fragment(wide, 16, 24, 32, 12);
  EXPECT_EQ(wide.at(5, 2), (MatrixPlace{9, 2}));
  EXPECT_EQ(wide.at(5, 4), (MatrixPlace{1, 10}));
  EXPECT_EQ(wide.at(5, 11), (MatrixPlace{9, 19}));
}

TEST(Fragment, WarpsHoldRowsOfTheirOwn) {
  const Fragment f = over_warps(repeat(core_matrix(4), 2, 1), 4);
  expect_fragment(f, 64, 16, kWarpgroup, 8);
  EXPECT_EQ(f.at(33, 4), (MatrixPlace{24, 4}));
}

TEST(Fragment, TransposedHoldsTheSameElements) {
  const Fragment f = repeat(core_matrix(4), 1, 2), t = f.transposed();
  expect_fragment(t, 32, 8, 32, 8);
  for (int lane = 0; lane < kWarp; ++lane) {
    for (int e = 0; e < f.elements(); ++e) {
      EXPECT_EQ(t.at(lane, e), (MatrixPlace{f.at(lane, e).column, f.at(lane, e).row}));
    }
  }
}

TEST(Fragment, ShapesAreMadeOnce) {
  const Fragment& f = fragment_of({64, 24, 2, 4});
  EXPECT_EQ(&f, &fragment_of({64, 24, 2, 4}));
  EXPECT_NE(&f, &fragment_of({64, 24, 2, 4, true}));
  expect_fragment(f, 64, 24, kWarpgroup, 12);
  EXPECT_EQ(f.at(127, 11), (MatrixPlace{63, 23}));
}

// A larger matrix is numbered by fragments, each of which lies as one alone.
TEST(Fragment, TilesNumberTheFragmentsOfALargerMatrix) {
  const Fragment& f = fragment_of({16, 16, 2});
  const IndexMap map = on_dimensions(f.tiles(), 3, 2, 1);  // [stack, column, row]
  for (int row : {0, 9, 17, 47}) {
    for (int column : {0, 3, 16, 31}) {
      const std::vector<int64_t> at = f.place().at({row % 16, column % 16});
      EXPECT_EQ(map.at({5, column, row}),
                (std::vector<int64_t>{5, row / 16, column / 16, at[0], at[1]}));
    }
  }
  EXPECT_NO_THROW(map.inverse({3, 32, 48}));
}

TEST(Fragment, PackedTilesHoldLaneByLane) {
  const Fragment& f = fragment_of({16, 16, 2});
  const IndexMap backwards = IndexMap::parse("(e) -> (floormod(e, 2) * 4 + floordiv(e, 2))");
  const IndexMap map = f.packed(32, 64, backwards);
  for (int row : {0, 25, 40}) {
    for (int column : {3, 17, 127}) {
      const std::vector<int64_t> at = f.place().at({row % 16, column % 16});
      const int64_t fragment = row % 32 / 16 * 4 + column % 64 / 16;
      EXPECT_EQ(map.at({row, column}),
                (std::vector<int64_t>{row / 32, column / 64,
                                      (fragment * 32 + at[0]) * 8 + at[1] % 2 * 4 + at[1] / 2}));
    }
  }
  EXPECT_NO_THROW(map.inverse({64, 128}));
}

TEST(Fragment, LdmatrixGivesARegisterOfTwoNeighbours) {
  EXPECT_EQ(ldmatrix_fragment(false).at(5, 1), (MatrixPlace{1, 3}));
  EXPECT_EQ(ldmatrix_fragment(true).at(5, 1), (MatrixPlace{3, 1}));
}

}  // namespace
}  // namespace tilewright
