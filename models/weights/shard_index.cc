#include "models/weights/shard_index.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <set>

#include "models/weights/counting_iterator.h"
#include "models/weights/mapped_file.h"

namespace tilewright::weights {
namespace {

constexpr std::string_view kMap = "weight_map";

// A name, and no way out of the folder.
bool is_plain_name(const std::string& file) {
  constexpr std::string_view kWays("/\0", 2);
  bool dots = file == "." || file == "..";
  return !file.empty() && !dots && file.find_first_of(kWays) == std::string::npos;
}

// Takes what the parser finds: the map, and nothing of what stands beside it.
class IndexHandler : public nlohmann::json_sax<nlohmann::json> {
 public:
  IndexHandler(const std::string& path, const char* begin, const char* const* reached)
      : path_(path), begin_(begin), reached_(reached) {}

  std::vector<ShardEntry> entries;
  bool has_map() const { return keys_.count(std::string(kMap)) != 0; }

  bool null() override { return other("null"); }
  bool boolean(bool value) override { return other(value ? "true" : "false"); }
  bool number_integer(number_integer_t value) override { return other(std::to_string(value)); }
  bool number_unsigned(number_unsigned_t value) override { return other(std::to_string(value)); }
  bool number_float(number_float_t, const string_t& text) override { return other(text); }
  bool binary(binary_t&) override { return other("binary data"); }

  bool string(string_t& value) override {
    if (!in_map()) return other("a string");
    if (!is_plain_name(value)) {
      fail(fmt::format("expected the name of a file beside the index for tensor '{}', found '{}'",
                       tensor_, value));
    }
    entries.push_back({tensor_, value, place()});
    return true;
  }

  bool start_object(std::size_t) override {
    if (depth_ > 1 && in_map_) unexpected("an object");
    ++depth_;
    return true;
  }

  bool key(string_t& value) override {
    if (depth_ == 1) {
      in_map_ = value == kMap;
      if (!keys_.insert(value).second) fail(fmt::format("'{}' stands twice", value));
    } else if (in_map()) {
      tensor_ = value;
      if (!tensors_.insert(value).second) fail(fmt::format("tensor '{}' stands twice", value));
    }
    return true;
  }

  bool end_object() override {
    --depth_;
    return true;
  }

  bool start_array(std::size_t) override {
    if (depth_ == 0 || in_map_) unexpected("a list");
    ++depth_;
    return true;
  }

  bool end_array() override {
    --depth_;
    return true;
  }

  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception& e) override {
    fail("the index is no JSON: " + without_number(e.what()));
  }

 private:
  bool in_map() const { return in_map_ && depth_ == 2; }
  uint64_t place() const { return static_cast<uint64_t>(*reached_ - begin_); }
  [[noreturn]] void fail(const std::string& what) const { damaged(path_, place(), what); }

  [[noreturn]] void unexpected(const std::string& found) const {
    std::string expected = "an object";
    if (in_map()) expected = fmt::format("the name of a file for tensor '{}'", tensor_);
    if (in_map_ && depth_ == 1) expected = fmt::format("an object for '{}'", kMap);
    fail(fmt::format("expected {}, found {}", expected, found));
  }

  // A value that is of no concern where it stands beside the map.
  bool other(const std::string& found) const {
    if (depth_ == 0 || in_map_) unexpected(found);
    return true;
  }

  const std::string& path_;
  const char* begin_;
  const char* const* reached_;
  int depth_ = 0;  // objects and lists around what comes next
  bool in_map_ = false;
  std::string tensor_;
  std::set<std::string> keys_, tensors_;
};

}  // namespace

std::vector<ShardEntry> read_shard_index(std::string_view bytes, const std::string& path) {
  const char* reached = bytes.data();
  IndexHandler handler(path, bytes.data(), &reached);
  CountingIterator begin(bytes.data(), &reached), end(bytes.data() + bytes.size(), &reached);
  nlohmann::json::sax_parse(begin, end, &handler);
  if (!handler.has_map()) {
    damaged(path, bytes.size(),
            fmt::format("the index ends; expected '{}', the file of each tensor", kMap));
  }
  return std::move(handler.entries);
}

bool is_shard_index(std::string_view path) { return path.ends_with(".index.json"); }

}  // namespace tilewright::weights
