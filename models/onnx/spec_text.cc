#include "models/onnx/spec_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace tilewright::onnx {
namespace {

using Json = nlohmann::ordered_json;

Json json_of(const DimSize& size) {
  return size.is_dynamic() ? Json(fmt::format("{}..{}", size.min, size.max)) : Json(size.min);
}

}  // namespace

SpecText& SpecText::size(const std::string& key, const DimSize& value) {
  entries_.emplace_back(key, json_of(value).dump());
  return *this;
}

SpecText& SpecText::sizes(const std::string& key, const std::vector<DimSize>& values) {
  Json list = Json::array();
  for (const DimSize& v : values) list.push_back(json_of(v));
  entries_.emplace_back(key, list.dump());
  return *this;
}

SpecText& SpecText::number(const std::string& key, int64_t value) {
  entries_.emplace_back(key, std::to_string(value));
  return *this;
}

SpecText& SpecText::real(const std::string& key, double value) {
  entries_.emplace_back(key, Json(value).dump());
  return *this;
}

SpecText& SpecText::text(const std::string& key, const std::string& value) {
  entries_.emplace_back(key, Json(value).dump());
  return *this;
}

SpecText& SpecText::flag(const std::string& key) {
  entries_.emplace_back(key, "true");
  return *this;
}

SpecText& SpecText::texts(const std::string& key, const std::vector<std::string>& values) {
  entries_.emplace_back(key, Json(values).dump());
  return *this;
}

SpecText& SpecText::numbers(const std::string& key, const std::vector<int64_t>& values) {
  entries_.emplace_back(key, Json(values).dump());
  return *this;
}

SpecText& SpecText::extents(const std::string& key, const std::vector<int64_t>& values,
                            int64_t usual) {
  const bool equal =
      std::all_of(values.begin(), values.end(), [&](int64_t v) { return v == values[0]; });
  if (equal && values[0] == usual) return *this;
  return equal ? number(key, values[0]) : numbers(key, values);
}

std::string SpecText::json() const {
  Json root = Json::object();
  for (const auto& [key, value] : entries_) {
    const size_t dot = key.find('.');
    const std::string group = key.substr(0, dot);
    const bool nests = dot != std::string::npos &&
                       std::none_of(entries_.begin(), entries_.end(),
                                    [&](const auto& entry) { return entry.first == group; });
    (nests ? root[group][key.substr(dot + 1)] : root[key]) = Json::parse(value);
  }
  return root.dump();
}

}  // namespace tilewright::onnx
