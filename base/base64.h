// RFC 4648 base64, with padding and without line breaks: bytes as text for JSON.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace tilewright {

std::string to_base64(std::string_view bytes);

// The decoded bytes, or nothing when the text is not what to_base64() writes.
std::optional<std::string> from_base64(std::string_view text);

}  // namespace tilewright
