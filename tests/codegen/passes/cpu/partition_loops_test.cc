// Branches at edges of tiles copy the stages that the edges change, and no others.
#include <gtest/gtest.h>

#include "codegen/lowering.h"
#include "ir/text/parser.h"
#include "ir/text/printer.h"
#include "ir/visitor.h"
#include "tests/codegen/support.h"

namespace tilewright {
namespace {

// Tiles of 8x8 in 20x28 elements: the last tiles have 4 rows or columns. The first stage sums with
// loops over rows, the second one stores unrolled rows and columns.
constexpr const char* kTwoStages = R"(
program tiles(X: f32[20, 28, 16] input, Y: f32[20, 28] output) {
  block root() {
    alloc T: f32[20, 28] global
    for t in 0..12 parallel {
      for r in 0..8 {
        for c in 0..8 {
          for k in 0..16 {
            block T(vr: spatial 20 = ((floordiv(t, 4) * 8) + r), vc: spatial 28 = ((floormod(t, 4) * 8) + c), vk: reduce 16 = k) where ((((floordiv(t, 4) * 8) + r) < 20) && (((floormod(t, 4) * 8) + c) < 28)) {
              init {
                T[vr, vc] = 0.0f32
              }
              T[vr, vc] = (T[vr, vc] + X[vr, vc, vk])
            }
          }
        }
      }
      for q in 0..8 unrolled {
        for d in 0..8 unrolled {
          block Y(wr: spatial 20 = ((floordiv(t, 4) * 8) + q), wc: spatial 28 = ((floormod(t, 4) * 8) + d)) where ((((floordiv(t, 4) * 8) + q) < 20) && (((floormod(t, 4) * 8) + d) < 28)) {
            Y[wr, wc] = max(T[wr, wc], 0.0f32)
          }
        }
      }
    }
  }
}
)";

int loops_over(const Program& p, const std::string& name) {
  int count = 0;
  for_each_stmt(p.body, [&](const Stmt& s) {
    auto* loop = s.as<ForNode>();
    count += loop != nullptr && Var(loop->var).name().starts_with(name);
  });
  return count;
}

TEST(PartitionLoops, StagesAreDividedOneByOne) {
  const Program p = parse_program(kTwoStages);
  LoweringOptions options;
  options.last = "partition_loops";
  const Program parted = lower_for_cpu(p, Target::parse("avx512"), options);
  EXPECT_EQ(loops_over(parted, "k"), 1) << to_string(parted);
  EXPECT_EQ(loops_over(parted, "q"), 4) << "whole and partial rows, whole and partial columns";
  test::expect_same_meaning(p);
}

}  // namespace
}  // namespace tilewright
