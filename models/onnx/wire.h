// The wire format of protocol buffers, as far as ONNX models use it: fields one after the other, each
// a tag and a value, nested messages as bytes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tilewright::onnx {

class Message;

// One field of a message. The functions that read it throw FileError with the byte at which the field
// begins where it is not stored as `what` is, and where its contents are damaged.
class Field {
 public:
  uint32_t number() const { return number_; }
  // The byte of the file at which its tag stands.
  uint64_t offset() const { return offset_; }

  int64_t integer(const std::string& what) const;
  float real(const std::string& what) const;
  std::string_view bytes(const std::string& what) const;
  std::string text(const std::string& what) const;  // UTF-8
  Message message(const std::string& what) const;
  // Adds the numbers of a repeated field, which are stored one a field or many in one.
  void integers(const std::string& what, std::vector<int64_t>* out) const;
  void reals(const std::string& what, std::vector<double>* out) const;    // of 32 bits
  void doubles(const std::string& what, std::vector<double>* out) const;  // of 64 bits
  [[noreturn]] void fail(const std::string& what) const;

 private:
  friend class Message;
  enum Type : uint8_t { Varint = 0, Fixed64 = 1, Bytes = 2, Fixed32 = 5 };
  template <class T>
  void fixed(const std::string& what, Type type, std::vector<double>* out) const;
  void expect(Type type, const std::string& what) const;

  const std::string* path_ = nullptr;
  uint64_t offset_ = 0, body_offset_ = 0;
  uint32_t number_ = 0;
  Type type_ = Varint;
  uint64_t value_ = 0;      // Varint
  std::string_view bytes_;  // of the other types
};

// Reads the fields of a message in order. The bytes and the path outlive it and its fields.
class Message {
 public:
  // `offset` is that of the message in its file.
  Message(std::string_view bytes, uint64_t offset, const std::string& path)
      : bytes_(bytes), offset_(offset), path_(&path) {}

  // The next field, or nothing at the end. Throws FileError with the byte at fault.
  std::optional<Field> next();

 private:
  friend class Field;
  uint64_t varint(const std::string& what);
  std::string_view take(uint64_t count, const std::string& what);
  [[noreturn]] void fail(const std::string& what) const;

  std::string_view bytes_;  // what is left
  uint64_t offset_;
  const std::string* path_;
};

}  // namespace tilewright::onnx
