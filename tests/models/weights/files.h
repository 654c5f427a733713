// Small files of tensors, byte for byte as the formats' own tools write them.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

namespace tilewright::test {

// The bytes of numbers as memory has them.
template <class T>
std::string raw(const std::vector<T>& values) {
  std::string bytes(values.size() * sizeof(T), '\0');
  if (!values.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

template <class T>
std::string raw(T value) {
  return raw(std::vector<T>{value});
}

// A safetensors file, tensors in the order in which they are added.
class SafetensorsFile {
 public:
  SafetensorsFile& add(const std::string& name, const std::string& dtype,
                       const std::vector<int64_t>& shape, const std::string& data) {
    std::string extents;
    for (int64_t extent : shape) extents += (extents.empty() ? "" : ",") + std::to_string(extent);
    entries_ += ",\"" + name + "\":{\"dtype\":\"" + dtype + "\",\"shape\":[" + extents +
                "],\"data_offsets\":[" + std::to_string(data_.size()) + "," +
                std::to_string(data_.size() + data.size()) + "]}";
    data_ += data;
    return *this;
  }

  std::string bytes() const {
    return with_header("{\"__metadata__\":{\"format\":\"pt\"}" + entries_ + "}");
  }

  // The same data behind any header, padded with blanks to a multiple of 8.
  std::string with_header(std::string header) const {
    header.append((8 - header.size() % 8) % 8, ' ');
    return raw(static_cast<uint64_t>(header.size())) + header + data_;
  }

 private:
  std::string entries_, data_;
};

// A GGUF file of version 3 with the alignment 32.
class GgufFile {
 public:
  static std::string string(const std::string& text) {
    return raw(static_cast<uint64_t>(text.size())) + text;
  }

  // A metadata entry: the number of its type and the bytes of its value.
  GgufFile& set(const std::string& key, uint32_t type, const std::string& value) {
    entries_ += string(key) + raw(type) + value;
    ++entry_count_;
    return *this;
  }

  // `extents` with the fastest first, as the format has them.
  GgufFile& add(const std::string& name, uint32_t type, const std::vector<uint64_t>& extents,
                const std::string& data) {
    data_.append((32 - data_.size() % 32) % 32, '\0');
    tensors_ += string(name) + raw(static_cast<uint32_t>(extents.size())) + raw(extents) +
                raw(type) + raw(static_cast<uint64_t>(data_.size()));
    data_ += data;
    ++tensor_count_;
    return *this;
  }

  std::string bytes(uint32_t version = 3) const {
    std::string file =
        "GGUF" + raw(version) + raw(tensor_count_) + raw(entry_count_) + entries_ + tensors_;
    file.append((32 - file.size() % 32) % 32, '\0');
    return file + data_;
  }

 private:
  std::string entries_, tensors_, data_;
  uint64_t entry_count_ = 0, tensor_count_ = 0;
};

// The number nearest to `value` that f16 or bf16 holds, by hand: not by the project's arithmetic, and
// not by the compiler's, which clang 14 lacks for f16.
inline uint16_t half_bits(float value) {
  const int sign = std::signbit(value) ? 0x8000 : 0;
  const float a = std::fabs(value);
  if (!(a < 65520)) return static_cast<uint16_t>(sign | (std::isnan(value) ? 0x7e00 : 0x7c00));
  const int exponent = a > 0 ? std::max(std::ilogb(a), -14) : -14;
  // A mantissa that is rounded up to 2048 carries into the exponent.
  const long mantissa = std::lrint(std::ldexp(a, 10 - exponent));
  return static_cast<uint16_t>(sign + ((exponent + 14) << 10) + mantissa);
}

inline float to_half(float value) {
  const uint16_t bits = half_bits(value);
  const int exponent = bits >> 10 & 31, mantissa = bits & 1023;
  float a = exponent > 0 ? std::ldexp(1024.0f + mantissa, exponent - 25)
                         : std::ldexp(static_cast<float>(mantissa), -24);
  if (exponent == 31) a = mantissa ? NAN : INFINITY;
  return std::copysign(a, value);
}

inline uint16_t bfloat_bits(float value) {
  uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

inline float to_bfloat(float value) {
  uint32_t bits = static_cast<uint32_t>(bfloat_bits(value)) << 16;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

// Numbers that look like any, the same in every run.
class Numbers {
 public:
  explicit Numbers(uint64_t seed) : state_(seed * 2 + 1) {}
  uint32_t next(uint32_t limit) {
    state_ = state_ * 6364136223846793005ull + 1442695040888963407ull;
    return static_cast<uint32_t>(state_ >> 33) % limit;
  }
  // A scale: a positive number with all bits in use.
  float scale() { return static_cast<float>(1 + next(60000)) * 1.17e-5f; }

 private:
  uint64_t state_;
};

// Whether two numbers are the same bits.
inline bool same_bits(float a, float b) { return std::memcmp(&a, &b, sizeof a) == 0; }

}  // namespace tilewright::test
