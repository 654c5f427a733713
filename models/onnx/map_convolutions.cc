// Convolutions.
#include <fmt/format.h>

#include <algorithm>

#include "models/onnx/mapping.h"
#include "models/onnx/whole/index_expr.h"
#include "models/onnx/whole/whole.h"
#include "models/onnx/window.h"

namespace tilewright::onnx {
namespace {

constexpr int64_t kMostChannels = int64_t{1} << 24;
constexpr const char* kSizes[] = {"", "l", "hw", "dhw"};

// The geometry of one convolution.
struct Geometry {
  Shape sizes;  // of the input, between channels and batch
  Window window;
  Extent batch = 1;
  int64_t channels_in = 0, channels_out = 0, groups = 1;
  std::vector<int64_t> front, behind;  // zeros that a larger input has, by axis of X
  std::string note;
};

std::vector<int64_t> kernel_of(const Mapping& m, const Shape& weight) {
  std::vector<int64_t> kernel;
  for (size_t d = 2; d < weight.size(); ++d) {
    kernel.push_back(m.fixed_size(weight[d], "the sizes of the kernel"));
  }
  return kernel;
}

void add_note(std::string* note, const std::string& more) {
  *note += (note->empty() ? "" : "; ") + more;
}

// Padding on one side only is done before: a larger input with less padding.
void even_out(const Mapping& m, Geometry* g) {
  g->front.assign(g->sizes.size() + 2, 0);
  g->behind = g->front;
  for (size_t d = 0; d < g->window.rank(); ++d) {
    int64_t &before = g->window.before[d], &after = g->window.after[d];
    if (before == after) continue;
    auto size = m.extents().plus(g->sizes[d], std::max(before, after) - std::min(before, after));
    if (!size) throw NotMapped("a padded size overflows");
    add_note(&g->note, fmt::format("X has {} zeros {} along axis {}", std::abs(after - before),
                                   after > before ? "behind" : "in front", d + 2));
    g->sizes[d] = *size;
    (after > before ? g->behind : g->front)[d + 2] = std::abs(after - before);
    before = after = std::min(before, after);
  }
}

Geometry geometry_of(const Mapping& m, const Node& node, const std::string& x, const std::string& w,
                     bool transposed) {
  const Shape &input = m.shape(x), &weight = m.shape(w);
  if (input.size() != weight.size() || input.size() < 3 || input.size() > 5) {
    throw NotMapped(fmt::format("X has {} axes and W has {}; expected 3 to 5 of both", input.size(),
                                weight.size()));
  }
  Geometry g;
  g.batch = input[0];
  g.sizes = Shape(input.begin() + 2, input.end());
  g.groups = node.integer("group", 1);
  if (g.groups < 1 || g.groups > kMostChannels) {
    throw NotMapped(fmt::format("it has {} groups; expected 1 or more", g.groups));
  }
  g.channels_in = m.fixed_size(input[1], "the channels");
  const int64_t others = m.fixed_size(weight[transposed ? 1 : 0], "the channels");
  if (others > kMostChannels) throw NotMapped(fmt::format("it has {} channels", others));
  g.channels_out = transposed ? others * g.groups : others;
  auto window = window_of(node, g.sizes, kernel_of(m, weight), transposed);
  if (!window) {
    throw NotMapped("its kernel, strides, dilations and pads are not such as were expected");
  }
  g.window = *window;
  even_out(m, &g);
  return g;
}

void add_sizes(const Mapping& m, SpecText* spec, const Geometry& g) {
  const std::string names = kSizes[g.sizes.size()];
  spec->size("n", m.size(g.batch));
  for (size_t d = 0; d < g.sizes.size(); ++d) {
    spec->size(std::string(1, names[d]), m.size(g.sizes[d]));
  }
}

void add_window(SpecText* spec, const Geometry& g) {
  spec->extents("kernel", g.window.kernel, 0);
  spec->extents("stride", g.window.stride, 1).extents("pad", g.window.before, 0);
}

// The convolution alone: sizes, window, layout. A whole model pads X on one side by a layer in front.
Draft plain_convolution(const Mapping& m, const Node& node, const std::string& x,
                        const std::string& w, Mapped* before = nullptr) {
  Geometry g = geometry_of(m, node, x, w, false);
  const bool last = m.options.channels_last;
  const bool depthwise = last && g.sizes.size() == 2 && g.groups > 1 && g.groups == g.channels_in &&
                         g.groups == g.channels_out;
  Draft d = m.draft(depthwise ? "depthwise_conv2d" : fmt::format("conv{}d", g.sizes.size()), node);
  add_sizes(m, &d.spec, g);
  if (depthwise) {
    d.spec.number("c", g.channels_in);
  } else {
    d.spec.number("ci", g.channels_in).number("co", g.channels_out);
  }
  add_window(&d.spec, g);
  d.spec.extents("dilation", g.window.dilation, 1);
  if (!depthwise && g.groups > 1) d.spec.number("groups", g.groups);
  if (!last) d.spec.text("layout", "nchw");
  if (last) add_note(&g.note, "the channels of X, W and Y come last");
  d.layer.operands = {{"X", x}, {"W", w}};
  if (before != nullptr && m.options.whole && !g.note.empty() && !last) {
    d.layer.operands["X"] = node.outputs.at(0) + "/padded";
    before->push_back(zero_padded(m, node, x, g.front, g.behind, "0", d.layer.operands["X"]));
    g.note.clear();
  }
  d.layer.note = g.note;
  return d;
}

std::vector<std::string> bias_of(const Node& node, size_t i, Draft* d) {
  if (!node.has_input(i)) return {};
  d->layer.operands["bias"] = node.inputs[i];
  return {"bias"};
}

// Layers that calculate the weight and the bias of a convolution with what normalizes its channels.
void fold_batch_norm(const Mapping& m, const Node& norm, Draft* d, std::vector<std::string>* steps,
                     Mapped* before) {
  const std::string name = norm.outputs.at(0);
  const std::string weight = d->layer.operands.at("W");
  const Sizes row = sizes_of_value(m, norm.inputs[1]);
  const ElemType type = m.elem(weight);
  for (Draft& made : channel_norm(m, norm, norm.inputs[1], norm.inputs[2], norm.inputs[3],
                                  norm.inputs[4], norm.real("epsilon", 1e-5), name)) {
    before->push_back(std::move(made));
  }
  IndexExpr w(m, norm, name + "/weight", sizes_of_value(m, weight), type);
  const std::string factor = w.made_at(name + "/factor", row, type, {"i0"});
  before->push_back(w.finish(fmt::format("{} = {} * {}", w.left(), w.element(weight), factor)));
  d->layer.operands["W"] = name + "/weight";
  if (steps->empty()) {
    d->layer.operands["bias"] = name + "/shift";
    steps->emplace_back("bias");
    return;
  }
  IndexExpr b(m, norm, name + "/bias", row, type);
  const std::string scale = b.made_at(name + "/factor", row, type, {"i0"});
  const std::string shift = b.made_at(name + "/shift", row, type, {"i0"});
  before->push_back(b.finish(fmt::format(
      "{} = {} * {} + {}", b.left(), b.at(d->layer.operands.at("bias"), {"i0"}), scale, shift)));
  d->layer.operands["bias"] = name + "/bias";
}

// A normalization with fixed statistics scales the weight and shifts the bias: both are known ahead.
void take_batch_norm(const Mapping& m, Draft* d, std::vector<std::string>* steps, Mapped* before) {
  const Node* norm = m.graph.only_user(d->layer.output);
  if (norm == nullptr || norm->op != "BatchNormalization" || norm->inputs.size() != 5 ||
      norm->inputs[0] != d->layer.output || norm->integer("training_mode", 0) != 0) {
    return;
  }
  for (size_t i = 1; i < 5; ++i) {
    if (!m.input(*norm, i).constant) return;
  }
  d->layer.nodes.push_back(norm);
  d->layer.output = norm->outputs.at(0);
  if (m.options.whole) {
    fold_batch_norm(m, *norm, d, steps, before);
    return;
  }
  if (steps->empty()) {
    d->layer.operands["bias"] = norm->inputs[2];
    steps->emplace_back("bias");
  }
  add_note(&d->layer.note, fmt::format("W and bias take in {} '{}'", norm->op, norm->label()));
}

Mapped map_conv(const Mapping& m, const Node& node) {
  Mapped all;
  Draft d = plain_convolution(m, node, node.inputs.at(0), node.inputs.at(1), &all);
  m.add_type(&d, m.elem(node.inputs[0]));
  std::vector<std::string> steps = bias_of(node, 2, &d);
  const std::string activation = node.text("activation", "");
  const bool more = node.has_input(3) || (!activation.empty() && activation != "Relu");
  if (more && m.options.whole) {
    d.layer.output += "/sums";
    if (!steps.empty()) d.spec.texts("epilogue", steps);
    all.push_back(std::move(d));
    all.push_back(activated(m, node, node.outputs.at(0) + "/sums"));
    return all;
  }
  if (more) {
    throw NotMapped(fmt::format("its activation is {}; expected Relu", activation));
  }
  if (activation.empty()) {
    take_batch_norm(m, &d, &steps, &all);
  } else {
    steps.emplace_back("relu");
  }
  add_stored_weight(m, &d, "W", 1, 0);
  m.fuse(&d, 1, steps);
  all.push_back(std::move(d));
  return all;
}

// A layer over images with the channels last, between layers that reorder its operands.
Mapped with_channels_last(const Mapping& m, const Node& node, Draft d) {
  const std::string name = node.outputs.at(0);
  const std::string &x = node.inputs.at(0), &w = node.inputs.at(1);
  const ElemType type = m.elem(x);
  const Sizes out = sizes_of_value(m, name);
  std::vector<std::string> steps = bias_of(node, 2, &d);
  if (!steps.empty()) d.spec.texts("epilogue", steps);
  d.layer.operands["X"] = name + "/X";
  d.layer.operands["W"] = name + "/W";
  d.layer.output = name + "/last";
  return {reordered(m, node, x, sizes_of_value(m, x), type, {0, 2, 3, 1}, name + "/X"),
          reordered(m, node, w, sizes_of_value(m, w), type, {2, 3, 0, 1}, name + "/W"),
          std::move(d),
          reordered(m, node, name + "/last", {out[0], out[2], out[3], out[1]}, type, {0, 3, 1, 2},
                    name)};
}

// Whether no two elements of the input add to the same element of the output.
bool makes_blocks(const Window& w) {
  const auto none = [](int64_t v) { return v == 0; };
  return w.kernel == w.stride && std::ranges::all_of(w.before, none) &&
         std::ranges::all_of(w.after, none);
}

// A transposed convolution whose elements make blocks: a product makes the blocks as channels, those of a
// place in the block side by side, and a function puts them into their places.
Mapped in_blocks(const Mapping& m, const Node& node, const Geometry& g) {
  const std::string name = node.outputs.at(0);
  const ElemType type = m.elem(node.inputs.at(0));
  const int64_t h = g.window.kernel[0], w = g.window.kernel[1], c = g.channels_out;
  Draft d = m.draft("conv2d", node);
  add_sizes(m, &d.spec, g);
  d.spec.number("ci", g.channels_in).number("co", h * w * c).number("kernel", 1);
  d.spec.text("layout", "nchw");
  m.add_type(&d, type);
  d.layer.operands = {{"X", node.inputs[0]}, {"W", name + "/W"}};
  d.layer.output = name + "/blocks";
  IndexExpr weight(m, node, name + "/W", {h * w * c, g.channels_in, 1, 1}, type);
  const std::string blocks =
      weight.at(node.inputs.at(1), {"i1", fmt::format("i0 % {}", c), fmt::format("i0 // {}", w * c),
                                    fmt::format("i0 // {} % {}", c, w)});
  IndexExpr e(m, node);
  Sizes made = sizes_of_value(m, node.inputs[0]);
  made[1] = h * w * c;
  std::string value =
      e.made_at(d.layer.output, made, type,
                {"i0", fmt::format("i2 % {} * {} + i3 % {} * {} + i1", h, w * c, w, c),
                 fmt::format("i2 // {}", h), fmt::format("i3 // {}", w)});
  if (node.has_input(2)) value += " + " + e.at(node.inputs[2], {"i1"});
  return {weight.finish(fmt::format("{} = {}", weight.left(), blocks)), std::move(d),
          e.finish(fmt::format("{} = {}", e.left(), value))};
}

Mapped map_conv_transpose(const Mapping& m, const Node& node) {
  Geometry g = geometry_of(m, node, node.inputs.at(0), node.inputs.at(1), true);
  const std::vector<int64_t> more =
      node.integers("output_padding").value_or(std::vector<int64_t>());
  auto some = [](int64_t v) { return v != 0; };
  auto spread = [](int64_t v) { return v != 1; };
  if (g.sizes.size() != 2) throw NotMapped("only images are convolved transposed");
  if (g.groups != 1) throw NotMapped(fmt::format("it has {} groups; expected 1", g.groups));
  if (std::any_of(more.begin(), more.end(), some) || node.find("output_shape") != nullptr) {
    throw NotMapped("its output is padded");
  }
  if (std::any_of(g.window.dilation.begin(), g.window.dilation.end(), spread)) {
    throw NotMapped("its kernel is dilated");
  }
  if (!g.note.empty()) throw NotMapped("it crops one side of an axis more than the other");
  if (m.options.whole && makes_blocks(g.window)) return in_blocks(m, node, g);
  Draft d = m.draft("conv2d_transpose", node);
  add_sizes(m, &d.spec, g);
  d.spec.number("ci", g.channels_in).number("co", g.channels_out);
  add_window(&d.spec, g);
  m.add_type(&d, m.elem(node.inputs[0]));
  d.layer.operands = {{"X", node.inputs[0]}, {"W", node.inputs[1]}};
  if (m.options.whole) return with_channels_last(m, node, std::move(d));
  d.layer.note = "the channels of X, W and Y come last";
  m.fuse(&d, 1, bias_of(node, 2, &d));
  return {d};
}

// Integer products with zero points that are subtracted outside.
Mapped map_integer_conv(const Mapping& m, const Node& node, size_t w, const std::string& note) {
  Draft d = plain_convolution(m, node, node.inputs.at(0), node.inputs.at(w));
  const ElemType type = m.elem(node.inputs[0]), weight = m.elem(node.inputs[w]);
  d.spec.text("dtype", to_string(type));
  if (weight != type) d.spec.text("w.dtype", to_string(weight));
  add_note(&d.layer.note, note);
  return {d};
}

Mapped map_conv_integer(const Mapping& m, const Node& node) {
  return map_integer_conv(m, node, 1, "zero points are taken into account outside");
}

Mapped map_qlinear_conv(const Mapping& m, const Node& node) {
  return map_integer_conv(m, node, 3,
                          "zero points, bias and the scaling to integers are applied outside");
}

}  // namespace

const MapFns& convolution_mappings() {
  static const MapFns kMappings = {{"Conv", map_conv},
                                   {"com.microsoft.FusedConv", map_conv},
                                   {"ConvTranspose", map_conv_transpose},
                                   {"ConvInteger", map_conv_integer},
                                   {"QLinearConv", map_qlinear_conv}};
  return kMappings;
}

}  // namespace tilewright::onnx
