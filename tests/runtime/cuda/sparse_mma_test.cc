// Matrix instructions with a sparse operand become machine code of that kind. Skipped where there is no
// NVRTC; no GPU is needed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/cuda/cubin.h"
#include "runtime/cuda/nvrtc.h"
#include "tests/kernels/sparse_kernels.h"

namespace tilewright {
namespace {

int sparse_instructions(const cuda::CubinFacts& facts) {
  return facts.count("HMMA.SP") + facts.count("IMMA.SP") + facts.count("QMMA.SP");
}

TEST(SparseMmaCode, EveryRowIsASparseInstruction) {
  if (!cuda::nvrtc_problem().empty()) GTEST_SKIP() << cuda::nvrtc_problem();
  for (const Instruction& row : sparse_mma_rows()) {
    for (const char* arch : {"sm_80", "sm_89", "sm_90a"}) {
      const int capability = std::stoi(std::string(arch).substr(3));
      if (!cuda::nvrtc_accepts(arch) || !row.runs_on(capability)) continue;
      SCOPED_TRACE(std::string(row.name) + " on " + arch);
      const std::string text = test::sparse_kernel(row, row.selectors() - 1);
      cuda::CubinFacts facts =
          cuda::cubin_facts(cuda::compile_to_cubin(text, "sparse", arch), "sparse");
      EXPECT_GE(sparse_instructions(facts), 1);
      EXPECT_EQ(facts.count("HMMA") + facts.count("IMMA") + facts.count("QMMA"), 0)
          << "no instruction without";
      EXPECT_EQ(facts.local_accesses(), 0);
    }
  }
}

}  // namespace
}  // namespace tilewright
