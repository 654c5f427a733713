// Expressions of whole models: convolutions that no spec says, such as those with calculated weights.
#include <fmt/format.h>

#include "models/onnx/whole/index_expr.h"
#include "models/onnx/whole/whole.h"
#include "models/onnx/window.h"

namespace tilewright::onnx {
namespace {

Window window_between(const Node& node, const Sizes& x, const Sizes& w, bool transposed) {
  if (x.size() != w.size() || x.size() < 3) throw NotMapped("it takes no images");
  const auto window = window_of(node, Shape(x.begin() + 2, x.end()),
                                std::vector<int64_t>(w.begin() + 2, w.end()), transposed);
  if (!window) throw NotMapped("its window is not such as was expected");
  return *window;
}

std::string with_bias(IndexExpr& e, const Node& node, const std::string& sum) {
  if (!node.has_input(2)) return fmt::format("{} += {}", e.left(), sum);
  return fmt::format("{0} += {1}; {2} = {0} + {3}", e.left("S"), sum, e.left(),
                     e.at(node.inputs[2], {"i1"}));
}

std::string within(const std::string& text, int64_t size) {
  return fmt::format("{0} >= 0 && {0} < {1}", text, size);
}

Mapped express_conv(const Mapping& m, const Node& node) {
  const std::string &x = node.inputs.at(0), &w = node.inputs.at(1);
  const Sizes from = sizes_of_value(m, x), weight = sizes_of_value(m, w);
  const Window window = window_between(node, from, weight, false);
  IndexExpr e(m, node);
  const int64_t groups = node.integer("group", 1), own = weight[0] / groups;
  const std::string c = e.reduced(weight[1]);
  std::vector<std::string> at = {
      "i0", groups == 1 ? c : fmt::format("i1 // {} * {} + {}", own, weight[1], c)};
  std::vector<std::string> of = {"i1", c}, tests;
  for (size_t d = 0; d < window.rank(); ++d) {
    const std::string r = e.reduced(window.kernel[d]);
    at.push_back(fmt::format("{} * {} + {} * {} - {}", e.indices()[d + 2], window.stride[d], r,
                             window.dilation[d], window.before[d]));
    of.push_back(r);
    tests.push_back(within(at.back(), from[d + 2]));
  }
  const std::string term =
      fmt::format("select({}, {}, 0) * {}", fmt::join(tests, " && "), e.at(x, at), e.at(w, of));
  return {e.finish(with_bias(e, node, term))};
}

// Each output reads the elements whose windows cover it.
Mapped express_conv_transpose(const Mapping& m, const Node& node) {
  const std::string &x = node.inputs.at(0), &w = node.inputs.at(1);
  const Sizes from = sizes_of_value(m, x), weight = sizes_of_value(m, w);
  const Window window = window_between(node, from, weight, true);
  IndexExpr e(m, node);
  const int64_t groups = node.integer("group", 1), own = from[1] / groups;
  const std::string c = e.reduced(own);
  const std::string in = groups == 1 ? c : fmt::format("i1 // {} * {} + {}", weight[1], own, c);
  std::vector<std::string> at = {"i0", in};
  std::vector<std::string> of = {in, groups == 1 ? "i1" : fmt::format("i1 % {}", weight[1])}, tests;
  for (size_t d = 0; d < window.rank(); ++d) {
    const std::string r = e.reduced(window.kernel[d]);
    const std::string place = fmt::format("({} + {} - {} * {})", e.indices()[d + 2],
                                          window.before[d], r, window.dilation[d]);
    const int64_t stride = window.stride[d];
    at.push_back(stride == 1 ? place : fmt::format("{} // {}", place, stride));
    of.push_back(r);
    tests.push_back(fmt::format("{0} >= 0 && {0} < {1}", place, from[d + 2] * stride));
    if (stride > 1) tests.push_back(fmt::format("{} % {} == 0", place, stride));
  }
  const std::string term =
      fmt::format("select({}, {}, 0) * {}", fmt::join(tests, " && "), e.at(x, at), e.at(w, of));
  return {e.finish(with_bias(e, node, term))};
}

}  // namespace

const MapFns& whole_convolution_mappings() {
  static const MapFns kMappings = {{"Conv", express_conv},
                                   {"ConvTranspose", express_conv_transpose}};
  return kMappings;
}

}  // namespace tilewright::onnx
