// Barriers stand where threads of a block exchange values, and nowhere else.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "codegen/cuda_lowering.h"
#include "tests/codegen/passes/gpu/pass_text.h"
#include "tests/golden.h"

namespace tilewright {
namespace {

using test::text_after;
using testing::HasSubstr;
using testing::Not;

std::string in_kernel(const std::string& body) {
  return "program p(A: f32[64] input, B: f32[64] output) { for bx in 0..1 block_x { allocate S: "
         "f32[64] shared { " +
         body + " } } }";
}

const char* const kWrite = "for t in 0..64 thread_x { S[t] = A[t] } ";
const char* const kReadOthers = "for u in 0..64 thread_x { B[u] = S[(63 - u)] } ";

TEST(InsertBarriers, BetweenAWriteAndOtherThreadsReads) {
  EXPECT_GOLDEN(text_after(insert_barriers, in_kernel(std::string(kWrite) + kReadOthers)));
}

// The next iteration writes what this one may still read.
TEST(InsertBarriers, TwoPerIterationOfALoopThatDoesBoth) {
  EXPECT_GOLDEN(text_after(
      insert_barriers, in_kernel("for k in 0..4 { " + std::string(kWrite) + kReadOthers + "}")));
}

TEST(InsertBarriers, OneBeforeALoopThatReadsWhatWasWritten) {
  const std::string text = text_after(
      insert_barriers, in_kernel("allocate R: f32[64] register { " + std::string(kWrite) +
                                 "for k in 0..4 { for u in 0..64 thread_x { R[u] = (R[u] + S[(63 - "
                                 "u)]) } } B[0] = R[0] }"));
  EXPECT_THAT(text, HasSubstr("barrier<bool>()\n        for k in 0..4 {")) << text;
}

TEST(InsertBarriers, NoneForRegistersOrReadsAlone) {
  EXPECT_THAT(text_after(insert_barriers, in_kernel(kReadOthers)), Not(HasSubstr("barrier")));
  EXPECT_THAT(
      text_after(insert_barriers,
                 in_kernel("allocate R: f32[64] register { for t in 0..64 thread_x { R[t] = "
                           "A[t] } for u in 0..64 thread_x { B[u] = R[u] } }")),
      Not(HasSubstr("barrier")));
}

// Iterations that store apart from each other need none between them.
TEST(InsertBarriers, NoneBetweenIterationsThatWriteApart) {
  EXPECT_GOLDEN(text_after(
      insert_barriers,
      in_kernel(
          "for k in 0..2 { for t in 0..32 thread_x { S[((k * 32) + t)] = A[((k * 32) + t)] } } " +
          std::string(kReadOthers))));
}

// Asynchronous copies count as written behind their wait.
TEST(InsertBarriers, BehindTheWaitForCopies) {
  EXPECT_GOLDEN(
      text_after(insert_barriers,
                 in_kernel("for t in 0..64 thread_x { S[t] <-async A[t] } async_commit<bool>() "
                           "async_wait<bool>(0) " +
                           std::string(kReadOthers))));
}

// TMA copies have waits of their own.
TEST(InsertBarriers, NoneForTensorCopies) {
  EXPECT_THAT(text_after(insert_barriers,
                         in_kernel("for t in 0..64 @{instruction: \"tma\"} { S[t] = A[t] } " +
                                   std::string(kReadOthers))),
              Not(HasSubstr("barrier")));
}

}  // namespace
}  // namespace tilewright
