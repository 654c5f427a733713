// The blocks of ggml's quantized types. A tensor [n, k] has its blocks along k. With d, dmin and m
// the f16 numbers of a block, sc and mn its small integers, a value is, in f32 (ggml-quants.c,
// dequantize_row_*):
//
//     Q4_0 Q5_0 Q8_0   d * (code - 8 | 16 | 0)
//     Q4_1 Q5_1        d * code + m
//     Q2_K Q4_K Q5_K   (d * sc) * code - dmin * mn
//     Q3_K Q6_K        (d * (sc - 32 | 0)) * (code - 4 | 32)
//     MXFP4            2^(e - 127) * f4e2m1(code)
//
// The two-level scales are the product d * sc as one f32 a group of 16 or 32, which is exact; what
// is subtracted, dmin * mn, is the offset with its sign turned, so that one rounding happens at the
// same place.
#include <fmt/format.h>

#include <array>
#include <cstring>

#include "ir/bits.h"
#include "models/weights/packed_words.h"
#include "models/weights/schemes.h"

namespace tilewright::weights {
namespace {

constexpr int kMaxBlock = 256, kMaxGroups = 16;

// One block, as the arrays of a weight take it.
struct Block {
  std::array<uint8_t, kMaxBlock> codes;  // as the bits of the array's type
  std::array<float, kMaxGroups> scale;
  std::array<float, kMaxGroups> offset;
};

using Bytes = const unsigned char*;

struct BlockFormat {
  std::string_view name;
  int bits;
  ElemType dtype;
  ElemType scale;  // of the offsets, too
  bool has_offset;
  int64_t group;
  void (*decode)(Bytes bytes, Block* block);
};

float half_at(Bytes bytes) {
  uint16_t bits = 0;
  std::memcpy(&bits, bytes, sizeof bits);
  return static_cast<float>(from_bits(ElemType::f16, bits));
}

uint8_t nibble(Bytes bytes, int i, bool high) { return high ? bytes[i] >> 4 : bytes[i] & 15; }

// The 32 numbers of 16 bytes: low halves first. `high_bits`, a bit a number, are their fifth bits.
void decode_nibbles(Bytes bytes, uint32_t high_bits, Block* block) {
  for (int i = 0; i < 32; ++i) {
    uint32_t fifth = (high_bits >> i & 1) << 4;
    block->codes[i] = static_cast<uint8_t>(nibble(bytes, i % 16, i >= 16) | fifth);
  }
}

uint32_t word_at(Bytes bytes) {
  uint32_t word = 0;
  std::memcpy(&word, bytes, sizeof word);
  return word;
}

void decode_q4_0(Bytes b, Block* block) {
  block->scale[0] = half_at(b);
  decode_nibbles(b + 2, 0, block);
  for (int i = 0; i < 32; ++i) block->codes[i] ^= 8;  // less 8, in two's complement
}

void decode_q4_1(Bytes b, Block* block) {
  block->scale[0] = half_at(b);
  block->offset[0] = half_at(b + 2);
  decode_nibbles(b + 4, 0, block);
}

void decode_q5_0(Bytes b, Block* block) {
  block->scale[0] = half_at(b);
  decode_nibbles(b + 6, word_at(b + 2), block);
  for (int i = 0; i < 32; ++i) block->codes[i] = static_cast<uint8_t>(block->codes[i] - 16);
}

void decode_q5_1(Bytes b, Block* block) {
  block->scale[0] = half_at(b);
  block->offset[0] = half_at(b + 2);
  decode_nibbles(b + 8, word_at(b + 4), block);
}

void decode_q8_0(Bytes b, Block* block) {
  block->scale[0] = half_at(b);
  std::memcpy(block->codes.data(), b + 2, 32);
}

void decode_q2_k(Bytes b, Block* block) {
  Bytes scales = b, codes = b + 16;
  float d = half_at(b + 80), dmin = half_at(b + 82);
  for (int g = 0; g < 16; ++g) {
    block->scale[g] = d * static_cast<float>(scales[g] & 15);
    block->offset[g] = -(dmin * static_cast<float>(scales[g] >> 4));
  }
  for (int i = 0; i < 256; ++i) {
    block->codes[i] = codes[i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2) & 3;
  }
}

// The 16 scales of 6 bits: the low four of each in 8 bytes, the high two in the 4 bytes behind.
int q3_k_scale(Bytes packed, int g) {
  int low = nibble(packed, g % 8, g >= 8), high = packed[8 + g % 4] >> (g / 4 * 2) & 3;
  return (low | high << 4) - 32;
}

void decode_q3_k(Bytes b, Block* block) {
  Bytes high = b, codes = b + 32, scales = b + 96;
  float d = half_at(b + 108);
  for (int g = 0; g < 16; ++g) block->scale[g] = d * static_cast<float>(q3_k_scale(scales, g));
  for (int i = 0; i < 256; ++i) {
    int low = codes[i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2) & 3;
    bool third = (high[i % 32] >> (i / 32) & 1) != 0;
    block->codes[i] = static_cast<uint8_t>((low - (third ? 0 : 4)) & 15);
  }
}

// The scale and the minimum of group g of eight, 6 bits each in 12 bytes.
void k_scale(Bytes packed, int g, int* scale, int* minimum) {
  if (g < 4) {
    *scale = packed[g] & 63;
    *minimum = packed[4 + g] & 63;
  } else {
    *scale = nibble(packed, g + 4, false) | packed[g - 4] >> 6 << 4;
    *minimum = nibble(packed, g + 4, true) | packed[g] >> 6 << 4;
  }
}

void decode_k_scales(Bytes b, Block* block) {
  float d = half_at(b), dmin = half_at(b + 2);
  for (int g = 0; g < 8; ++g) {
    int scale = 0, minimum = 0;
    k_scale(b + 4, g, &scale, &minimum);
    block->scale[g] = d * static_cast<float>(scale);
    block->offset[g] = -(dmin * static_cast<float>(minimum));
  }
}

void decode_q4_k(Bytes b, Block* block) {
  decode_k_scales(b, block);
  Bytes codes = b + 16;
  for (int i = 0; i < 256; ++i) {
    block->codes[i] = nibble(codes, i / 64 * 32 + i % 32, i % 64 >= 32);
  }
}

void decode_q5_k(Bytes b, Block* block) {
  decode_k_scales(b, block);
  Bytes high = b + 16, codes = b + 48;
  for (int i = 0; i < 256; ++i) {
    int fifth = high[i % 32] >> (i / 32) & 1;
    block->codes[i] =
        static_cast<uint8_t>(nibble(codes, i / 64 * 32 + i % 32, i % 64 >= 32) | fifth << 4);
  }
}

void decode_q6_k(Bytes b, Block* block) {
  Bytes low = b, high = b + 128, scales = b + 192;
  float d = half_at(b + 208);
  for (int g = 0; g < 16; ++g) {
    block->scale[g] = d * static_cast<float>(static_cast<int8_t>(scales[g]));
  }
  for (int i = 0; i < 256; ++i) {
    int half = i / 128, in_half = i % 128;
    int four = nibble(low, half * 64 + in_half % 64, in_half >= 64);
    int two = high[half * 32 + in_half % 32] >> (in_half / 32 * 2) & 3;
    block->codes[i] = static_cast<uint8_t>((four | two << 4) - 32);
  }
}

void decode_mxfp4(Bytes b, Block* block) {
  block->scale[0] = static_cast<float>(from_bits(ElemType::e8m0, b[0]));
  decode_nibbles(b + 1, 0, block);
  // ggml's table has no negative zero.
  for (int i = 0; i < 32; ++i) block->codes[i] = block->codes[i] == 8 ? 0 : block->codes[i];
}

constexpr std::array kFormats = {
    BlockFormat{"Q4_0", 4, ElemType::i4, ElemType::f16, false, 32, decode_q4_0},
    BlockFormat{"Q4_1", 4, ElemType::u4, ElemType::f16, true, 32, decode_q4_1},
    BlockFormat{"Q5_0", 5, ElemType::i8, ElemType::f16, false, 32, decode_q5_0},
    BlockFormat{"Q5_1", 5, ElemType::u8, ElemType::f16, true, 32, decode_q5_1},
    BlockFormat{"Q8_0", 8, ElemType::i8, ElemType::f16, false, 32, decode_q8_0},
    BlockFormat{"Q2_K", 2, ElemType::u2, ElemType::f32, true, 16, decode_q2_k},
    BlockFormat{"Q3_K", 3, ElemType::i4, ElemType::f32, false, 16, decode_q3_k},
    BlockFormat{"Q4_K", 4, ElemType::u4, ElemType::f32, true, 32, decode_q4_k},
    BlockFormat{"Q5_K", 5, ElemType::u8, ElemType::f32, true, 32, decode_q5_k},
    BlockFormat{"Q6_K", 6, ElemType::i8, ElemType::f32, false, 16, decode_q6_k},
    BlockFormat{"MXFP4", 4, ElemType::f4e2m1, ElemType::e8m0, false, 32, decode_mxfp4},
};

const BlockFormat* find_format(std::string_view type) {
  for (const BlockFormat& format : kFormats) {
    if (format.name == type) return &format;
  }
  return nullptr;
}

}  // namespace

bool is_block_format(std::string_view type) { return find_format(type) != nullptr; }

Layer describe_blocks(const TensorFile& file, const StoredTensor& tensor) {
  const BlockFormat& format = *find_format(tensor.type->name);
  if (tensor.shape.size() != 2 || tensor.count == 0) {
    bad_part(
        file, tensor,
        fmt::format("expected the two axes of a matrix, found {}", describe_shape(tensor.shape)));
  }
  Layer layer;
  layer.name = tensor.name;
  layer.format = format.name;
  layer.bits = format.bits;
  layer.dtype = format.dtype;
  layer.scale = format.scale;
  layer.zeros = format.has_offset ? Zeros::Offsets : Zeros::None;
  layer.n = tensor.shape[0];
  layer.k = tensor.shape[1];
  layer.group = format.group;
  layer.groups = layer.k / format.group;
  return layer;
}

QuantizedWeight read_blocks(const TensorFile& file, const Layer& layer,
                            const std::string& operand) {
  const StoredTensor& tensor = *file.find(layer.name);
  const BlockFormat& format = *find_format(tensor.type->name);
  const int64_t n = layer.n, group = layer.group;
  QuantizedWeight w{part_array(operand, "", layer.dtype, layer.k, n),
                    part_array(operand, ".scale", layer.scale, layer.groups, n),
                    std::nullopt,
                    std::nullopt,
                    group,
                    {},
                    ElemType::f32};
  if (format.has_offset) {
    w.offset = part_array(operand, ".offset", layer.scale, layer.groups, n);
  }
  CodeWriter codes(&w.q);
  Block block{};
  const int64_t elements = tensor.type->block, bytes = tensor.type->block_bits / 8;
  auto data = reinterpret_cast<Bytes>(file.data(tensor).data());
  for (int64_t at = 0; at < tensor.count; at += elements, data += bytes) {
    const int64_t j = at / layer.k, i = at % layer.k;
    format.decode(data, &block);
    for (int64_t e = 0; e < elements; ++e) codes.put((i + e) * n + j, block.codes[e]);
    for (int64_t g = 0; g < elements / group; ++g) {
      int64_t place = (i / group + g) * n + j;
      w.scale.set(place, block.scale[g]);
      if (w.offset) w.offset->set(place, block.offset[g]);
    }
  }
  return w;
}

}  // namespace tilewright::weights
