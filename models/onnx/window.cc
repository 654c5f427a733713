#include "models/onnx/window.h"

#include <algorithm>

namespace tilewright::onnx {
namespace {

constexpr int64_t kMost = int64_t{1} << 20;

bool within(const std::vector<int64_t>& values, int64_t least) {
  return std::all_of(values.begin(), values.end(),
                     [&](int64_t v) { return v >= least && v <= kMost; });
}

// Zeros such that there is an output for each `stride` inputs, the odd one behind or in front.
bool pad_to_same(Window* w, const Shape& sizes, bool odd_behind) {
  for (size_t d = 0; d < w->rank(); ++d) {
    const int64_t span = w->dilation[d] * (w->kernel[d] - 1) + 1;
    int64_t total = span - 1;  // with a stride of 1, whatever the size
    if (w->stride[d] != 1) {
      if (!sizes[d].fixed()) return false;
      const int64_t size = sizes[d].number(), outputs = (size + w->stride[d] - 1) / w->stride[d];
      total = std::max<int64_t>(0, (outputs - 1) * w->stride[d] + span - size);
    }
    w->before[d] = odd_behind ? total / 2 : total - total / 2;
    w->after[d] = total - w->before[d];
  }
  return true;
}

// The elements that a transposed convolution leaves out so that its output has the shape that the node says, or `stride` elements
// for each input. False where it would have to add some.
bool pad_to_shape(Window* w, const Node& node, const Shape& sizes, bool odd_behind) {
  const auto given = node.integers("output_shape");
  const auto more = node.integers("output_padding").value_or(std::vector<int64_t>(w->rank(), 0));
  if (more.size() != w->rank() || (given && given->size() < w->rank())) return false;
  for (size_t d = 0; d < w->rank(); ++d) {
    int64_t total = w->dilation[d] * (w->kernel[d] - 1) + 1 + more[d] - w->stride[d];
    if (given) {
      if (!sizes[d].fixed()) return false;
      const int64_t wanted = (*given)[given->size() - w->rank() + d];
      total += w->stride[d] * sizes[d].number() - wanted;
    }
    if (total < 0) return false;
    w->before[d] = odd_behind ? total / 2 : total - total / 2;
    w->after[d] = total - w->before[d];
  }
  return true;
}

// A size that was rounded up, without a last window that begins behind the input and the padding in front
// of it. Nothing where that depends on a size that is not known.
std::optional<Extent> without_empty(const Extent& size, const Window& w, size_t d,
                                    const Extent& input, int64_t span) {
  if (w.after[d] + w.stride[d] <= span) return size;  // it begins before that whatever the size
  if (!size.fixed() || !input.fixed()) return std::nullopt;
  const int64_t last = (size.number() - 1) * w.stride[d];
  return last >= input.number() + w.before[d] ? Extent(size.number() - 1) : size;
}

}  // namespace

std::optional<Window> window_of(const Node& node, const Shape& sizes,
                                std::optional<std::vector<int64_t>> kernel, bool transposed) {
  const size_t rank = sizes.size();
  Window w;
  w.kernel = node.integers("kernel_shape").value_or(kernel.value_or(std::vector<int64_t>()));
  w.stride = node.integers("strides").value_or(std::vector<int64_t>(rank, 1));
  w.dilation = node.integers("dilations").value_or(std::vector<int64_t>(rank, 1));
  std::vector<int64_t> pads = node.integers("pads").value_or(std::vector<int64_t>(2 * rank, 0));
  if (w.kernel.size() != rank || w.stride.size() != rank || w.dilation.size() != rank ||
      pads.size() != 2 * rank || !within(w.kernel, 1) || !within(w.stride, 1) ||
      !within(w.dilation, 1) || !within(pads, 0)) {
    return std::nullopt;
  }
  if (kernel && w.kernel != *kernel) return std::nullopt;
  w.before.assign(pads.begin(), pads.begin() + static_cast<int64_t>(rank));
  w.after.assign(pads.begin() + static_cast<int64_t>(rank), pads.end());
  const std::string rule = node.text("auto_pad", "NOTSET");
  const bool same = rule == "SAME_UPPER" || rule == "SAME_LOWER";
  if (transposed && (same || node.find("output_shape") != nullptr)) {
    if (!pad_to_shape(&w, node, sizes, rule == "SAME_UPPER")) return std::nullopt;
  } else if (same) {
    if (!pad_to_same(&w, sizes, rule == "SAME_UPPER")) return std::nullopt;
  } else if (rule == "VALID") {
    w.before.assign(rank, 0);
    w.after.assign(rank, 0);
  }
  return w;
}

std::optional<Shape> windowed(Extents& extents, const Window& w, const Shape& sizes,
                              bool round_up) {
  Shape out;
  for (size_t d = 0; d < w.rank(); ++d) {
    const int64_t span = w.dilation[d] * (w.kernel[d] - 1) + 1;
    auto room = extents.plus(sizes[d], w.before[d] + w.after[d] - span);
    if (room && round_up) room = extents.plus(*room, w.stride[d] - 1);
    auto steps = room ? extents.quotient(*room, w.stride[d]) : std::nullopt;
    auto size = steps ? extents.plus(*steps, 1) : std::nullopt;
    if (size && round_up) size = without_empty(*size, w, d, sizes[d], span);
    if (!size) return std::nullopt;
    out.push_back(*size);
  }
  return out;
}

std::optional<Shape> transposed(Extents& extents, const Window& w, const Shape& sizes,
                                const std::vector<int64_t>& output_padding) {
  Shape out;
  for (size_t d = 0; d < w.rank(); ++d) {
    const int64_t span = w.dilation[d] * (w.kernel[d] - 1) + 1;
    auto steps = extents.minus(sizes[d], 1);
    auto spread = steps ? extents.times(*steps, w.stride[d]) : std::nullopt;
    const int64_t more = d < output_padding.size() ? output_padding[d] : 0;
    auto size =
        spread ? extents.plus(*spread, span + more - w.before[d] - w.after[d]) : std::nullopt;
    if (!size) return std::nullopt;
    out.push_back(*size);
  }
  return out;
}

}  // namespace tilewright::onnx
