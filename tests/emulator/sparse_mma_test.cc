// Matrix instructions with a sparse operand, lane by lane.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "emulator/emulator.h"
#include "kernel/prelude/cuda_prelude.h"
#include "runtime/error.h"
#include "runtime/tensor/element.h"
#include "tests/kernels/cuda_kernels.h"
#include "tests/kernels/sparse_kernels.h"
#include "tests/runtime/support.h"

namespace tilewright {
namespace {

using test::SparseOperands;
using testing::HasSubstr;
using LaunchBuffer = EmulatedLaunch::Buffer;

struct SparseRun {
  std::vector<double> c, want;
  EmulatorResult result;
};

SparseRun run_sparse(const Instruction& row, const std::string& text, SparseOperands o) {
  std::vector<char> c(static_cast<size_t>(16 * 8 * bits_of(row.acc) / 8));
  EmulatedLaunch launch{"sparse", {1, 1, 1}, {32, 1, 1}, 0, {}};
  launch.arguments = {LaunchBuffer{0}, LaunchBuffer{1}, LaunchBuffer{2}, LaunchBuffer{3}};
  auto words = [](const char* name, std::vector<uint32_t>& v) {
    return EmulatedBuffer{name, v.data(), static_cast<int64_t>(v.size() * 4), true};
  };
  SparseRun run;
  run.result = emulate(text, {launch},
                       {words("A", o.a_registers),
                        words("B", o.b_registers),
                        words("E", o.metadata),
                        {"C", c.data(), static_cast<int64_t>(c.size()), false}});
  for (int i = 0; i < 16; ++i) {
    for (int j = 0; j < 8; ++j) {
      double sum = 0;
      for (int k = 0; k < row.k; ++k) {
        sum += o.a[static_cast<size_t>(i * row.k + k)] * o.b[static_cast<size_t>(k * 8 + j)];
      }
      run.want.push_back(sum);
      run.c.push_back(load_element(row.acc, c.data(), i * 8 + j));
    }
  }
  return run;
}

std::string fault_text(const SparseRun& run) {
  return run.result.fault ? run.result.fault->to_string() : "";
}

class EverySparseMma : public testing::TestWithParam<std::string> {
 protected:
  const Instruction& row() const { return *find_instruction(GetParam()); }
};

// Rows that take the metadata of some of the lanes: which ones, a selector says.
class SelectingSparseMma : public EverySparseMma {};

TEST_P(EverySparseMma, MultipliesTheElementsWhereTheMetadataPutThem) {
  for (int selector = 0; selector < row().selectors(); ++selector) {
    SCOPED_TRACE(selector);
    SparseOperands o = test::sparse_operands(row(), selector, 1);
    SparseRun run = run_sparse(row(), test::sparse_kernel(row(), selector), o);
    EXPECT_EQ(fault_text(run), "");
    EXPECT_EQ(run.c, run.want);
    EXPECT_EQ(run.result.counters.mma, 1);
    EXPECT_EQ(run.result.counters.mma_operations, 2 * 16 * 8 * row().kept());
  }
}

// Another valid word in the place of one lane's.
TEST_P(EverySparseMma, NoticesAWrongWordOfMetadata) {
  SparseOperands o = test::sparse_operands(row(), 0, 2);
  const uint32_t other = row().index_bits == 4 ? 0x4e4e4e4e : 0xd4d4d4d4;
  ASSERT_NE(o.metadata[4], other);
  o.metadata[4] = other;
  SparseRun run = run_sparse(row(), test::sparse_kernel(row(), 0), o);
  EXPECT_EQ(fault_text(run), "");
  EXPECT_NE(run.c, run.want);
}

TEST_P(EverySparseMma, NoticesElementsThatChangedPlaces) {
  SparseOperands o = test::sparse_operands(row(), 0, 3);
  std::swap(o.a_registers[0], o.a_registers[1]);
  SparseRun run = run_sparse(row(), test::sparse_kernel(row(), 0), o);
  EXPECT_EQ(fault_text(run), "");
  EXPECT_NE(run.c, run.want);
}

// The lanes that a wrong selector names hold what means nothing.
TEST_P(SelectingSparseMma, NoticesAWrongSelector) {
  SparseOperands o = test::sparse_operands(row(), 0, 4);
  SparseRun run = run_sparse(row(), test::sparse_kernel(row(), 1), o);
  EXPECT_THAT(fault_text(run), HasSubstr("bad-metadata: kernel 'sparse'"));
}

TEST_P(EverySparseMma, HasNoOtherSelectors) {
  const std::string text = test::sparse_kernel(row(), row().selectors());
  SparseOperands o = test::sparse_operands(row(), 0, 5);
  EXPECT_THAT(test::error_of<CompileError>([&] { run_sparse(row(), text, o); }),
              HasSubstr("a sparsity selector below " + std::to_string(row().selectors())));
}

std::vector<std::string> row_names(int least_selectors) {
  std::vector<std::string> names;
  for (const Instruction& row : sparse_mma_rows()) {
    if (row.selectors() >= least_selectors) names.emplace_back(row.name);
  }
  return names;
}

INSTANTIATE_TEST_SUITE_P(Rows, EverySparseMma, testing::ValuesIn(row_names(1)),
                         [](const auto& info) { return info.param; });
INSTANTIATE_TEST_SUITE_P(Rows, SelectingSparseMma, testing::ValuesIn(row_names(2)),
                         [](const auto& info) { return info.param; });

TEST(SparseMma, PlacesOfAGroupMustAscend) {
  const Instruction& row = *find_instruction("sp_m16n8k32_f32_f16");
  SparseOperands o = test::sparse_operands(row, 0, 1);
  o.metadata[5] = (o.metadata[5] & ~0xfu) | 0x1u;  // 1, then 0
  EXPECT_THAT(fault_text(run_sparse(row, test::sparse_kernel(row, 0), o)),
              HasSubstr("the elements [1, 8] and [1, 9] of A stand at 1 and 0 of 4; they must "
                        "ascend"));
}

TEST(SparseMma, HalvesOfPairsHaveTwoPlaces) {
  const Instruction& row = *find_instruction("sp_m16n8k8_f32_tf32");
  SparseOperands o = test::sparse_operands(row, 2, 1);
  o.metadata[6] &= ~0xf0u;
  EXPECT_THAT(fault_text(run_sparse(row, test::sparse_kernel(row, 2), o)),
              HasSubstr("lane 6 gives 0x0 as the sparse metadata of element [1, 1] of A"));
}

// Lanes that call it with different selectors never meet.
TEST(SparseMma, IsOneInstructionOfTheWarp) {
  const Instruction& row = *find_instruction("sp_m16n8k32_f32_f16");
  std::string text = test::replaced(test::sparse_kernel(row, 0), "  tw_mma_",
                                    "  if (lane < 16) tw_mma_sp_m16n8k32_f32_f16<1>(d, a, b, d, "
                                    "E[lane]); else tw_mma_");
  EXPECT_THAT(fault_text(run_sparse(row, text, test::sparse_operands(row, 0, 1))),
              HasSubstr("divergent-collective"));
}

}  // namespace
}  // namespace tilewright
