// Asynchronous matrix instructions with a sparse operand: in the emulator, and through NVIDIA's
// compiler.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/cuda/cubin.h"
#include "runtime/cuda/nvrtc.h"
#include "tests/kernels/cuda_kernels.h"
#include "tests/kernels/sparse_wgmma_kernels.h"

namespace tilewright {
namespace {

using test::replaced;
using test::SparseWgmmaCase;
using test::SparseWgmmaRun;
using testing::HasSubstr;

std::string fault_text(const SparseWgmmaRun& run) {
  return run.result.fault ? run.result.fault->to_string() : "";
}

FaultKind kind_of(const SparseWgmmaRun& run) {
  EXPECT_TRUE(run.result.fault.has_value());
  return run.result.fault ? run.result.fault->kind : FaultKind::StepLimit;
}

void expect_sparse_right(const SparseWgmmaCase& c) {
  SCOPED_TRACE(c.to_string());
  SparseWgmmaRun run = run_sparse_wgmma(c, sparse_wgmma_kernel(c));
  EXPECT_EQ(fault_text(run), "");
  EXPECT_TRUE(run.is_right);
  EXPECT_EQ(run.result.counters.wgmma, 1);
  EXPECT_EQ(run.result.counters.mma_operations, int64_t{2} * 64 * c.row->n * c.row->kept())
      << "of the kept elements";
}

TEST(SparseWgmma, RowsAreThoseOfDenseOnesOfTwiceTheTerms) {
  ASSERT_EQ(sparse_wgmma_rows().size(), wgmma_rows().size());
  const Instruction* half = find_instruction("sp_m64n128k32_f32_f16");
  ASSERT_NE(half, nullptr);
  EXPECT_EQ(half->ptx, "wgmma.mma_async.sp.sync.aligned.m64n128k32.f32.f16.f16");
  EXPECT_EQ(half->kept(), 16);
  EXPECT_EQ(half->selectors(), 2);
  EXPECT_EQ(find_instruction("sp_m64n8k64_s32_s8_u8")->selectors(), 1);
  EXPECT_EQ(find_instruction("sp_m64n8k16_f32_tf32")->keep, 1);
  EXPECT_EQ(find_instruction("sp_m64n128k16_f32_f16"), nullptr)
      << "that many terms a dense one has";
}

TEST(SparseWgmma, EveryKindOfRowMultiplies) {
  for (const Instruction& row : sparse_wgmma_rows()) {
    if (row.n != 16) continue;
    expect_sparse_right({&row, row.selectors() - 1, row.operand_bits() != 16});
  }
  for (int selector : {0, 1}) {
    for (bool in_registers : {true, false}) {
      expect_sparse_right({find_instruction("sp_m64n64k32_f32_bf16"), selector, in_registers});
    }
  }
}

TEST(SparseWgmma, WhatIsWrongWithMetadataIsSeen) {
  const SparseWgmmaCase c{find_instruction("sp_m64n16k32_f32_f16")};
  const std::string kernel = sparse_wgmma_kernel(c);
  EXPECT_FALSE(
      run_sparse_wgmma(c, replaced(kernel, "E[threadIdx.x]", "E[threadIdx.x ^ 4]")).is_right)
      << "another row's places";
  SparseWgmmaRun run = run_sparse_wgmma(c, replaced(kernel, "<0, 0, 0>(d", "<1, 0, 0>(d"));
  EXPECT_EQ(kind_of(run), FaultKind::BadMetadata) << "lanes that have none";
  run = run_sparse_wgmma(c, kernel, [](std::vector<uint32_t>& words) { words[36] = 0; });
  EXPECT_EQ(kind_of(run), FaultKind::BadMetadata);
  EXPECT_THAT(fault_text(run), HasSubstr("they must ascend"));
  const SparseWgmmaCase halves{find_instruction("sp_m64n16k16_f32_tf32")};
  run = run_sparse_wgmma(halves, sparse_wgmma_kernel(halves),
                         [](std::vector<uint32_t>& words) { words[1] = 0; });
  EXPECT_EQ(kind_of(run), FaultKind::BadMetadata);
  EXPECT_THAT(fault_text(run), HasSubstr("as the sparse metadata of element"));
}

TEST(SparseWgmma, IsOrderedAsTheDenseOnesAre) {
  const SparseWgmmaCase c{find_instruction("sp_m64n16k32_f32_f16")};
  auto verdict = [&](const std::string& from, const std::string& to) {
    return kind_of(run_sparse_wgmma(c, replaced(sparse_wgmma_kernel(c), from, to)));
  };
  const std::string wait = "  tw_wgmma_wait<0>();\n";
  EXPECT_EQ(verdict("  tw_wgmma_fence();\n", ""), FaultKind::MissingFence);
  EXPECT_EQ(verdict("  tw_fence_async();\n", ""), FaultKind::MissingFence);
  EXPECT_EQ(verdict(wait, ""), FaultKind::WgmmaInFlight);
  EXPECT_EQ(verdict(wait, "  a[2] = 0;\n" + wait), FaultKind::WgmmaInFlight);
  EXPECT_EQ(verdict(wait, "  Bs[threadIdx.x] = 0;\n" + wait), FaultKind::WgmmaInFlight);
}

TEST(SparseWgmma, EveryKindOfRowIsItsInstruction) {
  if (!cuda::nvrtc_problem().empty()) GTEST_SKIP() << cuda::nvrtc_problem();
  if (!cuda::nvrtc_accepts("sm_90a")) GTEST_SKIP() << "this NVRTC knows no sm_90a";
  for (const Instruction& row : sparse_wgmma_rows()) {
    const int most = row.acc == ElemType::f16 ? 256 : 64;
    if (row.n != most && row.n != 8) continue;
    const bool bytes = row.operand_bits() == 8;
    const char* name = !bytes ? "HGMMA.SP" : is_float(row.operand) ? "QGMMA.SP" : "IGMMA.SP";
    const SparseWgmmaCase c{&row, row.selectors() - 1, row.n == 8};
    SCOPED_TRACE(c.to_string());
    const cuda::CubinFacts facts = cuda::cubin_facts(
        cuda::compile_to_cubin(sparse_wgmma_kernel(c), "wgmma", "sm_90a"), "wgmma");
    EXPECT_EQ(facts.count(name), 1);
    EXPECT_EQ(facts.count("HGMMA") + facts.count("QGMMA") + facts.count("IGMMA"), 0);
    EXPECT_EQ(facts.local_accesses(), 0);
  }
}

}  // namespace
}  // namespace tilewright
