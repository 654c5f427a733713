// Charts as inline SVG, for pages that fetch nothing.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace tilewright::cli {

/// Text as it may stand in HTML and SVG, between tags and in quoted attributes.
std::string escape_markup(std::string_view text);

struct Point {
  double x, y;
};

struct Axis {
  std::string label;
  double min = 0, max = 1;  // min < max; both positive on a logarithmic axis
  bool log = false;
  std::function<std::string(double)> text;  // of a tick; empty: the number, as short as it goes

  /// A logarithmic axis with some air around values of [min, max], both positive.
  static Axis logarithmic(std::string label, double min, double max);
};

/// Where an axis has its ticks: round numbers, at least two, within [min, max].
std::vector<double> ticks_of(const Axis& axis);

/// A chart that is drawn in the order of the calls. Colours come from the page: `style` is a CSS
/// class of lines and marks.
class Chart {
 public:
  Chart(std::string title, Axis x, Axis y);

  /// Straight from point to point.
  void line(const std::vector<Point>& points, std::string_view style);
  /// A dot; `tooltip` is shown when the pointer rests on it.
  void dot(Point at, double radius, std::string_view style, const std::string& tooltip);
  /// A cross, for what failed.
  void cross(Point at, std::string_view style, const std::string& tooltip);
  /// Words to the upper right of a point, or to its upper left where the right edge is near.
  void label(Point at, const std::string& words, std::string_view style);

  std::string svg() const;

 private:
  double left(double x) const;  // pixels
  double top(double y) const;
  std::string grid() const;

  std::string title_;
  Axis x_, y_;
  std::string body_;
};

}  // namespace tilewright::cli
