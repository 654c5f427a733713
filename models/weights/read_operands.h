// Weights out of files as operands of a kernel, in arrays of their own.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "models/weights/layers.h"

namespace tilewright::weights {

// An operand as a kernel takes it.
struct OperandForm {
  std::string name;
  ElemType elem = ElemType::f32;
  std::vector<int64_t> shape;
};

struct ReadOperands {
  std::vector<HostArray> arrays;  // called by their operands
  std::vector<int64_t> order;     // as Filled has it
};

// Reads the tensor or quantized layer `stored` for the operand `operand`. Of `forms`, those that are
// called so or `operand`.scale and the like are read; without any, all that the file has is, as it lies.
// A layer counts as [k, n], or as [n, k] when `transposed`; `gptq_format` is that of layer_options().
// Throws FileError when there is no such tensor or layer, and when it does not fit.
ReadOperands read_operands(const TensorFile& file, const std::string& stored,
                           const std::string& operand, const std::vector<OperandForm>& forms,
                           const std::string& gptq_format, bool transposed);

}  // namespace tilewright::weights
