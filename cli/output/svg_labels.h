// Finds places for the words of a chart, so that no two overlap.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tilewright::cli {

// A rectangle in pixels, from its upper left to its lower right corner.
struct Box {
  double left, top, right, bottom;

  bool overlaps(const Box& other) const;
  bool contains(const Box& other) const;
};

// The font of charts is monospaced, so that widths are known without the font.
inline constexpr double kFontSize = 13;

// An upper bound of the width of UTF-8 text in that font. Characters outside of ASCII may be wide.
double text_width(std::string_view text);

// At most `most` characters; an ellipsis in the middle stands for those left out, since names of
// layers differ at both ends.
std::string shortened(const std::string& text, size_t most);

// The place of a text: its anchor on the base line.
struct TextPlace {
  double x, y;
  const char* anchor;  // start, middle or end
};

class LabelSpace {
 public:
  // Words stay inside of `within`.
  explicit LabelSpace(Box within) : within_(within) {}

  // Keeps words away from a mark.
  void block(const Box& mark) { taken_.push_back(mark); }

  // The place nearest to a point where the words overlap nothing, which is then taken. Nothing where
  // all is full.
  std::optional<TextPlace> place(double x, double y, std::string_view words);

 private:
  Box within_;
  std::vector<Box> taken_;
};

}  // namespace tilewright::cli
