// Grids of a given number of blocks, and the orders in which they take their tiles.
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

// A kernel of 12 tiles, whose terms run under a loop with these annotations.
std::string tiles(const std::string& notes, const std::string& body = "B[i] = A[i]",
                  const std::string& extent = "12") {
  return "program p(A: f32[64] input, B: f32[64] output) dims(m: 1..64) { for i in 0.." + extent +
         " block_x @{" + notes + "} { " + body + " } }";
}

std::string streamed(const std::string& before, const std::string& step,
                     const std::string& loop = "0..8") {
  return "allocate C: f32[1] register { " + before + " for k in " + loop + " @{stream_k: 1} { " +
         step + " } B[i] = C[0] }";
}

TEST(PersistGrids, BlocksTakeTilesInTurns) {
  EXPECT_GOLDEN(text_after(persist_grids, tiles("persistent_blocks: 5")));
  // As many blocks as tiles need no loop.
  EXPECT_EQ(text_after(persist_grids, tiles("persistent_blocks: 12")),
            "program p(A: f32[64] input, B: f32[64] output) dims(m: 1..64) {\n"
            "  for i in 0..12 block_x {\n"
            "    B[i] = A[i]\n"
            "  }\n"
            "}\n");
}

TEST(PersistGrids, TheLongestTilesComeFirst) {
  EXPECT_GOLDEN(text_after(persist_grids, tiles("tile_order: \"longest_last 4\"")));
}

TEST(PersistGrids, TilesAlongACurve) {
  EXPECT_GOLDEN(text_after(persist_grids, tiles("tile_order: \"hilbert 2x2\"")));
}

TEST(PersistGrids, BlocksShareTerms) {
  EXPECT_GOLDEN(
      text_after(persist_grids,
                 tiles("persistent_blocks: 5", streamed("C[0] = 0.0f32", "C[0] = (C[0] + A[k])"))));
}

TEST(PersistGrids, GridsAreRefused) {
  auto refusal = [](const std::string& notes, const std::string& extent = "12") {
    return refusal_of(persist_grids, tiles(notes, "B[i] = A[i]", extent));
  };
  EXPECT_THAT(
      refusal("persistent_blocks: 0"),
      HasSubstr("'persistent_blocks' of loop 'i' must be a number of 1 or more, on an outermost "
                "loop over blocks from 0"));
  EXPECT_THAT(
      refusal("cluster: 8"),
      HasSubstr("loop 'i' over blocks is to run in clusters of 8; its extent must be a multiple "
                "of that"));
  EXPECT_THAT(refusal("cluster: 2", "m"), HasSubstr("its extent must be a multiple of that"));
  EXPECT_THAT(
      refusal("persistent_blocks: 5, cluster: 2"),
      HasSubstr("'persistent_blocks' of loop 'i' is 5, which is not made of whole clusters of "
                "2"));
  EXPECT_THAT(
      refusal("persistent_blocks: 5, tile_order: \"longest_last 4\""),
      HasSubstr("loop 'i' cannot be in the order 'longest_last 4' with 'persistent_blocks'"));
  EXPECT_THAT(refusal("cluster: 2, tile_order: \"longest_last 4\""),
              HasSubstr("loop 'i' cannot be in the order 'longest_last 4' in clusters"));
}

TEST(PersistGrids, SharedTermsAreRefused) {
  auto refusal = [](const std::string& notes, const std::string& body) {
    return refusal_of(persist_grids, tiles(notes, body));
  };
  const std::string five = "persistent_blocks: 5", zero = "C[0] = 0.0f32",
                    add = "C[0] = (C[0] + A[k])";
  EXPECT_THAT(refusal("tile_order: \"hilbert 3x4\"", streamed(zero, add)),
              HasSubstr("blocks are to share the terms of loop 'k': the loop over blocks needs "
                        "'persistent_blocks'"));
  EXPECT_THAT(refusal(five + ", tile_order: \"hilbert 3x4\"", streamed(zero, add)),
              HasSubstr("tiles along a Hilbert curve are whole"));
  EXPECT_THAT(refusal("persistent_blocks: 4, cluster: 2", streamed(zero, add)),
              HasSubstr("blocks that run in clusters share none"));
  EXPECT_THAT(refusal(five, streamed(zero, "B[k] = A[k]")),
              HasSubstr("it must add to one buffer in registers, and do nothing else that lasts"));
  EXPECT_THAT(refusal(five, streamed("C[0] = 1.0f32", add)),
              HasSubstr("all that comes before it must be that its sums become 0"));
  EXPECT_THAT(refusal(five, streamed("", add)),
              HasSubstr("its sums must become 0 right before it"));
  EXPECT_THAT(refusal(five, streamed(zero, add, "1..8")), HasSubstr("it must begin at 0"));
  EXPECT_THAT(refusal(five, "for o in 0..2 { " + streamed(zero, add) + " }"),
              HasSubstr("it must stand right under loop 'i' over blocks"));
  EXPECT_THAT(refusal(five, streamed(zero, "allocate T: f32[1] register { T[0] = A[k] }")),
              HasSubstr("it adds to no buffer in registers"));
}

}  // namespace
}  // namespace tilewright
