#include "models/weights/quantized_weight.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "models/weights/layers.h"
#include "models/weights/packed_words.h"
#include "runtime/error.h"
#include "tests/models/weights/layer_files.h"
#include "tests/runtime/support.h"

namespace tilewright::weights {
namespace {

using test::error_of;
using test::layer_numbers;
using test::LayerNumbers;

TEST(PackedWords, NumbersGoOnInTheNextWord) {
  for (int bits = 1; bits <= 8; ++bits) {
    test::Numbers numbers(static_cast<uint64_t>(bits));
    std::vector<uint32_t> values, words(static_cast<size_t>(PackedWords::words_for(50, bits)) * 3);
    for (int i = 0; i < 50; ++i) values.push_back(numbers.next(1u << bits));
    test::pack_bits(&words, 1, 3, 50, bits,
                    [&](int64_t i) { return values[static_cast<size_t>(i)]; });
    PackedWords packed(words.data() + 1, 3, bits);
    for (int64_t i = 0; i < 50; ++i) EXPECT_EQ(packed.at(i), values[static_cast<size_t>(i)]);
  }
}

QuantizedWeight gptq(const LayerNumbers& l, const std::string& operand = "B") {
  std::string bytes = gptq_file(l, true).bytes();
  TensorFile file = TensorFile::parse(bytes, "m");
  return read_layer(file, *find_layer(file, "layer"), {}, operand);
}

const HostArray& named(const WeightOperands& operands, const std::string& name) {
  for (const HostArray& array : operands.arrays) {
    if (array.name() == name) return array;
  }
  throw Error("no array " + name);
}

TEST(WeightOperands, AreNamedAndWorthTheDequantizedValues) {
  LayerNumbers l = layer_numbers(64, 32, 16, 4);
  std::vector<float> values = dequantize(gptq(l, "W"));
  WeightOperands operands = to_operands(gptq(l, "W"), "m");
  EXPECT_TRUE(operands.order.empty());
  const HostArray &q = named(operands, "W"), &scale = named(operands, "W.scale"),
                  &zero = named(operands, "W.zero");
  EXPECT_EQ(q.elem(), ElemType::u4);
  EXPECT_EQ(q.bytes(), 64 * 32 / 2);
  EXPECT_EQ(zero.elem(), ElemType::u4);
  EXPECT_EQ(scale.shape(), (std::vector<int64_t>{4, 32}));
  for (int64_t i = 0; i < 64; ++i) {
    for (int64_t j = 0; j < 32; ++j) {
      int64_t at = i / 16 * 32 + j;
      auto value = static_cast<float>((q.get(i * 32 + j) - zero.get(at)) * scale.get(at));
      EXPECT_EQ(test::to_half(value), values[static_cast<size_t>(i * 32 + j)]);
    }
  }
}

TEST(WeightOperands, ActOrderRowsAreBroughtIntoTheOrderOfTheirGroups) {
  LayerNumbers l = layer_numbers(64, 32, 16, 4, /*shuffled=*/true);
  WeightOperands operands = to_operands(gptq(l), "m");
  ASSERT_EQ(operands.order.size(), 64u);
  std::vector<bool> seen(64);
  for (int64_t r = 0; r < 64; ++r) {
    int64_t row = operands.order[static_cast<size_t>(r)];
    seen[static_cast<size_t>(row)] = true;
    EXPECT_EQ(l.group(row), r / 16);
    for (int64_t j = 0; j < 32; ++j) {
      EXPECT_EQ(named(operands, "B").get(r * 32 + j), l.q_at(row, j));
    }
  }
  EXPECT_THAT(seen, testing::Each(true));
}

TEST(WeightOperands, GroupsThatAreNotWholeAreRefused) {
  LayerNumbers l = layer_numbers(64, 32, 16, 4, /*shuffled=*/true);
  auto first = std::find(l.group_of.begin(), l.group_of.end(), 0);
  *first = 1;
  EXPECT_EQ(error_of<FileError>([&] { to_operands(gptq(l), "m"); }),
            "m: expected 17 rows in group 0, found another number of them");
}

TEST(WeightOperands, OffsetsComeAlong) {
  std::string bytes = test::GgufFile().add("w", 12, {256, 1}, std::string(144, '\x21')).bytes();
  TensorFile file = TensorFile::parse(bytes, "m");
  QuantizedWeight w = read_layer(file, *find_layer(file, "w"), {});
  float first = dequantize(w)[0];
  WeightOperands operands = to_operands(std::move(w), "m");
  double value = named(operands, "B").get(0) * named(operands, "B.scale").get(0);
  EXPECT_EQ(static_cast<float>(value + named(operands, "B.offset").get(0)), first);
  EXPECT_NE(named(operands, "B.offset").get(0), 0);
}

}  // namespace
}  // namespace tilewright::weights
