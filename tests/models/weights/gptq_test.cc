#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "models/weights/layers.h"
#include "runtime/error.h"
#include "tests/models/weights/layer_files.h"
#include "tests/runtime/support.h"

namespace tilewright::weights {
namespace {

using test::error_of;
using test::gptq_file;
using test::layer_numbers;
using test::LayerNumbers;
using test::raw;
using test::SafetensorsFile;
using testing::HasSubstr;

QuantizedWeight read_gptq(const std::string& bytes, GptqZeros zeros = GptqZeros::LessOne) {
  TensorFile file = TensorFile::parse(bytes, "m");
  std::optional<Layer> layer = find_layer(file, "layer");
  EXPECT_TRUE(layer);
  return read_layer(file, *layer, {zeros});
}

// The formula in the arithmetic of f16, from the numbers that went into the file.
float expected(const LayerNumbers& l, int64_t i, int64_t j) {
  int64_t g = l.group(i);
  int difference = static_cast<int>(l.q_at(i, j)) - static_cast<int>(l.zero_at(g, j));
  return test::to_half(l.scale_at(g, j) * static_cast<float>(difference));
}

void expect_values(const QuantizedWeight& w, const LayerNumbers& l) {
  std::vector<float> values = dequantize(w);
  for (int64_t i = 0; i < l.k; ++i) {
    for (int64_t j = 0; j < l.n; ++j) {
      ASSERT_EQ(w.q.get(i * l.n + j), l.q_at(i, j)) << i << ", " << j;
      ASSERT_TRUE(test::same_bits(values[static_cast<size_t>(i * l.n + j)], expected(l, i, j)))
          << i << ", " << j;
    }
  }
}

class GptqBits : public testing::TestWithParam<int> {};

TEST_P(GptqBits, ValuesAreThoseOfTheFormula) {
  LayerNumbers l = layer_numbers(64, 32, 16, GetParam());
  for (bool less_one : {true, false}) {
    QuantizedWeight w = read_gptq(gptq_file(l, less_one).bytes(),
                                  less_one ? GptqZeros::LessOne : GptqZeros::AsTheyAre);
    EXPECT_EQ(w.group, 16);
    EXPECT_TRUE(w.group_of_row.empty());
    EXPECT_EQ(bits_of(w.q.elem()), GetParam() == 3 ? 4 : GetParam());
    expect_values(w, l);
  }
}

TEST_P(GptqBits, ActOrderKeepsTheGroupOfEachRow) {
  LayerNumbers l = layer_numbers(96, 32, 32, GetParam(), /*shuffled=*/true);
  QuantizedWeight w = read_gptq(gptq_file(l, true).bytes());
  EXPECT_EQ(w.group_of_row, l.group_of);
  EXPECT_EQ(w.group, 32);
  expect_values(w, l);
}

INSTANTIATE_TEST_SUITE_P(All, GptqBits, testing::Values(2, 3, 4, 8),
                         [](const auto& test) { return std::to_string(test.param); });

TEST(Gptq, AZeroPointOfNoneIsStoredAsTheLargestNumber) {
  LayerNumbers l = layer_numbers(32, 32, 32, 4);
  std::fill(l.zero.begin(), l.zero.end(), 0);
  QuantizedWeight w = read_gptq(gptq_file(l, true).bytes());
  EXPECT_EQ(w.zero->get(0), 0);
  expect_values(w, l);
}

TEST(Gptq, TheTwoKindsDifferByOne) {
  LayerNumbers l = layer_numbers(32, 32, 32, 4);
  std::fill(l.zero.begin(), l.zero.end(), 8);
  std::string bytes = gptq_file(l, true).bytes();
  EXPECT_EQ(read_gptq(bytes, GptqZeros::LessOne).zero->get(5), 8);
  EXPECT_EQ(read_gptq(bytes, GptqZeros::AsTheyAre).zero->get(5), 7);
}

TEST(Gptq, TheLastGroupMayBeShort) {
  LayerNumbers l = layer_numbers(96, 32, 64, 4);
  QuantizedWeight w = read_gptq(gptq_file(l, true).bytes());
  EXPECT_EQ(w.group, 64);
  EXPECT_EQ(w.groups(), 2);
  expect_values(w, l);
}

TEST(Gptq, WithoutIndicesGroupsAreEven) {
  LayerNumbers l = layer_numbers(96, 32, 32, 4);
  expect_values(read_gptq(gptq_file(l, true, /*with_indices=*/false).bytes()), l);
  LayerNumbers uneven = layer_numbers(96, 32, 40, 4);
  uneven.groups = 5;
  uneven.scale.resize(5 * 32, 1);
  uneven.zero.resize(5 * 32, 1);
  std::string bytes = gptq_file(uneven, true, false).bytes();
  EXPECT_THAT(error_of<FileError>([&] { read_gptq(bytes); }),
              HasSubstr("tensor 'layer.scales': expected a number of groups that divides the 96 "
                        "rows, found 5"));
}

TEST(Gptq, TheLayerSaysWhatAMatmulTakes) {
  LayerNumbers l = layer_numbers(64, 32, 16, 4);
  std::string bytes = gptq_file(l, true).bytes();
  Layer layer = *find_layer(TensorFile::parse(bytes, "m"), "layer");
  EXPECT_EQ(layer.format, "gptq");
  EXPECT_EQ(layer.spec_keys(), "w.dtype=u4,w.group=16,w.scale=f16,w.zero=u4");
  bytes = gptq_file(layer_numbers(32, 32, 32, 8), true).bytes();
  EXPECT_EQ(find_layer(TensorFile::parse(bytes, "m"), "layer")->spec_keys(),
            "w.dtype=u8,w.group=-1,w.scale=f16,w.zero=u8");
  EXPECT_FALSE(find_layer(TensorFile::parse(bytes, "m"), "other"));
}

// One part of a good layer taken out or replaced.
std::string refusal_with(const std::string& part, const std::string& dtype,
                         const std::vector<int64_t>& shape, const std::string& data) {
  LayerNumbers l = layer_numbers(32, 32, 16, 4);
  SafetensorsFile file;
  auto add = [&](const std::string& name, const std::string& type, std::vector<int64_t> extents,
                 const std::string& bytes) {
    if (name != part) {
      file.add("layer." + name, type, extents, bytes);
    } else if (!dtype.empty()) {
      file.add("layer." + name, dtype, shape, data);
    }
  };
  add("qweight", "I32", {4, 32}, std::string(4 * 4 * 32, '\0'));
  add("qzeros", "I32", {2, 4}, std::string(4 * 8, '\0'));
  add("scales", "F16", {2, 32}, std::string(2 * 64, '\0'));
  add("g_idx", "I32", {32}, raw(l.group_of));
  std::string bytes = file.bytes();
  return error_of<FileError>([&] { find_layer(TensorFile::parse(bytes, "m"), "layer"); });
}

TEST(Gptq, PartsThatDoNotFitAreRefusedWithTheirPlace) {
  EXPECT_EQ(refusal_with("", "", {}, ""), "");
  EXPECT_THAT(refusal_with("scales", "", {}, ""),
              HasSubstr("layer 'layer' lacks its tensor 'layer.scales'"));
  EXPECT_THAT(refusal_with("qzeros", "", {}, ""),
              HasSubstr("layer 'layer' lacks its tensor 'layer.qzeros'"));
  EXPECT_THAT(
      refusal_with("scales", "I8", {2, 32}, std::string(64, '\0')),
      HasSubstr("tensor 'layer.scales': expected f16 or bf16 or f32 with 2 axes, found I8"));
  EXPECT_THAT(refusal_with("qweight", "I32", {128}, std::string(512, '\0')),
              HasSubstr("expected i32 with 2 axes, found I32 [128]"));
  EXPECT_THAT(refusal_with("qweight", "I32", {4, 16}, std::string(256, '\0')),
              HasSubstr("expected 32 columns, as the scales have, found 16"));
  EXPECT_THAT(refusal_with("qzeros", "I32", {1, 4}, std::string(16, '\0')),
              HasSubstr("expected 2 groups, as the scales have, found 1"));
  EXPECT_THAT(refusal_with("qzeros", "I32", {2, 5}, std::string(40, '\0')),
              HasSubstr("expected zero points of 2, 3, 4 or 8 bits for 32 columns, found 5 words"));
  EXPECT_THAT(refusal_with("qzeros", "I32", {2, 3}, std::string(24, '\0')),
              HasSubstr("expected whole numbers of 3 bits in a column of words, found 4 words"));
  EXPECT_THAT(refusal_with("g_idx", "I32", {31}, std::string(124, '\0')),
              HasSubstr("tensor 'layer.g_idx': expected 32 rows, found 31"));
}

TEST(Gptq, AGroupThatIsNotThereIsRefusedWithItsByte) {
  std::vector<int32_t> indices(32, 0);
  indices[3] = 2;
  std::string message = refusal_with("g_idx", "I32", {32}, raw(indices));
  EXPECT_THAT(message,
              HasSubstr("expected a group from 0 to 1 for row 3 in 'layer.g_idx', found 2"));
  indices[3] = -1;
  EXPECT_THAT(refusal_with("g_idx", "I32", {32}, raw(indices)), HasSubstr("found -1"));
}

TEST(Gptq, TheConfigurationTellsTheKind) {
  test::TempDir dir;
  std::string model = dir.path("model.safetensors");
  EXPECT_EQ(gptq_zeros_beside(model), GptqZeros::LessOne);
  auto with = [&](const char* name, const char* text) {
    std::ofstream(dir.path(name)) << text;
    return gptq_zeros_beside(model);
  };
  EXPECT_EQ(with("config.json", R"({"quantization_config": {"checkpoint_format": "gptq_v2"}})"),
            GptqZeros::AsTheyAre);
  EXPECT_EQ(with("quantize_config.json", R"({"checkpoint_format": "gptq"})"), GptqZeros::LessOne);
  EXPECT_EQ(with("quantize_config.json", R"({"bits": 4})"), GptqZeros::AsTheyAre)
      << "the next file is asked";
  EXPECT_EQ(error_of<FileError>([&] { with("quantize_config.json", "{"); }),
            dir.path("quantize_config.json") + ": is no JSON");
}

}  // namespace
}  // namespace tilewright::weights
