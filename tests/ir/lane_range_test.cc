// Masks of lanes as ranges.
#include <gtest/gtest.h>

#include <algorithm>

#include "ir/arith/lane_of.h"
#include "ir/arith/simplify.h"
#include "ir/predicates.h"

namespace tilewright {
namespace {

constexpr int kLanes = 8;

Expr lanes_from(int64_t base, int64_t stride = 1) { return ramp(Expr(base), stride, kLanes); }
Expr all(int64_t value) { return broadcast(Expr(value), kLanes); }
Expr all_if(bool value) { return broadcast(eq(Expr(int64_t{value}), Expr(1)), kLanes); }

// Compares the range with the mask, lane by lane.
void check(const Expr& mask) {
  const auto range = lane_range(mask);
  ASSERT_TRUE(range);
  const auto first = as_int(simplify(range->first)), end = as_int(simplify(range->end));
  ASSERT_TRUE(first && end);
  for (int i = 0; i < kLanes; ++i) {
    const auto holds = as_int(simplify(LaneOf(Expr(i))(mask)));
    ASSERT_TRUE(holds);
    EXPECT_EQ(i >= *first && i < *end, *holds != 0) << "lane " << i;
  }
}

TEST(LaneRange, OfComparisonsOnEitherSide) {
  for (int64_t bound = -2; bound <= kLanes + 4; ++bound) {
    SCOPED_TRACE(bound);
    for (int64_t stride : {1, -1}) {
      const Expr lanes = lanes_from(3, stride);
      check(lanes < all(bound));
      check(lanes <= all(bound));
      check(lanes > all(bound));
      check(lanes >= all(bound));
      check(all(bound) < lanes);
      check(all(bound) >= lanes);
    }
  }
}

TEST(LaneRange, OfConditionsForAllLanesAndOfTwoBounds) {
  for (bool row : {false, true}) {
    check(all_if(row));
    check(all_if(row) && (lanes_from(0) >= all(3)));
    check((lanes_from(0) < all(5)) && all_if(row));
    check(all_if(row) && ((lanes_from(0) >= all(2)) && (lanes_from(0) < all(6))));
    check((all_if(row) && (all(6) > lanes_from(0))) && (all_if(true) && (lanes_from(-1) < all(4))));
  }
  check((lanes_from(0) >= all(6)) && (lanes_from(0) < all(2)));  // none
}

TEST(LaneRange, OfNothingElse) {
  EXPECT_FALSE(lane_range(Expr()));
  EXPECT_FALSE(lane_range(lanes_from(0, 2) < all(5)));
  EXPECT_FALSE(lane_range((lanes_from(0) < all(5)) || (lanes_from(0) > all(6))));
  EXPECT_FALSE(leading_lanes(lanes_from(0) >= all(2)).defined());
  EXPECT_TRUE(leading_lanes(lanes_from(0) < all(2)).defined());
}

}  // namespace
}  // namespace tilewright
