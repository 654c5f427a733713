#include "ir/ops/source.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <vector>

namespace tilewright::ops {
namespace {

constexpr size_t kWindow = 96;  // columns of a long line shown around the caret

struct Place {
  size_t line = 1, column = 1;
  size_t begin = 0, end = 0;  // the line's offsets in the text
};

Place place_of(const std::string& text, size_t offset) {
  offset = std::min(offset, text.size());
  Place place;
  for (size_t i = 0; i < offset; ++i) {
    if (text[i] != '\n') continue;
    ++place.line;
    place.begin = i + 1;
  }
  place.column = offset - place.begin + 1;
  place.end = std::min(text.find('\n', place.begin), text.size());
  return place;
}

// The line of `place` with a caret under its column. Text far from the caret is cut off.
std::string excerpt(const std::string& text, const Place& place) {
  std::string line = text.substr(place.begin, place.end - place.begin);
  for (char& c : line) {
    if (static_cast<unsigned char>(c) < 0x20) c = ' ';
  }
  size_t caret = place.column - 1;
  if (line.size() > kWindow) {
    size_t from = caret > kWindow / 2 ? std::min(caret - kWindow / 2, line.size() - kWindow) : 0;
    bool cut_front = from > 0, cut_back = from + kWindow < line.size();
    line = (cut_front ? "..." : "") + line.substr(from, kWindow) + (cut_back ? "..." : "");
    caret = caret - from + (cut_front ? 3 : 0);
  }
  return fmt::format("  {}\n  {}^", line, std::string(caret, ' '));
}

}  // namespace

std::string location(const Source& source, size_t offset) {
  if (source.file.empty()) return source.text.substr(0, source.text.find('\n'));
  Place place = place_of(source.text, offset);
  return fmt::format("{}:{}:{}", source.file, source.first_line + place.line - 1, place.column);
}

void fail_at(const Source& source, size_t offset, const std::string& message,
             const std::string& note) {
  std::string head = source.file.empty() ? "spec" : location(source, offset);
  std::string text =
      fmt::format("{}: {}\n{}", head, message, excerpt(source.text, place_of(source.text, offset)));
  if (!note.empty()) text += "\n" + note;
  throw SpecError(text);
}

KeyError::KeyError(std::string k, std::string m, size_t offset)
    : SpecError(k.empty() ? m : k + ": " + m), key(std::move(k)), message(std::move(m)),
      value_offset(offset) {}

size_t edit_distance(const std::string& a, const std::string& b) {
  auto same = [&](size_t i, size_t j) {
    return std::tolower(static_cast<unsigned char>(a[i])) ==
           std::tolower(static_cast<unsigned char>(b[j]));
  };
  // Of the prefixes of `a` with i, i - 1 and i - 2 letters to each prefix of `b`.
  std::vector<size_t> row(b.size() + 1), above = row, second_above = row;
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    second_above = above;
    above = row;
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const bool equal = same(i - 1, j - 1);
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, above[j - 1] + (equal ? 0 : 1)});
      const bool swapped = i > 1 && j > 1 && same(i - 1, j - 2) && same(i - 2, j - 1);
      if (swapped) row[j] = std::min(row[j], second_above[j - 2] + 1);
    }
  }
  return row[b.size()];
}

}  // namespace tilewright::ops
