#include "models/onnx/wire.h"

#include <fmt/format.h>

#include <bit>
#include <cstring>

#include "base/utf8.h"
#include "models/weights/mapped_file.h"

namespace tilewright::onnx {
namespace {

static_assert(std::endian::native == std::endian::little, "files are little-endian");

constexpr int kVarintBytes = 10;

template <class T>
T value_at(std::string_view bytes) {
  T value;
  std::memcpy(&value, bytes.data(), sizeof(T));
  return value;
}

}  // namespace

void Message::fail(const std::string& what) const { weights::damaged(*path_, offset_, what); }

std::string_view Message::take(uint64_t count, const std::string& what) {
  if (count > bytes_.size()) {
    fail(fmt::format("expected {} of {} bytes, found the end of the message {} bytes on", what,
                     count, bytes_.size()));
  }
  std::string_view taken = bytes_.substr(0, count);
  bytes_.remove_prefix(count);
  offset_ += count;
  return taken;
}

uint64_t Message::varint(const std::string& what) {
  uint64_t value = 0;
  for (int i = 0; i < kVarintBytes; ++i) {
    if (static_cast<size_t>(i) == bytes_.size()) {
      fail(fmt::format("expected {}, found the end of the message {} bytes on", what, i));
    }
    const auto byte = static_cast<unsigned char>(bytes_[static_cast<size_t>(i)]);
    value |= static_cast<uint64_t>(byte & 0x7f) << (7 * i);
    if (byte < 0x80) {
      take(static_cast<uint64_t>(i) + 1, what);
      return value;
    }
  }
  fail(fmt::format("expected {} of at most {} bytes, found a longer one", what, kVarintBytes));
}

std::optional<Field> Message::next() {
  if (bytes_.empty()) return std::nullopt;
  Field field;
  field.path_ = path_;
  field.offset_ = offset_;
  const uint64_t tag = varint("the tag of a field");
  const uint64_t number = tag >> 3, type = tag & 7;
  if (number == 0 || number > (uint64_t{1} << 29)) {
    field.fail(fmt::format("expected a field of a model, found number {}", number));
  }
  field.number_ = static_cast<uint32_t>(number);
  field.type_ = static_cast<Field::Type>(type);
  field.body_offset_ = offset_;
  switch (type) {
    case Field::Varint: field.value_ = varint("a number"); break;
    case Field::Fixed64: field.bytes_ = take(8, "a number"); break;
    case Field::Fixed32: field.bytes_ = take(4, "a number"); break;
    case Field::Bytes: {
      const uint64_t size = varint("the length of a field");
      field.body_offset_ = offset_;
      field.bytes_ = take(size, fmt::format("field {}", number));
      break;
    }
    default: field.fail(fmt::format("expected a field of type 0, 1, 2 or 5, found type {}", type));
  }
  return field;
}

void Field::fail(const std::string& what) const { weights::damaged(*path_, offset_, what); }

void Field::expect(Type type, const std::string& what) const {
  if (type_ == type) return;
  fail(fmt::format("expected {} as a field of type {}, found type {}", what, static_cast<int>(type),
                   static_cast<int>(type_)));
}

int64_t Field::integer(const std::string& what) const {
  expect(Varint, what);
  return static_cast<int64_t>(value_);
}

float Field::real(const std::string& what) const {
  expect(Fixed32, what);
  return value_at<float>(bytes_);
}

std::string_view Field::bytes(const std::string& what) const {
  expect(Bytes, what);
  return bytes_;
}

std::string Field::text(const std::string& what) const {
  expect(Bytes, what);
  if (!is_utf8(bytes_)) fail("expected " + what + " in UTF-8");
  return std::string(bytes_);
}

Message Field::message(const std::string& what) const {
  expect(Bytes, what);
  return {bytes_, body_offset_, *path_};
}

void Field::integers(const std::string& what, std::vector<int64_t>* out) const {
  if (type_ == Varint) {
    out->push_back(static_cast<int64_t>(value_));
    return;
  }
  Message packed = message(what);
  while (!packed.bytes_.empty()) out->push_back(static_cast<int64_t>(packed.varint(what)));
}

template <class T>
void Field::fixed(const std::string& what, Type type, std::vector<double>* out) const {
  if (type_ != type) expect(Bytes, what);
  if (bytes_.size() % sizeof(T) != 0) {
    fail(fmt::format("expected {} of {} bytes each, found {} bytes", what, sizeof(T),
                     bytes_.size()));
  }
  for (size_t at = 0; at < bytes_.size(); at += sizeof(T)) {
    out->push_back(static_cast<double>(value_at<T>(bytes_.substr(at))));
  }
}

void Field::reals(const std::string& what, std::vector<double>* out) const {
  fixed<float>(what, Fixed32, out);
}

void Field::doubles(const std::string& what, std::vector<double>* out) const {
  fixed<double>(what, Fixed64, out);
}

}  // namespace tilewright::onnx
