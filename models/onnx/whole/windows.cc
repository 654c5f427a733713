// Expressions of whole models: padding, pools, resizing, transposed convolutions.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "models/onnx/whole/index_expr.h"
#include "models/onnx/whole/whole.h"
#include "models/onnx/window.h"

namespace tilewright::onnx {
namespace {

// "i - 2", "i".
std::string back(const std::string& index, int64_t by) {
  if (by == 0) return index;
  return by > 0 ? fmt::format("{} - {}", index, by) : fmt::format("{} + {}", index, -by);
}

// Whether an index, which is that of the padded axis, lies behind the padding in front and before that
// behind; "" where no padding is.
std::string inside(const std::string& index, int64_t front, int64_t size, int64_t behind) {
  std::string test;
  if (front > 0) test = fmt::format("{} >= {}", index, front);
  if (behind > 0) {
    test += fmt::format("{}{} < {}", test.empty() ? "" : " && ", index, front + size);
  }
  return test;
}

std::string joined(const std::vector<std::string>& tests) {
  std::string all;
  for (const std::string& t : tests) {
    if (!t.empty()) all += (all.empty() ? "" : " && ") + t;
  }
  return all;
}

std::string chosen(const std::string& test, const std::string& yes, const std::string& no) {
  return test.empty() ? yes : fmt::format("select({}, {}, {})", test, yes, no);
}

// The element of a tensor that is mirrored or repeated at its ends, axis by axis from `d` on.
std::string mirrored(IndexExpr& e, const std::string& x, const Sizes& sizes, const Sizes& front,
                     const Sizes& behind, bool repeat, size_t d, std::vector<std::string> at) {
  if (d == sizes.size()) return e.at(x, at);
  const std::string i = e.indices()[d];
  auto rest = [&](const std::string& index) {
    at[d] = index;
    return mirrored(e, x, sizes, front, behind, repeat, d + 1, at);
  };
  const int64_t size = sizes[d];
  if (front[d] >= size || behind[d] >= size) throw NotMapped("it pads by more than there is");
  std::string text = rest(back(i, front[d]));
  if (behind[d] > 0) {
    const std::string last =
        repeat ? std::to_string(size - 1) : fmt::format("{} - {}", 2 * (size - 1) + front[d], i);
    text = fmt::format("select({} < {}, {}, {})", i, front[d] + size, text, rest(last));
  }
  if (front[d] > 0) {
    const std::string first = repeat ? "0" : fmt::format("{} - {}", front[d], i);
    text = fmt::format("select({} < {}, {}, {})", i, front[d], rest(first), text);
  }
  return text;
}

Mapped express_pad(const Mapping& m, const Node& node) {
  IndexExpr e(m, node);
  const std::string& x = node.inputs.at(0);
  const Sizes sizes = sizes_of_value(m, x);
  auto given = known_numbers(m, node, "pads", 1);
  auto axes = known_numbers(m, node, "axes", 3);
  Sizes front(sizes.size(), 0), behind = front;
  const size_t count = axes ? axes->size() : sizes.size();
  if (!given || given->size() != 2 * count) throw NotMapped("its pads are not known");
  for (size_t i = 0; i < count; ++i) {
    const size_t d = checked_axis(axes ? (*axes)[i] : static_cast<int64_t>(i), sizes.size());
    front[d] = (*given)[i];
    behind[d] = (*given)[count + i];
  }
  const std::string mode = node.text("mode", "constant");
  if (mode == "reflect" || mode == "edge") {
    const std::string text = mirrored(e, x, sizes, front, behind, mode == "edge", 0, e.indices());
    return {e.finish(fmt::format("{} = {}", e.left(), text))};
  }
  if (mode != "constant") throw NotMapped(fmt::format("its mode is {}", mode));
  std::string value = "0";
  if (const Attribute* own = node.find("value")) value = literal(own->f);
  if (node.has_input(2)) {
    auto number = m.input(node, 2).scalar();
    if (!number) throw NotMapped("its value is calculated");
    value = literal(std::isinf(*number) ? std::copysign(3.4028234e38, *number) : *number);
  }
  return {zero_padded(m, node, x, front, behind, value, node.outputs.at(0))};
}

// The element at these indices of the tensor with padding around it, axis by axis; `value` in the padding.
std::string padded_element(IndexExpr& e, const std::string& x, const Sizes& sizes,
                           const std::vector<std::string>& indices, const Sizes& front,
                           const Sizes& behind, const std::string& value) {
  std::vector<std::string> at, tests;
  for (size_t d = 0; d < sizes.size(); ++d) {
    at.push_back(back(indices[d], front[d]));
    tests.push_back(inside(indices[d], front[d], sizes[d], behind[d]));
  }
  return chosen(joined(tests), e.at(x, at), value);
}

struct Pool {
  Window window;
  Sizes sizes;  // of the input, the window's axes
};

// The element under the window. A padded input is a stage of its own, as for convolutions, so that kernels need
// no condition for each element and place of the window: `stage` is its statement, or "".
struct Under {
  std::string element, stage;
};

Under under(IndexExpr& e, const std::string& x, ElemType type, const Pool& p,
            const std::string& padding) {
  std::vector<std::string> at = {e.indices()[0], e.indices()[1]}, inner = at;
  Sizes sizes = {e.sizes()[0], e.sizes()[1]}, front = {0, 0}, behind = front;
  bool pads = false;
  for (size_t d = 0; d < p.window.rank(); ++d) {
    const std::string r = e.reduced(p.window.kernel[d]);
    const std::string& i = e.indices()[d + 2];
    std::string place = p.window.stride[d] == 1 ? i : fmt::format("{} * {}", i, p.window.stride[d]);
    place += p.window.dilation[d] == 1 ? fmt::format(" + {}", r)
                                       : fmt::format(" + {} * {}", r, p.window.dilation[d]);
    at.push_back(place);
    const int64_t most = (e.sizes()[d + 2] - 1) * p.window.stride[d] +
                         (p.window.kernel[d] - 1) * p.window.dilation[d];
    sizes.push_back(p.sizes[d]);
    front.push_back(p.window.before[d]);
    behind.push_back(most + 1 - front.back() - sizes.back());
    pads |= front.back() > 0 || behind.back() > 0;
  }
  if (!pads) return {e.at(x, at), ""};
  for (size_t d = 2; d < sizes.size(); ++d) {
    inner.push_back(e.reduced(front[d] + sizes[d] + behind[d]));
  }
  e.give_type("P", type);
  return {fmt::format("P[{}]", fmt::join(at, ", ")),
          fmt::format("P[{}] = {}; ", fmt::join(inner, ", "),
                      padded_element(e, x, sizes, inner, front, behind, padding))};
}

// How many elements of the input, or of the padded one, lie under the window at each place of an axis.
std::vector<double> counts(const Pool& p, size_t d, int64_t outputs, bool padded) {
  std::vector<double> all;
  const int64_t first = padded ? -p.window.before[d] : 0;
  const int64_t end = p.sizes[d] + (padded ? p.window.after[d] : 0);
  for (int64_t i = 0; i < outputs; ++i) {
    int64_t count = 0;
    for (int64_t r = 0; r < p.window.kernel[d]; ++r) {
      const int64_t at = i * p.window.stride[d] + r * p.window.dilation[d] - p.window.before[d];
      count += at >= first && at < end ? 1 : 0;
    }
    all.push_back(static_cast<double>(count));
  }
  return all;
}

Mapped express_pool(const Mapping& m, const Node& node) {
  const Sizes all = sizes_of_value(m, node.inputs.at(0));
  if (all.size() < 3) throw NotMapped("it takes no images");
  if (node.outputs.size() > 1 && !node.outputs[1].empty()) {
    throw NotMapped("it gives the places of its maxima");
  }
  Pool p;
  p.sizes = Sizes(all.begin() + 2, all.end());
  auto window = window_of(node, Shape(p.sizes.begin(), p.sizes.end()), std::nullopt);
  if (!window) throw NotMapped("its window is not such as was expected");
  p.window = *window;
  IndexExpr e(m, node);
  const ElemType elem = m.elem(node.inputs[0]);
  const bool maximum = node.op == "MaxPool", norm = node.op == "LpPool";
  const bool least_is_zero = !maximum || elem == ElemType::u8;
  const std::string padding = least_is_zero ? "0" : is_float(elem) ? "(-3.4028234e38)" : "(-128)";
  const auto [x, stage] = under(e, node.inputs[0], elem, p, padding);
  if (maximum) return {e.finish(fmt::format("{}{} max= {}", stage, e.left(), x))};
  if (norm) {
    const int64_t power = node.integer("p", 2);
    if (power != 1 && power != 2) throw NotMapped(fmt::format("its p is {}", power));
    if (power == 1) return {e.finish(fmt::format("{}{} += abs({})", stage, e.left(), x))};
    return {e.finish(
        fmt::format("{0}{1} += {2} * {2}; {3} = sqrt({1})", stage, e.left("S"), x, e.left()))};
  }
  const bool padded = node.integer("count_include_pad", 0) != 0;
  double same = 1;
  std::string divisor;
  for (size_t d = 0; d < p.window.rank(); ++d) {
    const std::vector<double> own = counts(p, d, e.sizes()[d + 2], padded);
    if (std::all_of(own.begin(), own.end(), [&](double c) { return c == own[0]; })) {
      same *= own[0];
    } else {
      divisor += " / " + e.table(fmt::format("count{}", d), ElemType::f32, own, e.indices()[d + 2]);
    }
  }
  if (same != 1) divisor += " / " + literal(same);
  return {e.finish(
      fmt::format("{}{} += {}; {} = {}{}", stage, e.left("S"), x, e.left(), e.left("S"), divisor))};
}

// The place of the input that an element of a resized axis comes from.
double source_place(const std::string& rule, int64_t i, double scale, int64_t size, int64_t out) {
  const auto x = static_cast<double>(i);
  if (rule == "asymmetric") return x / scale;
  if (rule == "align_corners") {
    // The size that the scale gives, before it is rounded down.
    const double larger = scale * static_cast<double>(size);
    return out > 1 ? x * static_cast<double>(size - 1) / (larger - 1) : 0;
  }
  if (rule == "pytorch_half_pixel" && out == 1) return 0;
  if (rule == "half_pixel" || rule == "pytorch_half_pixel") return (x + 0.5) / scale - 0.5;
  throw NotMapped(fmt::format("its places are chosen by {}", rule));
}

int64_t nearest(double place, const std::string& mode) {
  if (mode == "floor") return static_cast<int64_t>(std::floor(place));
  if (mode == "ceil") return static_cast<int64_t>(std::ceil(place));
  if (mode == "round_prefer_ceil") return static_cast<int64_t>(std::floor(place + 0.5));
  return static_cast<int64_t>(std::ceil(place - 0.5));
}

Mapped express_resize(const Mapping& m, const Node& node) {
  IndexExpr e(m, node);
  const std::string& x = node.inputs.at(0);
  const Sizes sizes = sizes_of_value(m, x);
  const bool upsample = node.op == "Upsample" || m.graph.opset(node) < 11;
  const std::string mode = node.text("mode", "nearest");
  const std::string rule =
      node.text("coordinate_transformation_mode", upsample ? "asymmetric" : "half_pixel");
  const std::string rounding = node.text("nearest_mode", upsample ? "floor" : "round_prefer_floor");
  if (mode != "nearest" && mode != "linear") throw NotMapped(fmt::format("its mode is {}", mode));
  if (node.integer("antialias", 0) != 0) throw NotMapped("it filters");
  if (node.find("axes") != nullptr) throw NotMapped("it names axes");
  const Tensor* scales = upsample ? m.input(node, 1).tensor : m.input(node, 2).tensor;
  if (scales == nullptr && !node.has_input(3) && !node.find("scales")) {
    throw NotMapped("its scales are calculated");
  }
  // Pairs of an index and a weight per axis; one for an axis that is copied or nearest.
  std::vector<std::vector<std::pair<std::string, std::string>>> terms(sizes.size());
  for (size_t d = 0; d < sizes.size(); ++d) {
    const int64_t in = sizes[d], out = e.sizes()[d];
    const bool given = scales != nullptr && scales->readable() &&
                       scales->count == static_cast<int64_t>(sizes.size());
    const double scale = given ? scales->at(static_cast<int64_t>(d))
                               : static_cast<double>(out) / static_cast<double>(in);
    if (in == out && scale == 1) {
      terms[d] = {{e.indices()[d], ""}};
      continue;
    }
    std::vector<double> low, high, part;
    bool repeats = true;
    for (int64_t i = 0; i < out; ++i) {
      const double place = source_place(rule, i, scale, in, out);
      const double limit = static_cast<double>(in - 1);
      if (mode == "nearest") {
        low.push_back(std::clamp(static_cast<double>(nearest(place, rounding)), 0.0, limit));
        const int64_t repeated = out % in == 0 ? i / (out / in) : -1;
        repeats = repeats && low.back() == static_cast<double>(repeated);
      } else {
        const double inside_place = std::clamp(place, 0.0, limit);
        low.push_back(std::floor(inside_place));
        high.push_back(std::min(low.back() + 1, limit));
        part.push_back(inside_place - low.back());
      }
    }
    const std::string& i = e.indices()[d];
    if (mode == "nearest") {
      terms[d] = {{repeats ? fmt::format("{} // {}", i, out / in)
                           : e.table(fmt::format("from{}", d), ElemType::i32, low, i),
                   ""}};
    } else {
      const std::string share = e.table(fmt::format("share{}", d), ElemType::f32, part, i);
      terms[d] = {
          {e.table(fmt::format("low{}", d), ElemType::i32, low, i), fmt::format("(1 - {})", share)},
          {e.table(fmt::format("high{}", d), ElemType::i32, high, i), share}};
    }
  }
  std::vector<std::pair<std::vector<std::string>, std::string>> parts = {{{}, ""}};
  for (const auto& axis : terms) {
    std::vector<std::pair<std::vector<std::string>, std::string>> longer;
    for (const auto& [indices, weight] : parts) {
      for (const auto& [index, share] : axis) {
        longer.emplace_back(indices,
                            share.empty() ? weight : fmt::format("{} * {}", weight, share));
        longer.back().first.push_back(index);
      }
    }
    parts = std::move(longer);
  }
  if (parts.size() > 8) throw NotMapped("it resizes more than three axes linearly");
  std::string text;
  for (const auto& [indices, weight] : parts) {
    text += (text.empty() ? "" : " + ") + e.at(x, indices) + weight;
  }
  return {e.finish(fmt::format("{} = {}", e.left(), text))};
}

}  // namespace

Draft zero_padded(const Mapping& m, const Node& node, const std::string& x,
                  const std::vector<int64_t>& front, const std::vector<int64_t>& behind,
                  const std::string& value, const std::string& output) {
  const Sizes sizes = sizes_of_value(m, x);
  Sizes larger = sizes;
  for (size_t d = 0; d < sizes.size(); ++d) larger[d] += front[d] + behind[d];
  IndexExpr e(m, node, output, larger, m.elem(x));
  for (int64_t size : larger) {
    if (size < 1) throw NotMapped("nothing remains");
  }
  return e.finish(fmt::format("{} = {}", e.left(),
                              padded_element(e, x, sizes, e.indices(), front, behind, value)));
}

Draft reordered(const Mapping& m, const Node& node, const std::string& x, const Sizes& sizes,
                ElemType type, const std::vector<size_t>& order, const std::string& output) {
  Sizes out;
  for (size_t axis : order) out.push_back(sizes.at(axis));
  IndexExpr e(m, node, output, out, type);
  std::vector<std::string> at(sizes.size());
  for (size_t d = 0; d < order.size(); ++d) at[order[d]] = e.indices()[d];
  return e.finish(fmt::format("{} = {}", e.left(), e.made_at(x, sizes, type, at)));
}

const MapFns& whole_window_mappings() {
  static const MapFns kMappings = {{"Pad", express_pad},          {"MaxPool", express_pool},
                                   {"AveragePool", express_pool}, {"LpPool", express_pool},
                                   {"Resize", express_resize},    {"Upsample", express_resize}};
  return kMappings;
}

const MapFns& whole_mappings() {
  static const MapFns kMappings = [] {
    MapFns all;
    for (const MapFns* part :
         {&whole_element_mappings(), &whole_move_mappings(), &whole_row_mappings(),
          &whole_window_mappings(), &whole_product_mappings(), &whole_recurrent_mappings(),
          &whole_quantized_mappings(), &whole_code_mappings(), &whole_attention_mappings(),
          &whole_function_mappings(), &whole_contraction_mappings(), &whole_sampling_mappings(),
          &whole_normalization_mappings(), &whole_convolution_mappings(),
          &whole_control_mappings()}) {
      all.insert(part->begin(), part->end());
    }
    return all;
  }();
  return kMappings;
}

}  // namespace tilewright::onnx
