// AWQ, as AutoAWQ writes it for its GEMM kernels: `qweight` i32 [k, n / 8] and `qzeros` i32
// [groups, n / 8], packed along n, and `scales` [groups, n]. Of the eight numbers of 4 bits in a
// word, the one at bit 4 * i belongs to column kOrder[i] of the eight.
//
// A value is (q[i, j] - zero[g, j]) * scales[g, j] in the type of the scales (AutoAWQ,
// `dequantize_gemm` of awq/utils/packing_utils.py).
#include <fmt/format.h>

#include <array>
#include <cstring>

#include "models/weights/packed_words.h"
#include "models/weights/schemes.h"

namespace tilewright::weights {
namespace {

constexpr int kBits = 4;
constexpr int64_t kInWord = 32 / kBits;
constexpr std::array<int64_t, kInWord> kOrder = {0, 2, 4, 6, 1, 3, 5, 7};

struct AwqParts {
  const StoredTensor &weight, &zeros, &scales;
};

AwqParts awq_parts(const TensorFile& file, const std::string& name) {
  return {part(file, name, ".qweight", {ElemType::i32}, 2),
          part(file, name, ".qzeros", {ElemType::i32}, 2),
          part(file, name, ".scales", kScaleTypes, 2)};
}

// GPTQ has the same names; there a row of weights has as many words as there are columns.
bool is_awq(const TensorFile& file, const std::string& name) {
  const StoredTensor* weight = file.find(name + ".qweight");
  const StoredTensor* scales = file.find(name + ".scales");
  return weight != nullptr && scales != nullptr && weight->shape.size() == 2 &&
         scales->shape.size() == 2 && weight->shape[1] * kInWord == scales->shape[1];
}

std::optional<Layer> describe_awq(const TensorFile& file, const std::string& name) {
  if (!is_awq(file, name)) return std::nullopt;
  AwqParts parts = awq_parts(file, name);
  Layer layer;
  layer.name = name;
  layer.format = "awq";
  layer.bits = kBits;
  layer.dtype = ElemType::u4;
  layer.zeros = Zeros::Integers;
  layer.k = parts.weight.shape[0];
  layer.n = parts.scales.shape[1];
  layer.groups = parts.scales.shape[0];
  layer.scale = *parts.scales.type->elem;
  std::vector<int64_t> wanted = {layer.groups, layer.n / kInWord};
  if (parts.zeros.shape != wanted) {
    bad_part(file, parts.zeros,
             fmt::format("expected shape {}, as the scales have it, found {}",
                         describe_shape(wanted), describe_shape(parts.zeros.shape)));
  }
  set_groups(file, parts.scales, nullptr, &layer);
  return layer;
}

void unpack(const TensorFile& file, const StoredTensor& words, HostArray* to) {
  const char* from = file.data(words).data();
  CodeWriter codes(to);
  for (int64_t word = 0; word < words.count; ++word) {
    PackedWords numbers(from + 4 * word, 1, kBits);
    for (int64_t i = 0; i < kInWord; ++i) {
      codes.put(word * kInWord + kOrder[static_cast<size_t>(i)], numbers.at(i));
    }
  }
}

QuantizedWeight read_awq(const TensorFile& file, const Layer& layer, const LayerOptions&,
                         const std::string& operand) {
  AwqParts parts = awq_parts(file, layer.name);
  QuantizedWeight w{part_array(operand, "", layer.dtype, layer.k, layer.n),
                    part_array(operand, ".scale", layer.scale, layer.groups, layer.n),
                    part_array(operand, ".zero", layer.dtype, layer.groups, layer.n),
                    std::nullopt,
                    layer.group,
                    {},
                    layer.scale};
  unpack(file, parts.weight, &w.q);
  unpack(file, parts.zeros, &*w.zero);
  std::memcpy(w.scale.data(), file.data(parts.scales).data(), parts.scales.bytes);
  return w;
}

}  // namespace

constexpr Scheme kAwq = {".qweight", describe_awq, read_awq};

}  // namespace tilewright::weights
