#include "cli/output/svg_labels.h"

#include <algorithm>
#include <cstring>

namespace tilewright::cli {
namespace {

// Advances in shares of the font's size: monospaced fonts have 0.6, ideographs and symbols of a
// fallback font up to 1.1.
constexpr double kNarrow = 0.615, kWide = 1.15;
constexpr double kAscent = 1.0, kDescent = 0.3;
constexpr double kMargin = 2;     // pixels on both sides of words
constexpr double kLabelGap = 7;   // pixels between a point and its words
constexpr int kLinesOfDodge = 4;  // so many lines words may move up or down
constexpr double kLine = 1.3 * kFontSize;

// Whether a byte of UTF-8 begins a character.
bool begins(char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }

Box box_of(const TextPlace& at, double width) {
  double left = at.x;
  if (std::strcmp(at.anchor, "end") == 0) left -= width;
  if (std::strcmp(at.anchor, "middle") == 0) left -= width / 2;
  return {left - kMargin, at.y - kAscent * kFontSize, left + width + kMargin,
          at.y + kDescent * kFontSize};
}

// Places around a point, the best first.
std::vector<TextPlace> places_around(double x, double y) {
  const double middle = y + 0.35 * kFontSize, below = y + kLabelGap + 0.9 * kFontSize;
  std::vector<TextPlace> places = {
      {x + kLabelGap, y - kLabelGap, "start"}, {x - kLabelGap, y - kLabelGap, "end"},
      {x + kLabelGap, below, "start"},         {x - kLabelGap, below, "end"},
      {x, y - kLabelGap - 2, "middle"},        {x, below + 2, "middle"},
      {x + kLabelGap, middle, "start"},        {x - kLabelGap, middle, "end"},
  };
  for (int line = 1; line <= kLinesOfDodge; ++line) {
    for (const double down : {-line * kLine, line * kLine}) {
      places.push_back({x + kLabelGap, middle + down, "start"});
      places.push_back({x - kLabelGap, middle + down, "end"});
    }
  }
  return places;
}

}  // namespace

bool Box::overlaps(const Box& other) const {
  return left < other.right && other.left < right && top < other.bottom && other.top < bottom;
}

bool Box::contains(const Box& other) const {
  return left <= other.left && other.right <= right && top <= other.top && other.bottom <= bottom;
}

double text_width(std::string_view text) {
  double width = 0;
  for (char c : text) {
    if (!begins(c)) continue;
    width += static_cast<unsigned char>(c) < 0x80 ? kNarrow : kWide;
  }
  return width * kFontSize;
}

std::string shortened(const std::string& text, size_t most) {
  std::vector<size_t> starts;
  for (size_t i = 0; i < text.size(); ++i) {
    if (begins(text[i])) starts.push_back(i);
  }
  if (starts.size() <= most) return text;
  const size_t head = most / 2, tail = most - head - 1;
  return text.substr(0, starts[head]) + "…" + text.substr(starts[starts.size() - tail]);
}

std::optional<TextPlace> LabelSpace::place(double x, double y, std::string_view words) {
  const double width = text_width(words);
  for (const TextPlace& at : places_around(x, y)) {
    const Box box = box_of(at, width);
    const bool free = std::none_of(taken_.begin(), taken_.end(),
                                   [&](const Box& other) { return box.overlaps(other); });
    if (!free || !within_.contains(box)) continue;
    taken_.push_back(box);
    return at;
  }
  return std::nullopt;
}

}  // namespace tilewright::cli
