// Specs as read, before keys are interpreted: values with their places in the source.
#pragma once

#include <string>
#include <vector>

#include "ir/ops/source.h"

namespace tilewright::ops {

struct RawMember;

struct RawValue {
  enum class Kind {
    Null,
    Bool,
    Number,
    String,
    List,
    Object,
    Word
  };  // Word: a value of the inline form, whose key decides its type
  Kind kind = Kind::Null;
  std::string text;                // scalars: the literal; strings without quotes and escapes
  std::vector<RawValue> items;     // List
  std::vector<RawMember> members;  // Object
  size_t offset = 0;               // where the value begins in the source
  size_t text_offset = 0;          // where `text` begins
  bool verbatim = true;            // text[i] is the source's character text_offset + i

  // The place of the i-th character of the text, or of the value's start where the text is not
  // verbatim.
  size_t offset_of(size_t i) const { return verbatim ? text_offset + i : offset; }
};

struct RawMember {
  std::string key;
  size_t key_offset = 0;
  RawValue value;
};

// The value as messages show it when it has the wrong kind: "the string "512"", "a list", ….
std::string describe(const RawValue& value);

// Reads one JSON document; throws SpecError at the first invalid character.
RawValue read_json(const Source& source);
// Reads `OP:key=value,key=value` as an object with the key "op" first. Commas inside brackets,
// parentheses and double quotes belong to the value.
RawValue read_inline(const Source& source);

}  // namespace tilewright::ops
