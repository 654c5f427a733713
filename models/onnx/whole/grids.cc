// Expressions of whole models: grids of places, patches of maps, and rows that are put into others.
#include <fmt/format.h>

#include <algorithm>

#include "models/onnx/whole/index_expr.h"
#include "models/onnx/whole/whole.h"

namespace tilewright::onnx {
namespace {

// Places from -1 to 1 times a matrix, by image.
Mapped express_affine_grid(const Mapping& m, const Node& node) {
  IndexExpr e(m, node);
  const size_t axes = e.sizes().size() - 2;
  if (axes != 2 && axes != 3) throw NotMapped("its grid has neither 2 nor 3 axes");
  const bool corners = node.integer("align_corners", 0) != 0;
  const std::string &theta = node.inputs.at(0), &own = e.indices().back();
  std::string text = e.at(theta, {"i0", own, std::to_string(axes)});
  for (size_t d = 0; d < axes; ++d) {
    const auto size = static_cast<double>(e.sizes()[d + 1]);
    // A single place among corners is the first one.
    const double step = corners ? (size > 1 ? 2 / (size - 1) : 0) : 2 / size;
    const double first = corners ? -1 : -1 + step / 2;
    text += fmt::format(" + {} * ({} * {} + {})",
                        e.at(theta, {"i0", own, std::to_string(axes - 1 - d)}), e.indices()[d + 1],
                        literal(step), literal(first));
  }
  return {e.finish(fmt::format("{} = {}", e.left(), text))};
}

// The middle of each axis, or the input in the middle of zeros.
Mapped express_center(const Mapping& m, const Node& node) {
  IndexExpr e(m, node);
  const Sizes sizes = sizes_of_value(m, node.inputs.at(0));
  std::vector<std::string> at = e.indices(), tests;
  for (size_t d = 0; d < sizes.size(); ++d) {
    const int64_t more = e.sizes()[d] - sizes[d];
    const int64_t front = more > 0 ? more / 2 : (-more) / 2;
    if (front > 0) at[d] = fmt::format("{} {} {}", at[d], more > 0 ? "-" : "+", front);
    if (more <= 0) continue;
    if (front > 0) tests.push_back(fmt::format("{} >= {}", e.indices()[d], front));
    tests.push_back(fmt::format("{} < {}", e.indices()[d], front + sizes[d]));
  }
  const std::string x = e.at(node.inputs[0], at);
  if (tests.empty()) return {e.finish(fmt::format("{} = {}", e.left(), x))};
  return {e.finish(fmt::format("{} = select({}, {}, 0)", e.left(), fmt::join(tests, " && "), x))};
}

// Patches added where they overlap: [batch, channels * places in the block, blocks] to [batch, channels, sizes..].
Mapped express_col2im(const Mapping& m, const Node& node) {
  IndexExpr e(m, node);
  const auto block = known_numbers(m, node, "block_shape", 2);
  if (!block || block->size() + 2 != e.sizes().size()) throw NotMapped("its block is not known");
  const size_t axes = block->size();
  const Sizes ones(axes, 1), strides = node.integers("strides").value_or(ones),
                             dilations = node.integers("dilations").value_or(ones),
                             pads = node.integers("pads").value_or(Sizes(2 * axes, 0));
  if (strides.size() != axes || dilations.size() != axes || pads.size() != 2 * axes) {
    throw NotMapped("its strides, dilations or pads have other axes than its block");
  }
  std::string channel = "i1", column, shares;
  for (size_t d = 0; d < axes; ++d) {
    const int64_t size = e.sizes()[d + 2], step = strides[d];
    const int64_t count =
        (size + pads[d] + pads[axes + d] - dilations[d] * ((*block)[d] - 1) - 1) / step + 1;
    const std::string r = e.reduced((*block)[d]);
    // The block whose place r an element is, and whether there is one.
    std::vector<double> which, share;
    for (int64_t i = 0; i < size; ++i) {
      for (int64_t place = 0; place < (*block)[d]; ++place) {
        const int64_t begin = i + pads[d] - place * dilations[d];
        const bool there = begin >= 0 && begin % step == 0 && begin / step < count;
        const int64_t patch = begin / step;
        which.push_back(there ? static_cast<double>(patch) : 0);
        share.push_back(there ? 1 : 0);
      }
    }
    const std::vector<std::string> at = {e.indices()[d + 2], r};
    const Sizes table = {size, (*block)[d]};
    const std::string own = e.constant(fmt::format("block{}", d), ElemType::i32, table, which, at);
    shares +=
        " * " + e.constant(fmt::format("share{}", d), m.elem(node.inputs[0]), table, share, at);
    channel = fmt::format("({}) * {} + {}", channel, (*block)[d], r);
    column = column.empty() ? own : fmt::format("({}) * {} + {}", column, count, own);
  }
  return {e.finish(
      fmt::format("{} += {}{}", e.left(), e.at(node.inputs[0], {"i0", channel, column}), shares))};
}

// A cache with new rows in it, from a row on that each batch says.
Mapped express_tensor_scatter(const Mapping& m, const Node& node) {
  IndexExpr e(m, node);
  const Sizes& sizes = e.sizes();
  const size_t axis = checked_axis(node.integer("axis", -2), sizes.size());
  const int64_t rows = sizes_of_value(m, node.inputs.at(1)).at(axis);
  if (axis == 0) throw NotMapped("it writes along the axis of the batches");
  const std::string own = e.indices()[axis];
  const std::string first = node.has_input(2) ? e.at(node.inputs[2], {"i0"}) : "0";
  std::vector<std::string> at = e.indices();
  const std::string r = e.reduced(rows);
  at[axis] = r;
  std::string test = fmt::format("{} + {} == {}", first, r, own);
  if (node.text("mode", "linear") == "circular") {
    test = fmt::format("({0} || {1} + {2} == {3} + {4})", test, first, r, own, sizes[axis]);
  }
  return {e.finish(fmt::format(
      "{0} += select({2}, {3}, 0); {1} max= select({2}, 1, 0); {4} = select({1} > 0, {0}, {5})",
      e.left("S"), e.left("C"), test, e.at(node.inputs[1], at), e.left(),
      e.element(node.inputs.at(0))))};
}

}  // namespace

const MapFns& whole_grid_mappings() {
  static const MapFns kMappings = {{"AffineGrid", express_affine_grid},
                                   {"CenterCropPad", express_center},
                                   {"Col2Im", express_col2im},
                                   {"TensorScatter", express_tensor_scatter}};
  return kMappings;
}

}  // namespace tilewright::onnx
