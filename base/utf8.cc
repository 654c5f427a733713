#include "base/utf8.h"

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace tilewright {
namespace {

// The length of the valid UTF-8 sequence at `at`, or 0.
size_t sequence_length(std::string_view text, size_t at) {
  const auto byte = [&](size_t i) -> uint32_t {
    return at + i < text.size() ? static_cast<unsigned char>(text[at + i]) : 0;
  };
  const uint32_t lead = byte(0);
  if (lead < 0x80) return lead == 0 ? 0 : 1;
  const size_t length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4) return 0;
  uint32_t code = lead & (0x7fu >> length);
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
    code = code << 6 | (byte(i) & 0x3f);
  }
  const bool overlong = (length == 3 && code < 0x800) || (length == 4 && code < 0x10000);
  const bool surrogate = code >= 0xd800 && code <= 0xdfff;
  return overlong || surrogate || code > 0x10ffff ? 0 : length;
}

// The first place from `at` on, in steps of 8, whose 8 bytes are not all ASCII other than zero.
size_t behind_ascii(std::string_view text, size_t at) {
  constexpr uint64_t kHigh = 0x8080808080808080, kOnes = 0x0101010101010101;
  for (; at + 8 <= text.size(); at += 8) {
    uint64_t word = 0;
    std::memcpy(&word, text.data() + at, 8);
    if (((word | (word - kOnes)) & kHigh) != 0) break;
  }
  return at;
}

}  // namespace

bool is_utf8(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    at = behind_ascii(text, at);
    if (at == text.size()) break;
    const size_t length = sequence_length(text, at);
    if (length == 0) return false;
    at += length;
  }
  return true;
}

std::string to_utf8(std::string_view text) {
  std::string result;
  for (size_t at = 0; at < text.size();) {
    const size_t length = sequence_length(text, at);
    if (length > 0) {
      result += text.substr(at, length);
    } else if (text[at] != '\0') {
      result += "\xef\xbf\xbd";
    }
    at += length > 0 ? length : 1;
  }
  return result;
}

}  // namespace tilewright
