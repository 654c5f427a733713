#include "cli/output/svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace tilewright::cli {
namespace {

constexpr double kWidth = 640, kHeight = 320;
constexpr double kLeft = 76, kRight = 16, kTop = 14, kBottom = 46;
constexpr int kWantedTicks = 6;

double share(const Axis& axis, double value) {
  if (axis.log) return std::log(value / axis.min) / std::log(axis.max / axis.min);
  return (value - axis.min) / (axis.max - axis.min);
}

// 1, 2 or 5 times a power of ten: about `wanted` steps fit the span.
double round_step(double span, int wanted) {
  double raw = span / wanted, power = std::pow(10, std::floor(std::log10(raw)));
  for (double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= raw) return factor * power;
  }
  return 10 * power;
}

std::vector<double> linear_ticks(double min, double max) {
  double step = round_step(max - min, kWantedTicks);
  std::vector<double> ticks;
  for (double i = std::ceil(min / step); i * step <= max * (1 + 1e-12); ++i) {
    ticks.push_back(i * step);
  }
  return ticks;
}

std::vector<double> log_ticks(double min, double max) {
  std::vector<double> factors = {1};
  double decades = std::log10(max / min);
  if (decades < 3) factors = {1, 2, 5};
  // Far apart, every second or third power of ten is enough.
  double stride = std::max(1.0, std::ceil(decades / (2 * kWantedTicks)));
  std::vector<double> ticks;
  for (double e = std::floor(std::log10(min)); std::pow(10, e) <= max; e += stride) {
    for (double f : factors) {
      double tick = f * std::pow(10, e);
      if (tick >= min && tick <= max) ticks.push_back(tick);
    }
  }
  return ticks;
}

std::string tick_text(const Axis& axis, double value) {
  return axis.text ? axis.text(value) : fmt::format("{:.6g}", value);
}

}  // namespace

std::string escape_markup(std::string_view text) {
  std::string out;
  for (char c : text) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      case '\'': out += "&#39;"; break;
      default:
        // Control characters are legal in neither language.
        out += static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t' ? ' ' : c;
    }
  }
  return out;
}

Axis Axis::logarithmic(std::string label, double min, double max) {
  double air = max / min < 1.5 ? 1.25 : std::pow(max / min, 0.06);
  return {std::move(label), min / air, max * air, true, {}};
}

std::vector<double> ticks_of(const Axis& axis) {
  std::vector<double> ticks;
  if (axis.log) ticks = log_ticks(axis.min, axis.max);
  // A short stretch of a logarithmic axis is nearly linear.
  return ticks.size() >= 2 ? ticks : linear_ticks(axis.min, axis.max);
}

Chart::Chart(std::string title, Axis x, Axis y)
    : title_(std::move(title)), x_(std::move(x)), y_(std::move(y)) {}

double Chart::left(double x) const { return kLeft + share(x_, x) * (kWidth - kLeft - kRight); }

double Chart::top(double y) const {
  return kHeight - kBottom - share(y_, y) * (kHeight - kTop - kBottom);
}

void Chart::line(const std::vector<Point>& points, std::string_view style) {
  std::string path;
  for (const Point& p : points) path += fmt::format("{:.1f},{:.1f} ", left(p.x), top(p.y));
  if (!path.empty()) path.pop_back();
  body_ += fmt::format("<polyline class=\"line {}\" points=\"{}\"/>\n", style, path);
}

void Chart::dot(Point at, double radius, std::string_view style, const std::string& tooltip) {
  body_ += fmt::format(
      "<circle class=\"dot {}\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{}\"><title>{}</title></circle>\n",
      style, left(at.x), top(at.y), radius, escape_markup(tooltip));
}

void Chart::cross(Point at, std::string_view style, const std::string& tooltip) {
  body_ += fmt::format(
      "<path class=\"cross {}\" d=\"M{:.1f},{:.1f}l6,6m0,-6l-6,6\"><title>{}</title></path>\n",
      style, left(at.x) - 3, top(at.y) - 3, escape_markup(tooltip));
}

void Chart::label(Point at, const std::string& words, std::string_view style) {
  bool near_the_edge = share(x_, at.x) > 0.7;
  // Below a point that stands at the top, so that words stay out of each other's way there.
  double down = style != "words roof" && share(y_, at.y) > 0.88 ? 18 : -6;
  body_ +=
      fmt::format("<text class=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>\n",
                  style, left(at.x) + (near_the_edge ? -7 : 7), top(at.y) + down,
                  near_the_edge ? "end" : "start", escape_markup(words));
}

std::string Chart::grid() const {
  std::string out;
  double right = kWidth - kRight, bottom = kHeight - kBottom;
  for (double tick : ticks_of(x_)) {
    out += fmt::format(
        "<line class=\"grid\" x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"{1}\" y2=\"{2}\"/>"
        "<text class=\"tick\" x=\"{0:.1f}\" y=\"{3}\" text-anchor=\"middle\">{4}</text>\n",
        left(tick), kTop, bottom, bottom + 16, escape_markup(tick_text(x_, tick)));
  }
  for (double tick : ticks_of(y_)) {
    out += fmt::format(
        "<line class=\"grid\" x1=\"{0}\" x2=\"{1}\" y1=\"{2:.1f}\" y2=\"{2:.1f}\"/>"
        "<text class=\"tick\" x=\"{3}\" y=\"{4:.1f}\" text-anchor=\"end\">{5}</text>\n",
        kLeft, right, top(tick), kLeft - 6, top(tick) + 4, escape_markup(tick_text(y_, tick)));
  }
  out += fmt::format("<text class=\"axis\" x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n",
                     (kLeft + right) / 2, kHeight - 8, escape_markup(x_.label));
  out += fmt::format(
      "<text class=\"axis\" transform=\"translate(14 {}) rotate(-90)\" "
      "text-anchor=\"middle\">{}</text>\n",
      (kTop + bottom) / 2, escape_markup(y_.label));
  return out;
}

std::string Chart::svg() const {
  return fmt::format("<svg viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{}\">\n{}{}</svg>\n",
                     kWidth, kHeight, escape_markup(title_), grid(), body_);
}

}  // namespace tilewright::cli
