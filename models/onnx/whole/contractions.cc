// Expressions of whole models: sums over indices that a text names, and spectra.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "models/onnx/einsum.h"
#include "models/onnx/whole/index_expr.h"
#include "models/onnx/whole/whole.h"

namespace tilewright::onnx {
namespace {

Mapped express_einsum(const Mapping& m, const Node& node) {
  std::vector<size_t> ranks;
  for (const std::string& input : node.inputs) ranks.push_back(m.shape(input).size());
  const auto sums = parse_einsum(node.text("equation", ""), ranks);
  if (!sums) throw NotMapped(fmt::format("its equation is '{}'", node.text("equation", "")));
  IndexExpr e(m, node);
  std::map<int, std::string> names;
  for (size_t d = 0; d < sums->output.size(); ++d) names[sums->output[d]] = e.indices().at(d);
  std::string product;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const Sizes sizes = sizes_of_value(m, node.inputs[i]);
    std::vector<std::string> at;
    for (size_t d = 0; d < sizes.size(); ++d) {
      const int index = sums->inputs[i][d];
      const auto known = names.find(index);
      if (known == names.end()) names[index] = e.reduced(sizes[d]);
      const auto place = std::ranges::find(sums->output, index) - sums->output.begin();
      const bool kept = place < static_cast<std::ptrdiff_t>(sums->output.size());
      const bool spread = kept && sizes[d] == 1 && e.sizes()[static_cast<size_t>(place)] != 1;
      at.push_back(spread ? "0" : names.at(index));
    }
    product += (i == 0 ? "" : " * ") + e.at(node.inputs[i], at);
  }
  const bool sum = names.size() > sums->output.size();
  return {e.finish(fmt::format("{} {} {}", e.left(), sum ? "+=" : "=", product))};
}

constexpr int64_t kMostWeights = int64_t{1} << 24;

// The weight of a sample's real part, or of its imaginary one, in the part of a frequency that the indices name: part,
// frequency, sample.
std::string wave(IndexExpr& e, int64_t bins, int64_t length, bool inverse, bool of_imaginary,
                 const std::vector<std::string>& at) {
  if (bins * length > kMostWeights) {
    throw NotMapped(fmt::format("it has {} samples and {} frequencies", length, bins));
  }
  const double scale = inverse ? 1.0 / static_cast<double>(length) : 1;
  std::vector<double> weights;
  for (int64_t part = 0; part < 2; ++part) {
    for (int64_t k = 0; k < bins; ++k) {
      for (int64_t n = 0; n < length; ++n) {
        const double turn = 2 * std::numbers::pi * static_cast<double>(k * n % length) /
                            static_cast<double>(length) * (inverse ? 1 : -1);
        const double c = std::cos(turn) * scale, s = std::sin(turn) * scale;
        if (of_imaginary) weights.push_back(part == 0 ? -s : c);
        if (!of_imaginary) weights.push_back(part == 0 ? c : s);
      }
    }
  }
  return e.constant(of_imaginary ? "imaginary" : "real", ElemType::f32, {2, bins, length}, weights,
                    at);
}

Mapped express_dft(const Mapping& m, const Node& node) {
  const std::string& x = node.inputs.at(0);
  const Sizes sizes = sizes_of_value(m, x);
  const bool by_input = m.graph.opset(node) >= 20;
  int64_t given = by_input ? -2 : node.integer("axis", 1);
  if (by_input && node.has_input(2)) given = known_numbers(m, node, "axis", 2)->at(0);
  const size_t axis = checked_axis(given, sizes.size());
  IndexExpr e(m, node);
  if (m.elem(x) != ElemType::f32) throw NotMapped("its samples are no f32");
  const bool inverse = node.integer("inverse", 0) != 0;
  if (sizes.back() > 2 || (inverse && node.integer("onesided", 0) != 0)) {
    throw NotMapped("it gives real samples");
  }
  const int64_t length =
      node.has_input(1) ? known_numbers(m, node, "dft_length", 1)->at(0) : sizes[axis];
  const std::string r = e.reduced(length);
  std::vector<std::string> at = e.indices();
  at[axis] = r;
  std::string sum;
  for (int64_t part = 0; part < sizes.back(); ++part) {
    at.back() = std::to_string(part);
    std::string own = e.at(x, at);
    if (length > sizes[axis]) own = fmt::format("select({} < {}, {}, 0)", r, sizes[axis], own);
    sum += fmt::format("{}{} * {}", part == 0 ? "" : " + ", own,
                       wave(e, e.sizes()[axis], length, inverse, part == 1,
                            {e.indices().back(), e.indices()[axis], r}));
  }
  return {e.finish(fmt::format("{} += {}", e.left(), sum))};
}

// Spectra of stretches of the signal, each times the window.
Mapped express_stft(const Mapping& m, const Node& node) {
  const std::string& x = node.inputs.at(0);
  const Sizes sizes = sizes_of_value(m, x);
  const auto step = known_numbers(m, node, "frame_step", 1);
  IndexExpr e(m, node);
  if (m.elem(x) != ElemType::f32) throw NotMapped("its samples are no f32");
  const int64_t length = node.has_input(3) ? known_numbers(m, node, "frame_length", 3)->at(0)
                                           : sizes_of_value(m, node.inputs.at(2)).at(0);
  const std::string r = e.reduced(length);
  std::string sum;
  for (int64_t part = 0; part < (sizes.size() == 3 ? sizes[2] : 1); ++part) {
    std::vector<std::string> at = {"i0", fmt::format("i1 * {} + {}", step->at(0), r)};
    if (sizes.size() == 3) at.push_back(std::to_string(part));
    std::string own = e.at(x, at);
    if (node.has_input(2)) own = fmt::format("{} * {}", e.at(node.inputs[2], {r}), own);
    sum += fmt::format("{}{} * {}", part == 0 ? "" : " + ", own,
                       wave(e, e.sizes()[2], length, false, part == 1, {"i3", "i2", r}));
  }
  return {e.finish(fmt::format("{} += {}", e.left(), sum))};
}

}  // namespace

const MapFns& whole_contraction_mappings() {
  static const MapFns kMappings = {
      {"Einsum", express_einsum}, {"DFT", express_dft}, {"STFT", express_stft}};
  return kMappings;
}

}  // namespace tilewright::onnx
