#include "graph/decoder/decoder_metadata.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>

#include "runtime/error.h"

namespace tilewright::graph {
namespace {

constexpr int64_t kMostSize = int64_t{1} << 20;  // of any extent that the metadata says

class Metadata {
 public:
  explicit Metadata(const weights::TensorFile& file) : file_(file) {}

  [[noreturn]] void refuse(const std::string& key, const std::string& wanted) const {
    const std::string* value = find(key);
    throw FileError(
        value == nullptr
            ? fmt::format("{}: '{}' is missing; expected {}", file_.path(), key, wanted)
            : fmt::format("{}: '{}' is '{}'; expected {}", file_.path(), key, *value, wanted));
  }
  const std::string* find(const std::string& key) const {
    auto found = file_.metadata().find(key);
    return found == file_.metadata().end() ? nullptr : &found->second;
  }
  void expect(const std::string& key, const std::string& wanted) const {
    const std::string* value = find(key);
    if (value == nullptr || *value != wanted) refuse(key, "'" + wanted + "'");
  }
  // A size from 1 on; `fallback` where the file has none, if that is above 0.
  int64_t size(const std::string& key, int64_t fallback = 0) const {
    const std::string* text = find(key);
    if (text == nullptr && fallback > 0) return fallback;
    int64_t value = 0;
    const bool read = text != nullptr && parse(*text, &value);
    if (!read || value < 1 || value > kMostSize) {
      refuse(key, fmt::format("a whole number from 1 to {}", kMostSize));
    }
    return value;
  }
  double positive(const std::string& key, double fallback = 0) const {
    const std::string* text = find(key);
    if (text == nullptr && fallback > 0) return fallback;
    double value = 0;
    const bool read = text != nullptr && parse(*text, &value);
    if (!read || !(value > 0) || !std::isfinite(value)) refuse(key, "a positive number");
    return value;
  }

 private:
  template <class T>
  static bool parse(const std::string& text, T* value) {
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *value);
    return error == std::errc() && end == text.data() + text.size();
  }

  const weights::TensorFile& file_;
};

void read_rope(const Metadata& m, Decoder* d) {
  d->rotated = m.size("llama.rope.dimension_count", d->head);
  if (d->rotated > d->head || d->rotated % 2 != 0 || d->head % 2 != 0) {
    m.refuse("llama.rope.dimension_count",
             fmt::format("an even number up to the {} elements of a head", d->head));
  }
  d->rope_base = m.positive("llama.rope.freq_base", 10000);
  const std::string* scaling = m.find("llama.rope.scaling.type");
  if (scaling != nullptr && *scaling != "none" && *scaling != "linear") {
    m.refuse("llama.rope.scaling.type", "'none' or 'linear'");
  }
  if (scaling != nullptr && *scaling == "linear") {
    d->rope_factor = m.positive("llama.rope.scaling.factor");
  }
}

}  // namespace

Decoder read_decoder(const weights::TensorFile& file) {
  const Metadata m(file);
  m.expect("general.architecture", "llama");
  Decoder d;
  d.layers = m.size("llama.block_count");
  d.width = m.size("llama.embedding_length");
  d.inner = m.size("llama.feed_forward_length");
  d.trained = m.size("llama.context_length");
  d.heads = m.size("llama.attention.head_count");
  d.key_heads = m.size("llama.attention.head_count_kv", d.heads);
  if (d.heads % d.key_heads != 0) {
    m.refuse("llama.attention.head_count_kv", fmt::format("a divisor of {} heads", d.heads));
  }
  if (m.find("llama.attention.key_length") == nullptr && d.width % d.heads != 0) {
    m.refuse("llama.attention.head_count", fmt::format("a divisor of {}", d.width));
  }
  d.head = m.size("llama.attention.key_length", d.width / d.heads);
  if (m.size("llama.attention.value_length", d.head) != d.head) {
    m.refuse("llama.attention.value_length", fmt::format("{}, as keys have", d.head));
  }
  const std::string window = "llama.attention.sliding_window";  // 0 stands for none, too
  const std::string* text = m.find(window);
  if (text != nullptr && *text != "0") d.window = m.size(window);
  d.eps = m.positive("llama.attention.layer_norm_rms_epsilon");
  read_rope(m, &d);
  const weights::StoredTensor* embedding = file.find("token_embd.weight");
  if (embedding != nullptr && embedding->shape.size() == 2) d.vocabulary = embedding->shape[0];
  return d;
}

}  // namespace tilewright::graph
