// Buffers shrink to the box that is live inside their allocation.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "codegen/lowering.h"
#include "tests/codegen/passes/gpu/pass_text.h"

namespace tilewright {
namespace {

using testing::HasSubstr;

std::string compacted(const std::string& body) {
  return test::text_after(compact_buffers,
                          "program p(A: f16[64, 64] input, B: u64[2] input, C: f16[64, 64] output) "
                          "{ allocate S: f16[2, 16, 64] shared { " +
                              body + " } }");
}

const char* const kHalfOfASlot = " for r in 0..8 { for t in 0..64 { C[r, t] = S[0, r, t] } }";

TEST(CompactBuffers, StoresAndLoadsCount) {
  EXPECT_THAT(compacted("for r in 0..4 { S[0, r, 0] = A[r, 0] }" + std::string(kHalfOfASlot)),
              HasSubstr("allocate S: f16[1, 8, 64] shared"));
}

// A copy fills the whole tile, whatever is read of it.
TEST(CompactBuffers, CopiesKeepTheRoomThatTheyWrite) {
  for (const char* copy : {"tensor_load<bool>(S[1, 0, 0], A[0, 0], B[0], 1, 0, 0, 64, 64, 16, 64)",
                           "bulk_load<bool>(S[1, 0, 0], A[0, 0], 2048, B[0])"}) {
    EXPECT_THAT(compacted(copy + std::string(kHalfOfASlot)),
                HasSubstr("allocate S: f16[2, 16, 64] shared"));
  }
  EXPECT_THAT(compacted("for r in 0..8 { for t in 0..64 { S[0, r, t] = A[r, t] } } "
                        "tensor_store<bool>(S[0, 0, 0], C[0, 0], 0, 0, 64, 64, 16, 64)"),
              HasSubstr("allocate S: f16[2, 16, 64] shared"));
}

}  // namespace
}  // namespace tilewright
