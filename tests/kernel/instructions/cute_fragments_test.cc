// Places of matrix elements and of sparse metadata among lanes, against the tables that CuTe and
// CUTLASS have of the same instructions (tests/golden/cute, printed by tests/foreign/cute).
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "kernel/instructions/mma_rows.h"
#include "kernel/instructions/wgmma_rows.h"
#include "tests/golden.h"
#include "tests/kernel/instructions/cute_tables.h"

namespace tilewright {
namespace {

using test::CuteLayout;
using test::expect_same_table;
using test::golden_words;

using CuteFragments = test::CuteTables;

// A layout (lane, value) -> row + rows * column, against our places of the same values.
void expect_places(const CuteLayout& theirs, const Fragment& ours) {
  ASSERT_EQ(theirs.extent(0), ours.lanes());
  ASSERT_EQ(theirs.extent(1), ours.elements());
  int differ = 0;
  for (int lane = 0; lane < ours.lanes(); ++lane) {
    for (int v = 0; v < ours.elements(); ++v) {
      const auto place = static_cast<int>(theirs(lane, v));
      differ += ours.at(lane, v) != MatrixPlace{place % ours.rows(), place / ours.rows()};
    }
  }
  expect_same_table(int64_t{ours.lanes()} * ours.elements(), differ);
}

// The same for an operand with a sparse row: its table counts elements as if it were dense, of which
// `spread` neighbours share the place of a stored one.
void expect_stored(const CuteLayout& theirs, const Fragment& stored, int spread) {
  ASSERT_EQ(theirs.extent(0), stored.lanes());
  ASSERT_EQ(theirs.extent(1), stored.elements() * spread);
  int differ = 0;
  for (int lane = 0; lane < stored.lanes(); ++lane) {
    for (int v = 0; v < theirs.extent(1); ++v) {
      const auto place = static_cast<int>(theirs(lane, v));
      differ += stored.at(lane, v / spread) !=
                MatrixPlace{place % stored.rows(), place / stored.rows() / spread};
    }
  }
  expect_same_table(theirs.size(), differ);
}

// Metadata: (lane, value) -> row + rows * k of the elements that a lane's word tells of. Two of four
// neighbours share four bits, one of two 32-bit elements four.
void expect_metadata(const CuteLayout& theirs, const Instruction& row, int lanes, int rows) {
  ASSERT_EQ(theirs.extent(0), lanes);
  int compared = 0, differ = 0;
  for (int lane = 0; lane < lanes; ++lane) {
    for (int i = 0; i < row.indices_in_word(); ++i) {
      const MatrixPlace ours = row.metadata().at(lane % kWarp, i);
      const auto place = static_cast<int>(theirs(lane, i / row.keep * row.of));
      ++compared;
      differ += place % rows != ours.row + kWarpRows * (lane / kWarp) ||
                place / rows / row.of != ours.column % row.kept() / row.keep;
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
  const Instruction* row = find_instruction(name.row);
  ASSERT_NE(row, nullptr);
  if (name.operand == "A") {
    expect_places(theirs, row->a());
  } else if (name.operand == "B") {
    expect_places(theirs, row->b().transposed());
  } else {
    ASSERT_EQ(name.operand, "C");
    expect_places(theirs, row->d());
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
      MatrixPlace ours = ldmatrix_fragment(transposed).at(lane, v % 2);
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
  for (const Instruction& row : mma_rows()) {
    EXPECT_TRUE(seen.count(std::string(row.name)) || !row.split.empty()) << row.name;
  }
}

void expect_wgmma_operand(const Name& name, const CuteLayout& theirs) {
  const Instruction* row = find_instruction(name.row);
  ASSERT_NE(row, nullptr);
  ASSERT_EQ(name.operand, "A");
  expect_places(theirs, row->a());
}

void expect_sparse_wgmma(const Name& name, const CuteLayout& theirs) {
  const Instruction* row = find_instruction(name.row);
  ASSERT_NE(row, nullptr);
  if (name.operand == "E") {
    return expect_metadata(theirs, *row, kWarpgroup, kWarpgroupRows);
  }
  ASSERT_EQ(name.operand, "A");
  expect_stored(theirs, row->a(), row->of / row->keep);
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
      expect_places(theirs, fragment_of({kWarpgroupRows, n, 2, kWarpgroupRows / kWarpRows}));
    } else if (name.row.starts_with("sp_")) {
      expect_sparse_wgmma(name, theirs);
      const Instruction& row = *find_instruction(name.row);
      sparse.insert({row.operand, row.tf32});
    } else {
      expect_wgmma_operand(name, theirs);
      const Instruction& row = *find_instruction(name.row);
      operands.insert({row.operand, row.tf32});
    }
  }
  // A fragment depends on an operand's bits alone; each type but those of mixed signs has a table.
  for (const Instruction& row : wgmma_rows()) {
    EXPECT_TRUE(columns.count(row.n)) << row.name;
    EXPECT_TRUE(operands.count({row.operand, row.tf32})) << row.name;
  }
  std::set<int> bits;
  for (const auto& [type, tf32] : sparse) bits.insert(bits_of(type));
  for (const Instruction& row : sparse_wgmma_rows()) {
    EXPECT_TRUE(bits.count(row.operand_bits())) << row.name;
  }
}

// "counts NAME A B C KEPT_OF INDEX_BITS".
void expect_counts(const Instruction& row, const std::vector<std::string>& line) {
  EXPECT_EQ(row.a_registers() * row.packed(), std::stoi(line.at(2)));
  EXPECT_EQ(row.b_registers() * row.packed(), std::stoi(line.at(3)));
  EXPECT_EQ(row.acc_registers(), std::stoi(line.at(4)));
  EXPECT_EQ(row.of / row.keep, std::stoi(line.at(5)));
  EXPECT_EQ(row.index_bits, std::stoi(line.at(6)));
}

// "meta NAME LANE PART ROW COLUMN": rows from 16 on are the next instruction's, which takes the
// next sparsity selector. Returns how many indices are elsewhere.
int differing_indices(const Instruction& row, const std::vector<std::string>& line) {
  const int lane = std::stoi(line.at(2)), part = std::stoi(line.at(3));
  const int at = std::stoi(line.at(4)), column = std::stoi(line.at(5));
  const int indices = row.indices_in_word() / (row.operand_bits() == 8 ? 1 : 2);
  int differ = 0;
  for (int i = 0; i < indices; ++i) {
    differ += row.metadata().at(lane, part * indices + i) !=
              MatrixPlace{at % kWarpRows, at / kWarpRows * row.kept() + column * indices + i};
  }
  return differ;
}

void expect_sparse_mma(const Instruction& row, const Name& name, const CuteLayout& theirs) {
  if (name.operand == "E") {
    expect_metadata(theirs, row, kWarp, row.m);
  } else if (name.operand == "A") {
    expect_stored(theirs, row.a(), row.of / row.keep);
  } else if (name.operand == "B") {
    expect_places(theirs, row.b().transposed());
  } else {
    expect_places(theirs, row.d());
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
    const Instruction* row = find_instruction(is_layout ? Name(line[1]).row : line[1]);
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
    const bool bytes = find_instruction(name)->operand_bits() == 8;
    EXPECT_EQ(table.count, bytes ? kWarp : 2 * kWarp);
    expect_same_table(table.count, table.differ);
  }
}

}  // namespace
}  // namespace tilewright
