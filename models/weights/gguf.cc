#include "models/weights/gguf.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <set>

#include "base/utf8.h"

namespace tilewright::weights {
namespace {

static_assert(std::endian::native == std::endian::little, "files are little-endian");

constexpr uint32_t kMaxAxes = 4;
constexpr int kMaxNesting = 4;
constexpr uint64_t kDefaultAlignment = 32;
// The least bytes of an entry: an empty key, a type and one byte; an empty name, no extents, a
// type and an offset.
constexpr uint64_t kMinEntry = 8 + 4 + 1, kMinTensor = 8 + 4 + 4 + 8;

// The types of metadata values, by number.
enum class ValueType : uint32_t {
  U8,
  I8,
  U16,
  I16,
  U32,
  I32,
  F32,
  Bool,
  String,
  Array,
  U64,
  I64,
  F64
};
struct ValueInfo {
  const char* name;
  uint64_t bytes;  // 0: not fixed
};
constexpr std::array<ValueInfo, 13> kValues = {{{"u8", 1},
                                                {"i8", 1},
                                                {"u16", 2},
                                                {"i16", 2},
                                                {"u32", 4},
                                                {"i32", 4},
                                                {"f32", 4},
                                                {"bool", 1},
                                                {"string", 0},
                                                {"array", 0},
                                                {"u64", 8},
                                                {"i64", 8},
                                                {"f64", 8}}};

// Reads forward; every read is checked against the end of the file.
class Cursor {
 public:
  Cursor(std::string_view file, const std::string& path) : file_(file), path_(path) {}

  uint64_t position() const { return position_; }
  uint64_t rest() const { return file_.size() - position_; }

  [[noreturn]] void fail(uint64_t at, const std::string& what) const { damaged(path_, at, what); }

  std::string_view take(uint64_t bytes, const std::string& what) {
    if (bytes > rest()) {
      fail(position_, fmt::format("expected {} of {} bytes, found the end of the file {} bytes on",
                                  what, bytes, rest()));
    }
    std::string_view taken = file_.substr(position_, bytes);
    position_ += bytes;
    return taken;
  }

  template <class T>
  T number(const std::string& what) {
    T value;
    std::memcpy(&value, take(sizeof(T), what).data(), sizeof(T));
    return value;
  }

  std::string_view bytes_of_string(const std::string& what) {
    return take(number<uint64_t>("the length of " + what), what);
  }

  // A string that names something: UTF-8.
  std::string name(const std::string& what) {
    std::string_view bytes = bytes_of_string(what);
    if (!is_utf8(bytes)) fail(position_ - bytes.size(), "expected " + what + " in UTF-8");
    return std::string(bytes);
  }

  // A count of things that take `least` bytes or more each.
  uint64_t count(uint64_t least, const std::string& what) {
    uint64_t at = position_, n = number<uint64_t>("the number of " + what);
    if (n > rest() / least) {
      fail(at, fmt::format("expected a number of {} that fits into the file, found {}", what, n));
    }
    return n;
  }

 private:
  std::string_view file_;
  const std::string& path_;
  uint64_t position_ = 0;
};

ValueType value_type(Cursor& c, const std::string& what) {
  uint64_t at = c.position();
  auto type = c.number<uint32_t>(what);
  if (type >= kValues.size()) {
    c.fail(at, fmt::format("expected {} from 0 to {}, found {}", what, kValues.size() - 1, type));
  }
  return static_cast<ValueType>(type);
}

template <class T>
std::string text_of(std::string_view bytes) {
  T value;
  std::memcpy(&value, bytes.data(), sizeof(T));
  return fmt::to_string(value);
}

std::string scalar_text(ValueType type, std::string_view bytes) {
  switch (type) {
    case ValueType::U8: return text_of<uint8_t>(bytes);
    case ValueType::I8: return text_of<int8_t>(bytes);
    case ValueType::U16: return text_of<uint16_t>(bytes);
    case ValueType::I16: return text_of<int16_t>(bytes);
    case ValueType::U32: return text_of<uint32_t>(bytes);
    case ValueType::I32: return text_of<int32_t>(bytes);
    case ValueType::F32: return text_of<float>(bytes);
    case ValueType::Bool: return bytes[0] != 0 ? "true" : "false";
    case ValueType::U64: return text_of<uint64_t>(bytes);
    case ValueType::I64: return text_of<int64_t>(bytes);
    case ValueType::F64: return text_of<double>(bytes);
    case ValueType::String:
      return is_utf8(bytes) ? std::string(bytes) : fmt::format("[{} bytes]", bytes.size());
    case ValueType::Array: break;
  }
  return "";
}

// Steps over an array and says what it holds.
std::string array_text(Cursor& c, const std::string& key, int nesting) {
  if (nesting == kMaxNesting) {
    c.fail(c.position(), fmt::format("expected arrays nested at most {} deep", kMaxNesting));
  }
  ValueType type = value_type(c, "an element type of '" + key + "'");
  const ValueInfo& info = kValues[static_cast<size_t>(type)];
  std::string what = "elements of '" + key + "'";
  uint64_t least = type == ValueType::Array ? 12 : type == ValueType::String ? 8 : info.bytes;
  uint64_t n = c.count(least, what);
  if (info.bytes > 0) {
    c.take(n * info.bytes, what);
  } else {
    for (uint64_t i = 0; i < n; ++i) {
      type == ValueType::Array ? void(array_text(c, key, nesting + 1))
                               : void(c.bytes_of_string("an element of '" + key + "'"));
    }
  }
  return fmt::format("[{} {}]", n, info.name);
}

// An entry of the metadata, and the alignment if it is the one that says it.
void read_entry(Cursor& c, TensorTable* table, uint64_t* alignment) {
  uint64_t at = c.position();
  std::string key = c.name("a metadata key");
  ValueType type = value_type(c, "a value type of '" + key + "'");
  uint64_t value_at = c.position();
  std::string text;
  if (type == ValueType::Array) {
    text = array_text(c, key, 0);
  } else if (type == ValueType::String) {
    text = scalar_text(type, c.bytes_of_string("the value of '" + key + "'"));
  } else {
    uint64_t bytes = kValues[static_cast<size_t>(type)].bytes;
    text = scalar_text(type, c.take(bytes, "the value of '" + key + "'"));
  }
  if (key == "general.alignment") {
    uint64_t value = type == ValueType::U32 ? std::stoull(text) : 0;
    if (!std::has_single_bit(value)) {
      c.fail(value_at, fmt::format("expected a u32 power of two for general.alignment, found {} {}",
                                   kValues[static_cast<size_t>(type)].name, text));
    }
    *alignment = value;
  }
  if (!table->metadata.emplace(key, std::move(text)).second) {
    c.fail(at, fmt::format("'{}' stands twice", key));
  }
}

// The extents, slowest first, and their product.
void read_shape(Cursor& c, StoredTensor* t) {
  uint64_t at = c.position();
  auto axes = c.number<uint32_t>("the number of axes of '" + t->name + "'");
  if (axes > kMaxAxes) {
    c.fail(at, fmt::format("expected at most {} axes of '{}', found {}", kMaxAxes, t->name, axes));
  }
  t->count = 1;
  for (uint32_t i = 0; i < axes; ++i) {
    at = c.position();
    auto extent = c.number<uint64_t>("an extent of '" + t->name + "'");
    if (extent > static_cast<uint64_t>(kMaxCount) ||
        __builtin_mul_overflow(t->count, static_cast<int64_t>(extent), &t->count) ||
        t->count > kMaxCount) {
      c.fail(at, fmt::format("the shape of '{}' overflows", t->name));
    }
    t->shape.insert(t->shape.begin(), static_cast<int64_t>(extent));
  }
}

// A tensor's entry; its offset still counts from the start of the data.
StoredTensor read_tensor(Cursor& c, uint64_t alignment) {
  StoredTensor t;
  t.name = c.name("a tensor name");
  read_shape(c, &t);
  uint64_t at = c.position();
  auto number = c.number<uint32_t>("the type of '" + t.name + "'");
  t.type = gguf_type(number);
  if (t.type == nullptr) c.fail(at, fmt::format("unknown type {} of tensor '{}'", number, t.name));
  std::optional<uint64_t> bytes = stored_bytes(*t.type, static_cast<uint64_t>(t.count));
  int64_t row = t.shape.empty() ? 1 : t.shape.back();
  if (!bytes || row % t.type->block != 0) {
    c.fail(at, fmt::format("expected rows of a multiple of {} elements for {}; '{}' has rows of {}",
                           t.type->block, t.type->name, t.name, row));
  }
  t.bytes = *bytes;
  at = c.position();
  t.offset = c.number<uint64_t>("the offset of '" + t.name + "'");
  if (t.offset % alignment != 0) {
    c.fail(at, fmt::format("expected a multiple of {} for the offset of '{}', found {}", alignment,
                           t.name, t.offset));
  }
  return t;
}

// Refuses tensors that reach past the end of the file or into each other. `places[i]` is where the
// entry of tensor i begins.
void check_places(const Cursor& c, const std::vector<StoredTensor>& tensors,
                  const std::vector<uint64_t>& places, uint64_t size) {
  std::vector<size_t> order(tensors.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.end(),
            [&](size_t a, size_t b) { return tensors[a].offset < tensors[b].offset; });
  uint64_t reached = 0;
  for (size_t i : order) {
    const StoredTensor& t = tensors[i];
    if (t.offset > size || t.bytes > size - t.offset) {
      c.fail(places[i],
             fmt::format("tensor '{}' has {} bytes at {} of the data; expected it to end within {}",
                         t.name, t.bytes, t.offset, size));
    }
    if (t.offset < reached && t.bytes > 0) {
      c.fail(places[i], fmt::format("tensor '{}' begins at {} of the data, within another one "
                                    "that ends at {}",
                                    t.name, t.offset, reached));
    }
    reached = std::max(reached, t.offset + t.bytes);
  }
}

void check_version(Cursor& c) {
  uint64_t at = c.position();
  auto version = c.number<uint32_t>("the version");
  if (version == 2 || version == 3) return;
  bool swapped = (version & 0xffff) == 0 && version != 0;
  c.fail(at, swapped ? "expected a little-endian file, found a big-endian one"
                     : fmt::format("expected version 2 or 3, found {}", version));
}

}  // namespace

TensorTable read_gguf_table(std::string_view file, const std::string& path) {
  Cursor c(file, path);
  c.take(kGgufMagic.size(), "the word GGUF");
  check_version(c);
  uint64_t tensors = c.count(kMinTensor, "tensors");
  uint64_t entries = c.count(kMinEntry, "metadata entries");
  TensorTable table;
  uint64_t alignment = kDefaultAlignment;
  for (uint64_t i = 0; i < entries; ++i) read_entry(c, &table, &alignment);

  std::set<std::string> names;
  std::vector<uint64_t> places;
  for (uint64_t i = 0; i < tensors; ++i) {
    places.push_back(c.position());
    table.tensors.push_back(read_tensor(c, alignment));
    const std::string& name = table.tensors.back().name;
    if (!names.insert(name).second) {
      c.fail(places.back(), fmt::format("tensor '{}' stands twice", name));
    }
  }
  if (tensors == 0) return table;
  uint64_t padding = (alignment - c.position() % alignment) % alignment;
  c.take(padding, "padding");
  uint64_t data = c.position();
  check_places(c, table.tensors, places, c.rest());
  for (StoredTensor& t : table.tensors) t.offset += data;
  std::sort(table.tensors.begin(), table.tensors.end(),
            [](const StoredTensor& a, const StoredTensor& b) {
              return std::tie(a.offset, a.name) < std::tie(b.offset, b.name);
            });
  return table;
}

}  // namespace tilewright::weights
