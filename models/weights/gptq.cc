// GPTQ, as AutoGPTQ and GPTQModel write it: `qweight` i32 [k * bits / 32, n], packed along k;
// `qzeros` i32 [groups, n * bits / 32], packed along n; `scales` [groups, n]; `g_idx` i32 [k], the
// group of each row, which act-order makes a list out of order. `bits` is 2, 3, 4 or 8; numbers of
// 3 bits straddle words.
//
// A value is scales[g_idx[i], j] * (q[i, j] - zero[g_idx[i], j]) in the type of the scales
// (AutoGPTQ, `QuantLinear.forward` of qlinear_cuda_old.py; GPTQModel, `dequantize_weight`). The
// first format stores each zero point less one, modulo 2^bits, which AutoGPTQ undoes by adding one
// and masking; `gptq_v2` stores them as they are. Nothing in the tensors tells the two apart.
#include <fmt/format.h>

#include <cstring>

#include "models/weights/packed_words.h"
#include "models/weights/schemes.h"

namespace tilewright::weights {
namespace {

struct GptqParts {
  const StoredTensor &weight, &zeros, &scales;
  const StoredTensor* indices;
};

GptqParts gptq_parts(const TensorFile& file, const std::string& name) {
  const StoredTensor* indices = file.find(name + ".g_idx");
  if (indices != nullptr) indices = &part(file, name, ".g_idx", {ElemType::i32}, 1);
  return {part(file, name, ".qweight", {ElemType::i32}, 2),
          part(file, name, ".qzeros", {ElemType::i32}, 2),
          part(file, name, ".scales", kScaleTypes, 2), indices};
}

// The width of a number, which the words of zero points for n columns tell.
int bits_of_zeros(const TensorFile& file, const GptqParts& parts, int64_t n) {
  int64_t words = parts.zeros.shape[1];
  for (int bits : {2, 3, 4, 8}) {
    if (n * bits == words * 32) return bits;
  }
  bad_part(file, parts.zeros,
           fmt::format(
               "expected zero points of 2, 3, 4 or 8 bits for {} columns, found {} words per group",
               n, words));
}

std::optional<Layer> describe_gptq(const TensorFile& file, const std::string& name) {
  GptqParts parts = gptq_parts(file, name);
  Layer layer;
  layer.name = name;
  layer.format = "gptq";
  layer.groups = parts.scales.shape[0];
  layer.n = parts.scales.shape[1];
  layer.scale = *parts.scales.type->elem;
  if (parts.weight.shape[1] != layer.n) {
    bad_part(file, parts.weight,
             fmt::format("expected {} columns, as the scales have, found {}", layer.n,
                         parts.weight.shape[1]));
  }
  if (parts.zeros.shape[0] != layer.groups) {
    bad_part(file, parts.zeros,
             fmt::format("expected {} groups, as the scales have, found {}", layer.groups,
                         parts.zeros.shape[0]));
  }
  layer.bits = bits_of_zeros(file, parts, layer.n);
  int64_t words = parts.weight.shape[0];
  if (words * 32 % layer.bits != 0) {
    bad_part(file, parts.weight,
             fmt::format("expected whole numbers of {} bits in a column of words, found {} words",
                         layer.bits, words));
  }
  layer.k = words * 32 / layer.bits;
  layer.dtype = code_type(layer.bits, false);
  layer.zeros = Zeros::Integers;
  set_groups(file, parts.scales, parts.indices, &layer);
  return layer;
}

QuantizedWeight read_gptq(const TensorFile& file, const Layer& layer, const LayerOptions& options,
                          const std::string& operand) {
  GptqParts parts = gptq_parts(file, layer.name);
  const int64_t k = layer.k, n = layer.n, groups = layer.groups;
  QuantizedWeight w{part_array(operand, "", layer.dtype, k, n),
                    part_array(operand, ".scale", layer.scale, groups, n),
                    part_array(operand, ".zero", layer.dtype, groups, n),
                    std::nullopt,
                    layer.group,
                    layer.group_of_row,
                    layer.scale};
  CodeWriter codes(&w.q);
  const char* words = file.data(parts.weight).data();
  for (int64_t j = 0; j < n; ++j) {
    PackedWords column(words + 4 * j, n, layer.bits);
    for (int64_t i = 0; i < k; ++i) codes.put(i * n + j, column.at(i));
  }
  CodeWriter zeros(&*w.zero);
  uint32_t added = options.gptq_zeros == GptqZeros::LessOne ? 1 : 0;
  uint32_t mask = (1u << layer.bits) - 1;
  for (int64_t g = 0; g < groups; ++g) {
    PackedWords row(file.data(parts.zeros).data() + 4 * g * parts.zeros.shape[1], 1, layer.bits);
    for (int64_t j = 0; j < n; ++j) zeros.put(g * n + j, (row.at(j) + added) & mask);
  }
  std::memcpy(w.scale.data(), file.data(parts.scales).data(), parts.scales.bytes);
  return w;
}

}  // namespace

constexpr Scheme kGptq = {".qweight", describe_gptq, read_gptq};

}  // namespace tilewright::weights
