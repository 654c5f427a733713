// Asynchronous matrix instructions in compiled kernels.
#include <gtest/gtest.h>

#include "runtime/cuda/cubin.h"
#include "runtime/cuda/nvrtc.h"
#include "tests/kernels/wgmma_kernels.h"

namespace tilewright {
namespace {

using test::WgmmaCase;

cuda::CubinFacts facts_of(const WgmmaCase& c) {
  return cuda::cubin_facts(cuda::compile_to_cubin(wgmma_kernel(c), "wgmma", "sm_90a"), "wgmma");
}

int matrix_instructions_wgmma(const cuda::CubinFacts& facts) {
  return facts.count("HGMMA") + facts.count("QGMMA") + facts.count("IGMMA");
}

class WgmmaCode : public testing::Test {
 protected:
  void SetUp() override {
    if (!cuda::nvrtc_problem().empty()) GTEST_SKIP() << cuda::nvrtc_problem();
    if (!cuda::nvrtc_accepts("sm_90a")) GTEST_SKIP() << "this NVRTC knows no sm_90a";
  }
};

// Half precision and tf32, quarters, integers.
TEST_F(WgmmaCode, EveryKindOfRowIsItsInstruction) {
  for (const Instruction& row : wgmma_rows()) {
    if (row.n != 64) continue;
    const bool bytes = row.operand_bits() == 8;
    const char* name = !bytes ? "HGMMA" : is_float(row.operand) ? "QGMMA" : "IGMMA";
    WgmmaCase c{&row};
    c.a_in_registers = row.other || row.acc == ElemType::f16;
    SCOPED_TRACE(c.to_string());
    cuda::CubinFacts facts = facts_of(c);
    EXPECT_EQ(facts.count(name), c.terms() / row.k);
    EXPECT_EQ(matrix_instructions_wgmma(facts), facts.count(name));
    EXPECT_EQ(facts.local_accesses(), 0);
  }
}

// The most and the fewest columns that there are, and those between that only some types have.
TEST_F(WgmmaCode, EverySizeIsTakenAndSumsStayInRegisters) {
  for (const char* name : {"m64n8k16_f32_f16", "m64n256k16_f32_f16", "m64n256k16_f16_f16",
                           "m64n256k8_f32_tf32", "m64n256k32_f32_e4m3_e5m2", "m64n248k32_f16_e5m2",
                           "m64n256k32_s32_u8_s8", "m64n240k32_s32_s8", "m64n24k32_s32_u8"}) {
    SCOPED_TRACE(name);
    WgmmaCase c{find_instruction(name)};
    cuda::CubinFacts facts = facts_of(c);
    EXPECT_EQ(matrix_instructions_wgmma(facts), c.terms() / c.row->k);
    EXPECT_EQ(facts.local_accesses(), 0);
    EXPECT_EQ(facts.stack_bytes, 0);
    EXPECT_GE(facts.registers, c.row->sum_registers());
  }
  WgmmaCase across{find_instruction("m64n256k16_f32_bf16"), 128, true, true};
  EXPECT_EQ(facts_of(across).count("HGMMA"), across.terms() / 16);
}

}  // namespace
}  // namespace tilewright
