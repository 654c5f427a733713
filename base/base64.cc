#include "base/base64.h"

#include <algorithm>
#include <array>
#include <cstdint>

namespace tilewright {
namespace {

constexpr std::string_view kDigits =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

// The value of each base64 digit; -1 for every other character.
constexpr std::array<int, 256> digit_values() {
  std::array<int, 256> values{};
  values.fill(-1);
  for (size_t i = 0; i < kDigits.size(); ++i) {
    values[static_cast<unsigned char>(kDigits[i])] = static_cast<int>(i);
  }
  return values;
}
constexpr std::array<int, 256> kValues = digit_values();

}  // namespace

std::string to_base64(std::string_view bytes) {
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t at = 0; at < bytes.size(); at += 3) {
    const size_t count = std::min<size_t>(3, bytes.size() - at);
    uint32_t group = 0;
    for (size_t i = 0; i < count; ++i) {
      group |= static_cast<uint32_t>(static_cast<unsigned char>(bytes[at + i])) << (16 - 8 * i);
    }
    for (size_t i = 0; i < 4; ++i) {
      text += i <= count ? kDigits[group >> (18 - 6 * i) & 63] : '=';
    }
  }
  return text;
}

std::optional<std::string> from_base64(std::string_view text) {
  if (text.size() % 4 != 0) return std::nullopt;
  std::string bytes;
  bytes.reserve(text.size() / 4 * 3);
  for (size_t at = 0; at < text.size(); at += 4) {
    const std::string_view four = text.substr(at, 4);
    const size_t digits = four.find_last_not_of('=') + 1;
    if (digits < 2 || (digits < 4 && at + 4 != text.size())) return std::nullopt;
    uint32_t group = 0;
    for (size_t i = 0; i < digits; ++i) {
      const int value = kValues[static_cast<unsigned char>(four[i])];
      if (value < 0) return std::nullopt;
      group |= static_cast<uint32_t>(value) << (18 - 6 * i);
    }
    for (size_t i = 0; i + 1 < digits; ++i) bytes += static_cast<char>(group >> (16 - 8 * i));
    // Bits beyond the last byte must be zero, or two texts would mean the same bytes.
    if (digits < 4 && (group & ((1u << (8 * (4 - digits))) - 1)) != 0) return std::nullopt;
  }
  return bytes;
}

}  // namespace tilewright
