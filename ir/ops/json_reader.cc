#include <fmt/format.h>

#include "ir/ops/raw_value.h"
#include "ir/text/lexer.h"

namespace tilewright::ops {
namespace {

constexpr int kMaxDepth = 32;

void append_utf8(std::string& out, uint32_t code) {
  if (code < 0x80) {
    out += static_cast<char>(code);
  } else if (code < 0x800) {
    out += static_cast<char>(0xC0 | (code >> 6));
    out += static_cast<char>(0x80 | (code & 0x3F));
  } else if (code < 0x10000) {
    out += static_cast<char>(0xE0 | (code >> 12));
    out += static_cast<char>(0x80 | ((code >> 6) & 0x3F));
    out += static_cast<char>(0x80 | (code & 0x3F));
  } else {
    out += static_cast<char>(0xF0 | (code >> 18));
    out += static_cast<char>(0x80 | ((code >> 12) & 0x3F));
    out += static_cast<char>(0x80 | ((code >> 6) & 0x3F));
    out += static_cast<char>(0x80 | (code & 0x3F));
  }
}

// Recursive-descent parser of RFC 8259 that keeps the place of every value.
class JsonReader {
 public:
  explicit JsonReader(const Source& source) : source_(source), text_(source.text) {}

  RawValue document() {
    if (text_.compare(0, 3, "\xEF\xBB\xBF") == 0) at_ = 3;
    RawValue value = read(0);
    skip_space();
    if (at_ < text_.size()) fail("more text behind the end of the JSON document");
    return value;
  }

 private:
  [[noreturn]] void fail(const std::string& message) {
    fail_at(source_, at_, "not valid JSON: " + message);
  }
  void skip_space() {
    while (at_ < text_.size() && std::string_view(" \t\r\n").find(text_[at_]) != std::string::npos)
      ++at_;
  }
  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  std::string found() const {
    if (at_ >= text_.size()) return "the end of the text";
    unsigned char c = static_cast<unsigned char>(text_[at_]);
    return c < 0x20 || c >= 0x7F ? fmt::format("byte 0x{:02x}", c)
                                 : fmt::format("'{}'", text_[at_]);
  }

  RawValue read(int depth);
  RawValue read_object(int depth);
  RawValue read_list(int depth);
  RawValue read_string();
  RawValue read_number();
  RawValue read_word();
  void read_escape(RawValue& value);
  uint32_t read_hex4();

  const Source& source_;
  const std::string& text_;
  size_t at_ = 0;
};

RawValue JsonReader::read(int depth) {
  skip_space();
  if (depth > kMaxDepth) fail(fmt::format("values nest deeper than {}", kMaxDepth));
  char c = peek();
  if (c == '{') return read_object(depth);
  if (c == '[') return read_list(depth);
  if (c == '"') return read_string();
  if (c == '-' || is_digit(c)) return read_number();
  return read_word();
}

RawValue JsonReader::read_object(int depth) {
  RawValue value;
  value.kind = RawValue::Kind::Object;
  value.offset = value.text_offset = at_++;
  skip_space();
  if (peek() == '}') return ++at_, value;
  while (true) {
    skip_space();
    if (peek() != '"') fail("expected a key in double quotes, found " + found());
    RawMember member;
    member.key_offset = at_;
    member.key = read_string().text;
    for (const RawMember& other : value.members) {
      if (other.key == member.key)
        fail_at(source_, member.key_offset, fmt::format("the key '{}' is given twice", member.key));
    }
    skip_space();
    if (peek() != ':') fail("expected ':' behind the key, found " + found());
    ++at_;
    member.value = read(depth + 1);
    value.members.push_back(std::move(member));
    skip_space();
    if (peek() == '}') return ++at_, value;
    if (peek() != ',') fail("expected ',' or '}', found " + found());
    ++at_;
  }
}

RawValue JsonReader::read_list(int depth) {
  RawValue value;
  value.kind = RawValue::Kind::List;
  value.offset = value.text_offset = at_++;
  skip_space();
  if (peek() == ']') return ++at_, value;
  while (true) {
    value.items.push_back(read(depth + 1));
    skip_space();
    if (peek() == ']') return ++at_, value;
    if (peek() != ',') fail("expected ',' or ']', found " + found());
    ++at_;
  }
}

RawValue JsonReader::read_string() {
  RawValue value;
  value.kind = RawValue::Kind::String;
  value.offset = at_++;
  value.text_offset = at_;
  while (peek() != '"') {
    if (at_ >= text_.size()) fail("a string without its closing quote");
    if (static_cast<unsigned char>(text_[at_]) < 0x20) fail("a control character in a string");
    if (text_[at_] == '\\') {
      read_escape(value);
    } else {
      value.text += text_[at_++];
    }
  }
  ++at_;
  return value;
}

void JsonReader::read_escape(RawValue& value) {
  value.verbatim = false;
  ++at_;
  constexpr std::string_view kFrom = "\"\\/bfnrt", kTo = "\"\\/\b\f\n\r\t";
  if (size_t i = kFrom.find(peek()); at_ < text_.size() && i != std::string_view::npos) {
    value.text += kTo[i];
    ++at_;
    return;
  }
  if (peek() != 'u') fail("unknown escape in a string, found " + found());
  uint32_t code = read_hex4();
  if (code >= 0xD800 && code < 0xDC00 && text_.compare(at_, 2, "\\u") == 0) {
    ++at_;
    uint32_t low = read_hex4();
    if (low < 0xDC00 || low > 0xDFFF) fail("a surrogate without its second half");
    code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
  } else if (code >= 0xD800 && code <= 0xDFFF) {
    fail("a surrogate without its other half");
  }
  append_utf8(value.text, code);
}

uint32_t JsonReader::read_hex4() {
  uint32_t code = 0;
  for (int i = 0; i < 4; ++i) {
    ++at_;
    char c = peek();
    uint32_t digit = is_digit(c)            ? static_cast<uint32_t>(c - '0')
                     : c >= 'a' && c <= 'f' ? static_cast<uint32_t>(c - 'a' + 10)
                     : c >= 'A' && c <= 'F' ? static_cast<uint32_t>(c - 'A' + 10)
                                            : 16u;
    if (digit == 16) fail("expected four hex digits behind \\u, found " + found());
    code = code * 16 + digit;
  }
  ++at_;
  return code;
}

RawValue JsonReader::read_number() {
  RawValue value;
  value.kind = RawValue::Kind::Number;
  value.offset = value.text_offset = at_;
  auto digits = [&] {
    if (!is_digit(peek())) fail("expected a digit, found " + found());
    while (is_digit(peek())) ++at_;
  };
  if (peek() == '-') ++at_;
  if (peek() == '0' && at_ + 1 < text_.size() && is_digit(text_[at_ + 1]))
    fail("a number does not begin with 0");
  digits();
  if (peek() == '.') ++at_, digits();
  if (peek() == 'e' || peek() == 'E') {
    ++at_;
    if (peek() == '+' || peek() == '-') ++at_;
    digits();
  }
  value.text = text_.substr(value.offset, at_ - value.offset);
  return value;
}

RawValue JsonReader::read_word() {
  for (std::string_view word : {"true", "false", "null"}) {
    if (text_.compare(at_, word.size(), word) != 0) continue;
    RawValue value;
    value.kind = word == "null" ? RawValue::Kind::Null : RawValue::Kind::Bool;
    value.offset = value.text_offset = at_;
    value.text = word;
    at_ += word.size();
    return value;
  }
  fail("expected a value, found " + found());
}

}  // namespace

RawValue read_json(const Source& source) { return JsonReader(source).document(); }

}  // namespace tilewright::ops
