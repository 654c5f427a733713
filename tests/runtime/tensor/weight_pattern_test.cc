// N:M patterns: what breaks one, pruning, and test data that obeys.
#include "runtime/tensor/weight_pattern.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ir/ops/spec.h"
#include "runtime/tensor/operands.h"

namespace tilewright {
namespace {

using testing::HasSubstr;

struct Operands {
  explicit Operands(const std::string& spec)
      : workload(make_workload(parse_spec(spec))), set(operands_of(workload, {}), 3) {}
  HostArray& weight() { return set.at("B"); }
  const WeightPattern& pattern() const {
    for (const OperandInfo& info : set.infos()) {
      if (info.pattern) return *info.pattern;
    }
    throw Error("no pattern");
  }
  std::optional<std::string> fault() { return pattern().fault(weight(), set.find("B.zero")); }

  Workload workload;
  OperandSet set;
};

TEST(WeightPattern, SeededWeightsObeyIt) {
  for (const char* w : {"w.sparse=2:4", "w.sparse=1:4,w.vector=8", "w.sparse=3:5,w.vector=3",
                        "w.sparse=8:32,w.vector=16", "w.dtype=i4,w.sparse=4:8",
                        "w.dtype=u4,w.zero=u4,w.group=8,w.sparse=2:4,w.vector=2"}) {
    SCOPED_TRACE(w);
    Operands operands(std::string("matmul:m=2,n=20,k=70,") + w);
    EXPECT_EQ(operands.fault(), std::nullopt);
    auto readers = seeded_readers(operands.set.infos(), 3);
    for (int64_t i = 0; i < operands.weight().count(); ++i) {
      ASSERT_EQ(readers.at("B")(i), operands.weight().get(i)) << i;
    }
  }
}

TEST(WeightPattern, SeededRowsDiffer) {
  Operands operands("matmul:m=2,n=64,k=64,w.sparse=2:4");
  std::vector<int> kept(4);
  for (int64_t k = 0; k < 64; ++k) {
    for (int64_t j = 0; j < 64; ++j) kept[k % 4] += operands.weight().get(k * 64 + j) != 0;
  }
  for (int count : kept) EXPECT_GT(count, 256) << "of 1024; half of them are kept";
}

TEST(WeightPattern, NamesTheGroupThatBreaksIt) {
  Operands operands("matmul:m=2,n=6,k=10,w.sparse=2:4");
  HostArray& w = operands.weight();
  for (int64_t i = 0; i < w.count(); ++i) w.set(i, 0);
  for (int64_t k : {4, 6, 7}) w.set(k * 6 + 5, 1);
  EXPECT_EQ(operands.fault(),
            "column 5, rows 4 to 7 of k: rows 4, 6 and 7 are not zero; 2:4 allows 2");
  w.set(6 * 6 + 5, 0);
  EXPECT_EQ(operands.fault(), std::nullopt);
}

TEST(WeightPattern, ColumnsShareTheirRows) {
  Operands operands("matmul:m=2,n=6,k=10,w.sparse=1:4,w.vector=4");
  HostArray& w = operands.weight();
  for (int64_t i = 0; i < w.count(); ++i) w.set(i, 0);
  w.set(8 * 6 + 4, 1);
  w.set(9 * 6 + 5, 1);  // another column of the same two
  EXPECT_EQ(operands.fault(),
            "columns 4 to 5, rows 8 to 9 of k: rows 8 and 9 are not zero; 1:4 allows 1");
}

TEST(WeightPattern, CountsFromTheZeroPoint) {
  Operands operands("matmul:m=2,n=4,k=4,w.dtype=u4,w.zero=u4,w.sparse=1:2");
  HostArray &w = operands.weight(), &zero = operands.set.at("B.zero");
  for (int64_t j = 0; j < 4; ++j) zero.set(j, 7);
  for (int64_t i = 0; i < w.count(); ++i) w.set(i, 7);
  EXPECT_EQ(operands.fault(), std::nullopt);
  w.set(0, 0);
  w.set(4, 0);
  EXPECT_THAT(operands.fault().value_or(""),
              HasSubstr("rows 0 and 1 are not at their zero points"));
}

TEST(WeightPattern, PruningKeepsTheLargest) {
  Operands operands("matmul:m=2,n=2,k=4,w.sparse=2:4,w.vector=2");
  HostArray& w = operands.weight();
  const std::vector<double> before = {1, -1, 4, 0, -2, 2, 0, 3};  // sums of rows: 2, 4, 4, 3
  for (int64_t i = 0; i < 8; ++i) w.set(i, before[static_cast<size_t>(i)]);
  operands.pattern().prune(&w, nullptr);
  const std::vector<double> after = {0, 0, 4, 0, -2, 2, 0, 0};
  for (int64_t i = 0; i < 8; ++i) EXPECT_EQ(w.get(i), after[static_cast<size_t>(i)]) << i;
}

TEST(WeightPattern, PruningKeepsTheFirstOfEqualRows) {
  Operands operands("matmul:m=2,n=1,k=3,w.sparse=1:3");
  HostArray& w = operands.weight();
  for (int64_t i = 0; i < 3; ++i) w.set(i, 1);
  operands.pattern().prune(&w, nullptr);
  EXPECT_EQ(w.get(0), 1);
  EXPECT_EQ(w.get(1), 0);
  EXPECT_EQ(w.get(2), 0);
}

TEST(WeightPattern, PrunedWeightsObeyIt) {
  for (const char* w : {"w.sparse=3:7,w.vector=4", "w.dtype=u4,w.zero=u4,w.group=8,w.sparse=2:4"}) {
    Operands operands(std::string("matmul:m=2,n=10,k=30,") + w);
    HostArray& weight = operands.weight();
    for (int64_t i = 0; i < weight.count(); ++i) weight.set(i, static_cast<double>(i * 7 % 5));
    ASSERT_NE(operands.fault(), std::nullopt);
    operands.pattern().prune(&weight, operands.set.find("B.zero"));
    EXPECT_EQ(operands.fault(), std::nullopt);
  }
}

TEST(SeededWeights, HavePositiveScalesOfASensibleSize) {
  for (const char* w : {"w.dtype=u8,w.zero=u8", "w.dtype=i4,w.scale=f16", "w.dtype=nf4",
                        "w.dtype=f4e2m1,w.scale=e8m0", "w.dtype=u4,w.scale=f8e4m3"}) {
    SCOPED_TRACE(w);
    Operands operands(std::string("matmul:m=1,n=50,k=64,w.group=16,") + w);
    HostArray &scale = operands.set.at("B.scale"), &weight = operands.weight();
    double largest = 0;
    for (int64_t i = 0; i < weight.count(); ++i) {
      double s = scale.get(i / 50 / 16 * 50 + i % 50);
      ASSERT_GT(s, 0);
      largest = std::max(largest, std::abs(weight.get(i) * s));
    }
    EXPECT_GT(largest, 0.25);
    EXPECT_LE(largest, 2);
  }
}

TEST(SeededWeights, HaveZeroPointsAmongTheCodes) {
  Operands operands("matmul:m=1,n=50,k=64,w.group=4,w.dtype=u2,w.zero=u8");
  HostArray& zero = operands.set.at("B.zero");
  for (int64_t i = 0; i < zero.count(); ++i) EXPECT_LE(zero.get(i), 3);
}

}  // namespace
}  // namespace tilewright
