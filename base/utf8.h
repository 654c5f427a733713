// Makes valid UTF-8 of output from compilers and crashed processes, which may hold other bytes.
#pragma once

#include <string>
#include <string_view>

namespace tilewright {

bool is_utf8(std::string_view text);

// `text` with each byte that is not part of valid UTF-8 replaced by U+FFFD, and without NUL bytes.
std::string to_utf8(std::string_view text);

}  // namespace tilewright
