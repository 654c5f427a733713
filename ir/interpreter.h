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

// Runs `program` on `arrays` (one a parameter name; outputs are made, whether present or not) with
// `dims` by name. Throws IrError for an array or a dimension that is missing or does not fit.
// Throws InternalError with the printed statement on an access out of bounds, on a read of an
// element that was never written or whose asynchronous store was not waited for, on a block
// iterator outside of its extent, and when an element of an output is not written.
//
// An element that was never written may be copied as it is (also as the side that a select takes)
// into an allocated buffer, and the copy counts as never written: a copy of a whole tile takes along
// the padding of its layout, of which nobody computes anything.
//
// Arithmetic is done in f64 and rounded to each expression's type. Parallel, vectorized and
// unrolled loops run serially; the iterations of thread axes are threads that run one after the
// other from barrier to barrier, each with its own queue of asynchronous stores. A store whose
// scalar predicate does not hold evaluates nothing; under a predicate with lanes, the value is
// evaluated in all lanes.
void interpret(const Program& program, NdArrays& arrays,
               const std::map<std::string, int64_t>& dims = {});
// Runs the pack programs on the weights, then the main program on the results. Of what was packed
// nothing stays in `arrays`.
void interpret(const Module& module, NdArrays& arrays,
               const std::map<std::string, int64_t>& dims = {});

}  // namespace tilewright
