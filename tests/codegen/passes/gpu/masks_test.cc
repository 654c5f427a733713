// Masked iterations are peeled: statements whose masks hold for a whole tile come without them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "codegen/cuda/cuda_masks.h"
#include "tests/codegen/passes/gpu/pass_text.h"
#include "tests/golden.h"

namespace tilewright {
namespace {

using test::text_after;

std::string in_tiles(const std::string& notes, const std::string& statement) {
  return "program p(A: f32[8, 64] input, L: i32[4] input, B: f32[64] output) { for b in 0..4 "
         "block_x { "
         "allocate X: f32[8, 8] register { for k in 0..8" +
         notes + " { for i in 0..8 { for j in 0..8 { " + statement + " } } } B[0] = X[0, 0] } } }";
}

const char* const kPeeled = " @{masks_apart: 1}";
const char* const kCausal =
    "X[i, j] = select((((k * 8) + j) <= ((b * 8) + i)), (X[i, j] * 2.0f32), 0.0f32)";

TEST(MasksApart, OnceForTheTilesWhereTheyHold) {
  EXPECT_GOLDEN(text_after(set_masks_apart, in_tiles(kPeeled, kCausal)));
}

TEST(MasksApart, ALimitMayBeReadFromMemory) {
  EXPECT_GOLDEN(text_after(
      set_masks_apart,
      in_tiles(kPeeled, "X[i, j] = select((((k * 8) + j) < cast<index>(L[b])), X[i, j], 0.0f32)")));
}

TEST(MasksApart, OthersStay) {
  // No loop is annotated; the mask is none of indices; the statement copies global memory.
  for (const auto& [notes, statement] :
       {std::pair{"", kCausal},
        {kPeeled, "X[i, j] = select((X[i, j] < 1.0f32), X[i, j], 0.0f32)"},
        {kPeeled, "X[i, j] = select((((k * 8) + j) <= ((b * 8) + i)), A[i, j], 0.0f32)"}}) {
    std::string kept = in_tiles("", statement);
    EXPECT_EQ(text_after(set_masks_apart, in_tiles(notes, statement)),
              to_string(parse_program(kept)));
  }
}

}  // namespace
}  // namespace tilewright
