// The laws that every fragment of an instruction keeps.
#pragma once

#include <gtest/gtest.h>

#include <set>
#include <utility>

#include "kernel/instructions/fragment.h"

namespace tilewright::test {

// The fragment has these sizes, holds each element of its matrix once, and place() and at() are
// inverse to each other.
inline void expect_fragment(const Fragment& f, int rows, int columns, int lanes, int elements) {
  EXPECT_EQ(f.rows(), rows);
  EXPECT_EQ(f.columns(), columns);
  ASSERT_EQ(f.lanes(), lanes);
  ASSERT_EQ(f.elements(), elements);
  ASSERT_EQ(int64_t{rows} * columns, int64_t{lanes} * elements);
  const IndexMap inverse = f.place().inverse({rows, columns});
  std::set<std::pair<int, int>> seen;
  for (int lane = 0; lane < lanes; ++lane) {
    for (int e = 0; e < elements; ++e) {
      const MatrixPlace at = f.at(lane, e);
      EXPECT_TRUE(seen.insert({at.row, at.column}).second) << at.row << ", " << at.column;
      // Every seventh, as expressions take their time.
      if ((lane * elements + e) % 7 != 0) continue;
      EXPECT_EQ(inverse.at({lane, e}), (std::vector<int64_t>{at.row, at.column}));
      EXPECT_EQ(f.place().at({at.row, at.column}), (std::vector<int64_t>{lane, e}));
    }
  }
  EXPECT_EQ(*seen.begin(), std::pair(0, 0));
  EXPECT_EQ(*seen.rbegin(), std::pair(rows - 1, columns - 1));
}

}  // namespace tilewright::test
