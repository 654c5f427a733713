// Loops over axes become one loop per axis around the code of a thread.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "codegen/cuda_lowering.h"
#include "tests/codegen/passes/gpu/pass_text.h"
#include "tests/golden.h"

namespace tilewright {
namespace {

using test::refusal_of;
using test::text_after;
using testing::HasSubstr;

std::string in_program(const std::string& body) {
  return "program p(A: f32[64] input, B: f32[64] output) dims(m: 1..8) { " + body + " }";
}
std::string in_block(const std::string& body) {
  return in_program("for b in 0..1 block_x { " + body + " }");
}

TEST(HoistThreads, LoopsSideBySideShareTheThreads) {
  EXPECT_GOLDEN(text_after(hoist_threads,
                           in_block("allocate S: f32[64] shared { for t in 0..64 thread_x { S[t] = "
                                    "A[t] } for u in 0..32 thread_x { B[u] = S[(63 - u)] } }")));
}

TEST(HoistThreads, AStoreOutsideOfThreadsIsOfTheFirst) {
  EXPECT_GOLDEN(
      text_after(hoist_threads, in_block("for t in 0..64 thread_x { B[t] = A[t] } B[0] = A[63]")));
}

TEST(HoistThreads, WarpsAndTeamsAreThreadsAlongX) {
  EXPECT_GOLDEN(text_after(hoist_threads, in_block("for w in 0..2 warp { B[w] = A[w] } for t in "
                                                   "0..16 warp @{team: 4} { B[t] = A[t] }")));
}

TEST(HoistThreads, LanesReduceTheirOwnTermsFirst) {
  EXPECT_GOLDEN(text_after(
      hoist_threads,
      in_block("allocate M: f32[1] register { for w in 0..2 warp { for l in 0..32 @{instruction: "
               "\"shuffle\"} { M[0] = max(M[0], A[((w * 32) + l)]) } B[w] = M[0] } }")));
}

TEST(HoistThreads, Refusals) {
  const std::string one = "{ B[0] = A[0] }";
  EXPECT_THAT(
      refusal_of(hoist_threads, in_block("for t in 0..8 parallel " + one)),
      HasSubstr("loop 't' is parallel, which no GPU kernel is made of; bind it to a block or "
                "thread axis"));
  EXPECT_THAT(refusal_of(hoist_threads, in_block("for t in 0..m thread_x " + one)),
              HasSubstr("loop 't' over thread_x has no constant extent"));
  EXPECT_THAT(refusal_of(hoist_threads, in_block("for c in 0..8 block_x " + one)),
              HasSubstr("loop 'c' is the second one over block_x in a kernel"));
  EXPECT_THAT(refusal_of(hoist_threads, in_block("allocate G: f32[8] global { G[0] = A[0] }")),
              HasSubstr("buffer 'G' lives inside a kernel; its scope must be shared, local or "
                        "register, not global"));
  EXPECT_THAT(
      refusal_of(hoist_threads,
                 in_program("allocate G: f32[8] shared { for b in 0..1 block_x " + one + " }")),
      HasSubstr("buffer 'G' of scope shared passes from one kernel to another; its scope must "
                "be global"));
  EXPECT_THAT(refusal_of(hoist_threads, in_block("for w in 0..2 warp @{team: 3} " + one)),
              HasSubstr("'team' of loop 'w' must be a divisor of 32"));
  EXPECT_THAT(
      refusal_of(hoist_threads,
                 in_block("for w in 0..2 warp { for l in 0..16 @{instruction: \"shuffle\"} { "
                          "B[w] = max(B[w], A[l]) } }")),
      HasSubstr("loop 'l' is marked as one over lanes; it must have 32 iterations"));
  const std::string mma = "for i in 0..16 @{instruction: \"m16n8k16_f32_f16\"} { B[i] = A[i] }";
  EXPECT_THAT(refusal_of(hoist_threads, in_block(mma)),
              HasSubstr("loop 'i' is marked as mma 'm16n8k16_f32_f16', but stands in no loop over "
                        "warps"));
  EXPECT_THAT(
      refusal_of(hoist_threads,
                 in_block("allocate R: f32[8] register { for w in 0..1 warp { for i in 0..16 "
                          "@{instruction: \"m16n8k16_f32_f16\"} { R[0] = A[i] } } }")),
      HasSubstr("the register operand of mma has no dimensions for lane and register"));
}

}  // namespace
}  // namespace tilewright
