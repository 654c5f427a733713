#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <ostream>

#include "models/weights/layers.h"
#include "runtime/error.h"
#include "tests/models/weights/files.h"
#include "tests/runtime/support.h"

namespace tilewright::weights {
namespace {

using test::error_of;
using test::GgufFile;
using testing::HasSubstr;

constexpr int64_t kBlocksN = 3, kBlocksK = 512;

float half(const uint8_t* bytes) {
  _Float16 value;
  std::memcpy(&value, bytes, sizeof value);
  return static_cast<float>(value);
}

// Values of element i of a block, by the layouts that ggml-common.h describes.
float q4_0(const uint8_t* b, int i) {
  int code = i < 16 ? b[2 + i] % 16 : b[2 + i - 16] / 16;
  return half(b) * static_cast<float>(code - 8);
}
float q4_1(const uint8_t* b, int i) {
  int code = i < 16 ? b[4 + i] % 16 : b[4 + i - 16] / 16;
  return half(b) * static_cast<float>(code) + half(b + 2);
}
int five_bits(const uint8_t* high, const uint8_t* low, int i) {
  int bit = high[i / 8] / (1 << i % 8) % 2;
  return bit * 16 + (i < 16 ? low[i] % 16 : low[i - 16] / 16);
}
float q5_0(const uint8_t* b, int i) {
  return half(b) * static_cast<float>(five_bits(b + 2, b + 6, i) - 16);
}
float q5_1(const uint8_t* b, int i) {
  return half(b) * static_cast<float>(five_bits(b + 4, b + 8, i)) + half(b + 2);
}
float q8_0(const uint8_t* b, int i) {
  return half(b) * static_cast<float>(static_cast<int8_t>(b[2 + i]));
}
// Each 32 bytes hold 128 numbers of 2 bits: the first 32 in the lowest bits.
int two_bits(const uint8_t* codes, int i) {
  int chunk = i / 128, level = i % 128 / 32;
  return codes[chunk * 32 + i % 32] / (1 << 2 * level) % 4;
}
float q2_k(const uint8_t* b, int i) {
  int scale = b[i / 16] % 16, minimum = b[i / 16] / 16;
  float d = half(b + 80) * static_cast<float>(scale),
        m = half(b + 82) * static_cast<float>(minimum);
  return d * static_cast<float>(two_bits(b + 16, i)) - m;
}
float q3_k(const uint8_t* b, int i) {
  int group = i / 16;
  int low = group < 8 ? b[96 + group] % 16 : b[96 + group - 8] / 16;
  int scale = low + b[104 + group % 4] / (1 << 2 * (group / 4)) % 4 * 16 - 32;
  int code = two_bits(b + 32, i) - (b[i % 32] / (1 << i / 32) % 2 == 1 ? 0 : 4);
  return half(b + 108) * static_cast<float>(scale) * static_cast<float>(code);
}
// Groups 0 to 3 have the low 6 bits of bytes 0 to 3 and 4 to 7; groups 4 to 7 four bits of bytes 8
// to 11 and the two bits that those left over.
float k_value(const uint8_t* b, int i, int code) {
  const uint8_t* s = b + 4;
  int g = i / 32;
  int scale = g < 4 ? s[g] % 64 : s[g + 4] % 16 + s[g - 4] / 64 * 16;
  int minimum = g < 4 ? s[g + 4] % 64 : s[g + 4] / 16 + s[g] / 64 * 16;
  float d = half(b) * static_cast<float>(scale), m = half(b + 2) * static_cast<float>(minimum);
  return d * static_cast<float>(code) - m;
}
int k_nibble(const uint8_t* codes, int i) {
  int byte = codes[i / 64 * 32 + i % 32];
  return i % 64 < 32 ? byte % 16 : byte / 16;
}
float q4_k(const uint8_t* b, int i) { return k_value(b, i, k_nibble(b + 16, i)); }
float q5_k(const uint8_t* b, int i) {
  int fifth = b[16 + i % 32] / (1 << i / 32) % 2;
  return k_value(b, i, k_nibble(b + 48, i) + 16 * fifth);
}
float q6_k(const uint8_t* b, int i) {
  int half_block = i / 128, r = i % 128;
  int byte = b[half_block * 64 + r % 64];
  int low = r < 64 ? byte % 16 : byte / 16;
  int high = b[128 + half_block * 32 + r % 32] / (1 << 2 * (r / 32)) % 4;
  float d = half(b + 208) * static_cast<float>(static_cast<int8_t>(b[192 + i / 16]));
  return d * static_cast<float>(low + 16 * high - 32);
}
float mxfp4(const uint8_t* b, int i) {
  const float values[8] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
  int code = i < 16 ? b[1 + i] % 16 : b[1 + i - 16] / 16;
  float magnitude = values[code % 8];
  return std::ldexp(code > 8 ? -magnitude : magnitude, b[0] - 127);
}

struct Format {
  uint32_t number;
  const char* name;
  std::vector<size_t> high_bytes;  // of the f16 numbers in a block
  int64_t elements;
  size_t bytes;
  uint64_t golden;  // FNV-1a of the values that gguf-py 0.19.0 gives for data()
  float (*value)(const uint8_t*, int);
  const char* spec_keys;
};

std::ostream& operator<<(std::ostream& out, const Format& format) { return out << format.name; }

class GgufBlocks : public testing::TestWithParam<Format> {
 protected:
  // Blocks of any bits, but for scales, which are finite.
  static std::string data() {
    const Format& f = GetParam();
    test::Numbers numbers(f.number);
    std::string all;
    for (int64_t block = 0; block < kBlocksN * kBlocksK / f.elements; ++block) {
      std::string bytes;
      for (size_t i = 0; i < f.bytes; ++i) bytes += static_cast<char>(numbers.next(256));
      for (size_t i : f.high_bytes) bytes[i] = static_cast<char>(bytes[i] & 0xbf);
      if (f.number == 39) {
        bytes[0] = static_cast<char>(100 + static_cast<unsigned char>(bytes[0]) % 50);
      }
      all += bytes;
    }
    return all;
  }

  static std::string file() {
    return GgufFile().add("w", GetParam().number, {kBlocksK, kBlocksN}, data()).bytes();
  }
};

TEST_P(GgufBlocks, ValuesAreThoseOfTheFormula) {
  const Format& f = GetParam();
  std::string bytes = file(), blocks = data();
  TensorFile gguf = TensorFile::parse(bytes, "m");
  Layer layer = *find_layer(gguf, "w");
  EXPECT_EQ(layer.format, f.name);
  EXPECT_EQ(layer.spec_keys(), f.spec_keys);
  QuantizedWeight w = read_layer(gguf, layer, {});
  EXPECT_EQ(w.q.shape(), (std::vector<int64_t>{kBlocksK, kBlocksN}));
  std::vector<float> values = dequantize(w);
  uint64_t hash = 0xcbf29ce484222325;
  for (int64_t j = 0; j < kBlocksN; ++j) {
    for (int64_t i = 0; i < kBlocksK; ++i) {
      auto block = static_cast<size_t>((j * kBlocksK + i) / f.elements) * f.bytes;
      const auto* b = reinterpret_cast<const uint8_t*>(blocks.data()) + block;
      float value = values[static_cast<size_t>(i * kBlocksN + j)];
      ASSERT_TRUE(test::same_bits(value, f.value(b, static_cast<int>(i % f.elements))))
          << i << ", " << j << ": " << value;
      for (char byte : test::raw(value)) {
        hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001b3;
      }
    }
  }
  EXPECT_EQ(hash, f.golden);
}

INSTANTIATE_TEST_SUITE_P(
    All, GgufBlocks,
    testing::Values(
        Format{
            2, "Q4_0", {1}, 32, 18, 0x750664246b3f1997, q4_0, "w.dtype=i4,w.group=32,w.scale=f16"},
        Format{3,
               "Q4_1",
               {1, 3},
               32,
               20,
               0x155280e766c51456,
               q4_1,
               "w.dtype=u4,w.group=32,w.scale=f16,w.offset=f16"},
        Format{
            6, "Q5_0", {1}, 32, 22, 0x7469004820595ccf, q5_0, "w.dtype=i8,w.group=32,w.scale=f16"},
        Format{7,
               "Q5_1",
               {1, 3},
               32,
               24,
               0x0a0bc15bec848b7e,
               q5_1,
               "w.dtype=u8,w.group=32,w.scale=f16,w.offset=f16"},
        Format{
            8, "Q8_0", {1}, 32, 34, 0xb3228a6ff86c4d38, q8_0, "w.dtype=i8,w.group=32,w.scale=f16"},
        Format{10,
               "Q2_K",
               {81, 83},
               256,
               84,
               0x8e0d273b5eb57189,
               q2_k,
               "w.dtype=u2,w.group=16,w.scale=f32,w.offset=f32"},
        Format{11,
               "Q3_K",
               {109},
               256,
               110,
               0x0b307d93057ce9e4,
               q3_k,
               "w.dtype=i4,w.group=16,w.scale=f32"},
        Format{12,
               "Q4_K",
               {1, 3},
               256,
               144,
               0x671a7c93937ff2b1,
               q4_k,
               "w.dtype=u4,w.group=32,w.scale=f32,w.offset=f32"},
        Format{13,
               "Q5_K",
               {1, 3},
               256,
               176,
               0x84d83a1e8e209018,
               q5_k,
               "w.dtype=u8,w.group=32,w.scale=f32,w.offset=f32"},
        Format{14,
               "Q6_K",
               {209},
               256,
               210,
               0xb8935e64d6df8bed,
               q6_k,
               "w.dtype=i8,w.group=16,w.scale=f32"},
        Format{39,
               "MXFP4",
               {},
               32,
               17,
               0x929f27c3b288256e,
               mxfp4,
               "w.dtype=f4e2m1,w.group=32,w.scale=e8m0"}),
    [](const auto& test) { return test.param.name; });

TEST(GgufLayers, OnlyMatricesOfKnownBlocksAreLayers) {
  std::string bytes = GgufFile()
                          .add("plain", 0, {32}, std::string(128, '\0'))
                          .add("iq", 20, {32, 2}, std::string(36, '\0'))
                          .add("cube", 2, {32, 2, 2}, std::string(72, '\0'))
                          .add("good", 2, {32, 2}, std::string(36, '\0'))
                          .bytes();
  TensorFile file = TensorFile::parse(bytes, "m");
  EXPECT_FALSE(find_layer(file, "plain"));
  EXPECT_FALSE(find_layer(file, "iq"));
  std::vector<LayerEntry> entries = list_layers(file);
  ASSERT_EQ(entries.size(), 2u);
  EXPECT_EQ(entries[0].name, "cube");
  EXPECT_FALSE(entries[0].layer);
  EXPECT_THAT(entries[0].problem, HasSubstr("tensor 'cube': expected the two axes of a matrix, "
                                            "found [2, 2, 32]"));
  EXPECT_EQ(entries[1].layer->k, 32);
  EXPECT_EQ(entries[1].layer->n, 2);
  EXPECT_EQ(error_of<FileError>([&] { file.view(*file.find("iq")); }),
            "m: tensor 'iq' is of type IQ4_NL, which cannot be read here");
}

}  // namespace
}  // namespace tilewright::weights
