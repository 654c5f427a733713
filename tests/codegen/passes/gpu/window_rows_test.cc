// Loops along the rows of a gathered tile run over the numbers that the rows have in the whole.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "codegen/cuda_lowering.h"
#include "tests/codegen/passes/gpu/pass_text.h"
#include "tests/golden.h"

namespace tilewright {
namespace {

using test::text_after;

std::string copy(const std::string& notes, const std::string& store) {
  return "program p(X: f16[8, 28, 64] input, Y: f16[224, 64] output) { for t in 0..3 block_x { "
         "allocate "
         "S: f16[192, 64] shared { for x in 0..64" +
         notes + " { for c in 0..64 { " + store + " } } Y[0, 0] = S[0, 0] } } }";
}

const char* const kMarked = " @{instruction: \"tma\"}";
const char* const kGathered =
    "S[((t * 64) + x), c] = X[floordiv(((t * 64) + x), 28), floormod(((t * 64) + x), 28), c]";

TEST(NumberWindowRows, LoopsCountTheRowsOfTheWhole) {
  EXPECT_GOLDEN(text_after(number_window_rows, copy(kMarked, kGathered)));
}

TEST(NumberWindowRows, OthersStay) {
  const char* const dense = "S[((t * 64) + x), c] = X[t, floormod(t, 28), c]";
  for (const std::string& program : {copy("", kGathered), copy(kMarked, dense)}) {
    EXPECT_EQ(text_after(number_window_rows, program), to_string(parse_program(program)));
  }
}

}  // namespace
}  // namespace tilewright
