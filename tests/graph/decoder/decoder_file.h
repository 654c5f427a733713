// Small GGUF files of decoders with weights that look like any.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tests/models/weights/files.h"

namespace tilewright::test {

// ggml's numbers of types.
enum class GgmlType : uint32_t { F32 = 0, F16 = 1, Q4_0 = 2, Q4_1 = 3, Q8_0 = 8, Q4_K = 12 };

struct DecoderFile {
  uint64_t layers = 2, width = 64, inner = 96, heads = 4, key_heads = 2, vocabulary = 40;
  uint64_t context = 16;
  bool own_output = true;  // else the embedding is the last product's matrix, too
  GgmlType embedding = GgmlType::Q8_0, weights = GgmlType::Q4_1, values = GgmlType::Q4_1;
  std::map<std::string, std::string> texts = {{"general.architecture", "llama"}};
  std::map<std::string, uint32_t> numbers;  // in place of those that follow from the sizes
  std::string without;                      // the tensor that is left out

  std::string bytes() const {
    GgufFile file;
    for (const auto& [key, text] : texts) file.set(key, 8, GgufFile::string(text));
    std::map<std::string, uint64_t> entries = {
        {"block_count", layers},         {"embedding_length", width},
        {"feed_forward_length", inner},  {"context_length", context},
        {"attention.head_count", heads}, {"attention.head_count_kv", key_heads}};
    for (const auto& [key, number] : numbers) entries[key] = number;
    for (const auto& [key, number] : entries) {
      file.set("llama." + key, 4, raw(static_cast<uint32_t>(number)));
    }
    file.set("llama.attention.layer_norm_rms_epsilon", 6, raw(1e-5f));
    file.set("llama.rope.freq_base", 6, raw(100.0f));
    Numbers random(7);
    const uint64_t head = width / heads;
    matrix(file, random, "token_embd", embedding, vocabulary, width);
    vector(file, random, "output_norm", width);
    if (own_output) matrix(file, random, "output", weights, vocabulary, width);
    for (uint64_t layer = 0; layer < layers; ++layer) {
      const std::string block = "blk." + std::to_string(layer) + ".";
      vector(file, random, block + "attn_norm", width);
      matrix(file, random, block + "attn_q", weights, width, width);
      matrix(file, random, block + "attn_k", weights, key_heads * head, width);
      matrix(file, random, block + "attn_v", values, key_heads * head, width);
      matrix(file, random, block + "attn_output", weights, width, width);
      vector(file, random, block + "ffn_norm", width);
      matrix(file, random, block + "ffn_gate", weights, inner, width);
      matrix(file, random, block + "ffn_up", values, inner, width);
      matrix(file, random, block + "ffn_down", weights, width, inner);
    }
    return file.bytes();
  }

 private:
  void vector(GgufFile& file, Numbers& random, const std::string& name, uint64_t count) const {
    std::vector<float> values(count);
    for (float& v : values) v = 0.5f + static_cast<float>(random.next(1000)) / 1000;
    add(file, name, GgmlType::F32, {count}, raw(values));
  }
  void matrix(GgufFile& file, Numbers& random, const std::string& name, GgmlType type, uint64_t n,
              uint64_t k) const {
    std::string data;
    const uint64_t block = type == GgmlType::Q4_K ? 256 : 32;
    for (uint64_t at = 0; at < n * k; at += block) data += block_of(random, type);
    add(file, name, type, {k, n}, data);
  }
  void add(GgufFile& file, const std::string& name, GgmlType type,
           const std::vector<uint64_t>& extents, const std::string& data) const {
    if (name + ".weight" == without) return;
    file.add(name + ".weight", static_cast<uint32_t>(type), extents, data);
  }

  static std::string codes(Numbers& random, int count) {
    std::string bytes;
    for (int i = 0; i < count; ++i) bytes += static_cast<char>(random.next(256));
    return bytes;
  }
  // Values up to some 0.3 of either sign.
  static std::string block_of(Numbers& random, GgmlType type) {
    const float unit = 0.5f + static_cast<float>(random.next(1000)) / 1000;
    auto half = [&](float value) { return raw(half_bits(value * unit)); };
    switch (type) {
      case GgmlType::Q4_0: return half(0.02f) + codes(random, 16);
      case GgmlType::Q4_1: return half(0.02f) + half(-0.15f) + codes(random, 16);
      case GgmlType::Q8_0: return half(0.001f) + codes(random, 32);
      case GgmlType::Q4_K: return half(0.0002f) + half(0.001f) + codes(random, 140);
      case GgmlType::F16:
      case GgmlType::F32: break;
    }
    std::string bytes;
    for (int i = 0; i < 32; ++i) {
      const float value = (static_cast<float>(random.next(2000)) - 1000) / 5000;
      bytes += type == GgmlType::F16 ? raw(half_bits(value)) : raw(value);
    }
    return bytes;
  }
};

}  // namespace tilewright::test
