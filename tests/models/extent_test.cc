// Arithmetic on sizes that are known only at launch.
#include "models/onnx/extent.h"

#include <gtest/gtest.h>

namespace tilewright::onnx {
namespace {

// The output of a convolution: (size + padding - window) / stride + 1.
std::optional<Extent> convolved(Extents& sizes, const Extent& size, int64_t padding, int64_t window,
                                int64_t stride) {
  const auto moved = sizes.minus(*sizes.plus(size, padding), window);
  const auto steps = sizes.quotient(*moved, stride);
  return sizes.plus(*steps, 1);
}

TEST(Extents, NumbersThatCancelLeaveTheSize) {
  Extents sizes;
  const Extent n = sizes.declare("n", {1, 64});
  EXPECT_EQ(convolved(sizes, n, 0, 1, 1), n);
  EXPECT_EQ(convolved(sizes, n, 2, 3, 1), n);
  EXPECT_EQ(convolved(sizes, *sizes.times(n, 4), 6, 7, 1), sizes.times(n, 4));
  EXPECT_EQ(sizes.plus(n, 2), sizes.plus(*sizes.plus(n, 3), -1)) << "one name for one size";
  const auto longer = sizes.plus(n, 2);
  EXPECT_EQ(longer->text(), "(2+n)");
  EXPECT_EQ(sizes.range(*longer), (DimSize{3, 66}));
}

TEST(Extents, OthersKeepNamesOfTheirOwn) {
  Extents sizes;
  const Extent n = sizes.declare("n", {4, 64});
  const auto half = convolved(sizes, n, 2, 3, 2);
  EXPECT_NE(half, n);
  EXPECT_EQ(sizes.stand_in(*half), std::nullopt);
  EXPECT_EQ(sizes.range(*half), (DimSize{2, 32}));
  EXPECT_EQ(sizes.plus(5, -5), Extent(0));
}

}  // namespace
}  // namespace tilewright::onnx
