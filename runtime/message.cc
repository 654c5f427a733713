#include "runtime/message.h"

#include <unistd.h>

#include <array>
#include <cerrno>

namespace tilewright {
namespace {

constexpr size_t kLengthBytes = 4;
constexpr std::string_view kAlphabet =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

size_t length_of(std::string_view bytes) {
  size_t length = 0;
  for (size_t i = 0; i < kLengthBytes; ++i) {
    length |= static_cast<size_t>(static_cast<unsigned char>(bytes[i])) << (8 * i);
  }
  return length;
}

bool read_exactly(int fd, char* to, size_t count) {
  while (count > 0) {
    ssize_t got = read(fd, to, count);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    to += got;
    count -= static_cast<size_t>(got);
  }
  return true;
}

}  // namespace

std::string frame_message(std::string_view text) {
  std::string framed;
  framed.reserve(text.size() + kLengthBytes);
  for (size_t i = 0; i < kLengthBytes; ++i) framed += static_cast<char>(text.size() >> (8 * i));
  return framed += text;
}

std::optional<std::string> read_message(int fd) {
  char head[kLengthBytes];
  if (!read_exactly(fd, head, sizeof head)) return std::nullopt;
  size_t length = length_of({head, sizeof head});
  if (length > kMaxMessageBytes) return std::nullopt;
  std::string text(length, '\0');
  if (!read_exactly(fd, text.data(), length)) return std::nullopt;
  return text;
}

std::optional<std::string> MessageReader::next() {
  if (malformed_ || buffer_.size() < kLengthBytes) return std::nullopt;
  size_t length = length_of(buffer_);
  if (length > kMaxMessageBytes) {
    malformed_ = true;
    return std::nullopt;
  }
  if (buffer_.size() < kLengthBytes + length) return std::nullopt;
  std::string text = buffer_.substr(kLengthBytes, length);
  buffer_.erase(0, kLengthBytes + length);
  return text;
}

void MessageReader::clear() {
  buffer_.clear();
  malformed_ = false;
}

std::string to_base64(std::string_view bytes) {
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t group = 0;
    for (size_t k = 0; k < 3; ++k) {
      group = group << 8 | (i + k < bytes.size() ? static_cast<unsigned char>(bytes[i + k]) : 0u);
    }
    for (size_t k = 0; k < 4; ++k) {
      bool padding = k > bytes.size() - i;
      text += padding ? '=' : kAlphabet[group >> (18 - 6 * k) & 63];
    }
  }
  return text;
}

std::optional<std::string> from_base64(std::string_view text) {
  std::array<int, 256> digit;
  digit.fill(-1);
  for (size_t i = 0; i < kAlphabet.size(); ++i) {
    digit[static_cast<unsigned char>(kAlphabet[i])] = static_cast<int>(i);
  }
  if (text.size() % 4 != 0) return std::nullopt;
  size_t padding = text.ends_with("==") ? 2 : text.ends_with("=") ? 1 : 0;
  std::string bytes;
  bytes.reserve(text.size() / 4 * 3);
  for (size_t i = 0; i < text.size(); i += 4) {
    uint32_t group = 0;
    for (size_t k = 0; k < 4; ++k) {
      bool filler = i + k >= text.size() - padding;
      int value = filler ? 0 : digit[static_cast<unsigned char>(text[i + k])];
      if (value < 0) return std::nullopt;
      group = group << 6 | static_cast<uint32_t>(value);
    }
    for (int shift : {16, 8, 0}) bytes += static_cast<char>(group >> shift);
  }
  bytes.resize(bytes.size() - padding);
  return bytes;
}

}  // namespace tilewright
