#include "cli/models/onnx_file.h"

#include <fmt/format.h>

#include <charconv>
#include <optional>

#include "models/weights/gguf.h"
#include "runtime/error.h"

namespace tilewright::cli {
namespace {

std::optional<int64_t> whole_number(std::string_view text) {
  int64_t value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 1) return std::nullopt;
  return value;
}

}  // namespace

std::map<std::string, DimSize> read_dims(const std::vector<std::string>& given) {
  std::map<std::string, DimSize> sizes;
  for (const std::string& text : given) {
    auto refuse = [&](const std::string& why) {
      throw UsageError(fmt::format("--dim {}: {}", text, why));
    };
    const size_t equals = text.rfind('=');
    const std::string kWanted = "expected NAME=SIZE or NAME=LEAST..MOST, such as seq=1..512";
    if (equals == std::string::npos || equals == 0) refuse(kWanted);
    const std::string value = text.substr(equals + 1);
    const size_t dots = value.find("..");
    auto least = whole_number(value.substr(0, dots));
    auto most = dots == std::string::npos ? least : whole_number(value.substr(dots + 2));
    if (!least || !most || *least > *most) refuse(kWanted);
    const std::string name = text.substr(0, equals);
    if (!sizes.emplace(name, DimSize{*least, *most}).second) {
      refuse(fmt::format("{} is given twice", name));
    }
  }
  return sizes;
}

std::map<std::string, double> read_constants(const std::vector<std::string>& given) {
  std::map<std::string, double> constants;
  for (const std::string& text : given) {
    const size_t equals = text.rfind('=');
    double value = 0;
    const char* const end = text.data() + text.size();
    const bool named = equals != std::string::npos && equals > 0;
    const auto [rest, error] = named ? std::from_chars(text.data() + equals + 1, end, value)
                                     : std::from_chars_result{end, std::errc::invalid_argument};
    if (error != std::errc() || rest != end) {
      throw UsageError(fmt::format("--const {}: expected INPUT=NUMBER, such as sr=16000", text));
    }
    if (!constants.emplace(text.substr(0, equals), value).second) {
      throw UsageError(fmt::format("--const {}: the input is given twice", text));
    }
  }
  return constants;
}

onnx::Model read_onnx(std::string_view bytes, const std::string& path) {
  try {
    return onnx::read_model(bytes, path);
  } catch (const FileError& e) {
    const std::string other = "; 'tune-cli weights " + path + "' lists the layers of such files";
    if (bytes.starts_with(weights::kGgufMagic)) {
      throw FileError(path + ": not an ONNX file but a GGUF file" + other);
    }
    const std::string what = e.what();
    if (path.ends_with(".onnx") && !what.starts_with(path + ": byte 0:")) throw;
    throw FileError(path + ": not an ONNX file" + what.substr(path.size()) +
                    (path.ends_with(".safetensors") ? other : ""));
  }
}

}  // namespace tilewright::cli
