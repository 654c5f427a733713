#include "runtime/tensor/seeded.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

#include "runtime/tensor/element.h"

namespace tilewright {
namespace {

std::vector<double> filled(const SeededValues& values, ElemType elem, int64_t count) {
  std::vector<unsigned char> bytes(static_cast<size_t>(bytes_for(elem, count)));
  values.fill(bytes.data(), count);
  std::vector<double> result;
  for (int64_t i = 0; i < count; ++i) result.push_back(load_element(elem, bytes.data(), i));
  return result;
}

class SeededEveryType : public testing::TestWithParam<ElemType> {};

// Beyond 2^16 elements fill() goes another way, which must give the same values.
TEST_P(SeededEveryType, FillAgreesWithSingleElements) {
  SeededValues values(7, "A", GetParam());
  for (int64_t count : {1, 37, 70001}) {
    std::vector<double> all = filled(values, GetParam(), count);
    for (int64_t i = 0; i < count; i += 1 + count / 500) EXPECT_EQ(all[i], values.at(i)) << i;
  }
}

TEST_P(SeededEveryType, ValuesVaryAndAreFinite) {
  SeededValues values(7, "A", GetParam());
  std::set<double> seen;
  for (int64_t i = 0; i < 4096; ++i) {
    double v = values.at(i);
    ASSERT_TRUE(std::isfinite(v));
    EXPECT_EQ(round_to(GetParam(), v), v);
    seen.insert(v);
  }
  EXPECT_GE(seen.size(), bits_of(GetParam()) < 4           ? size_t{1} << bits_of(GetParam())
                         : GetParam() == ElemType::boolean ? 2u
                                                           : 7u);
}

INSTANTIATE_TEST_SUITE_P(Types, SeededEveryType,
                         testing::Values(ElemType::f64, ElemType::f32, ElemType::f16,
                                         ElemType::bf16, ElemType::f8e4m3, ElemType::f8e5m2,
                                         ElemType::f4e2m1, ElemType::nf4, ElemType::e8m0,
                                         ElemType::i64, ElemType::i32, ElemType::i16, ElemType::i8,
                                         ElemType::i4, ElemType::i2, ElemType::i1, ElemType::u64,
                                         ElemType::u32, ElemType::u16, ElemType::u8, ElemType::u4,
                                         ElemType::u2, ElemType::u1, ElemType::boolean,
                                         ElemType::index),
                         [](const auto& test) { return to_string(test.param); });

TEST(Seeded, FloatsAreUniformOverMinusOneToOne) {
  SeededValues values(1, "A", ElemType::f32);
  double sum = 0, squares = 0;
  constexpr int kCount = 100000;
  for (int i = 0; i < kCount; ++i) {
    double v = values.at(i);
    ASSERT_GE(v, -1.0);
    ASSERT_LT(v, 1.0);
    sum += v;
    squares += v * v;
  }
  EXPECT_NEAR(sum / kCount, 0, 0.01);
  EXPECT_NEAR(squares / kCount, 1.0 / 3, 0.01);
}

TEST(Seeded, DependsOnSeedOperandAndIndexAlone) {
  SeededValues a(1, "A", ElemType::f32), again(1, "A", ElemType::f32);
  EXPECT_EQ(a.at(12345), again.at(12345));
  EXPECT_NE(a.at(0), SeededValues(2, "A", ElemType::f32).at(0));
  EXPECT_NE(a.at(0), SeededValues(1, "B", ElemType::f32).at(0));
  EXPECT_NE(a.at(0), a.at(1));
}

TEST(Seeded, RangeIsKeptAndReached) {
  SeededValues values(3, "index", ElemType::i32, ValueRange{2, 9});
  std::set<double> seen;
  for (int i = 0; i < 1000; ++i) seen.insert(values.at(i));
  EXPECT_EQ(*seen.begin(), 2);
  EXPECT_EQ(*seen.rbegin(), 9);
  EXPECT_EQ(seen.size(), 8u);
}

// A value written down once, so that stored seeds keep their meaning over versions.
TEST(Seeded, ValuesDoNotChangeOverVersions) {
  SeededValues values(42, "A", ElemType::i8);
  std::vector<double> first;
  for (int i = 0; i < 6; ++i) first.push_back(values.at(i));
  EXPECT_EQ(first, (std::vector<double>{54, -41, -61, -29, -50, 68}));
}

// Along a line that a maximum compares: columns of 17 elements, 40 apart.
TEST(Seeded, HardLinesTakeTurns) {
  SeededValues values(3, "X", ElemType::f32, std::nullopt,
                      HardValues{.line_length = 17, .line_stride = 40});
  int low = 0, high = 0, last = 0, first = 0, between = 0;
  for (int64_t column = 0; column < 40; ++column) {
    std::vector<double> line;
    for (int64_t row = 0; row < 17; ++row) line.push_back(values.at(row * 40 + column));
    const auto top = std::max_element(line.begin(), line.end()) - line.begin();
    const auto most = std::minmax_element(line.begin(), line.end());
    low += *most.second < -2000;
    high += *most.first > 2000;
    const bool one = *most.second > 2000 && *most.first > -2;
    last += one && top == 16;
    first += one && top == 0;
    between += one && top != 0 && top != 16;
  }
  EXPECT_EQ(low, 5);
  EXPECT_EQ(high, 5);
  EXPECT_GE(last, 5);
  EXPECT_GE(first, 5);
  EXPECT_GE(between, 3);
}

// All draws of a sweep together have each element of each line as the extreme once.
TEST(Seeded, HardExtremesMoveOverWholeLines) {
  constexpr int64_t kLength = 9, kLines = 4;
  for (const bool high : {true, false}) {
    std::vector<int> times(kLength * kLines);
    for (int64_t place = 0; place < kLength; ++place) {
      SeededValues values(
          3, "X", ElemType::f32, std::nullopt,
          HardValues{.line_length = kLength, .line_extreme = place, .line_high = high});
      for (int64_t i = 0; i < kLength * kLines; ++i) {
        if (std::abs(values.at(i)) > 1) {
          EXPECT_EQ(values.at(i) > 0, high);
          ++times[static_cast<size_t>(i)];
        }
      }
    }
    for (const int n : times) EXPECT_EQ(n, 1);
  }
}

TEST(Seeded, FillAgreesWithSingleElementsOfHardFloats) {
  for (const int64_t special : {0, 9}) {
    SeededValues values(5, "X", ElemType::f32, std::nullopt, HardValues{.special_every = special});
    std::vector<float> filled(3000);
    values.fill(filled.data(), static_cast<int64_t>(filled.size()));
    for (size_t i = 0; i < filled.size(); ++i) {
      const auto one = static_cast<float>(values.at(static_cast<int64_t>(i)));
      EXPECT_TRUE(std::isnan(one) ? std::isnan(filled[i]) : one == filled[i]) << i;
      EXPECT_TRUE(one != 0 || std::signbit(one) == std::signbit(filled[i])) << i;
    }
  }
}

// Codes go another way than single elements do: types of less than a byte, signed and not, and of a byte.
TEST(Seeded, FillAgreesWithSingleElementsOfHardCodes) {
  for (const ElemType type : {ElemType::u1, ElemType::i2, ElemType::i4, ElemType::u4,
                              ElemType::f4e2m1, ElemType::nf4, ElemType::i8}) {
    SeededValues values(5, "W", type, std::nullopt, HardValues{});
    constexpr int64_t kCount = 3001;  // ends within a byte
    std::vector<std::byte> filled(static_cast<size_t>(bytes_for(type, kCount)));
    values.fill(filled.data(), kCount);
    for (int64_t i = 0; i < kCount; ++i) {
      ASSERT_EQ(load_element(type, filled.data(), i), values.at(i)) << to_string(type) << " " << i;
    }
  }
}

TEST(Seeded, HardIntegersStayInTheirType) {
  SeededValues values(3, "X", ElemType::i8, std::nullopt, HardValues{.line_length = 30});
  int low = 0;
  for (int64_t row = 0; row < 9; ++row) {
    double most = -1000;
    for (int64_t i = 0; i < 30; ++i) most = std::max(most, values.at(row * 30 + i));
    low += most < -100;
  }
  EXPECT_GE(low, 1) << "a row that is wholly low";
}

// Right values are f64: sums and products of these are exact there, and do not fit into 32 bits.
TEST(Seeded, HardIntegersOf64BitsLeaveRoomForSums) {
  for (ElemType type : {ElemType::i64, ElemType::u64}) {
    SeededValues values(3, "X", type, std::nullopt, HardValues{});
    double least = 0, most = 0;
    for (int64_t i = 0; i < 64; ++i) {
      least = std::min(least, values.at(i));
      most = std::max(most, values.at(i));
    }
    EXPECT_EQ(most, 0x1p31);
    EXPECT_EQ(least, type == ElemType::i64 ? -0x1p31 : 0);
  }
}

TEST(Seeded, HardLengthsReachBothEndsAndTheirNeighbours) {
  SeededValues values(3, "N", ElemType::i32, ValueRange{0, 40}, HardValues{.lengths = true});
  std::set<double> seen;
  for (int64_t i = 0; i < 16; ++i) seen.insert(values.at(i));
  for (double length : {0, 1, 39, 40}) EXPECT_TRUE(seen.count(length)) << length;
  EXPECT_GT(seen.size(), 6u);
}

}  // namespace
}  // namespace tilewright
