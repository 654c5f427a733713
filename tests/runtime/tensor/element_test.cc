#include "runtime/tensor/element.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

namespace tilewright {
namespace {

const std::vector<ElemType> kAll = {
    ElemType::f64,    ElemType::f32,    ElemType::f16, ElemType::bf16,    ElemType::f8e4m3,
    ElemType::f8e5m2, ElemType::f4e2m1, ElemType::nf4, ElemType::e8m0,    ElemType::i64,
    ElemType::i32,    ElemType::i16,    ElemType::i8,  ElemType::i4,      ElemType::i2,
    ElemType::i1,     ElemType::u64,    ElemType::u32, ElemType::u16,     ElemType::u8,
    ElemType::u4,     ElemType::u2,     ElemType::u1,  ElemType::boolean, ElemType::index};

TEST(Element, EveryCodeOfNarrowTypesReadsBackAsItself) {
  for (ElemType elem : kAll) {
    if (bits_of(elem) > 16 || elem == ElemType::boolean) continue;
    for (uint64_t code = 0; code < (uint64_t{1} << bits_of(elem)); ++code) {
      double value = decode_element(elem, code);
      if (std::isnan(value)) continue;
      if (std::isinf(value) && elem == ElemType::f8e5m2) continue;  // conversion saturates
      EXPECT_EQ(decode_element(elem, encode_element(elem, value)), value)
          << to_string(elem) << " code " << code;
      EXPECT_EQ(round_to(elem, value), value) << to_string(elem) << " code " << code;
    }
  }
}

TEST(Element, CodesAreThoseOfTheStandards) {
  EXPECT_EQ(encode_element(ElemType::f16, 1.0), 0x3c00u);
  EXPECT_EQ(encode_element(ElemType::f16, 65504.0), 0x7bffu);
  EXPECT_EQ(encode_element(ElemType::f16, 0x1p-24), 0x0001u);
  EXPECT_EQ(encode_element(ElemType::f16, 1e9), 0x7c00u);
  EXPECT_EQ(encode_element(ElemType::bf16, -2.0), 0xc000u);
  EXPECT_EQ(encode_element(ElemType::f8e4m3, 448.0), 0x7eu);
  EXPECT_EQ(encode_element(ElemType::f8e4m3, 1e9), 0x7eu);
  EXPECT_EQ(encode_element(ElemType::f8e4m3, 0x1p-9), 0x01u);
  EXPECT_EQ(encode_element(ElemType::f8e5m2, 1.0), 0x3cu);
  EXPECT_EQ(encode_element(ElemType::f4e2m1, 6.0), 7u);
  EXPECT_EQ(encode_element(ElemType::f4e2m1, -0.5), 9u);
  EXPECT_EQ(encode_element(ElemType::e8m0, 1.0), 127u);
  EXPECT_EQ(encode_element(ElemType::e8m0, 0.25), 125u);
  EXPECT_EQ(encode_element(ElemType::nf4, -1.0), 0u);
  EXPECT_EQ(encode_element(ElemType::nf4, 0.0), 7u);
  EXPECT_EQ(encode_element(ElemType::i4, -1.0), 15u);
  EXPECT_EQ(encode_element(ElemType::i1, -1.0), 0u);
  EXPECT_EQ(encode_element(ElemType::i1, 1.0), 1u);
  EXPECT_EQ(encode_element(ElemType::i8, -128.0), 0x80u);
  EXPECT_EQ(encode_element(ElemType::i32, -2.0), 0xfffffffeu);
}

TEST(Element, NotANumberSurvivesWhereTheTypeHasOne) {
  double nan = std::numeric_limits<double>::quiet_NaN();
  for (ElemType elem : {ElemType::f64, ElemType::f32, ElemType::f16, ElemType::bf16,
                        ElemType::f8e4m3, ElemType::f8e5m2}) {
    EXPECT_TRUE(std::isnan(decode_element(elem, encode_element(elem, nan)))) << to_string(elem);
  }
}

TEST(Element, SubByteTypesPackLowestBitsFirst) {
  unsigned char bytes[2] = {0xff, 0xff};
  store_element(ElemType::u4, bytes, 0, 1);
  store_element(ElemType::u4, bytes, 1, 2);
  store_element(ElemType::u4, bytes, 2, 3);
  EXPECT_EQ(bytes[0], 0x21);
  EXPECT_EQ(bytes[1], 0xf3);
  EXPECT_EQ(load_element(ElemType::u4, bytes, 1), 2);
  store_element(ElemType::i2, bytes, 5, -2);
  EXPECT_EQ(load_element(ElemType::i2, bytes, 5), -2);
  EXPECT_EQ(load_element(ElemType::u4, bytes, 3), 15);
}

TEST(Element, ReadsInBlocksWhatItReadsOneByOne) {
  constexpr int64_t kCount = 77;
  std::vector<unsigned char> bytes(kCount * 8);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<unsigned char>(i * 151 + i / 7);
  for (int t = 0; t <= static_cast<int>(ElemType::boolean); ++t) {
    const auto elem = static_cast<ElemType>(t);
    for (const int64_t first : {0, 3}) {
      std::vector<double> block(static_cast<size_t>(kCount - first));
      load_elements(elem, bytes.data(), first, block);
      for (int64_t i = first; i < kCount; ++i) {
        const double one = load_element(elem, bytes.data(), i), read = block[i - first];
        if (std::isnan(one)) {
          EXPECT_TRUE(std::isnan(read)) << to_string(elem) << " " << i;
        } else {
          EXPECT_EQ(read, one) << to_string(elem) << " " << i;
        }
      }
    }
  }
}

TEST(Element, StoresRoundToTheType) {
  std::vector<unsigned char> bytes(8);
  store_element(ElemType::bf16, bytes.data(), 1, 1.00390625);  // half way to the next bf16
  EXPECT_EQ(load_element(ElemType::bf16, bytes.data(), 1), 1.0);
  store_element(ElemType::u8, bytes.data(), 0, 257);
  EXPECT_EQ(load_element(ElemType::u8, bytes.data(), 0), 1);
}

TEST(Element, UlpIsTheDistanceToTheNextValue) {
  for (ElemType elem :
       {ElemType::f16, ElemType::bf16, ElemType::f8e4m3, ElemType::f8e5m2, ElemType::f4e2m1}) {
    for (double value : {1.0, 1.5, 2.0, 4.0}) {
      uint64_t code = encode_element(elem, value);
      double next = decode_element(elem, code + 1);
      EXPECT_EQ(ulp_at(elem, value), next - value) << to_string(elem) << " at " << value;
    }
  }
  EXPECT_EQ(ulp_at(ElemType::f32, 1.0), std::nextafterf(1, 2) - 1.0);
  EXPECT_EQ(ulp_at(ElemType::f64, 3.0), std::nextafter(3.0, 4.0) - 3.0);
  EXPECT_EQ(ulp_at(ElemType::f32, 0.0), 0x1p-149);
}

TEST(Element, MaxFiniteIsKeptAndTheNextIsNot) {
  for (ElemType elem : kAll) {
    if (bits_of(elem) == 64) continue;
    double top = max_finite(elem);
    EXPECT_EQ(round_to(elem, top), top) << to_string(elem);
    EXPECT_NE(round_to(elem, top * 2 + 1), top * 2 + 1) << to_string(elem);
  }
}

}  // namespace
}  // namespace tilewright
