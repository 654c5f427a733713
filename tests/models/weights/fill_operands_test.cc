#include "models/weights/fill_operands.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "runtime/error.h"
#include "tests/models/weights/layer_files.h"
#include "tests/runtime/support.h"

namespace tilewright::weights {
namespace {

using test::error_of;
using test::layer_numbers;
using test::LayerNumbers;
using testing::HasSubstr;

constexpr int64_t kK = 64, kN = 32;

// The operands of a matmul whose weight is said so; an extent of 0 leaves scales or zeros out.
OperandSet matmul(ElemType weight, int64_t groups = 0, ElemType scale = ElemType::f16,
                  std::optional<ElemType> zero = std::nullopt, bool transposed = false,
                  std::optional<ElemType> offset = std::nullopt) {
  auto input = [](std::string name, ElemType elem, std::vector<int64_t> shape) {
    return OperandInfo{std::move(name), elem, std::move(shape), ParamRole::Input, {}};
  };
  std::vector<OperandInfo> infos = {input("A", ElemType::f32, {2, kK})};
  infos.push_back(input("B", weight, transposed ? std::vector{kN, kK} : std::vector{kK, kN}));
  if (groups > 0) infos.push_back(input("B.scale", scale, {groups, kN}));
  if (zero) infos.push_back(input("B.zero", *zero, {groups, kN}));
  if (offset) infos.push_back(input("B.offset", *offset, {groups, kN}));
  infos.push_back({"C", ElemType::f32, {2, kN}, ParamRole::Output, {}});
  return OperandSet(infos, 1);
}

struct Made {
  std::string bytes;
  TensorFile file;
  Layer layer;
  explicit Made(const std::string& b)
      : bytes(b), file(TensorFile::parse(bytes, "m")), layer(*find_layer(file, "layer")) {}
};

Filled fill(OperandSet* operands, const Made& made, bool transposed = false) {
  return fill_operands(operands, "B", made.file, made.layer, {}, transposed);
}

TEST(FillOperands, APackedWeightTakesNumbersScalesAndZeroPoints) {
  LayerNumbers l = layer_numbers(kK, kN, 16, 4);
  Made made(gptq_file(l, true).bytes());
  OperandSet operands = matmul(ElemType::u4, 4, ElemType::f16, ElemType::u4);
  Filled filled = fill(&operands, made);
  EXPECT_THAT(filled.names, testing::ElementsAre("B", "B.scale", "B.zero"));
  EXPECT_TRUE(filled.order.empty());
  for (int64_t i = 0; i < kK * kN; ++i) {
    ASSERT_EQ(operands.at("B").get(i), l.q[static_cast<size_t>(i)]);
  }
  for (int64_t i = 0; i < 4 * kN; ++i) {
    ASSERT_EQ(operands.at("B.scale").get(i), l.scale[static_cast<size_t>(i)]);
    ASSERT_EQ(operands.at("B.zero").get(i), l.zero[static_cast<size_t>(i)]);
  }
}

TEST(FillOperands, APlainWeightTakesTheDequantizedValues) {
  LayerNumbers l = layer_numbers(kK, kN, 16, 4, /*shuffled=*/true);
  Made made(gptq_file(l, true).bytes());
  std::vector<float> values = dequantize(read_layer(made.file, made.layer, {}));
  OperandSet operands = matmul(ElemType::f32), turned = matmul(ElemType::f32, 0, {}, {}, true);
  EXPECT_TRUE(fill(&operands, made).order.empty()) << "rows are in their own order";
  fill(&turned, made, true);
  for (int64_t i = 0; i < kK; ++i) {
    for (int64_t j = 0; j < kN; ++j) {
      ASSERT_EQ(operands.at("B").get(i * kN + j), values[static_cast<size_t>(i * kN + j)]);
      ASSERT_EQ(turned.at("B").get(j * kK + i), values[static_cast<size_t>(i * kN + j)]);
    }
  }
}

TEST(FillOperands, ActOrderGivesTheOrderOfTheColumnsOfTheOtherFactor) {
  LayerNumbers l = layer_numbers(kK, kN, 16, 4, /*shuffled=*/true);
  Made made(gptq_file(l, true).bytes());
  OperandSet operands = matmul(ElemType::u4, 4, ElemType::f16, ElemType::u4);
  HostArray& a = operands.at("A");
  for (int64_t i = 0; i < a.count(); ++i) a.set(i, static_cast<double>(i));
  Filled filled = fill(&operands, made);
  take_columns(&a, filled.order);
  for (int64_t r = 0; r < kK; ++r) {
    auto row = static_cast<int64_t>(a.get(r));
    EXPECT_EQ(a.get(kK + r), static_cast<double>(kK + row));
    ASSERT_EQ(operands.at("B").get(r * kN), l.q_at(row, 0));
    ASSERT_EQ(l.group(row), r / 16);
  }
}

TEST(FillOperands, ZeroPointsThatTheLayerLacksAreNone) {
  Made made(compressed_tensors_file(layer_numbers(kK, kN, 16, 4), true).bytes());
  OperandSet operands = matmul(ElemType::i4, 4, ElemType::bf16, ElemType::i4);
  EXPECT_THAT(fill(&operands, made).names, testing::ElementsAre("B", "B.scale", "B.zero"));
  for (int64_t i = 0; i < 4 * kN; ++i) ASSERT_EQ(operands.at("B.zero").get(i), 0);
}

TEST(FillOperands, ScalesMayBeOfAWiderType) {
  LayerNumbers l = layer_numbers(kK, kN, 16, 4);
  Made made(gptq_file(l, true).bytes());
  OperandSet operands = matmul(ElemType::u8, 4, ElemType::f32, ElemType::u8);
  fill(&operands, made);
  EXPECT_EQ(operands.at("B.scale").get(7), l.scale[7]);
  EXPECT_EQ(operands.at("B").get(7), l.q[7]);
}

TEST(FillOperands, WhatDoesNotFitIsRefusedWithTheKeysThatDo) {
  Made made(gptq_file(layer_numbers(kK, kN, 16, 4), true).bytes());
  const std::string takes = "takes w.dtype=u4,w.group=16,w.scale=f16,w.zero=u4";
  auto refusal = [&](OperandSet operands) {
    return error_of<FileError>([&] { fill(&operands, made); });
  };
  EXPECT_EQ(refusal(matmul(ElemType::u4, 4)),
            "m:layer: the layer has zero points and the spec has none; it " + takes);
  EXPECT_EQ(
      refusal(matmul(ElemType::u4, 2, ElemType::f16, ElemType::u4)),
      "m:layer: shape [4, 32] does not fit operand 'B.scale', which is f16[2, 32]; the layer " +
          takes);
  EXPECT_THAT(refusal(matmul(ElemType::i4, 4, ElemType::f16, ElemType::i4)),
              HasSubstr("which i4 cannot hold; the layer " + takes));
  EXPECT_THAT(refusal(matmul(ElemType::u8)),
              HasSubstr("m:layer: f32 does not fit operand 'B', which is u8[64, 32]"));
}

// Blocks of Q4_1 with a scale of 2^(g - 2) and an offset of -g - 1/4 for group g of each column.
std::string blocks_of_q4_1() {
  std::string bytes;
  for (int64_t j = 0; j < kN; ++j) {
    for (int64_t g = 0; g < kK / 32; ++g) {
      for (float number :
           {std::ldexp(1.0f, static_cast<int>(g) - 2), -static_cast<float>(g) - 0.25f}) {
        bytes += test::raw(static_cast<_Float16>(number));
      }
      for (int64_t i = 0; i < 16; ++i) bytes += static_cast<char>((j + i) % 256);
    }
  }
  return bytes;
}

TEST(FillOperands, APackedWeightTakesOffsets) {
  Made made(test::GgufFile().add("layer", 3, {kK, kN}, blocks_of_q4_1()).bytes());
  for (ElemType type : {ElemType::f16, ElemType::f32}) {
    OperandSet packed = matmul(ElemType::u4, 2, type, std::nullopt, false, type);
    EXPECT_THAT(fill(&packed, made).names, testing::ElementsAre("B", "B.scale", "B.offset"));
    OperandSet plain = matmul(ElemType::f32);
    EXPECT_THAT(fill(&plain, made).names, testing::ElementsAre("B"));
    for (int64_t i = 0; i < kK; ++i) {
      for (int64_t j = 0; j < kN; ++j) {
        const int64_t place = i / 32 * kN + j;
        EXPECT_EQ(packed.at("B.offset").get(place), -static_cast<double>(i / 32) - 0.25);
        ASSERT_EQ(packed.at("B").get(i * kN + j) * packed.at("B.scale").get(place) +
                      packed.at("B.offset").get(place),
                  plain.at("B").get(i * kN + j));
      }
    }
  }
}

TEST(FillOperands, OffsetsThatTheSpecLacksAreRefusedWithTheKeys) {
  Made made(test::GgufFile().add("layer", 3, {kK, kN}, blocks_of_q4_1()).bytes());
  for (std::optional<ElemType> zero : {std::optional<ElemType>(), std::optional(ElemType::u4)}) {
    OperandSet packed = matmul(ElemType::u4, 2, ElemType::f16, zero);
    EXPECT_EQ(error_of<FileError>([&] { fill(&packed, made); }),
              "m:layer: the layer has offsets and the spec has none; it takes "
              "w.dtype=u4,w.group=32,w.scale=f16,w.offset=f16");
  }
}

TEST(FillOperands, OffsetsThatTheLayerLacksAreNone) {
  Made made(compressed_tensors_file(layer_numbers(kK, kN, 16, 4), true).bytes());
  OperandSet operands = matmul(ElemType::i4, 4, ElemType::bf16, {}, false, ElemType::f32);
  EXPECT_THAT(fill(&operands, made).names, testing::ElementsAre("B", "B.scale", "B.offset"));
  for (int64_t i = 0; i < 4 * kN; ++i) ASSERT_EQ(operands.at("B.offset").get(i), 0);
}

}  // namespace
}  // namespace tilewright::weights
