#include <fmt/format.h>

#include "ir/ops/raw_value.h"

namespace tilewright::ops {
namespace {

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

// The value in [begin, end) of the source, without the surrounding space.
RawValue make_word(const std::string& text, size_t begin, size_t end) {
  while (begin < end && is_blank(text[begin])) ++begin;
  while (end > begin && is_blank(text[end - 1])) --end;
  RawValue value;
  value.kind = RawValue::Kind::Word;
  value.offset = value.text_offset = begin;
  value.text = text.substr(begin, end - begin);
  bool quoted = end - begin >= 2 && text[begin] == '"' && text[end - 1] == '"';
  if (quoted && text.find('"', begin + 1) == end - 1) {
    value.text_offset = begin + 1;
    value.text = text.substr(begin + 1, end - begin - 2);
  }
  return value;
}

// The end of the value that begins at `at`: the next comma outside brackets and quotes.
size_t end_of_value(const Source& source, size_t at) {
  std::vector<size_t> open;
  const std::string& text = source.text;
  for (; at < text.size(); ++at) {
    char c = text[at];
    if (c == '"') {
      size_t close = text.find('"', at + 1);
      if (close == std::string::npos) fail_at(source, at, "a quote without its closing quote");
      at = close;
    } else if (c == '[' || c == '(') {
      open.push_back(at);
    } else if (c == ']' || c == ')') {
      bool fits = !open.empty() && text[open.back()] == (c == ']' ? '[' : '(');
      if (!fits) fail_at(source, at, fmt::format("'{}' closes nothing", c));
      open.pop_back();
    } else if (c == ',' && open.empty()) {
      break;
    }
  }
  if (!open.empty())
    fail_at(source, open.back(), fmt::format("'{}' is never closed", text[open.back()]));
  return at;
}

RawMember read_member(const Source& source, size_t begin, size_t end) {
  size_t equals = source.text.find('=', begin);
  if (equals == std::string::npos || equals >= end) {
    fail_at(source, begin,
            fmt::format("expected key=value, found '{}'", make_word(source.text, begin, end).text));
  }
  RawValue key = make_word(source.text, begin, equals);
  if (key.text.empty()) fail_at(source, equals, "a value without a key; expected key=value");
  RawMember member{key.text, key.offset, make_word(source.text, equals + 1, end)};
  if (member.value.text.empty()) {
    fail_at(source, key.offset, fmt::format("the key '{}' has no value", key.text));
  }
  return member;
}

}  // namespace

std::string describe(const RawValue& value) {
  switch (value.kind) {
    case RawValue::Kind::Null: return "null";
    case RawValue::Kind::Bool:
    case RawValue::Kind::Number: return value.text;
    case RawValue::Kind::Word: return "'" + value.text + "'";
    case RawValue::Kind::String: return "the string \"" + value.text + "\"";
    case RawValue::Kind::List: return "a list";
    case RawValue::Kind::Object: return "an object";
  }
  return "";
}

RawValue read_inline(const Source& source) {
  const std::string& text = source.text;
  size_t colon = std::min(text.find(':'), text.size());
  RawValue spec;
  spec.kind = RawValue::Kind::Object;
  RawValue op = make_word(text, 0, colon);
  if (op.text.empty()) fail_at(source, 0, "expected OP:key=value,key=value");
  spec.members.push_back({"op", op.offset, op});
  bool more = colon < text.size() && !make_word(text, colon + 1, text.size()).text.empty();
  for (size_t begin = colon + 1; more;) {
    size_t end = end_of_value(source, begin);
    RawMember member = read_member(source, begin, end);
    for (const RawMember& other : spec.members) {
      if (other.key == member.key)
        fail_at(source, member.key_offset, fmt::format("the key '{}' is given twice", member.key));
    }
    spec.members.push_back(std::move(member));
    more = end < text.size();
    begin = end + 1;
  }
  return spec;
}

}  // namespace tilewright::ops
