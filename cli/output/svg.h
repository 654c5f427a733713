// Charts as inline SVG, for pages that fetch nothing.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/output/svg_labels.h"

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
  // The words at a tick; empty ones leave it out. No function: the number, as short as it goes.
  std::function<std::string(double)> text;

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
  /// Words near a point, where they overlap neither other words nor dots that were drawn before.
  /// A thin line leads to words that stand far off. False where there is no such place: the words are
  /// left out.
  bool label(Point at, const std::string& words, std::string_view style);

  std::string svg() const;

 private:
  double left(double x) const;  // pixels
  double top(double y) const;
  std::string across() const;   // the axis below
  std::string upwards() const;  // the axis on the left

  std::string title_;
  Axis x_, y_;
  std::string body_, words_;
  LabelSpace space_;
};

}  // namespace tilewright::cli
