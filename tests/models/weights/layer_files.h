// Files with one quantized layer, packed straight from its numbers.
#pragma once

#include <string>
#include <vector>

#include "tests/models/weights/files.h"

namespace tilewright::test {

// A layer's numbers: q [k, n] and zero [groups, n] without sign, scales, the group of each row.
struct LayerNumbers {
  int64_t k, n, groups;
  int bits;
  std::vector<uint32_t> q, zero;
  std::vector<float> scale;  // that f16 holds
  std::vector<int32_t> group_of;

  uint32_t q_at(int64_t i, int64_t j) const { return q[static_cast<size_t>(i * n + j)]; }
  uint32_t zero_at(int64_t g, int64_t j) const { return zero[static_cast<size_t>(g * n + j)]; }
  float scale_at(int64_t g, int64_t j) const { return scale[static_cast<size_t>(g * n + j)]; }
  int64_t group(int64_t i) const { return group_of[static_cast<size_t>(i)]; }
};

// `shuffled`: the rows of a group do not stand together, as after act-order.
inline LayerNumbers layer_numbers(int64_t k, int64_t n, int64_t group, int bits,
                                  bool shuffled = false, uint64_t seed = 1) {
  LayerNumbers l{k, n, (k + group - 1) / group, bits, {}, {}, {}, {}};
  Numbers numbers(seed);
  for (int64_t i = 0; i < k * n; ++i) l.q.push_back(numbers.next(1u << bits));
  for (int64_t i = 0; i < l.groups * n; ++i) {
    l.zero.push_back(numbers.next(1u << bits));
    l.scale.push_back(to_half(numbers.scale()));
  }
  for (int64_t i = 0; i < k; ++i) l.group_of.push_back(static_cast<int32_t>(i / group));
  for (size_t i = l.group_of.size(); shuffled && i > 1; --i) {
    std::swap(l.group_of[i - 1], l.group_of[numbers.next(static_cast<uint32_t>(i))]);
  }
  return l;
}

// `count` numbers of `bits` bits one behind the other, bit by bit, in whole words. The words of a
// list are `stride` apart from `first` on.
template <class At>
void pack_bits(std::vector<uint32_t>* words, size_t first, size_t stride, int64_t count, int bits,
               At at) {
  for (int64_t i = 0; i < count; ++i) {
    for (int b = 0; b < bits; ++b) {
      auto bit = static_cast<size_t>(i * bits + b);
      (*words)[first + bit / 32 * stride] |= (at(i) >> b & 1) << (bit % 32);
    }
  }
}

inline std::string scales_f16(const LayerNumbers& l) {
  std::vector<uint16_t> bits;
  for (float s : l.scale) bits.push_back(half_bits(s));
  return raw(bits);
}

// A file as AutoGPTQ saves it (`less_one`), or GPTQModel with the format gptq_v2.
inline SafetensorsFile gptq_file(const LayerNumbers& l, bool less_one, bool with_indices = true,
                                 const std::string& name = "layer") {
  auto n = static_cast<size_t>(l.n);
  std::vector<uint32_t> weight(static_cast<size_t>(l.k * l.bits / 32) * n);
  for (int64_t j = 0; j < l.n; ++j) {
    pack_bits(&weight, static_cast<size_t>(j), n, l.k, l.bits,
              [&](int64_t i) { return l.q_at(i, j); });
  }
  int64_t zero_words = l.n * l.bits / 32;
  std::vector<uint32_t> zeros(static_cast<size_t>(l.groups * zero_words));
  for (int64_t g = 0; g < l.groups; ++g) {
    pack_bits(&zeros, static_cast<size_t>(g * zero_words), 1, l.n, l.bits, [&](int64_t j) {
      return (l.zero_at(g, j) - (less_one ? 1 : 0)) & ((1u << l.bits) - 1);
    });
  }
  SafetensorsFile file;
  if (with_indices) file.add(name + ".g_idx", "I32", {l.k}, raw(l.group_of));
  file.add(name + ".qweight", "I32", {l.k * l.bits / 32, l.n}, raw(weight));
  file.add(name + ".qzeros", "I32", {l.groups, zero_words}, raw(zeros));
  return file.add(name + ".scales", "F16", {l.groups, l.n}, scales_f16(l));
}

// A file as AutoAWQ saves it.
inline SafetensorsFile awq_file(const LayerNumbers& l, const std::string& name = "layer") {
  auto packed = [&](int64_t rows, auto at) {
    std::vector<uint32_t> words;
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < l.n; j += 8) {
        words.push_back(at(i, j) | at(i, j + 2) << 4 | at(i, j + 4) << 8 | at(i, j + 6) << 12 |
                        at(i, j + 1) << 16 | at(i, j + 3) << 20 | at(i, j + 5) << 24 |
                        at(i, j + 7) << 28);
      }
    }
    return raw(words);
  };
  SafetensorsFile file;
  file.add(name + ".qweight", "I32", {l.k, l.n / 8},
           packed(l.k, [&](int64_t i, int64_t j) { return l.q_at(i, j); }));
  file.add(name + ".qzeros", "I32", {l.groups, l.n / 8},
           packed(l.groups, [&](int64_t g, int64_t j) { return l.zero_at(g, j); }));
  return file.add(name + ".scales", "F16", {l.groups, l.n}, scales_f16(l));
}

// A file as compressed-tensors saves it (pack-quantized), with scales in bf16. Signed numbers are
// those of `l` less 2^(bits - 1), which is what is added again for storage.
inline SafetensorsFile compressed_tensors_file(const LayerNumbers& l, bool symmetric,
                                               bool with_indices = false,
                                               const std::string& name = "layer") {
  auto words_for = [&](int64_t count) { return (count * l.bits + 31) / 32; };
  int64_t row_words = words_for(l.k), zero_words = words_for(l.n);
  std::vector<uint32_t> packed(static_cast<size_t>(l.n * row_words));
  std::vector<uint32_t> zeros(static_cast<size_t>(zero_words * l.groups));
  std::vector<uint16_t> scales;
  for (int64_t j = 0; j < l.n; ++j) {
    pack_bits(&packed, static_cast<size_t>(j * row_words), 1, l.k, l.bits,
              [&](int64_t i) { return l.q_at(i, j); });
    for (int64_t g = 0; g < l.groups; ++g) scales.push_back(bfloat_bits(l.scale_at(g, j)));
  }
  for (int64_t g = 0; g < l.groups; ++g) {
    pack_bits(&zeros, static_cast<size_t>(g), static_cast<size_t>(l.groups), l.n, l.bits,
              [&](int64_t j) { return l.zero_at(g, j); });
  }
  SafetensorsFile file;
  file.add(name + ".weight_shape", "I64", {2}, raw(std::vector<int64_t>{l.n, l.k}));
  file.add(name + ".weight_packed", "I32", {l.n, row_words}, raw(packed));
  if (with_indices) file.add(name + ".weight_g_idx", "I32", {l.k}, raw(l.group_of));
  if (!symmetric) {
    file.add(name + ".weight_zero_point", "I32", {zero_words, l.groups}, raw(zeros));
  }
  return file.add(name + ".weight_scale", "BF16", {l.n, l.groups}, raw(scales));
}

}  // namespace tilewright::test
