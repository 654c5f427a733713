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
  if (mode == "wrap") {
    std::vector<std::string> at = e.indices();
    for (size_t d = 0; d < sizes.size(); ++d) {
      if (front[d] == 0 && behind[d] == 0) continue;
      const int64_t turns = (std::max<int64_t>(front[d], 0) + sizes[d] - 1) / sizes[d];
      at[d] = fmt::format("({} + {}) % {}", at[d], turns * sizes[d] - front[d], sizes[d]);
    }
    return {e.finish(fmt::format("{} = {}", e.left(), e.at(x, at)))};
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

// The place of each maximum, the first one of several: its number among all elements of the input.
Draft places_of_maxima(const Mapping& m, const Node& node, const Sizes& sizes, const Pool& p,
                       const std::string& padding) {
  IndexExpr e(m, node, 1);
  e.accumulate(ElemType::f64);
  const auto [x, stage] = under(e, node.inputs[0], m.elem(node.inputs[0]), p, padding);
  std::string place = fmt::format("i0 * {} + i1", sizes[1]), inner;
  const size_t rank = p.window.rank();
  const bool columns_first = node.integer("storage_order", 0) != 0;
  for (size_t n = 0; n < rank; ++n) {
    const size_t d = columns_first ? rank - 1 - n : n;
    inner = fmt::format("({} * {} + r{} * {} - {})", e.indices()[d + 2], p.window.stride[d], d,
                        p.window.dilation[d], p.window.before[d]);
    place = fmt::format("({}) * {} + {}", place, p.sizes[d], inner);
  }
  const std::string most = e.left("M");
  return e.finish(fmt::format("{0}{1} max= {2}; {3} min= select({2} == {1}, {4}, {5})", stage, most,
                              x, e.left(), place, int64_t{1} << 52));
}

Mapped express_pool(const Mapping& m, const Node& node) {
  const Sizes all = sizes_of_value(m, node.inputs.at(0));
  if (all.size() < 3) throw NotMapped("it takes no images");
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
  if (maximum) {
    Mapped drafts = {e.finish(fmt::format("{}{} max= {}", stage, e.left(), x))};
    if (node.outputs.size() > 1 && !node.outputs[1].empty()) {
      drafts.push_back(places_of_maxima(m, node, all, p, padding));
    }
    return drafts;
  }
  if (norm) {
    const int64_t power = node.integer("p", 2);
    if (power < 1 || power > 16) throw NotMapped(fmt::format("its p is {}", power));
    if (power > 2) {
      std::string term = fmt::format("abs({})", x);
      for (int64_t n = 1; n < power; ++n) term += fmt::format(" * abs({})", x);
      return {e.finish(fmt::format("{0}{1} += {2}; {3} = select({1} > 0, exp(log({1}) / {4}), 0)",
                                   stage, e.left("S"), term, e.left(), power))};
    }
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

// Each element at the place that its number says, among zeros.
Mapped express_unpool(const Mapping& m, const Node& node) {
  IndexExpr e(m, node);
  e.accumulate(ElemType::f64);
  const Sizes sizes = sizes_of_value(m, node.inputs.at(0));
  const auto window = window_of(node, Shape(sizes.begin() + 2, sizes.end()), std::nullopt);
  if (!window) throw NotMapped("its window is not such as was expected");
  std::vector<std::string> at = {"i0", "i1"}, tests;
  std::string place = fmt::format("i0 * {} + i1", sizes[1]);
  for (size_t d = 0; d < window->rank(); ++d) {
    // Numbers are those of the tensor that was pooled, even where the output has another shape.
    const int64_t pooled = window->pooled_from(d, sizes[d + 2]);
    at.push_back(e.reduced(sizes[d + 2]));
    place = fmt::format("({}) * {} + {}", place, pooled, e.indices()[d + 2]);
    if (e.sizes()[d + 2] > pooled)
      tests.push_back(fmt::format("{} < {}", e.indices()[d + 2], pooled));
  }
  tests.push_back(fmt::format("{} == {}", e.at(node.inputs.at(1), at), place));
  return {e.finish(fmt::format("{} += select({}, {}, 0)", e.left(), fmt::join(tests, " && "),
                               e.at(node.inputs[0], at)))};
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
  static const MapFns kMappings = {{"Pad", express_pad},
                                   {"MaxPool", express_pool},
                                   {"AveragePool", express_pool},
                                   {"LpPool", express_pool},
                                   {"MaxUnpool", express_unpool}};
  return kMappings;
}

const MapFns& whole_mappings() {
  static const MapFns kMappings = [] {
    MapFns all;
    for (const MapFns* part : {&whole_element_mappings(),       &whole_move_mappings(),
                               &whole_row_mappings(),           &whole_window_mappings(),
                               &whole_product_mappings(),       &whole_recurrent_mappings(),
                               &whole_quantized_mappings(),     &whole_code_mappings(),
                               &whole_attention_mappings(),     &whole_function_mappings(),
                               &whole_contraction_mappings(),   &whole_sampling_mappings(),
                               &whole_normalization_mappings(), &whole_convolution_mappings(),
                               &whole_control_mappings(),       &whole_group_weight_mappings(),
                               &whole_contrib_mappings(),       &whole_contrib_attention_mappings(),
                               &whole_resize_mappings(),        &whole_bit_mappings(),
                               &whole_grid_mappings(),          &whole_plain_mappings()}) {
      all.insert(part->begin(), part->end());
    }
    return all;
  }();
  return kMappings;
}

}  // namespace tilewright::onnx
