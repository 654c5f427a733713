// Tiles along a Hilbert curve: each of them once, and close to each other.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <set>

#include "codegen/cuda/cuda_cluster.h"
#include "codegen/cuda/cuda_tile_order.h"
#include "codegen/cuda_lowering.h"
#include "ir/arith/simplify.h"
#include "ir/oracle/evaluate.h"
#include "ir/visitor.h"

namespace tilewright {
namespace {

using ::testing::HasSubstr;

// The tiles of a loop in the order in which they run, computed from its lets.
std::vector<int64_t> order_of(int64_t rows, int64_t columns, int64_t cluster = 1,
                              int64_t results = 1) {
  Var tile("tile"), turn("turn");
  const Stmt chain =
      HilbertOrder(rows, columns)
          .around(tile, turn, cluster, make_evaluate(call(ElemType::boolean, CallOp::Barrier, {})));
  std::vector<int64_t> order;
  for (int64_t t = 0; t < rows * columns * cluster * results; ++t) {
    VarMap values = {{turn.get(), Expr(t)}};
    Stmt s = chain;
    for (auto* let = s.as<LetNode>(); let; let = s.as<LetNode>()) {
      const auto value = as_int(simplify(substitute(let->value, values)));
      EXPECT_TRUE(value) << let->var.name();
      values[let->var.get()] = Expr(value.value_or(0));
      s = let->body;
    }
    order.push_back(*as_int(values.at(tile.get())));
  }
  return order;
}

TEST(HilbertOrder, HasEveryTileOnce) {
  for (const auto& [rows, columns] : {std::pair<int64_t, int64_t>{1, 1},
                                      {1, 5},
                                      {4, 4},
                                      {5, 7},
                                      {8, 3},
                                      {16, 16},
                                      {17, 33},
                                      {12, 20}}) {
    SCOPED_TRACE(fmt::format("{} x {}", rows, columns));
    std::vector<int64_t> order = order_of(rows, columns);
    std::sort(order.begin(), order.end());
    for (size_t i = 0; i < order.size(); ++i) EXPECT_EQ(order[i], static_cast<int64_t>(i));
  }
}

// In a square each tile is a neighbour of the one before.
TEST(HilbertOrder, GoesFromNeighbourToNeighbour) {
  for (int64_t side : {2, 4, 8, 16}) {
    const std::vector<int64_t> order = order_of(side, 2 * side);
    for (size_t i = 1; i < order.size(); ++i) {
      const int64_t a = order[i - 1], b = order[i], columns = 2 * side;
      const int64_t distance =
          std::abs(a / columns - b / columns) + std::abs(a % columns - b % columns);
      ASSERT_EQ(distance, 1) << "from " << a << " to " << b << " of side " << side;
    }
  }
}

// The most rows and columns of operands that `window` consecutive tiles read.
int64_t wanted(const std::vector<int64_t>& order, int64_t columns, size_t window) {
  int64_t most = 0;
  for (size_t first = 0; first + window <= order.size(); first += window) {
    std::set<int64_t> of_a, of_b;
    for (size_t i = first; i < first + window; ++i) {
      of_a.insert(order[i] / columns);
      of_b.insert(order[i] % columns);
    }
    most = std::max<int64_t>(most, static_cast<int64_t>(of_a.size() + of_b.size()));
  }
  return most;
}

TEST(HilbertOrder, TilesThatRunTogetherReadLittle) {
  std::vector<int64_t> row_by_row(32 * 32);
  for (size_t i = 0; i < row_by_row.size(); ++i) row_by_row[i] = static_cast<int64_t>(i);
  const std::vector<int64_t> order = order_of(32, 32);
  EXPECT_EQ(wanted(order, 32, 64), 16) << "squares of 8 x 8";
  EXPECT_EQ(wanted(row_by_row, 32, 64), 34);
}

// The blocks of a cluster keep together, and so do the tiles of each of several results.
TEST(HilbertOrder, KeepsClustersAndResultsTogether) {
  const std::vector<int64_t> alone = order_of(4, 6), order = order_of(4, 6, 2, 3);
  ASSERT_EQ(order.size(), alone.size() * 6);
  for (size_t i = 0; i < order.size(); ++i) {
    const size_t unit = i / 2, result = unit / alone.size();
    const auto first = static_cast<int64_t>(result * alone.size());
    EXPECT_EQ(order[i], (first + alone[unit % alone.size()]) * 2 + static_cast<int64_t>(i % 2));
  }
}

// Three sweeps through four tiles: the last ones of all sweeps, then those before them.
TEST(LongestFirst, HasTheLastTilesOfAllSweepsFirst) {
  Var tile("tile"), turn("turn");
  const Stmt s = LongestFirst(4).around(
      tile, turn, Expr(12), make_evaluate(call(ElemType::boolean, CallOp::Barrier, {})));
  std::vector<int64_t> order;
  for (int64_t t = 0; t < 12; ++t) {
    const Expr value = substitute(s.as<LetNode>()->value, VarMap{{turn.get(), Expr(t)}});
    order.push_back(as_int(simplify(value)).value());
  }
  EXPECT_THAT(order, ::testing::ElementsAre(3, 7, 11, 2, 6, 10, 1, 5, 9, 0, 4, 8));
}

Stmt loop_in_order(const Annotations& notes) {
  return make_for(Var("i"), 0, 12, ForKind::BlockX,
                  make_evaluate(call(ElemType::boolean, CallOp::Barrier, {})), notes);
}

TEST(TileOrder, IsWrittenAndRead) {
  for (const TileOrder& order : {TileOrder{.rows = 4, .columns = 16}, TileOrder{.longest_last = 4},
                                 TileOrder{.is_done = true}}) {
    const Stmt loop = loop_in_order({{kTileOrderKey, order.text()}});
    const auto found = tile_order(*loop.as<ForNode>());
    ASSERT_TRUE(found) << order.text();
    EXPECT_EQ(found->rows, order.rows);
    EXPECT_EQ(found->columns, order.columns);
    EXPECT_EQ(found->longest_last, order.longest_last);
    EXPECT_EQ(found->is_done, order.is_done);
  }
  EXPECT_FALSE(tile_order(*loop_in_order({}).as<ForNode>()));
}

TEST(TileOrder, OtherTextIsRefused) {
  auto text = [](const char* order) { return Annotation(std::string(order)); };
  for (const Annotation& wrong :
       {text("hilbert 4"), text("hilbert 4x"), text("hilbert 4x0"), text("hilbert -1x4"),
        text("hilbert 4x8x2"), text("longest_last 5"), text("longest_last 0"), text("rows"),
        Annotation(int64_t{4})}) {
    const Stmt loop = loop_in_order({{kTileOrderKey, wrong}});
    try {
      tile_order(*loop.as<ForNode>());
      FAIL() << "was not refused";
    } catch (const LoweringError& e) {
      EXPECT_THAT(e.what(), HasSubstr("'tile_order' of loop 'i' over blocks is '"));
      EXPECT_THAT(e.what(), HasSubstr("it may be 'hilbert 4x8' with any rows x columns"));
    }
  }
}

}  // namespace
}  // namespace tilewright
