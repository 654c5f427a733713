#include "kernel/instructions/instruction.h"

#include <gtest/gtest.h>

#include <set>

#include "kernel/instructions/mma_rows.h"
#include "kernel/instructions/wgmma_rows.h"
#include "tests/kernel/instructions/fragments.h"

namespace tilewright {
namespace {

TEST(Instruction, IsFoundByItsNameInAnyTable) {
  std::set<std::string_view> names;
  for (const auto* rows : {&mma_rows(), &sparse_mma_rows(), &wgmma_rows(), &sparse_wgmma_rows()}) {
    for (const Instruction& row : *rows) {
      EXPECT_TRUE(names.insert(row.name).second) << row.name;
      EXPECT_EQ(find_instruction(row.name), &row);
      EXPECT_EQ(row.is_wgmma(), row.m == kWarpgroupRows) << row.name;
      EXPECT_EQ(row.is_sparse(), row.name.starts_with("sp_")) << row.name;
    }
  }
  EXPECT_EQ(find_instruction("m16n8k17_f32_f16"), nullptr);
}

// A sparse row has twice the k of a dense one, and the same operands in registers.
TEST(Instruction, SparseRowsHoldWhatDenseOnesHold) {
  const Instruction &dense = *find_instruction("m64n128k16_f32_f16"),
                    &sparse = *find_instruction("sp_m64n128k32_f32_f16");
  EXPECT_EQ(sparse.k, 2 * dense.k);
  EXPECT_EQ(sparse.kept(), dense.k);
  EXPECT_EQ(&sparse.a(), &dense.a());
  EXPECT_EQ(&sparse.d(), &dense.d());
  EXPECT_EQ(sparse.a_bytes(), 32);
  EXPECT_EQ(sparse.b_bytes(), 64);
  EXPECT_EQ(sparse.selectors(), 2);
  EXPECT_EQ(dense.selectors(), 1);
  EXPECT_EQ(&sparse.metadata(), &find_instruction("sp_m16n8k32_f32_f16")->metadata());
}

TEST(Instruction, WarpsOfAWarpgroupHaveRowsOfTheirOwn) {
  const Instruction& row = *find_instruction("m64n8k32_s32_s8");
  EXPECT_EQ(&row.a_of_warp(), &find_instruction("m16n8k32_s32_s8")->a());
  for (int warp = 0; warp < row.warps(); ++warp) {
    const MatrixPlace at = row.a().at(warp * kWarp + 9, 5), own = row.a_of_warp().at(9, 5);
    EXPECT_EQ(at, (MatrixPlace{own.row + kWarpRows * warp, own.column}));
  }
}

TEST(Instruction, SaysWhatItComputes) {
  EXPECT_EQ(find_instruction("m16n8k16_f32_f16")->computes, "D[i,j] += A[i,k] * B[k,j]");
  EXPECT_EQ(find_instruction("m16n8k256_s32_b1_xor")->computes, "D[i,j] += A[i,k] ^ B[k,j]");
  EXPECT_EQ(find_instruction("m16n8k256_s32_b1_and")->computes, "D[i,j] += A[i,k] & B[k,j]");
}

}  // namespace
}  // namespace tilewright
