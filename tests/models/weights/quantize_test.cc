// Floats as codes of a few bits.
#include "models/weights/quantize.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "runtime/tensor/element.h"

namespace tilewright::weights {
namespace {

std::vector<float> random_rows(size_t count) {
  std::mt19937 generator(11);
  std::normal_distribution<float> normal(0.3f, 1);
  std::vector<float> values(count);
  for (float& v : values) v = normal(generator);
  return values;
}

double value_of(ElemType type, int16_t code) {
  if (is_integer(type)) return code;
  const auto bits = static_cast<uint8_t>(code);
  return load_element(type, &bits, 0);
}

class Quantize : public testing::TestWithParam<ElemType> {};

// No integer is off by more than half a scale; floats have their largest steps at the ends.
TEST_P(Quantize, ElementsAreNear) {
  const ElemType type = GetParam();
  constexpr int64_t kTerms = 70, kGroup = 32;  // the last group has 6
  const std::vector<float> rows = random_rows(3 * kTerms);
  const RowCodes made = quantize(rows, kTerms, type, kGroup);
  ASSERT_EQ(made.scales.size(), 9u);
  ASSERT_EQ(made.zeros.size(), has_zeros(type) ? 9u : 0u);
  for (size_t i = 0; i < rows.size(); ++i) {
    const size_t group = i / kTerms * 3 + i % kTerms / kGroup;
    const double scale = made.scales[group], zero = made.zeros.empty() ? 0 : made.zeros[group];
    const double is = (value_of(type, made.codes[i]) - zero) * scale;
    const double step = is_integer(type) ? scale : 0.35 * std::abs(rows[i]) + 0.4 * scale;
    EXPECT_LE(std::abs(is - rows[i]), 0.5001 * step) << to_string(type) << " element " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Types, Quantize,
                         testing::Values(ElemType::i8, ElemType::u8, ElemType::i4, ElemType::u4,
                                         ElemType::i2, ElemType::u2, ElemType::f8e4m3,
                                         ElemType::f8e5m2, ElemType::f4e2m1, ElemType::nf4),
                         [](const auto& info) { return to_string(info.param); });

TEST(QuantizeRows, ZerosStayZero) {
  for (ElemType type : {ElemType::i8, ElemType::u4, ElemType::f8e4m3}) {
    const RowCodes made = quantize(std::vector<float>(8, 0.0f), 8, type, 8);
    EXPECT_EQ(made.scales[0], 1) << to_string(type);
    for (int16_t code : made.codes) EXPECT_EQ(value_of(type, code), 0);
  }
}

// Scales are rounded up, so that the largest element is not cut off.
TEST(QuantizeRows, TheLargestElementIsTheLargestCode) {
  for (float most : {0.1f, 0.7f, 3.3f, 1e-30f}) {
    const RowCodes made = quantize(std::vector<float>{most, -most / 3}, 2, ElemType::i8, 2);
    EXPECT_EQ(made.codes[0], 127);
    EXPECT_GE(static_cast<double>(made.scales[0]), most / 127.0);
  }
}

TEST(QuantizeRows, KnowsItsTypes) {
  for (ElemType type : {ElemType::f32, ElemType::bf16, ElemType::i32, ElemType::i1, ElemType::u1,
                        ElemType::e8m0, ElemType::index}) {
    EXPECT_FALSE(can_quantize(type)) << to_string(type);
  }
}

}  // namespace
}  // namespace tilewright::weights
