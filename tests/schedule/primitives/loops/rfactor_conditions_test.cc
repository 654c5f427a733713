// Conditions on the block of a reduction that rfactor takes apart.
#include <fmt/format.h>

#include "schedule/primitives/loops/reduction.h"
#include "tests/golden.h"
#include "tests/schedule/rewrite_case.h"
#include "tests/schedule/support.h"

namespace tilewright {
namespace {

// The loop u runs once, by a condition. Where that holds for each i alike, no copy of u repeats the sum of parts.
TEST(Rfactor, LoopsThatAConditionStopsHaveNoCopy) {
  constexpr const char* kStopped = R"(
program p(A: f32[4, 8] input, C: f32[4] output) {{
  block root() {{
    for i in 0..4 {{
      for k in 0..8 {{
        for u in 0..2 {{
          block C(vi: spatial 4 = i, vk: reduce 8 = k) where ({}) {{
            init {{
              C[vi] = 0.0f32
            }}
            C[vi] = (C[vi] + A[vi, vk])
          }}
        }}
      }}
    }}
  }}
}}
)";
  test::RewriteCase alike(fmt::format(kStopped, "u < 1"));
  alike.s.rfactor({"C"}, {"k"}, 0);
  EXPECT_EQ(alike.str().find("u_wb"), std::string::npos) << alike.str();
  alike.check();

  Schedule s(test::parse(fmt::format(kStopped, "u * 4 + i < 4")));
  EXPECT_REFUSED(
      s.rfactor({"C"}, {"k"}, 0), Unsupported,
      "a condition on block 'C' joins a spatial loop with one that no iterator is bound to");
}

// The sum over a triangle: each row has its own part.
TEST(Rfactor, ConditionsThatJoinSpatialLoopsAreRefused) {
  Schedule s(test::parse(R"(
program p(A: f32[8, 8] input, C: f32[8] output) {
  block root() {
    for i in 0..8 {
      for k in 0..8 {
        block C(vi: spatial 8 = i, vk: reduce 8 = k) where (k <= i) {
          init {
            C[vi] = 0.0f32
          }
          C[vi] = (C[vi] + A[vi, vk])
        }
      }
    }
  }
}
)"));
  EXPECT_REFUSED(s.rfactor({"C"}, {"k"}, 0), Unsupported,
                 "a condition on block 'C' joins loop 'k' with spatial ones");
}

}  // namespace
}  // namespace tilewright
