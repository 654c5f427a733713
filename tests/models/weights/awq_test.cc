#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "models/weights/layers.h"
#include "runtime/error.h"
#include "tests/models/weights/layer_files.h"
#include "tests/runtime/support.h"

namespace tilewright::weights {
namespace {

using test::awq_file;
using test::error_of;
using test::layer_numbers;
using test::LayerNumbers;
using test::SafetensorsFile;
using testing::HasSubstr;

TEST(Awq, ValuesAreThoseOfTheFormula) {
  LayerNumbers l = layer_numbers(48, 24, 16, 4);
  std::string bytes = awq_file(l).bytes();
  TensorFile file = TensorFile::parse(bytes, "m");
  Layer layer = *find_layer(file, "layer");
  EXPECT_EQ(layer.format, "awq");
  EXPECT_EQ(layer.spec_keys(), "w.dtype=u4,w.group=16,w.scale=f16,w.zero=u4");
  QuantizedWeight w = read_layer(file, layer, {});
  std::vector<float> values = dequantize(w);
  for (int64_t i = 0; i < l.k; ++i) {
    for (int64_t j = 0; j < l.n; ++j) {
      int difference = static_cast<int>(l.q_at(i, j)) - static_cast<int>(l.zero_at(i / 16, j));
      float expected = test::to_half(static_cast<float>(difference) * l.scale_at(i / 16, j));
      ASSERT_EQ(w.q.get(i * l.n + j), l.q_at(i, j)) << i << ", " << j;
      ASSERT_TRUE(test::same_bits(values[static_cast<size_t>(i * l.n + j)], expected));
    }
  }
}

// Numbers are put into a word as AutoAWQ's order_map says: bits 4 to 7 are column 2.
TEST(Awq, NibblesAreInTheirOwnOrder) {
  SafetensorsFile made;
  made.add("layer.qweight", "I32", {1, 1}, test::raw(uint32_t{0x76543210}));
  made.add("layer.qzeros", "I32", {1, 1}, test::raw(uint32_t{0}));
  made.add("layer.scales", "F16", {1, 8}, test::raw(std::vector<uint16_t>(8, 0x3c00)));
  std::string bytes = made.bytes();
  TensorFile file = TensorFile::parse(bytes, "m");
  EXPECT_EQ(dequantize(read_layer(file, *find_layer(file, "layer"), {})),
            (std::vector<float>{0, 4, 1, 5, 2, 6, 3, 7}));
}

TEST(Awq, PartsThatDoNotFitAreRefused) {
  auto refusal = [](std::vector<int64_t> zeros, int64_t groups) {
    SafetensorsFile made;
    made.add("layer.qweight", "I32", {6, 2}, std::string(48, '\0'));
    made.add("layer.qzeros", "I32", zeros,
             std::string(static_cast<size_t>(4 * zeros[0] * zeros[1]), '\0'));
    made.add("layer.scales", "F16", {groups, 16},
             std::string(static_cast<size_t>(32 * groups), '\0'));
    std::string bytes = made.bytes();
    return error_of<FileError>([&] { find_layer(TensorFile::parse(bytes, "m"), "layer"); });
  };
  EXPECT_EQ(refusal({3, 2}, 3), "");
  EXPECT_THAT(refusal({2, 2}, 3), HasSubstr("tensor 'layer.qzeros': expected shape [3, 2], as the "
                                            "scales have it, found [2, 2]"));
  EXPECT_THAT(refusal({4, 2}, 4),
              HasSubstr("expected a number of groups that divides the 6 rows, found 4"));
}

}  // namespace
}  // namespace tilewright::weights
