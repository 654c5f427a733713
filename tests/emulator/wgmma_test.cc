// Kernels with asynchronous matrix instructions: right ones of every kind, and each omission.
#include "emulator/instructions/wgmma.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/error.h"
#include "tests/kernels/cuda_kernels.h"
#include "tests/kernels/wgmma_kernels.h"

namespace tilewright {
namespace {

using test::replaced;
using test::WgmmaCase;
using test::WgmmaRun;
using testing::AnyOf;
using testing::HasSubstr;

std::string fault_text(const WgmmaRun& run) {
  return run.result.fault ? run.result.fault->to_string() : "";
}

void expect_right(const WgmmaCase& c, uint64_t seed = 1) {
  SCOPED_TRACE(c.to_string());
  WgmmaRun run = run_wgmma(c, wgmma_kernel(c), seed);
  EXPECT_EQ(fault_text(run), "");
  EXPECT_TRUE(run.is_right);
  EXPECT_EQ(run.result.counters.wgmma, c.terms() / c.row->k);
  EXPECT_EQ(run.result.counters.mma_operations, int64_t{2} * 64 * c.row->n * c.terms());
}

TEST(Wgmma, EveryKindOfRowMultiplies) {
  for (const Instruction& row : wgmma_rows()) {
    if (row.n != 24) continue;
    WgmmaCase c{&row};
    c.a_in_registers = row.other.has_value();
    expect_right(c);
  }
}

TEST(Wgmma, OperandsLieInEveryWay) {
  for (int span : {128, 64, 32, 16}) {
    for (int ways = 0; ways < 4; ++ways) {
      expect_right(
          {find_instruction("m64n128k16_f32_f16"), span, (ways & 1) != 0, (ways & 2) != 0});
    }
  }
  for (int span : {64, 32, 16}) expect_right({find_instruction("m64n32k8_f32_tf32"), span});
  expect_right({find_instruction("m64n48k32_s32_u8_s8"), 16});
  for (const char* name : {"m64n64k16_f32_bf16", "m64n8k8_f32_tf32", "m64n16k32_s32_s8"}) {
    WgmmaCase c{find_instruction(name), 64};
    c.a_in_registers = true;
    expect_right(c);
  }
}

TEST(Wgmma, ColumnsGoFrom8To256InAnyOrderOfThreads) {
  for (const char* name : {"m64n8k16_f32_bf16", "m64n256k16_f32_bf16"}) {
    for (uint64_t seed : {0, 1, 5}) expect_right({find_instruction(name)}, seed);
  }
}

const WgmmaCase& broken_case() {
  static const WgmmaCase c{find_instruction("m64n16k16_f32_f16")};
  return c;
}

// The kernel with one place changed.
WgmmaRun broken(const std::string& from, const std::string& to, uint64_t seed = 1) {
  const WgmmaCase& c = broken_case();
  return run_wgmma(c, replaced(wgmma_kernel(c), from, to), seed);
}

FaultKind kind_of(const WgmmaRun& run) {
  EXPECT_TRUE(run.result.fault.has_value());
  return run.result.fault ? run.result.fault->kind : FaultKind::StepLimit;
}

TEST(Wgmma, AMissingProxyFenceIsAFault) {
  for (uint64_t seed : {0, 1, 2}) {
    WgmmaRun run = broken("  tw_fence_async();\n", "", seed);
    EXPECT_EQ(kind_of(run), FaultKind::MissingFence);
    EXPECT_THAT(fault_text(run), HasSubstr("with no fence.proxy.async between"));
    // The fence is asked of whoever stores, before the barrier that others wait at.
    run = broken("  tw_fence_async();\n  __syncthreads();\n",
                 "  __syncthreads();\n  tw_fence_async();\n", seed);
    EXPECT_EQ(kind_of(run), FaultKind::Race);
    run = broken("  tw_fence_async();\n", "  if (threadIdx.x < 32) tw_fence_async();\n", seed);
    EXPECT_EQ(kind_of(run), FaultKind::MissingFence) << "those of others do not count";
  }
}

// Asynchronous copies of threads count as their stores.
TEST(Wgmma, CopiesNeedTheFenceBehindTheirWait) {
  const std::string store = "    Bs[tw_swizzle<3, 3, 3>(x * 64 + k)] = B[i];\n";
  const std::string copy =
      "    if (k % 8 == 0) tw_cp_async<16>(Bs + tw_swizzle<3, 3, 3>(x * 64 + k), B + i);\n";
  const WgmmaCase& c = broken_case();
  const std::string kernel = replaced(wgmma_kernel(c), store, copy);
  const std::string wait = "  tw_cp_async_commit();\n  tw_cp_async_wait<0>();\n";
  const std::string fence = "  tw_fence_async();\n";
  EXPECT_TRUE(run_wgmma(c, replaced(kernel, fence, wait + fence)).is_right);
  EXPECT_EQ(kind_of(run_wgmma(c, replaced(kernel, fence, fence + wait))), FaultKind::MissingFence);
  EXPECT_EQ(kind_of(run_wgmma(c, kernel)), FaultKind::CopyInFlight);
}

TEST(Wgmma, AMissingBarrierIsARace) {
  for (uint64_t seed : {0, 1, 2}) {
    EXPECT_EQ(kind_of(broken("  __syncthreads();\n", "", seed)), FaultKind::Race);
    // Its own warp's stores are in order then, but not fenced for it.
    EXPECT_THAT(kind_of(broken("  __syncthreads();\n", "  __syncwarp();\n", seed)),
                AnyOf(FaultKind::Race, FaultKind::MissingFence));
  }
}

TEST(Wgmma, RegistersAreFenced) {
  WgmmaRun run = broken("  tw_wgmma_fence();\n", "");
  EXPECT_EQ(kind_of(run), FaultKind::MissingFence);
  EXPECT_THAT(fault_text(run),
              HasSubstr("gives wgmma registers with no wgmma.fence since it began"));
  // Again behind a wait, which gives the sums back.
  const std::string again =
      "  tw_wgmma_m64n16k16_f32_f16<0, 0>(d, tw_wgmma_operand<128>(As, 16, 1024),\n"
      "      tw_wgmma_operand<128>(Bs, 16, 1024), 1);\n  tw_wgmma_commit();\n  "
      "tw_wgmma_wait<0>();\n";
  EXPECT_EQ(kind_of(broken("  tw_wgmma_hold(d);\n", again)), FaultKind::MissingFence);
  EXPECT_EQ(fault_text(broken("  tw_wgmma_hold(d);\n", "  tw_wgmma_fence();\n" + again)), "");
}

TEST(Wgmma, SumsLandWhenTheirGroupHasBeenWaitedFor) {
  for (auto [from, to] :
       {std::pair{"  tw_wgmma_wait<0>();\n", ""}, std::pair{"  tw_wgmma_commit();\n", ""},
        std::pair{"tw_wgmma_wait<0>", "tw_wgmma_wait<1>"}}) {
    SCOPED_TRACE(from);
    WgmmaRun run = broken(from, to);
    EXPECT_EQ(kind_of(run), FaultKind::WgmmaInFlight);
    EXPECT_THAT(fault_text(run), HasSubstr("returns without waiting for the wgmma"));
  }
  // Read too early, they are no numbers.
  WgmmaRun early = broken("  tw_wgmma_wait<0>();\n",
                          "  const float x = d[0];\n  tw_wgmma_wait<0>();\n  d[0] = x;\n");
  EXPECT_EQ(fault_text(early), "");
  EXPECT_FALSE(early.is_right);
  WgmmaRun changed = broken("  tw_wgmma_wait<0>();\n", "  d[3] += 1;\n  tw_wgmma_wait<0>();\n");
  EXPECT_EQ(kind_of(changed), FaultKind::WgmmaInFlight);
  EXPECT_THAT(fault_text(changed), HasSubstr("whose accumulators were changed meanwhile"));
}

TEST(Wgmma, OperandsStayUntilTheyHaveBeenRead) {
  WgmmaRun run =
      broken("  tw_wgmma_wait<0>();\n", "  Bs[threadIdx.x] = 0;\n  tw_wgmma_wait<0>();\n");
  EXPECT_EQ(kind_of(run), FaultKind::WgmmaInFlight);
  EXPECT_THAT(fault_text(run), HasSubstr("writes Bs["));
  // Other warps may still read operands of a group that one warp has waited for.
  run = broken("  tw_wgmma_hold(d);\n", "  Bs[threadIdx.x] = 0;\n");
  EXPECT_THAT(kind_of(run), AnyOf(FaultKind::WgmmaInFlight, FaultKind::Race));
  EXPECT_TRUE(
      broken("  tw_wgmma_hold(d);\n", "  __syncthreads();\n  Bs[threadIdx.x] = 0;\n").is_right);
}

TEST(Wgmma, AWrongSwizzleOrStrideIsSeen) {
  const std::string a = "tw_wgmma_operand<128>(As + s * 16, 16, 1024)";
  ASSERT_TRUE(broken(a, a).is_right);
  auto is_seen = [&](const std::string& to) {
    WgmmaRun run = broken(a, to);
    return !run.is_right;
  };
  for (const char* to :
       {"tw_wgmma_operand<64>(As + s * 16, 16, 1024)", "tw_wgmma_operand<0>(As + s * 16, 16, 1024)",
        "tw_wgmma_operand<128>(As + s * 16, 16, 512)",
        "tw_wgmma_operand<128>(As + s * 8, 16, 1024)"}) {
    EXPECT_TRUE(is_seen(to)) << to;
  }
  EXPECT_TRUE(is_seen("tw_wgmma_operand<128>(Bs + s * 16, 16, 1024)"));
  EXPECT_FALSE(broken("As[tw_swizzle<3, 3, 3>(x * 64 + k)]", "As[x * 64 + k]").is_right);
  EXPECT_FALSE(broken("f16<0, 0>(d", "f16<0, 1>(d").is_right);
}

TEST(Wgmma, WhatNoDescriptorSaysIsNamed) {
  const std::string a = "tw_wgmma_operand<128>(As + s * 16, 16, 1024)";
  auto refusal = [&](const std::string& to) {
    WgmmaRun run = broken(a, to);
    EXPECT_EQ(kind_of(run), FaultKind::BadDescriptor);
    return fault_text(run);
  };
  EXPECT_THAT(refusal("tw_wgmma_operand<128>(As + s * 16 + 4, 16, 1024)"),
              HasSubstr("gives wgmma As as its operand A: it begins at byte 8 of shared memory, no "
                        "multiple of 16"));
  EXPECT_THAT(refusal("tw_wgmma_operand<128>(As + s * 16, 16, 1000)"),
              HasSubstr("an offset of 1000 bytes"));
  EXPECT_THAT(refusal("tw_wgmma_operand<128>(As + 64, 16, 1024)"),
              HasSubstr("within a swizzle's pattern, which begins at multiples of 1024"));
  EXPECT_THAT(refusal("tw_wgmma_operand<128>(As + threadIdx.x / 32 * 16, 16, 1024)"),
              HasSubstr("other operands than the first lane of its warpgroup"));
  EXPECT_THAT(refusal("tw_wgmma_operand<128>(A, 16, 1024)"),
              HasSubstr("it is not in shared memory"));
  WgmmaRun run = broken(a, "tw_wgmma_operand<128>(As + 2048 + s * 16, 16, 1024)");
  EXPECT_EQ(kind_of(run), FaultKind::OutOfBounds);
  EXPECT_THAT(fault_text(run), HasSubstr("multiplies As["));
}

TEST(Wgmma, AllFourWarpsTakePart) {
  WgmmaRun run = broken("#pragma unroll\n  for (int s = 0; s < 4; ++s) {\n",
                        "  for (int s = 0; s < 4 - int(threadIdx.x / 32 == 2); ++s) {\n");
  EXPECT_EQ(kind_of(run), FaultKind::DivergentCollective);
  EXPECT_THAT(fault_text(run), HasSubstr("waits at wgmma in line"));
  run = broken("  tw_wgmma_fence();\n", "  if (threadIdx.x != 7) tw_wgmma_fence();\n");
  EXPECT_EQ(kind_of(run), FaultKind::DivergentCollective);
}

// An instruction reads its operand in registers while it runs.
TEST(Wgmma, RegistersOfAnOperandStayUntilTheyHaveBeenRead) {
  WgmmaCase c{find_instruction("m64n16k16_f32_f16")};
  c.a_in_registers = true;
  auto changed = [&](const std::string& from, const std::string& to) {
    return run_wgmma(c, replaced(wgmma_kernel(c), from, to));
  };
  const std::string wait = "  tw_wgmma_wait<0>();\n", commit = "  tw_wgmma_commit();\n";
  for (const char* text : {"  a[3][1] ^= 0x8000u;\n", "  a[0][0] = 0;\n"}) {
    SCOPED_TRACE(text);
    const std::string change = text;
    for (const std::string& place : {commit, wait}) {
      WgmmaRun run = changed(place, change + place);
      EXPECT_EQ(kind_of(run), FaultKind::WgmmaInFlight);
      EXPECT_THAT(fault_text(run), HasSubstr("whose operand A was changed in registers meanwhile"));
    }
    EXPECT_TRUE(changed(wait, wait + change).is_right) << "behind the wait they are free";
  }
  // A second group: with a fence of its own, behind what makes its registers.
  const std::string more =
      "    tw_wgmma_m64n16k16_f32_f16<0, 0>(d, a[s],\n"
      "        tw_wgmma_operand<128>(Bs + s * 16, 16, 1024), s > 0);\n  }\n";
  const std::string second =
      more + commit + "  a[0][0] = a[0][1];\n  tw_wgmma_fence();\n" +
      "  tw_wgmma_m64n16k16_f32_f16<0, 0>(d, a[1], tw_wgmma_operand<128>(Bs, 16, 1024), 1);\n";
  EXPECT_EQ(kind_of(changed(more, second)), FaultKind::WgmmaInFlight) << "a[0] is on its way";
  const std::string ended = replaced(second, "  a[0][0] = a[0][1];\n", "");
  EXPECT_EQ(fault_text(changed(more, ended)), "");
  WgmmaRun run = changed(more, replaced(ended, "  tw_wgmma_fence();\n", ""));
  EXPECT_EQ(kind_of(run), FaultKind::MissingFence);
  EXPECT_THAT(fault_text(run), HasSubstr("an operand A in registers with no wgmma.fence since the "
                                         "last group was committed"));
}

TEST(Wgmma, ARegisterOperandRunsAlongItsTerms) {
  WgmmaCase c{find_instruction("m64n16k16_f32_f16")};
  c.a_in_registers = true;
  try {
    run_wgmma(c, replaced(wgmma_kernel(c), "f16<0, 0>(d", "f16<1, 0>(d"));
    FAIL() << "was not refused";
  } catch (const CompileError& e) {
    EXPECT_THAT(e.what(), HasSubstr("an A in registers runs along its terms"));
  }
}

}  // namespace
}  // namespace tilewright
