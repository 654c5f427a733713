// Expressions of whole models: resized maps. Which elements an element comes from, and their shares, are tables.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "models/onnx/step.h"
#include "models/onnx/whole/index_expr.h"
#include "models/onnx/whole/whole.h"

namespace tilewright::onnx {
namespace {

// How a node resizes.
struct Rules {
  std::string mode, places, rounding;
  double cubic = -0.75;
  bool filters = false;         // what shrinks takes all elements in reach
  bool leaves_outside = false;  // those outside have no share
  double beyond = 0;            // the value of places outside of what is cropped
};

struct Axis {
  int64_t in = 1, out = 1;
  double scale = 1;
  double from = 0, to = 1;  // what is cropped
};

// The elements that each element comes from, `count` for each, and their shares.
struct Taps {
  int64_t count = 1;
  std::vector<double> index, share;
  std::vector<double> inside;  // 0 where the place is outside; "" for none
};

// The place of the input that an element comes from.
double source_place(const Rules& rules, const Axis& a, int64_t i) {
  const auto x = static_cast<double>(i), last = static_cast<double>(a.in - 1);
  const double larger = a.scale * static_cast<double>(a.in);  // before it is rounded down
  const std::string& rule = rules.places;
  if (rule == "asymmetric") return x / a.scale;
  if (rule == "align_corners") return a.out > 1 ? x * last / (larger - 1) : 0;
  if (rule == "pytorch_half_pixel" && a.out == 1) return 0;
  if (rule == "half_pixel" || rule == "pytorch_half_pixel") return (x + 0.5) / a.scale - 0.5;
  if (rule == "half_pixel_symmetric") {
    const double lost = 1 - static_cast<double>(a.out) / larger;
    return static_cast<double>(a.in) / 2 * lost + (x + 0.5) / a.scale - 0.5;
  }
  if (rule == "tf_crop_and_resize") {
    const double span = (a.to - a.from) * last;
    return a.from * last + (a.out > 1 ? x * span / static_cast<double>(a.out - 1) : span / 2);
  }
  throw NotMapped(fmt::format("its places are chosen by {}", rule));
}

double nearest(double place, const std::string& mode) {
  if (mode == "floor") return std::floor(place);
  if (mode == "ceil") return std::ceil(place);
  if (mode == "round_prefer_ceil") return std::floor(place + 0.5);
  return std::ceil(place - 0.5);
}

// The share of an element so far from a place, which is measured in elements of the smaller map.
double kernel(const Rules& rules, double distance) {
  const double x = std::abs(distance), a = rules.cubic;
  if (rules.mode == "linear") return std::max(0.0, 1 - x);
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
}

// The elements around each place by a kernel, with shares that sum to 1.
Taps filtered(const Rules& rules, const Axis& a) {
  const double reach = rules.mode == "linear" ? 1 : 2;
  const double narrow = rules.filters ? std::min(a.scale, 1.0) : 1;
  const auto first = static_cast<int64_t>(std::floor(-reach / narrow) + 1);
  Taps taps;
  taps.count = 2 - 2 * first;
  constexpr int64_t kMostTaps = 256;
  if (taps.count > kMostTaps) throw NotMapped("it takes more than 256 elements for one");
  for (int64_t i = 0; i < a.out; ++i) {
    const double place = source_place(rules, a, i), before = std::ceil(place) - 1;
    std::vector<double> shares;
    double sum = 0;
    for (int64_t t = 0; t < taps.count; ++t) {
      const double at = before + static_cast<double>(first + t);
      const bool outside = at < 0 || at > static_cast<double>(a.in - 1);
      shares.push_back(rules.leaves_outside && outside ? 0 : kernel(rules, (at - place) * narrow));
      sum += shares.back();
      taps.index.push_back(std::clamp(at, 0.0, static_cast<double>(a.in - 1)));
    }
    for (double share : shares) taps.share.push_back(share / sum);
  }
  return taps;
}

Taps taps_of(const Rules& rules, const Axis& a) {
  Taps taps;
  const auto last = static_cast<double>(a.in - 1);
  if (rules.mode == "cubic" || (rules.mode == "linear" && rules.filters && a.scale < 1)) {
    taps = filtered(rules, a);
  } else {
    taps.count = rules.mode == "nearest" ? 1 : 2;
    for (int64_t i = 0; i < a.out; ++i) {
      const double place = std::clamp(source_place(rules, a, i), 0.0, last);
      if (rules.mode == "nearest") {
        const double own = nearest(source_place(rules, a, i), rules.rounding);
        taps.index.push_back(std::clamp(own, 0.0, last));
        continue;
      }
      const double low = std::floor(place), share = place - low;
      taps.index.insert(taps.index.end(), {low, std::min(low + 1, last)});
      taps.share.insert(taps.share.end(), {1 - share, share});
    }
  }
  if (rules.places != "tf_crop_and_resize") return taps;
  for (int64_t i = 0; i < a.out; ++i) {
    const double place = source_place(rules, a, i);
    taps.inside.push_back(place < 0 || place > last ? 0 : 1);
  }
  return taps;
}

Rules rules_of(const Node& node, bool old) {
  Rules rules;
  rules.mode = node.text("mode", "nearest");
  rules.places = node.text("coordinate_transformation_mode", old ? "asymmetric" : "half_pixel");
  rules.rounding = node.text("nearest_mode", old ? "floor" : "round_prefer_floor");
  rules.cubic = node.real("cubic_coeff_a", -0.75);
  rules.filters = node.integer("antialias", 0) != 0;
  rules.leaves_outside = node.integer("exclude_outside", 0) != 0;
  rules.beyond = node.real("extrapolation_value", 0);
  if (rules.mode != "nearest" && rules.mode != "linear" && rules.mode != "cubic") {
    throw NotMapped(fmt::format("its mode is {}", rules.mode));
  }
  return rules;
}

// The scale of each axis that the node resizes.
std::vector<Axis> axes_of(const Mapping& m, const Node& node, const Sizes& sizes, const Sizes& outs,
                          bool old) {
  std::vector<Axis> all(sizes.size());
  std::vector<size_t> named;
  if (const auto given = node.integers("axes")) {
    for (int64_t axis : *given) named.push_back(checked_axis(axis, sizes.size()));
  } else {
    for (size_t d = 0; d < sizes.size(); ++d) named.push_back(d);
  }
  const Tensor* scales = m.input(node, old ? 1 : 2).tensor;
  if (scales == nullptr && !node.has_input(3) && !node.find("scales")) {
    throw NotMapped("its scales are calculated");
  }
  const bool given = scales != nullptr && scales->readable() &&
                     scales->count == static_cast<int64_t>(named.size());
  const std::string policy = node.text("keep_aspect_ratio_policy", "stretch");
  const auto wanted = policy == "stretch" ? std::nullopt : known_numbers(m, node, "sizes", 3);
  std::optional<double> common;
  for (size_t i = 0; wanted && i < named.size(); ++i) {
    const double own = double(wanted->at(i)) / double(sizes[named[i]]);
    if (!common) common = own;
    common = policy == "not_larger" ? std::min(*common, own) : std::max(*common, own);
  }
  const bool crops = node.text("coordinate_transformation_mode", "") == "tf_crop_and_resize";
  const Tensor* cropped = m.input(node, 1).tensor;
  if (crops && (cropped == nullptr || !cropped->readable() ||
                cropped->count != static_cast<int64_t>(2 * named.size()))) {
    throw NotMapped("its region of interest is calculated; expected a constant");
  }
  for (size_t d = 0; d < sizes.size(); ++d) {
    all[d] = {sizes[d], outs[d], static_cast<double>(outs[d]) / static_cast<double>(sizes[d])};
  }
  for (size_t i = 0; i < named.size(); ++i) {
    Axis& axis = all[named[i]];
    const auto place = static_cast<int64_t>(i), count = static_cast<int64_t>(named.size());
    if (given) axis.scale = scales->at(place);
    if (common) axis.scale = *common;
    if (crops) axis.from = cropped->at(place);
    if (crops) axis.to = cropped->at(place + count);
  }
  return all;
}

// Whether each element of the input stands a whole number of times.
bool repeats(const Taps& taps, const Axis& a) {
  if (a.out % a.in != 0 || taps.count != 1 || !taps.inside.empty()) return false;
  for (int64_t i = 0; i < a.out; ++i) {
    const int64_t whole = i / (a.out / a.in);
    if (taps.index[static_cast<size_t>(i)] != static_cast<double>(whole)) return false;
  }
  return true;
}

constexpr int64_t kMostTerms = 8;  // that are written side by side; more are a sum

Mapped express_resize(const Mapping& m, const Node& node) {
  IndexExpr e(m, node);
  const std::string& x = node.inputs.at(0);
  const Sizes sizes = sizes_of_value(m, x);
  const bool old = node.op == "Upsample" || m.graph.opset(node) < 11;
  const Rules rules = rules_of(node, old);
  const std::vector<Axis> axes = axes_of(m, node, sizes, e.sizes(), old);
  std::vector<Taps> taps(sizes.size());
  int64_t terms = 1;
  for (size_t d = 0; d < sizes.size(); ++d) {
    const Axis& a = axes[d];
    if (a.in == a.out && a.scale == 1 && a.from == 0 && a.to == 1) continue;
    taps[d] = taps_of(rules, a);
    terms *= taps[d].count;
  }
  const bool sums = terms > kMostTerms;
  // Indices and shares, one set for each term that is written.
  std::vector<std::pair<std::vector<std::string>, std::string>> parts = {{{}, ""}};
  std::vector<std::string> tests;
  for (size_t d = 0; d < sizes.size(); ++d) {
    const std::string& i = e.indices()[d];
    const Taps& t = taps[d];
    const Sizes table = {axes[d].out, t.count};
    std::vector<std::string> which = {"0"};
    if (sums && t.count > 1) which = {e.reduced(t.count)};
    for (int64_t n = 1; !sums && n < t.count; ++n) which.push_back(std::to_string(n));
    std::vector<std::pair<std::vector<std::string>, std::string>> longer;
    for (const auto& part : parts) {
      for (const std::string& n : which) {
        auto next = part;
        if (t.index.empty()) {
          next.first.push_back(i);
        } else if (repeats(t, axes[d])) {
          next.first.push_back(fmt::format("{} // {}", i, axes[d].out / axes[d].in));
        } else {
          next.first.push_back(
              e.constant(fmt::format("from{}", d), ElemType::i32, table, t.index, {i, n}));
        }
        if (!t.share.empty()) {
          next.second +=
              " * " + e.constant(fmt::format("share{}", d), ElemType::f32, table, t.share, {i, n});
        }
        longer.push_back(std::move(next));
      }
    }
    parts = std::move(longer);
    if (std::ranges::count(t.inside, 0) > 0) {
      tests.push_back(e.table(fmt::format("inside{}", d), ElemType::f32, t.inside, i) + " > 0");
    }
  }
  std::string text;
  for (const auto& [indices, share] : parts) {
    text += (text.empty() ? "" : " + ") + e.at(x, indices) + share;
  }
  const auto within = [&](const std::string& value) {
    if (tests.empty()) return value;
    return fmt::format("select({}, {}, {})", fmt::join(tests, " && "), value,
                       literal(rules.beyond));
  };
  if (!sums) return {e.finish(fmt::format("{} = {}", e.left(), within(text)))};
  return {
      e.finish(fmt::format("{} += {}; {} = {}", e.left("S"), text, e.left(), within(e.left("S"))))};
}

}  // namespace

const MapFns& whole_resize_mappings() {
  static const MapFns kMappings = {{"Resize", express_resize}, {"Upsample", express_resize}};
  return kMappings;
}

}  // namespace tilewright::onnx
