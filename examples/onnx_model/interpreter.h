// The operators of a small model by their definitions, in f64: what kernels are held against.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "models/onnx/model.h"

struct Array {
  std::vector<int64_t> shape;
  std::vector<double> values;  // row-major
};

// The elements of a constant.
Array array_of(const tilewright::onnx::Tensor& tensor);

// The node's output for these inputs; omitted inputs are empty arrays. Throws tilewright::Error for
// an operator, or a form of one, that is not implemented here.
Array interpret(const tilewright::onnx::Node& node, const std::vector<Array>& inputs);

// The element at [n, block, byte] of MatMulNBits, without its scale: code less zero point.
double nbits_code(const tilewright::onnx::Node& node, const std::vector<Array>& inputs, int64_t n,
                  int64_t k);
