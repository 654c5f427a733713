#include "cli/output/svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace tilewright::cli {
namespace {

// Narrow, so that words keep a readable size where the page is as wide as a phone.
constexpr double kWidth = 460, kHeight = 280;
constexpr double kLeft = 64, kRight = 18, kTop = 30, kBottom = 48;
constexpr int kWantedTicks = 6, kMostTicks = 50;
constexpr double kTickGap = 6;   // pixels between the words of two ticks
constexpr double kFar = 22;      // pixels from which on a line leads from a point to its words
constexpr double kLabelled = 4;  // the radius of dots that words keep away from

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
  const double first = std::ceil(min / step), end = max + 1e-12 * std::abs(max);
  for (int i = 0; i < kMostTicks && (first + i) * step <= end; ++i) {
    ticks.push_back((first + i) * step);
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
  return axis.text ? axis.text(value) : fmt::format("{:.4g}", value);
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
    : title_(std::move(title)), x_(std::move(x)), y_(std::move(y)),
      space_({kLeft, kTop, kWidth - 2, kHeight - kBottom}) {}

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
  const double x = left(at.x), y = top(at.y);
  if (radius >= kLabelled) space_.block({x - radius, y - radius, x + radius, y + radius});
  body_ += fmt::format(
      "<circle class=\"dot {}\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{}\"><title>{}</title></circle>\n",
      style, x, y, radius, escape_markup(tooltip));
}

void Chart::cross(Point at, std::string_view style, const std::string& tooltip) {
  body_ += fmt::format(
      "<path class=\"cross {}\" d=\"M{:.1f},{:.1f}l6,6m0,-6l-6,6\"><title>{}</title></path>\n",
      style, left(at.x) - 3, top(at.y) - 3, escape_markup(tooltip));
}

bool Chart::label(Point at, const std::string& words, std::string_view style) {
  const auto place = space_.place(left(at.x), top(at.y), words);
  if (!place) return false;
  const double x = left(at.x), y = top(at.y), middle = place->y - 0.35 * kFontSize;
  if (std::hypot(place->x - x, middle - y) > kFar) {
    body_ += fmt::format(
        "<line class=\"leader\" x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\"/>\n", x, y,
        place->x, middle);
  }
  words_ +=
      fmt::format("<text class=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>\n",
                  style, place->x, place->y, place->anchor, escape_markup(words));
  return true;
}

std::string Chart::across() const {
  std::string out;
  const double bottom = kHeight - kBottom;
  double free_from = 0;  // left of it stand other ticks' words
  for (double tick : ticks_of(x_)) {
    const std::string words = tick_text(x_, tick);
    if (words.empty()) continue;
    const double half = text_width(words) / 2;
    const double middle = std::min(left(tick), kWidth - half);
    out +=
        fmt::format("<line class=\"grid\" x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"{1}\" y2=\"{2}\"/>\n",
                    left(tick), kTop, bottom);
    if (middle - half < free_from) continue;
    free_from = middle + half + kTickGap;
    out +=
        fmt::format("<text class=\"tick\" x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n",
                    middle, bottom + 20, escape_markup(words));
  }
  return out +
         fmt::format("<text class=\"axis\" x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n",
                     kWidth / 2, kHeight - 6, escape_markup(x_.label));
}

std::string Chart::upwards() const {
  std::string out;
  double free_to = kHeight;  // below it stand other ticks' words
  for (double tick : ticks_of(y_)) {
    const std::string words = tick_text(y_, tick);
    if (words.empty()) continue;
    const double base = top(tick) + 4;
    out +=
        fmt::format("<line class=\"grid\" x1=\"{0}\" x2=\"{1}\" y1=\"{2:.1f}\" y2=\"{2:.1f}\"/>\n",
                    kLeft, kWidth - kRight, top(tick));
    if (base > free_to) continue;
    free_to = base - 1.25 * kFontSize;
    out += fmt::format("<text class=\"tick\" x=\"{}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>\n",
                       kLeft - 6, base, escape_markup(words));
  }
  // Words that lie flat are read more easily than a turned title.
  return out +
         fmt::format("<text class=\"axis\" x=\"2\" y=\"13\">{}</text>\n", escape_markup(y_.label));
}

std::string Chart::svg() const {
  return fmt::format("<svg viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{}\">\n{}{}{}{}</svg>\n",
                     kWidth, kHeight, escape_markup(title_), across(), upwards(), body_, words_);
}

}  // namespace tilewright::cli
