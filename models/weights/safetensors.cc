#include "models/weights/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>

#include "models/weights/counting_iterator.h"

namespace tilewright::weights {
namespace {

constexpr uint64_t kLengthBytes = 8;
// The limit of the format's own library.
constexpr uint64_t kMaxHeader = 100'000'000;

// A tensor as its entry says it, before the entries are held against each other.
struct Entry {
  StoredTensor tensor;
  uint64_t begin = 0, end = 0;  // from the start of the data
  uint64_t place = 0;           // in the file, where the name ends
};

// Takes what the parser finds. Nothing is nested deeper than a list in an entry, so that no header
// makes the reader go deeper than that.
class HeaderHandler : public nlohmann::json_sax<nlohmann::json> {
 public:
  HeaderHandler(const std::string& path, const char* file, const char* const* reached)
      : path_(path), file_(file), reached_(reached) {}

  std::vector<Entry> entries;
  std::map<std::string, std::string> metadata;

  bool null() override { unexpected("null"); }
  bool boolean(bool value) override { unexpected(value ? "true" : "false"); }
  bool number_integer(number_integer_t value) override { unexpected(std::to_string(value)); }
  bool number_float(number_float_t, const string_t& text) override { unexpected(text); }
  bool binary(binary_t&) override { unexpected("binary data"); }

  bool number_unsigned(number_unsigned_t value) override {
    if (where_ == Where::Shape) {
      add_extent(value);
    } else if (where_ == Where::Offsets && offsets_.size() < 2) {
      offsets_.push_back(value);
    } else {
      unexpected(std::to_string(value));
    }
    return true;
  }

  bool string(string_t& value) override {
    if (where_ == Where::Metadata) {
      metadata[key_] = value;
    } else if (where_ == Where::Entry && key_ == "dtype") {
      entries.back().tensor.type = safetensors_type(value);
      if (entries.back().tensor.type == nullptr) {
        fail(fmt::format("unknown type '{}' of tensor '{}'; expected one of {}", value, name(),
                         safetensors_type_names()));
      }
    } else {
      unexpected("a string");
    }
    return true;
  }

  bool start_object(std::size_t) override {
    if (where_ == Where::Nothing) {
      where_ = Where::Top;
    } else if (where_ == Where::Top) {
      where_ = key_ == "__metadata__" ? Where::Metadata : Where::Entry;
      if (where_ == Where::Entry) start_entry();
    } else {
      unexpected("an object");
    }
    return true;
  }

  bool key(string_t& value) override {
    key_ = value;
    if (where_ == Where::Top) name_end_ = place();
    std::set<std::string>& known = where_ == Where::Top ? names_ : keys_;
    if (!known.insert(key_).second) fail(fmt::format("'{}' stands twice", key_));
    if (where_ == Where::Top) keys_.clear();
    if (where_ == Where::Entry && key_ != "dtype" && key_ != "shape" && key_ != "data_offsets") {
      fail(fmt::format("unknown key '{}' of tensor '{}'; expected dtype, shape or data_offsets",
                       key_, name()));
    }
    return true;
  }

  bool end_object() override {
    if (where_ == Where::Entry) finish_entry();
    where_ = where_ == Where::Top ? Where::Nothing : Where::Top;
    return true;
  }

  bool start_array(std::size_t) override {
    if (where_ != Where::Entry || key_ == "dtype") unexpected("a list");
    where_ = key_ == "shape" ? Where::Shape : Where::Offsets;
    return true;
  }

  bool end_array() override {
    where_ = Where::Entry;
    return true;
  }

  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception& e) override {
    fail("the header is no JSON: " + without_number(e.what()));
  }

 private:
  // The place of the value that comes next.
  enum class Where : uint8_t { Nothing, Top, Metadata, Entry, Shape, Offsets };

  uint64_t place() const { return static_cast<uint64_t>(*reached_ - file_); }

  [[noreturn]] void fail(const std::string& what) const { damaged(path_, place(), what); }

  [[noreturn]] void unexpected(const std::string& found) const {
    std::string expected;
    switch (where_) {
      case Where::Nothing:
      case Where::Top: expected = "an object"; break;
      case Where::Metadata: expected = "a string"; break;
      case Where::Entry: expected = key_ == "dtype" ? "a string" : "a list of numbers"; break;
      case Where::Shape: expected = "an extent"; break;
      case Where::Offsets: expected = "two offsets"; break;
    }
    fail(fmt::format("expected {}{}, found {}", expected,
                     where_ == Where::Nothing ? "" : " for '" + key_ + "'", found));
  }

  const std::string& name() const { return entries.back().tensor.name; }

  void start_entry() {
    Entry entry;
    entry.tensor.name = key_;
    entry.tensor.count = 1;
    entry.place = name_end_;
    entries.push_back(std::move(entry));
    offsets_.clear();
  }

  void add_extent(uint64_t extent) {
    StoredTensor& t = entries.back().tensor;
    if (extent > static_cast<uint64_t>(kMaxCount) ||
        __builtin_mul_overflow(t.count, static_cast<int64_t>(extent), &t.count) ||
        t.count > kMaxCount) {
      fail(fmt::format("the shape of tensor '{}' overflows", t.name));
    }
    t.shape.push_back(static_cast<int64_t>(extent));
  }

  void finish_entry() {
    Entry& e = entries.back();
    for (const char* wanted : {"dtype", "shape", "data_offsets"}) {
      if (keys_.count(wanted) == 0) fail(fmt::format("tensor '{}' lacks {}", name(), wanted));
    }
    if (offsets_.size() != 2 || offsets_[0] > offsets_[1]) {
      fail(
          fmt::format("data_offsets of tensor '{}' are [{}]; expected a begin and an end behind it",
                      name(), fmt::join(offsets_, ", ")));
    }
    e.begin = offsets_[0];
    e.end = offsets_[1];
    e.tensor.bytes = e.end - e.begin;
    std::optional<uint64_t> bytes =
        stored_bytes(*e.tensor.type, static_cast<uint64_t>(e.tensor.count));
    if (bytes != e.tensor.bytes) {
      fail(fmt::format("tensor '{}' has {} bytes of data; {} {} needs {}", name(), e.tensor.bytes,
                       e.tensor.type->name, describe_shape(e.tensor.shape),
                       bytes ? std::to_string(*bytes) : "no whole number of them"));
    }
  }

  const std::string& path_;
  const char* file_;
  const char* const* reached_;
  Where where_ = Where::Nothing;
  std::string key_;
  uint64_t name_end_ = 0;               // the place behind the tensor's name
  std::set<std::string> names_, keys_;  // of the header; of the entry
  std::vector<uint64_t> offsets_;
};

// The JSON text, from the length before it.
std::string_view header_text(std::string_view file, const std::string& path) {
  if (file.size() < kLengthBytes + 2) {
    damaged(path, file.size(), "the file ends; expected the 8 bytes of a header's length and JSON");
  }
  uint64_t length = 0;
  std::memcpy(&length, file.data(), kLengthBytes);
  uint64_t rest = file.size() - kLengthBytes;
  if (length > rest || length > kMaxHeader) {
    damaged(path, 0,
            fmt::format("expected the length of a safetensors header, at most {}, found {}",
                        std::min(rest, kMaxHeader), length));
  }
  std::string_view text = file.substr(kLengthBytes, length);
  if (text.empty() || text[0] != '{') {
    damaged(path, kLengthBytes, "expected '{', which begins a safetensors header");
  }
  return text;
}

}  // namespace

TensorTable read_safetensors_table(std::string_view file, const std::string& path) {
  std::string_view text = header_text(file, path);
  const char* reached = text.data();
  HeaderHandler handler(path, file.data(), &reached);
  CountingIterator begin(text.data(), &reached), end(text.data() + text.size(), &reached);
  nlohmann::json::sax_parse(begin, end, &handler);

  std::vector<Entry>& entries = handler.entries;
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return std::tie(a.begin, a.end, a.place) < std::tie(b.begin, b.end, b.place);
  });
  uint64_t data = kLengthBytes + text.size(), size = file.size() - data, reached_data = 0;
  TensorTable table;
  for (Entry& e : entries) {
    if (e.begin != reached_data || e.end > size) {
      damaged(path, e.place,
              fmt::format("the data of tensor '{}' is at {} to {}; expected it to begin at {}, "
                          "where the one before it ends, and to end within {} bytes",
                          e.tensor.name, e.begin, e.end, reached_data, size));
    }
    reached_data = e.end;
    e.tensor.offset = data + e.begin;
    table.tensors.push_back(std::move(e.tensor));
  }
  if (reached_data != size) {
    damaged(path, data + reached_data,
            fmt::format("expected the end of the file, found {} bytes that belong to no tensor",
                        size - reached_data));
  }
  table.metadata = std::move(handler.metadata);
  return table;
}

}  // namespace tilewright::weights
