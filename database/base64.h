// RFC 4648 base64, with padding and without line breaks.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "database/record.h"

namespace tilewright::database {

std::string to_base64(const Blob& bytes);

// Nothing when the text is not what to_base64 writes.
std::optional<Blob> from_base64(std::string_view text);

}  // namespace tilewright::database
