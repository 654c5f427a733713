#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "models/weights/layers.h"
#include "runtime/error.h"
#include "tests/models/weights/layer_files.h"
#include "tests/runtime/support.h"

namespace tilewright::weights {
namespace {

using test::compressed_tensors_file;
using test::error_of;
using test::layer_numbers;
using test::LayerNumbers;
using test::raw;
using test::SafetensorsFile;
using testing::HasSubstr;

Layer describe(const std::string& bytes) {
  return *find_layer(TensorFile::parse(bytes, "m"), "layer");
}

QuantizedWeight read_compressed_tensors(const std::string& bytes) {
  TensorFile file = TensorFile::parse(bytes, "m");
  return read_layer(file, *find_layer(file, "layer"), {});
}

// The formula in the arithmetic of bf16; numbers less 2^(bits - 1) are the signed ones.
float expected(const LayerNumbers& l, bool symmetric, int64_t i, int64_t j) {
  int half = 1 << (l.bits - 1), g = static_cast<int>(l.group(i));
  int q = static_cast<int>(l.q_at(i, j)) - half;
  int zero = symmetric ? 0 : static_cast<int>(l.zero_at(g, j)) - half;
  float difference = test::to_bfloat(test::to_bfloat(static_cast<float>(q)) -
                                     test::to_bfloat(static_cast<float>(zero)));
  return test::to_bfloat(difference * test::to_bfloat(l.scale_at(g, j)));
}

void expect_values(const QuantizedWeight& w, const LayerNumbers& l, bool symmetric) {
  std::vector<float> values = dequantize(w);
  for (int64_t i = 0; i < l.k; ++i) {
    for (int64_t j = 0; j < l.n; ++j) {
      ASSERT_TRUE(
          test::same_bits(values[static_cast<size_t>(i * l.n + j)], expected(l, symmetric, i, j)))
          << i << ", " << j;
    }
  }
}

class CompressedTensorsBits : public testing::TestWithParam<int> {};

TEST_P(CompressedTensorsBits, ValuesAreThoseOfTheFormula) {
  // 19 columns and 52 rows: the last words are not full.
  LayerNumbers l = layer_numbers(52, 19, 13, GetParam());
  for (bool symmetric : {true, false}) {
    QuantizedWeight w = read_compressed_tensors(compressed_tensors_file(l, symmetric).bytes());
    EXPECT_EQ(w.zero.has_value(), !symmetric);
    EXPECT_EQ(info(w.q.elem()).kind, symmetric ? ElemKind::Int : ElemKind::UInt);
    expect_values(w, l, symmetric);
  }
}

TEST_P(CompressedTensorsBits, ActOrderKeepsTheGroupOfEachRow) {
  LayerNumbers l = layer_numbers(64, 8, 16, GetParam(), /*shuffled=*/true);
  QuantizedWeight w =
      read_compressed_tensors(compressed_tensors_file(l, false, /*with_indices=*/true).bytes());
  EXPECT_EQ(w.group_of_row, l.group_of);
  expect_values(w, l, false);
}

INSTANTIATE_TEST_SUITE_P(All, CompressedTensorsBits, testing::Values(2, 3, 4, 5, 6, 8),
                         [](const auto& test) { return std::to_string(test.param); });

TEST(CompressedTensors, TheLayerSaysWhatAMatmulTakes) {
  LayerNumbers l = layer_numbers(64, 8, 16, 4);
  EXPECT_EQ(describe(compressed_tensors_file(l, true).bytes()).spec_keys(),
            "w.dtype=i4,w.group=16,w.scale=bf16");
  EXPECT_EQ(describe(compressed_tensors_file(l, false).bytes()).spec_keys(),
            "w.dtype=u4,w.group=16,w.scale=bf16,w.zero=u4");
}

TEST(CompressedTensors, IndicesWithAMinusOneAreNotInUse) {
  LayerNumbers l = layer_numbers(64, 8, 16, 4);
  std::vector<int32_t> groups = l.group_of;
  std::fill(l.group_of.begin(), l.group_of.end(), -1);
  QuantizedWeight w = read_compressed_tensors(compressed_tensors_file(l, true, true).bytes());
  EXPECT_TRUE(w.group_of_row.empty());
  l.group_of = groups;
  expect_values(w, l, true);
}

// Zero points i8 [n, groups] in the place of the packed ones.
std::string with_plain_zeros(const LayerNumbers& l, int added) {
  std::vector<uint16_t> scales;
  std::vector<int8_t> zeros;
  std::vector<uint32_t> packed(static_cast<size_t>(l.n * l.k / 8));
  for (int64_t j = 0; j < l.n; ++j) {
    test::pack_bits(&packed, static_cast<size_t>(j * l.k / 8), 1, l.k, 4,
                    [&](int64_t i) { return l.q_at(i, j); });
    for (int64_t g = 0; g < l.groups; ++g) {
      scales.push_back(test::bfloat_bits(l.scale_at(g, j)));
      zeros.push_back(static_cast<int8_t>(static_cast<int>(l.zero_at(g, j)) - 8 + added));
    }
  }
  return SafetensorsFile()
      .add("layer.weight_packed", "I32", {l.n, l.k / 8}, raw(packed))
      .add("layer.weight_shape", "I64", {2}, raw(std::vector<int64_t>{l.n, l.k}))
      .add("layer.weight_scale", "BF16", {l.n, l.groups}, raw(scales))
      .add("layer.weight_zero_point", "I8", {l.n, l.groups}, raw(zeros))
      .bytes();
}

TEST(CompressedTensors, ZeroPointsOfOlderVersionsAreNotPacked) {
  LayerNumbers l = layer_numbers(64, 6, 16, 4);
  QuantizedWeight w = read_compressed_tensors(with_plain_zeros(l, 0));
  EXPECT_EQ(w.q.elem(), ElemType::u4);
  expect_values(w, l, false);
  EXPECT_THAT(error_of<FileError>([&] { read_compressed_tensors(with_plain_zeros(l, 50)); }),
              HasSubstr("expected a zero point from -8 to 7 in 'layer.weight_zero_point', found "));
}

TEST(CompressedTensors, OneScaleMayServeAll) {
  SafetensorsFile made;
  made.add("layer.weight_packed", "I32", {2, 2}, raw(std::vector<uint32_t>{0x9, 0xa, 0xb, 0xc}));
  made.add("layer.weight_shape", "I64", {2}, raw(std::vector<int64_t>{2, 16}));
  made.add("layer.weight_scale", "F32", {1}, raw(0.5f));
  QuantizedWeight w = read_compressed_tensors(made.bytes());
  EXPECT_EQ(w.groups(), 1);
  std::vector<float> values = dequantize(w);
  EXPECT_EQ(values[0], 0.5f);   // 9 - 8
  EXPECT_EQ(values[1], 1.5f);   // the second column: 11 - 8
  EXPECT_EQ(values[16], 1.0f);  // row 8 is in the second word
  EXPECT_EQ(values[2], -4.0f);
}

struct Replaced {
  std::string name, dtype;
  std::vector<int64_t> shape;
  std::string data;
};

std::string refusal_compressed_tensors(const Replaced& part) {
  SafetensorsFile made;
  auto add = [&](const Replaced& p) {
    const Replaced& chosen = p.name == part.name ? part : p;
    made.add("layer." + chosen.name, chosen.dtype, chosen.shape, chosen.data);
  };
  add({"weight_packed", "I32", {4, 4}, std::string(64, '\0')});
  add({"weight_shape", "I64", {2}, raw(std::vector<int64_t>{4, 32})});
  add({"weight_scale", "BF16", {4, 2}, std::string(16, '\0')});
  add({"weight_zero_point", "I32", {1, 2}, std::string(8, '\0')});
  add({"weight_g_idx", "I32", {32}, raw(std::vector<int32_t>(32, -1))});
  std::string bytes = made.bytes();
  return error_of<FileError>([&] { describe(bytes); });
}

TEST(CompressedTensors, PartsThatDoNotFitAreRefused) {
  EXPECT_EQ(refusal_compressed_tensors({}), "");
  EXPECT_THAT(
      refusal_compressed_tensors({"weight_shape", "I64", {2}, raw(std::vector<int64_t>{5, 32})}),
      HasSubstr("tensor 'layer.weight_shape': expected the two extents of a weight, the "
                "first 4, found 5 and 32"));
  EXPECT_THAT(
      refusal_compressed_tensors({"weight_shape", "I64", {2}, raw(std::vector<int64_t>{4, -1})}),
      HasSubstr("the first 4, found 4 and -1"));
  EXPECT_THAT(refusal_compressed_tensors({"weight_shape", "I64", {3}, std::string(24, '\0')}),
              HasSubstr("the first 4, found [3]"));
  EXPECT_THAT(
      refusal_compressed_tensors({"weight_shape", "I64", {2}, raw(std::vector<int64_t>{4, 1000})}),
      HasSubstr("expected one width of 2 to 8 bits that gives 4 words per row of 1000 and 1 "
                "words of zero points"));
  EXPECT_THAT(refusal_compressed_tensors({"weight_scale", "BF16", {3, 2}, std::string(12, '\0')}),
              HasSubstr("expected 4 rows of scales, found [3, 2]"));
  EXPECT_THAT(
      refusal_compressed_tensors({"weight_zero_point", "I32", {1, 3}, std::string(12, '\0')}),
      HasSubstr("expected zero points for scales [4, 2], found [1, 3]"));
  EXPECT_THAT(refusal_compressed_tensors({"weight_scale", "BF16", {4, 3}, std::string(24, '\0')}),
              HasSubstr("expected zero points for scales [4, 3], found [1, 2]"));
  std::vector<int32_t> uneven(32, 0);
  uneven[31] = 1;
  EXPECT_THAT(refusal_compressed_tensors({"weight_g_idx", "I32", {32}, raw(uneven)}),
              HasSubstr("expected 16 rows in each group, found up to 31"));
}

}  // namespace
}  // namespace tilewright::weights
