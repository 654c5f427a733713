// The header of safetensors files.
#pragma once

#include <string>
#include <string_view>

#include "models/weights/tensor_file.h"

namespace tilewright::weights {

// A safetensors file is a little-endian u64, so many bytes of JSON, and the data:
//
//     {"__metadata__": {"format": "pt"},
//      "w": {"dtype": "F16", "shape": [2, 3], "data_offsets": [0, 12]}, …}
//
// Offsets count from the end of the JSON; together the tensors cover the data without a gap. Throws
// FileError with the byte that is at fault: where a name, type, shape or offset ends.
TensorTable read_safetensors_table(std::string_view file, const std::string& path);

}  // namespace tilewright::weights
