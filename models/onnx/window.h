// The window of a convolution or a pooling over a model's values.
#pragma once

#include <optional>
#include <vector>

#include "models/onnx/extent.h"
#include "models/onnx/model.h"

namespace tilewright::onnx {

struct Window {
  std::vector<int64_t> kernel, stride, dilation, before, after;  // one an axis; zeros on both sides

  size_t rank() const { return kernel.size(); }
  // The size along an axis of what was pooled to so many elements.
  int64_t pooled_from(size_t axis, int64_t elements) const {
    return (elements - 1) * stride[axis] + kernel[axis] - before[axis] - after[axis];
  }
};

// The window of `node` over axes of these sizes; `kernel` is that of the weight where there is one.
// Nothing where the attributes do not fit, or where the padding depends on a size that is not known.
std::optional<Window> window_of(const Node& node, const Shape& sizes,
                                std::optional<std::vector<int64_t>> kernel,
                                bool transposed = false);

// The sizes of the output.
std::optional<Shape> windowed(Extents& extents, const Window& window, const Shape& sizes,
                              bool round_up = false);
std::optional<Shape> transposed(Extents& extents, const Window& window, const Shape& sizes,
                                const std::vector<int64_t>& output_padding);

}  // namespace tilewright::onnx
