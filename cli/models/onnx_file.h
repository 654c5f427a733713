// ONNX files and the sizes of their inputs, as commands take them.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "ir/ops/spec.h"
#include "models/onnx/model.h"

namespace tilewright::cli {

// "seq=128", "seq=1..512". Throws UsageError.
std::map<std::string, DimSize> read_dims(const std::vector<std::string>& given);
// "sr=16000". Throws UsageError.
std::map<std::string, double> read_constants(const std::vector<std::string>& given);
// A file of another kind is told from a damaged model. Throws FileError.
onnx::Model read_onnx(std::string_view bytes, const std::string& path);

}  // namespace tilewright::cli
