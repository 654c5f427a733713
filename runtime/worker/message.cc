#include "runtime/worker/message.h"

#include <unistd.h>

#include <cerrno>

namespace tilewright {
namespace {

constexpr size_t kLengthBytes = 4;

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

}  // namespace tilewright
