// Places of matrix elements and of sparse metadata among lanes, against the tables that CuTe and
// CUTLASS have of the same instructions (tests/golden/cute, printed by tests/foreign/cute).
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <set>

#include "kernel/instructions/mma_rows.h"
#include "kernel/instructions/sparse_mma_rows.h"
#include "kernel/instructions/sparse_wgmma_rows.h"
#include "kernel/instructions/wgmma_rows.h"
#include "tests/golden.h"
#include "tests/kernel/instructions/cute_tables.h"

namespace tilewright {
namespace {

using test::CuteLayout;
using test::expect_same_table;
using test::golden_words;

using CuteFragments = test::CuteTables;

using PlaceOf = std::function<MatrixPlace(int lane, int value)>;

// A layout (lane, value) -> row + rows * column, against our places of the same values.
void expect_places(const CuteLayout& theirs, int lanes, int values, int rows, const PlaceOf& ours) {
  ASSERT_EQ(theirs.extent(0), lanes);
  ASSERT_EQ(theirs.extent(1), values);
  int differ = 0;
  for (int lane = 0; lane < lanes; ++lane) {
    for (int v = 0; v < values; ++v) {
      const auto place = static_cast<int>(theirs(lane, v));
      differ += ours(lane, v) != MatrixPlace{place % rows, place / rows};
    }
  }
  expect_same_table(int64_t{lanes} * values, differ);
}

// The same for an operand with a sparse row: its table counts elements as if it were dense, of which
// `spread` neighbours share the place of a stored one.
void expect_stored(const CuteLayout& theirs, int lanes, const MmaRow& stored, int rows, int spread,
                   const std::function<MatrixPlace(int lane, int r, int part)>& ours) {
  ASSERT_EQ(theirs.extent(0), lanes);
  ASSERT_EQ(theirs.extent(1), stored.a_registers() * stored.packed() * spread);
  int differ = 0;
  for (int lane = 0; lane < lanes; ++lane) {
    for (int v = 0; v < theirs.extent(1); ++v) {
      const auto place = static_cast<int>(theirs(lane, v));
      const int value = v / spread;
      differ += ours(lane, value / stored.packed(), value % stored.packed()) !=
                MatrixPlace{place % rows, place / rows / spread};
    }
  }
  expect_same_table(theirs.size(), differ);
}

// Metadata: (lane, value) -> row + rows * k of the elements that a lane's word tells of. Two of four
// neighbours share four bits, one of two 32-bit elements four.
void expect_metadata(const CuteLayout& theirs, const SparseMmaRow& row, int lanes, int rows) {
  ASSERT_EQ(theirs.extent(0), lanes);
  int compared = 0, differ = 0;
  for (int selector = 0; selector < row.selectors(); ++selector) {
    for (int lane = 0; lane < lanes; ++lane) {
      for (int i = 0; i < row.indices_in_word(); ++i) {
        auto ours = metadata_place(row, lane % kWarp, i, selector);
        if (!ours) continue;
        const auto place = static_cast<int>(theirs(lane, i / row.keep * row.of));
        ++compared;
        differ += place % rows != ours->row + kWarpRows * (lane / kWarp) ||
                  place / rows / row.of != ours->column / row.keep;
      }
    }
  }
  expect_same_table(compared, differ);
  EXPECT_EQ(compared, row.selectors() * rows * row.kept());
}

// The layout of a line "layout NAME.OPERAND SHAPE:STRIDE HASH". The hash is CuTe's own evaluation.
CuteLayout layout_of(const std::vector<std::string>& line) {
  CuteLayout layout(line.at(2));
  EXPECT_EQ(layout.hash(), std::stoull(line.at(3), nullptr, 16)) << line[2];
  return layout;
}

struct Name {
  std::string row, operand;
  explicit Name(const std::string& name)
      : row(name.substr(0, name.rfind('.'))), operand(name.substr(name.rfind('.') + 1)) {}
};

void expect_mma(const Name& name, const CuteLayout& theirs) {
  const MmaRow* row = find_mma(name.row);
  ASSERT_NE(row, nullptr);
  const int packed = row->packed();
  if (name.operand == "A") {
    expect_places(theirs, kWarp, row->a_registers() * packed, row->m,
                  [&](int lane, int v) { return a_place(*row, lane, v / packed, v % packed); });
  } else if (name.operand == "B") {
    expect_places(theirs, kWarp, row->b_registers() * packed, row->n, [&](int lane, int v) {
      const MatrixPlace at = b_place(*row, lane, v / packed, v % packed);
      return MatrixPlace{at.column, at.row};
    });
  } else {
    ASSERT_EQ(name.operand, "C");
    expect_places(theirs, kWarp, row->acc_registers(), row->m, acc_place);
  }
}

// (lane, bit) -> bit of the matrices, 128 bits a row. `v` counts the 16-bit elements.
void expect_matrices(const CuteLayout& theirs, bool transposed) {
  constexpr int kElement = 16, kRow = 128, kMatrixRows = 8;
  ASSERT_EQ(theirs.extent(0), kWarp);
  ASSERT_EQ(theirs.extent(1), 4 * 32);
  int differ = 0;
  for (int lane = 0; lane < kWarp; ++lane) {
    for (int v = 0; v < 8; ++v) {
      const auto bit = static_cast<int>(theirs(lane, v * kElement));
      MatrixPlace ours = ldmatrix_place(lane, v % 2, transposed);
      ours.row += v / 2 * kMatrixRows;
      differ += ours != MatrixPlace{bit / kRow, bit % kRow / kElement};
    }
  }
  expect_same_table(kWarp * 8, differ);
}

TEST_F(CuteFragments, HoldForWarps) {
  std::set<std::string> seen;
  for (const auto& line : golden_words("cute/fragments.txt")) {
    SCOPED_TRACE(line[1]);
    const CuteLayout theirs = layout_of(line);
    if (line[1].find("matrix.x4") != std::string::npos) {
      expect_matrices(theirs, line[1].ends_with(".trans"));
    } else {
      const Name name(line[1]);
      seen.insert(name.row);
      expect_mma(name, theirs);
    }
  }
  for (const MmaRow& row : mma_rows()) {
    EXPECT_TRUE(seen.count(std::string(row.name)) || !row.split.empty()) << row.name;
  }
}

void expect_wgmma_operand(const Name& name, const CuteLayout& theirs) {
  const WgmmaRow* row = find_wgmma(name.row);
  ASSERT_NE(row, nullptr);
  ASSERT_EQ(name.operand, "A");
  const int packed = row->warp.packed();
  expect_places(theirs, kWarpgroup, row->warp.a_registers() * packed, WgmmaRow::m,
                [&](int lane, int v) { return wgmma_a_place(*row, lane, v / packed, v % packed); });
}

void expect_sparse_wgmma(const Name& name, const CuteLayout& theirs) {
  const SparseWgmmaRow* row = find_sparse_wgmma(name.row);
  ASSERT_NE(row, nullptr);
  if (name.operand == "E") {
    return expect_metadata(theirs, row->warp, kWarpgroup, WgmmaRow::m);
  }
  ASSERT_EQ(name.operand, "A");
  const WgmmaRow stored = row->stored();
  expect_stored(theirs, kWarpgroup, stored.warp, WgmmaRow::m, row->warp.of / row->warp.keep,
                [&](int lane, int r, int part) { return wgmma_a_place(stored, lane, r, part); });
}

TEST_F(CuteFragments, HoldForWarpgroups) {
  std::set<int> columns;
  std::set<std::pair<ElemType, bool>> operands, sparse;
  for (const auto& line : golden_words("cute/warpgroups.txt")) {
    SCOPED_TRACE(line[1]);
    const CuteLayout theirs = layout_of(line);
    const Name name(line[1]);
    if (name.operand == "C") {
      const int n = std::stoi(name.row.substr(name.row.find('.') + 1));
      columns.insert(n);
      expect_places(theirs, kWarpgroup, n / 2, WgmmaRow::m, wgmma_acc_place);
    } else if (name.row.starts_with("sp_")) {
      expect_sparse_wgmma(name, theirs);
      const MmaRow& row = find_sparse_wgmma(name.row)->warp.whole;
      sparse.insert({row.operand, row.tf32});
    } else {
      expect_wgmma_operand(name, theirs);
      const MmaRow& row = find_wgmma(name.row)->warp;
      operands.insert({row.operand, row.tf32});
    }
  }
  // A fragment depends on an operand's bits alone; each type but those of mixed signs has a table.
  for (const WgmmaRow& row : wgmma_rows()) {
    EXPECT_TRUE(columns.count(row.n())) << row.warp.name;
    EXPECT_TRUE(operands.count({row.warp.operand, row.warp.tf32})) << row.warp.name;
  }
  std::set<int> bits;
  for (const auto& [type, tf32] : sparse) bits.insert(bits_of(type));
  for (const SparseWgmmaRow& row : sparse_wgmma_rows()) {
    EXPECT_TRUE(bits.count(row.warp.whole.operand_bits())) << row.warp.whole.name;
  }
}

// "counts NAME A B C KEPT_OF INDEX_BITS".
void expect_counts(const SparseMmaRow& row, const std::vector<std::string>& line) {
  const MmaRow stored = row.stored();
  EXPECT_EQ(stored.a_registers() * stored.packed(), std::stoi(line.at(2)));
  EXPECT_EQ(row.whole.b_registers() * row.whole.packed(), std::stoi(line.at(3)));
  EXPECT_EQ(row.whole.acc_registers(), std::stoi(line.at(4)));
  EXPECT_EQ(row.of / row.keep, std::stoi(line.at(5)));
  EXPECT_EQ(row.index_bits, std::stoi(line.at(6)));
}

// "meta NAME LANE PART ROW COLUMN": rows from 16 on are the next instruction's, which takes the
// next sparsity selector. Returns how many indices are elsewhere.
int differing_indices(const SparseMmaRow& row, const std::vector<std::string>& line) {
  const int lane = std::stoi(line.at(2)), part = std::stoi(line.at(3));
  const int at = std::stoi(line.at(4)), column = std::stoi(line.at(5));
  const int indices = row.indices_in_word() / (row.whole.operand_bits() == 8 ? 1 : 2);
  int differ = 0;
  for (int i = 0; i < indices; ++i) {
    differ += metadata_place(row, lane, part * indices + i, at / kWarpRows) !=
              MatrixPlace{at % kWarpRows, column * indices + i};
  }
  return differ;
}

void expect_sparse_mma(const SparseMmaRow& row, const Name& name, const CuteLayout& theirs) {
  const MmaRow stored = row.stored();
  if (name.operand == "E") {
    expect_metadata(theirs, row, kWarp, row.whole.m);
  } else if (name.operand == "A") {
    expect_stored(theirs, kWarp, stored, stored.m, row.of / row.keep,
                  [&](int lane, int r, int part) { return a_place(stored, lane, r, part); });
  } else if (name.operand == "B") {
    const int packed = row.whole.packed();
    expect_places(theirs, kWarp, row.whole.b_registers() * packed, row.whole.n,
                  [&](int lane, int v) {
                    const MatrixPlace at = b_place(row.whole, lane, v / packed, v % packed);
                    return MatrixPlace{at.column, at.row};
                  });
  } else {
    expect_places(theirs, kWarp, row.whole.acc_registers(), row.whole.m, acc_place);
  }
}

TEST_F(CuteFragments, HoldForSparseWarps) {
  struct Words {
    int count = 0, differ = 0;
  };
  std::map<std::string, Words> words;
  int layouts = 0, counts = 0;
  for (const auto& line : golden_words("cute/sparse.txt")) {
    SCOPED_TRACE(line[1]);
    const bool is_layout = line[0] == "layout";
    const SparseMmaRow* row = find_sparse_mma(is_layout ? Name(line[1]).row : line[1]);
    ASSERT_NE(row, nullptr);
    if (is_layout) {
      expect_sparse_mma(*row, Name(line[1]), layout_of(line));
      ++layouts;
    } else if (line[0] == "counts") {
      expect_counts(*row, line);
      ++counts;
    } else {
      ASSERT_EQ(line[0], "meta");
      Words& table = words[line[1]];
      ++table.count;
      table.differ += differing_indices(*row, line);
    }
  }
  EXPECT_EQ(layouts, 4);
  EXPECT_EQ(counts, 7);
  EXPECT_EQ(words.size(), 5u);
  for (const auto& [name, table] : words) {
    SCOPED_TRACE(name);
    const bool bytes = find_sparse_mma(name)->whole.operand_bits() == 8;
    EXPECT_EQ(table.count, bytes ? kWarp : 2 * kWarp);
    expect_same_table(table.count, table.differ);
  }
}

}  // namespace
}  // namespace tilewright
