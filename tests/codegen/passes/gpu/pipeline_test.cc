// Copies to shared memory run some iterations ahead, in a ring.
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

// A loop with these annotations and this body.
std::string pipelined(const std::string& notes, const std::string& body) {
  return "program p(A: f16[8, 64] input, B: f32[64] output) { for bx in 0..1 block_x { for k in "
         "0..8 "
         "@{" +
         notes + "} { allocate S: f16[64] shared { " + body + " } } } }";
}

const char* const kCopy = "for t in 0..64 thread_x { S[t] = A[k, t] } ";
const char* const kUse = "for u in 0..64 thread_x { B[u] = (B[u] + cast<f32>(S[u])) } ";

TEST(PipelineLoops, CopiesRunAheadOfTheirUse) {
  EXPECT_GOLDEN(
      text_after(pipeline_loops, pipelined("pipeline_stages: 3", std::string(kCopy) + kUse)));
}

// A converted element is no copy, so its store stays one of the thread.
TEST(PipelineLoops, WhatIsConvertedIsNoAsynchronousCopy) {
  const std::string text = text_after(
      pipeline_loops,
      pipelined("pipeline_stages: 2",
                "for t in 0..64 thread_x { S[t] = (A[k, t] + 1.0f16) } " + std::string(kUse)));
  EXPECT_THAT(text, HasSubstr("S[floormod((k + 1), 2), t] = (A[(k + 1), t] + 1.0f16)"));
  EXPECT_THAT(text, testing::Not(HasSubstr("<-async")));
}

TEST(PipelineLoops, ACopyBehindAnUseMovesBeforeIt) {
  EXPECT_GOLDEN(text_after(
      pipeline_loops, pipelined("pipeline_stages: 2", "for u in 0..64 thread_x { B[u] = 0.0f32 } " +
                                                          std::string(kCopy) + kUse)));
}

// Nothing waits for a copy among the uses, so a store there stays one of the thread.
TEST(PipelineLoops, AStoreBehindTheUsesIsNoAsynchronousCopy) {
  const std::string text = text_after(
      pipeline_loops,
      pipelined("pipeline_stages: 2",
                std::string(kCopy) + kUse + "for v in 0..64 thread_x { S[v] = A[0, v] } " + kUse));
  EXPECT_THAT(text, HasSubstr("S[floormod((k + 1), 2), t] <-async A[(k + 1), t]"));
  EXPECT_THAT(text, HasSubstr("S[floormod(k, 2), v] = A[0, v]"));
}

TEST(PipelineLoops, LoopsWithTensorCopiesAreLeftToTheirPass) {
  const std::string text =
      pipelined("copies: \"tensor\", pipeline_stages: 2", std::string(kCopy) + kUse);
  EXPECT_EQ(text_after(pipeline_loops, text), to_string(parse_program(text)));
}

TEST(PipelineLoops, Refusals) {
  const std::string body = std::string(kCopy) + kUse;
  for (const char* stages : {"0", "9", "\"many\""}) {
    EXPECT_THAT(
        refusal_of(pipeline_loops, pipelined("pipeline_stages: " + std::string(stages), body)),
        HasSubstr("'pipeline_stages' of loop 'k' must be a number from 1 to 8"));
  }
  EXPECT_THAT(
      refusal_of(pipeline_loops, pipelined("pipeline_stages: 2", kUse)),
      HasSubstr("loop 'k' is to be pipelined, but no iteration of it begins with copies from "
                "global to shared memory"));
  EXPECT_THAT(
      refusal_of(pipeline_loops, pipelined("pipeline_stages: 2, wgmma_pending: 1", body)),
      HasSubstr(
          "loop 'k' leaves wgmma pending ('wgmma_pending'); its 'pipeline_stages' must be 3 or "
          "more, got 2"));
  const std::string from_registers =
      std::string(kCopy) +
      "allocate R: f16[8] register { allocate C: f32[8] register { for i in 0..8 @{instruction: "
      "\"m64n64k16_f32_f16\"} { C[i] = (C[i] + (cast<f32>(R[i]) * cast<f32>(S[i]))) } B[0] = C[0] "
      "} }";
  EXPECT_THAT(
      refusal_of(pipeline_loops, pipelined("pipeline_stages: 3, wgmma_pending: 1", from_registers)),
      HasSubstr("that take an operand from registers, which each iteration makes anew"));
}

}  // namespace
}  // namespace tilewright
