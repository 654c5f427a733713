// TMA copies run ahead in a ring of mbarriers, by the threads that compute or by a producer.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "codegen/cuda_lowering.h"
#include "tests/codegen/passes/gpu/pass_text.h"
#include "tests/golden.h"

namespace tilewright {
namespace {

using testing::HasSubstr;

Program pass(const Program& p) { return pipeline_tensor_copies(p, Target::parse("cuda:sm_90a")); }
std::string after(const std::string& text) { return test::text_after(pass, text); }
std::string refusal(const std::string& text) { return test::refusal_of(pass, text); }

// A kernel of 128 threads with one array, annotated blocks and these statements.
std::string kernel(const std::string& body, const std::string& notes = "", int threads = 128) {
  return "program p(A: f16[64, 64] input, C: f16[64, 64] output) { for bx in 0..4 block_x" + notes +
         " { allocate S: f16[16, 64] shared { for tx in 0.." + std::to_string(threads) +
         " thread_x { " + body + " } } } }";
}

std::string with_ring(const std::string& notes, const std::string& copy_row = "((bx * 16) + i)") {
  return "for k in 0..4 @{" + notes +
         "} { for i in 0..16 @{instruction: \"tma\"} { for j in 0..64 { S[i, j] = A[" + copy_row +
         ", j] } } for r in 0..8 { C[r, tx] = S[r, floormod(tx, 64)] } } ";
}

const char* const kByThreadsOf3 = "copies: \"tensor\", pipeline_stages: 3";
const char* const kByRolesOf2 = "copies: \"roles\", pipeline_stages: 2";

TEST(PipelineTensorCopies, ByThreadsThatMeet) {
  EXPECT_GOLDEN(after(kernel(with_ring(kByThreadsOf3))));
}

TEST(PipelineTensorCopies, ByAProducer) { EXPECT_GOLDEN(after(kernel(with_ring(kByRolesOf2)))); }

// The producer of two warpgroups gives registers away.
TEST(PipelineTensorCopies, ByAProducerWithARegisterBudget) {
  const std::string text = after(kernel(with_ring(kByRolesOf2), "", 256));
  EXPECT_THAT(text, HasSubstr("raise_registers<bool>(240)"));
  EXPECT_THAT(text, HasSubstr("lower_registers<bool>(24)"));
}

// A tile that is the same for the blocks of a cluster is copied in parts, to all of them.
TEST(PipelineTensorCopies, ToAllBlocksOfACluster) {
  EXPECT_GOLDEN(after(kernel(with_ring(kByRolesOf2, "i"), " @{cluster: 2}")));
}

TEST(PipelineTensorCopies, StoresAreWaitedForBeforeTheArrayIsWrittenAgain) {
  EXPECT_GOLDEN(after(kernel(
      "for r in 0..16 { S[r, floormod(tx, 64)] = A[r, floormod(tx, 64)] } barrier<bool>() for i "
      "in 0..16 @{instruction: \"tma\"} { for j in 0..64 { C[((bx * 16) + i), j] = S[i, j] } }")));
}

// Stores of 4 tiles from a ring of two arrays: an array is written again when the store before the
// last has read it.
std::string with_store_ring(const std::string& notes, int tiles = 4) {
  return "for s in 0.." + std::to_string(tiles) + " @{" + notes +
         "} { barrier<bool>() for r in 0..16 { S[r, floormod(tx, 64)] = A[r, floormod(tx, 64)] } "
         "barrier<bool>() for i in 0..16 @{instruction: \"tma\"} { for j in 0..64 { C[((s * 16) + "
         "i), j] = S[i, j] } } }";
}

TEST(PipelineTensorCopies, StoresLeaveFromARing) {
  EXPECT_GOLDEN(after(kernel(with_store_ring("store_ring: 2"))));
}

TEST(PipelineTensorCopies, RingsOfStoresAreRefused) {
  EXPECT_THAT(refusal(kernel(with_store_ring("store_ring: 2", 3))),
              HasSubstr("loop 's' has 'store_ring': its extent must be a multiple of 2"));
  EXPECT_THAT(refusal(kernel(with_store_ring("store_ring: 1"))),
              HasSubstr("loop 's' has 'store_ring': it must be a number of 2 or more"));
  const std::string ring = with_store_ring("store_ring: 2");
  EXPECT_THAT(refusal(kernel(ring + ring)),
              HasSubstr("it is the second such loop of a kernel; there may be one"));
  EXPECT_THAT(refusal(kernel("for s in 0..4 @{store_ring: 2} { C[0, tx] = S[0, 0] }")),
              HasSubstr("no loop right in it is marked as a TMA store"));
}

const char* const kByTurnsOf2 = "copies: \"ping_pong\", pipeline_stages: 2";

// Two teams take the tiles in turns, and wait at an mbarrier before they use stages.
TEST(PipelineTensorCopies, ByTwoTeamsOfConsumers) {
  EXPECT_GOLDEN(after(kernel("for t in 0..5 { " + with_ring(kByTurnsOf2) + " }")));
}

TEST(PipelineTensorCopies, TeamsWithoutTilesAreRefused) {
  EXPECT_THAT(
      refusal(kernel(with_ring(kByTurnsOf2))),
      HasSubstr("loop 'k' has 'copies' of 'ping_pong': it needs a loop over tiles around it"));
  std::string ring = with_ring(kByTurnsOf2);
  ring.replace(ring.find("0..4"), 4, "0..(t + 1)");
  EXPECT_THAT(refusal(kernel("for t in 0..5 { " + ring + " }")),
              HasSubstr("loop 'k' has 'copies' of 'ping_pong': its extent must be a constant"));
}

TEST(PipelineTensorCopies, RingsAreRefused) {
  EXPECT_THAT(refusal(kernel(with_ring("copies: \"tensor\""))),
              HasSubstr("loop 'k' has 'copies'; it needs 'pipeline_stages' of 2 or more"));
  EXPECT_THAT(refusal(kernel(with_ring("copies: \"elves\", pipeline_stages: 2"))),
              HasSubstr("'copies' of loop 'k' must be 'tensor', 'roles' or 'ping_pong'"));
  EXPECT_THAT(refusal(kernel(with_ring(kByThreadsOf3) + with_ring(kByThreadsOf3))),
              HasSubstr("loop 'k' is the second one of a kernel with 'copies'; there may be one"));
  EXPECT_THAT(
      refusal(kernel("for k in 0..4 @{" + std::string(kByThreadsOf3) + "} { C[k, tx] = A[k, 0] }")),
      HasSubstr("loop 'k' has 'copies', but no loops that are marked 'tma' right in it, or nothing "
                "else"));
  EXPECT_THAT(
      refusal(kernel("for i in 0..16 @{instruction: \"tma\"} { for j in 0..64 { S[i, j] = A[i, "
                     "j] } } C[0, tx] = S[0, 0]")),
      HasSubstr("loop 'i' is to be a tensor copy to shared memory; it must stand right in a "
                "loop that is annotated 'pipeline_stages' and 'copies'"));
}

// Threads wait for copies to a ring, and for nothing that other threads write there.
TEST(PipelineTensorCopies, StoresToARingAreRefused) {
  for (const char* notes : {kByThreadsOf3, kByRolesOf2}) {
    std::string among_uses = with_ring(notes);
    among_uses.replace(among_uses.find("for r in"), 0, "S[0, tx] = 0.0f16 ");
    for (const std::string& body : {among_uses, with_ring(notes) + "S[0, tx] = 0.0f16 "}) {
      EXPECT_THAT(refusal(kernel(body)),
                  HasSubstr("'S' is stored to by threads, but TMA copies of loop 'k' fill it; such "
                            "stores need a buffer of their own"));
    }
  }
}

TEST(PipelineTensorCopies, KernelsAreRefused) {
  std::string along_y = kernel(with_ring(kByThreadsOf3));
  along_y.replace(along_y.find("thread_x"), 8, "thread_y");
  EXPECT_THAT(refusal(along_y),
              HasSubstr("tensor copies need a kernel of blocks and of threads along x alone"));
  EXPECT_THAT(
      refusal(kernel("C[0, tx] = A[0, 0]", " @{cluster: 2}")),
      HasSubstr("blocks along loop 'bx' are to be clusters; they need a pipelined loop with "
                "'copies' of 'roles' or 'ping_pong'"));
  EXPECT_THAT(
      refusal(kernel(with_ring(kByThreadsOf3, "i"), " @{cluster: 2}")),
      HasSubstr("blocks along loop 'bx' are to be clusters of 2: loop 'k' needs 'copies' of "
                "'roles' or 'ping_pong'"));
  EXPECT_THAT(refusal(kernel(with_ring(kByRolesOf2), " @{cluster: 2}")),
              HasSubstr("no operand is the same for all of them"));
  EXPECT_THAT(refusal(kernel(with_ring(kByRolesOf2, "i"), " @{cluster: 16}")),
              HasSubstr("'cluster' of loop 'bx' must be a number from 1 to 8"));
}

}  // namespace
}  // namespace tilewright
