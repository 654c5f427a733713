// Elements of memory that code reads and writes again and again are kept in registers.
#include <gtest/gtest.h>

#include "codegen/lowering.h"
#include "ir/compare.h"
#include "ir/ops/spec.h"
#include "ir/visitor.h"
#include "schedule/schedule.h"
#include "tests/codegen/support.h"

namespace tilewright {
namespace {

// A depthwise convolution of `channels`, whose whole reduction is unrolled.
Program unrolled_reduction(int channels) {
  Schedule s(lower(make_workload(
      parse_spec("depthwise_conv2d:n=1,h=5,w=4,kernel=3,pad=1,c=" + std::to_string(channels)))));
  s.compute_inline(s.block("X_pad"));
  Block y = s.block("Y");
  std::vector<Loop> l = s.loops(y);  // n oh ow c kh kw
  std::vector<Loop> ow = s.split(l[2], {-1, 2});
  std::vector<Loop> c = s.split(l[3], {-1, 16});
  s.reorder({l[0], l[1], ow[0], c[0], l[4], l[5], ow[1], c[1]});
  s.decompose_reduction(y, l[4]);
  for (const Loop& loop : {l[4], l[5], ow[1]}) s.unroll(loop);
  s.vectorize(c[1]);
  return s.program();
}

// Vectors in the result that are stored under a mask.
int masked_stores(const Program& scheduled, bool promotes) {
  LoweringOptions options;
  if (!promotes) options.without = {"promote_accumulators"};
  const Program lowered = lower_for_cpu(scheduled, Target::parse("avx512"), options);
  int count = 0;
  for_each_stmt(lowered.body, [&](const Stmt& s) {
    auto* n = s.as<StoreNode>();
    count += n && n->buffer->name == "Y" && n->predicate.defined() ? 1 : 0;
  });
  return count;
}

// No processor forwards a masked store to a masked load, so a sum must not go through memory.
TEST(PromoteAccumulators, MaskedVectorsOfStraightCodeAreStoredOnce) {
  const Program p = unrolled_reduction(12);
  EXPECT_GT(masked_stores(p, false), 10);
  EXPECT_EQ(masked_stores(p, true), 2);  // two columns
  test::expect_same_meaning(p);
}

TEST(PromoteAccumulators, PlainVectorsOfStraightCodeAreLeftToTheCompiler) {
  const Program p = unrolled_reduction(16);
  EXPECT_EQ(masked_stores(p, true), 0);
  test::expect_same_meaning(p);
}

// Elements behind the end of a buffer must not be stored: a register stands for lanes that all accesses take, or that are
// elements.
TEST(PromoteAccumulators, LanesThatAMaskMayExcludeStayInMemory) {
  const auto is_promoted = [](int size, const std::string& body) {
    const Program p = parse_program(fmt::format(
        "program p(X: f32[128] input, C: f32[{}] output) {{\n  for k in 0..8 {{\n{}\n  }}\n}}\n",
        size, body));
    return !equal(promote_accumulators(p), p);
  };
  const auto update = [](int read, int written) {
    return fmt::format(
        "C[ramp(0, 1, 16)] = ((C[ramp(0, 1, 16)] if (ramp(0, 1, 16) < broadcast({}, 16))) + "
        "X[ramp((k * 16), 1, 16)]) if (ramp(0, 1, 16) < broadcast({}, 16))",
        read, written);
  };
  EXPECT_TRUE(is_promoted(12, update(12, 12)));
  EXPECT_FALSE(is_promoted(12, update(12, 10))) << "lanes 12 to 15 are no elements";
  EXPECT_TRUE(is_promoted(16, update(12, 10))) << "they are elements";
  const std::string always = "C[ramp(0, 1, 16)] = (C[ramp(0, 1, 16)] + X[ramp((k * 16), 1, 16)])";
  EXPECT_TRUE(is_promoted(16, always));
  const std::string at_times = "if (k == 3) {\n" + always + "\n}\n" + update(12, 12);
  EXPECT_FALSE(is_promoted(12, at_times)) << "the branch tells nothing of the other iterations";
}

}  // namespace
}  // namespace tilewright
