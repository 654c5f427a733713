// The header of GGUF files.
#pragma once

#include <string>
#include <string_view>

#include "models/weights/tensor_file.h"

namespace tilewright::weights {

inline constexpr std::string_view kGgufMagic = "GGUF";

// Versions 2 and 3, little-endian: the magic word, a u32 version, u64 counts of tensors and of
// metadata entries, the entries (key, type, value), the tensors (name, extents with the fastest
// first, type, offset), padding to the alignment, and the data, which offsets count from. Throws
// FileError with the byte where what was expected is not there.
TensorTable read_gguf_table(std::string_view file, const std::string& path);

}  // namespace tilewright::weights
