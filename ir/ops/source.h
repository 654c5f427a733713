// The source text of a spec, and errors that point into it.
#pragma once

#include <cstddef>
#include <string>

#include "base/error.h"

namespace tilewright::ops {

struct Source {
  std::string file;  // the name that messages show; empty for text from the command line
  std::string text;
  size_t first_line = 1;  // the number of the text's first line in the file
};

// "file:line:column", both counted from 1; for text without a file, its first line.
std::string location(const Source& source, size_t offset);

// Throws SpecError: the location, the message, the line with a caret under `offset`, the note.
[[noreturn]] void fail_at(const Source& source, size_t offset, const std::string& message,
                          const std::string& note = "");

// An error in the value of one key, thrown where the key is interpreted (a conversion, an
// operator's checks). The parser turns it into an error that shows the place.
class KeyError : public SpecError {
 public:
  KeyError(std::string key, std::string message, size_t value_offset = 0);
  const std::string key;
  const std::string message;
  const size_t value_offset;  // offset of the error in the value's text
};

// The name in `known` that is a few typing mistakes away from `name`, in whatever capitals, as
// "; did you mean 'kernel'?", or nothing.
template <class Names>
std::string suggestion(const std::string& name, const Names& known);

// How many letters have to be put in, taken out, changed, or swapped with their neighbour; capitals
// do not count.
size_t edit_distance(const std::string& a, const std::string& b);

template <class Names>
std::string suggestion(const std::string& name, const Names& known) {
  size_t best = name.size() < 4 ? 2 : 3;  // one mistake in a short name, two in a long one
  std::string nearest;
  for (const auto& candidate : known) {
    size_t distance = edit_distance(name, candidate);
    if (distance < best && distance < std::string(candidate).size()) {
      best = distance;
      nearest = candidate;
    }
  }
  return nearest.empty() ? "" : "; did you mean '" + nearest + "'?";
}

}  // namespace tilewright::ops
