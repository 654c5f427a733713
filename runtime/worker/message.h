// Messages of workers: a length of 4 bytes, lowest first, then that many bytes of JSON.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tilewright {

// No message is longer; what claims to be is garbage.
inline constexpr size_t kMaxMessageBytes = size_t{256} << 20;

// The message with its length before it.
std::string frame_message(std::string_view text);

// Blocks until a whole message is there. Nothing at the end of the stream or for garbage.
std::optional<std::string> read_message(int fd);

// Puts messages together from bytes as they arrive.
class MessageReader {
 public:
  void feed(std::string_view bytes) { buffer_ += bytes; }
  // The next whole message, or nothing yet.
  std::optional<std::string> next();
  // Whether a length is beyond the limit: the stream makes no sense any more.
  bool malformed() const { return malformed_; }
  // Bytes of a message that is not whole.
  const std::string& rest() const { return buffer_; }
  void clear();

 private:
  std::string buffer_;
  bool malformed_ = false;
};

}  // namespace tilewright
