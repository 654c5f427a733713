#include "ir/bits.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace tilewright {
namespace {

std::vector<ElemType> small_types() {
  std::vector<ElemType> types;
  for (int t = 0; t <= static_cast<int>(ElemType::index); ++t) {
    auto elem = static_cast<ElemType>(t);
    if (bits_of(elem) <= 16 && elem != ElemType::boolean) types.push_back(elem);
  }
  return types;
}

TEST(Bits, EveryPatternOfASmallTypeRoundTrips) {
  for (ElemType elem : small_types()) {
    for (uint64_t bits = 0; bits < uint64_t{1} << bits_of(elem); ++bits) {
      double value = from_bits(elem, bits);
      if (std::isnan(value)) {
        EXPECT_TRUE(std::isnan(from_bits(elem, to_bits(elem, value)))) << to_string(elem);
        continue;
      }
      ASSERT_EQ(to_bits(elem, value), bits) << to_string(elem) << " " << value;
      if (std::isinf(value)) continue;  // the 8-bit floats saturate
      ASSERT_EQ(round_to(elem, value), value) << to_string(elem) << " " << bits;
    }
  }
}

TEST(Bits, KnownPatterns) {
  EXPECT_EQ(to_bits(ElemType::f16, 1.0), 0x3c00u);
  EXPECT_EQ(to_bits(ElemType::bf16, -2.0), 0xc000u);
  EXPECT_EQ(to_bits(ElemType::f8e4m3, 448), 0x7eu);
  EXPECT_EQ(to_bits(ElemType::f8e5m2, 57344), 0x7bu);
  EXPECT_EQ(to_bits(ElemType::f4e2m1, -6), 0xfu);
  EXPECT_EQ(to_bits(ElemType::e8m0, 2), 128u);
  EXPECT_EQ(to_bits(ElemType::nf4, 1), 15u);
  EXPECT_EQ(to_bits(ElemType::i4, -1), 15u);
  EXPECT_EQ(to_bits(ElemType::i1, -1), 0u);
  EXPECT_EQ(to_bits(ElemType::i1, 1), 1u);
  EXPECT_EQ(to_bits(ElemType::f32, 1.0), 0x3f800000u);
  EXPECT_EQ(to_bits(ElemType::f64, 1.0), 0x3ff0000000000000u);
  EXPECT_EQ(to_bits(ElemType::boolean, 1), 1u);
}

TEST(Bits, WideIntegersKeepTheirSignAndSaturateInConversion) {
  for (double v : {0.0, 1.0, -1.0, 123456789.0, -4503599627370496.0}) {
    EXPECT_EQ(from_bits(ElemType::i64, to_bits(ElemType::i64, v)), v);
  }
  EXPECT_EQ(to_bits(ElemType::i64, 0x1p63), uint64_t{INT64_MAX});
  EXPECT_EQ(to_bits(ElemType::i64, -0x1p63), uint64_t{1} << 63);
  EXPECT_EQ(to_bits(ElemType::u64, 0x1p64), UINT64_MAX);
  EXPECT_EQ(from_bits(ElemType::i32, 0xffffffff), -1);
  EXPECT_EQ(from_bits(ElemType::u32, 0xffffffff), 4294967295.0);
}

}  // namespace
}  // namespace tilewright
