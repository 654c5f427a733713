// Bytes as lower-case hexadecimal digits.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace tilewright {

std::string to_hex(std::string_view bytes);
// Nothing unless the text encodes exactly `bytes` bytes.
std::optional<std::string> from_hex(std::string_view text, size_t bytes);

}  // namespace tilewright
