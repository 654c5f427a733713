// Reference interpreter: defines what a program computes by walking its tree. Slow; used by tests.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "ir/stmt.h"
#include "ir/tensor_expr.h"

namespace tilewright {

// A dense row-major array of f64 values, each representable in `elem`. 64-bit integers above 2^53
// are not exact here.
struct NdArray {
  ElemType elem = ElemType::f32;
  std::vector<int64_t> shape;
  std::vector<double> data;

  static NdArray zeros(ElemType elem, std::vector<int64_t> shape);
  // Values that exercise the type: uniform in [-1, 1) for floats, small integers otherwise.
  static NdArray random(ElemType elem, std::vector<int64_t> shape, uint64_t seed);
};

using NdArrays = std::map<std::string, NdArray>;

// Runs `program` on `arrays`, one per parameter name; outputs are made, whether present or not.
// `dims` are by name. Throws IrError for an array or a dimension that is missing or does not fit.
// Throws InternalError with the printed statement for these faults:
//
//  - An access out of bounds.
//  - A read of an element that was never written, or whose asynchronous store was not waited for.
//  - A block iterator outside its extent.
//  - An element of an output that is not written.
//
// An element that was never written may be copied as it is into an allocated buffer, also as the
// side that a select takes. The copy counts as never written: a copy of a whole tile includes the
// padding of its layout, which nobody computes with.
//
// Arithmetic is done in f64 and rounded to each expression's type. Parallel, vectorized and
// unrolled loops run serially. The iterations of thread axes are threads that run one after the
// other from barrier to barrier, each with its own queue of asynchronous stores. A store whose
// scalar predicate is false evaluates nothing; under a predicate with lanes, the value is evaluated
// in all lanes.
void interpret(const Program& program, NdArrays& arrays,
               const std::map<std::string, int64_t>& dims = {});
// Runs the pack programs on the weights, then the main program on the packed weights. The packed
// weights do not stay in `arrays`.
void interpret(const Module& module, NdArrays& arrays,
               const std::map<std::string, int64_t>& dims = {});

}  // namespace tilewright
