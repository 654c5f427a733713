#include "models/onnx/external.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <system_error>

#include "runtime/error.h"
#include "runtime/tensor/element.h"

namespace tilewright::onnx {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse(const std::string& model, const Tensor& t, const std::string& what) {
  throw FileError(fmt::format("{}: the data of tensor '{}' {}", model, t.name, what));
}

// A number of bytes as the model writes it; `otherwise` where it says nothing.
uint64_t bytes_from(const std::string& model, const Tensor& t, const char* what,
                    const std::string& text, uint64_t otherwise) {
  if (text.empty()) return otherwise;
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) {
    refuse(model, t, fmt::format("have the {} '{}'; expected a number of bytes", what, text));
  }
  return value;
}

// A model names files in its own folder: no other file is opened, whatever it says.
bool stays_inside(const fs::path& location) {
  return !location.empty() && location.is_relative() &&
         std::none_of(location.begin(), location.end(),
                      [](const fs::path& p) { return p == ".."; });
}

int64_t bytes_of_elements(const Tensor& t) {
  const ElemType elem = *elem_type(t.type);
  return elem == ElemType::boolean ? t.count : bytes_for(elem, t.count);
}

}  // namespace

ExternalData::ExternalData(Model& model) {
  for (auto& [name, tensor] : model.constants) load(model.path, tensor);
  for (Node& node : model.nodes) {
    for (auto& [name, attribute] : node.attributes) {
      if (attribute.t) load(model.path, *attribute.t);
    }
  }
}

void ExternalData::load(const std::string& model_path, Tensor& tensor) {
  if (!tensor.external || !elem_type(tensor.type)) return;
  const ExternalPlace& place = tensor.place;
  if (!stays_inside(place.location)) {
    refuse(model_path, tensor,
           fmt::format("lie in '{}'; expected a file in the model's folder", place.location));
  }
  const fs::path path = fs::path(model_path).parent_path() / place.location;
  std::error_code unreadable;
  if (!fs::exists(path, unreadable)) {
    ++missing_[place.location];
    return;
  }
  auto file = files_.find(place.location);
  if (file == files_.end()) {
    file = files_.emplace(place.location, weights::MappedFile(path.string())).first;
  }
  const std::string_view bytes = file->second.bytes();
  const auto needed = static_cast<uint64_t>(bytes_of_elements(tensor));
  const uint64_t offset = bytes_from(model_path, tensor, "offset", place.offset, 0);
  const uint64_t length = bytes_from(model_path, tensor, "length", place.length, needed);
  if (length != needed) {
    refuse(model_path, tensor,
           fmt::format("have {} bytes; {} elements of {} have {}", length, tensor.count,
                       describe(tensor.type), needed));
  }
  if (offset > bytes.size() || length > bytes.size() - offset) {
    weights::damaged(path.string(), bytes.size(),
                     fmt::format("expected the {} bytes of tensor '{}' from byte {} on", length,
                                 tensor.name, offset));
  }
  tensor.raw = bytes.substr(offset, length);
  tensor.external = false;
}

}  // namespace tilewright::onnx
