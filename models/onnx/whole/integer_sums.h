// Sums of products of codes less their zero points, in 32 bits.
//
//   sum((a - az) * (w - wz)) = sum(a * w) - az * sum(w) - wz * sum(a) + count * az * wz
//
// The first sum has plain products of bytes, as instructions for them take them. Sums of a constant weight are
// constants. Terms whose zero point is known to be 0 are left out.
#pragma once

#include <string>

#include "models/onnx/mapping.h"
#include "models/onnx/whole/codes.h"

namespace tilewright::onnx {

// Layers that calculate `output`. Its shape is that of the node's output, or `sizes`.
Mapped integer_product(const Mapping& m, const Node& node, const Codes& a, const Codes& b,
                       const std::string& output, const Sizes& sizes = {});
// The same of the windows of a map, whose padding has the codes of 0. `bias`, i32, is added to each channel; ""
// for none.
Mapped integer_convolution(const Mapping& m, const Node& node, const Codes& x, const Codes& w,
                           const std::string& bias, const std::string& output);

}  // namespace tilewright::onnx
