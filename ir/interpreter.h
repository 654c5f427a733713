// The meaning of a program: what it computes, by walking its tree. Slow; the reference for tests.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "ir/stmt.h"
#include "ir/tensor_expr.h"

namespace tilewright {

// A dense array of f64 values, each one representable in `elem`; row-major. 64-bit integers above
// 2^53 are not exact here.
struct NdArray {
  ElemType elem = ElemType::f32;
  std::vector<int64_t> shape;
  std::vector<double> data;

  static NdArray zeros(ElemType elem, std::vector<int64_t> shape);
  // Values that exercise the type: uniform in [-1, 1) for floats, small integers otherwise.
  static NdArray random(ElemType elem, std::vector<int64_t> shape, uint64_t seed);
};

using NdArrays = std::map<std::string, NdArray>;

// Runs `program` on `arrays` (one a parameter name; outputs are made when absent) with `dims` by
// name. Throws InternalError with the printed statement on an access out of bounds and on a read of
// an element that was never written. Loops of thread axes run serially between barriers; arithmetic
// is done in f64 and rounded to each expression's type.
void interpret(const Program& program, NdArrays& arrays,
               const std::map<std::string, int64_t>& dims = {});
// Runs the pack programs on the weights, then the main program on the results.
void interpret(const Module& module, NdArrays& arrays,
               const std::map<std::string, int64_t>& dims = {});

}  // namespace tilewright
