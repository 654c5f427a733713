// A spec that is written key by key.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "ir/ops/spec.h"

namespace tilewright::onnx {

// Keys keep their order; those with a dot stand in an object of their own, but beside a key of that
// name.
class SpecText {
 public:
  explicit SpecText(const std::string& op) { text("op", op); }

  SpecText& size(const std::string& key, const DimSize& value);
  SpecText& sizes(const std::string& key, const std::vector<DimSize>& values);
  SpecText& number(const std::string& key, int64_t value);
  SpecText& real(const std::string& key, double value);
  SpecText& text(const std::string& key, const std::string& value);
  SpecText& flag(const std::string& key);  // true
  SpecText& texts(const std::string& key, const std::vector<std::string>& values);
  SpecText& numbers(const std::string& key, const std::vector<int64_t>& values);
  // One number for all axes, or one an axis; left out where all are `usual`.
  SpecText& extents(const std::string& key, const std::vector<int64_t>& values, int64_t usual);

  // A JSON object in one line.
  std::string json() const;

 private:
  std::vector<std::pair<std::string, std::string>> entries_;  // values as JSON
};

}  // namespace tilewright::onnx
