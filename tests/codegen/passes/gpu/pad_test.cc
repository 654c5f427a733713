// Rows of shared memory are padded or swizzled, so that those of a column lie in different banks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "codegen/cuda_lowering.h"
#include "ir/text/parser.h"
#include "ir/text/printer.h"

namespace tilewright {
namespace {

using testing::HasSubstr;

// One kernel that stores to a shared array; its first line is that of the array in the result.
std::string array_of(const std::string& array, const std::string& notes = "",
                     const std::string& store = "") {
  const std::string text = "program p(A: f16[64] input) { for bx in 0..2 block_x" + notes +
                           " { allocate S: " + array + " { " +
                           (store.empty() ? "S[0, 0] = A[0]" : store) + " } } }";
  const std::string result = to_string(pad_shared_rows(parse_program(text)));
  const size_t at = result.find("allocate");
  return result.substr(at, result.find('{', at) - at - 1);
}

const char* const kSwizzles = " @{shared_rows: \"swizzled\"}";

TEST(PadSharedRows, RowsOf32BytesGet16More) {
  EXPECT_EQ(array_of("f16[8, 64] shared"), "allocate S: f16[8, 72] shared");
  EXPECT_EQ(array_of("f16[8, 16] shared"), "allocate S: f16[8, 24] shared");
}

TEST(PadSharedRows, OthersStayAsTheyAre) {
  for (const char* array : {"f16[8, 20] shared", "f16[1, 64] shared", "f16[8, 64] register"}) {
    EXPECT_EQ(array_of(array), std::string("allocate S: ") + array);
  }
}

TEST(PadSharedRows, SwizzledRowsBelongToTheArray) {
  EXPECT_EQ(array_of("f16[8, 64] shared", kSwizzles), "allocate S: f16[8, 64] shared swizzled(64)");
  // No power of two has no swizzle.
  EXPECT_EQ(array_of("f16[8, 48] shared", kSwizzles), "allocate S: f16[8, 56] shared");
}

TEST(PadSharedRows, WhatBulkCopiesFillLiesAsInMemory) {
  EXPECT_EQ(array_of("f16[8, 64] shared", "",
                     "allocate B: u64[1] shared { bulk_load<bool>(S[0, 0], A[0], 64, B[0]) }"),
            "allocate S: f16[8, 64] shared");
}

TEST(PadSharedRows, OtherWaysAreRefused) {
  try {
    array_of("f16[8, 64] shared", " @{shared_rows: \"folded\"}");
    FAIL() << "was not refused";
  } catch (const LoweringError& e) {
    EXPECT_THAT(e.what(),
                HasSubstr("'shared_rows' of loop 'bx' is 'folded'; it may be 'swizzled'"));
  }
}

TEST(PadSharedRows, FlatArraysKeepTheirSwizzle) {
  const Program p = parse_program(
      "program p(A: f16[64] input) { allocate S: f16[8, 64] shared swizzled(64) { S[1, 2] = A[0] } "
      "}");
  EXPECT_THAT(to_string(flatten_buffers(p)),
              HasSubstr("allocate S: f16[512] shared swizzled(64) {\n    S[66] = A[0]"));
}

}  // namespace
}  // namespace tilewright
