// Products of f32 models as sums of products of bytes.
#pragma once

#include <map>
#include <string>

#include "graph/graph.h"
#include "graph/precision/products.h"

namespace tilewright::graph {

// The least and the largest element that a value had on the given inputs.
struct Extremes {
  double least = 0, most = 0;
};
using Ranges = std::map<std::string, Extremes>;  // by the value's name

// Rounds both factors of products and convolutions with a constant weight to codes of a byte. Their sums are i32
// and exact, and scales are applied behind them: the statements that import_onnx makes of quantized models, so
// that fusion and kernels are the same. Codes lie around 0, so that no zero point needs a correction, and
// padding has the code 0. Weights have a scale for each place along the axes that the result keeps, such as its
// columns or channels. Before -> after:
//   "y": f32[2, 3] = "matmul:m=2,n=3,k=64" (A="x", B="w")
//   "x/i8/scale": f32[2] = "expr:… T0[i0] max= abs(X0[i0, r0]); Y[i0] = select(T0[i0] == 0, 1, T0[i0] / 127)"
//   "x/i8": i8[2, 64] = "expr:… T0[i0] = 1 / X1[i0]; Y[i0, i1] = max(min(round(X0[i0, i1] * T0[i0]), 127), …)"
//   "y": f32[2, 3] = "expr:… T0[i0, i1] += X0[i0, r0] * X1[r0, i1]; Y[i0, i1] = T0[i0, i1] * X2[i1] * X3[i0],…"
// Scales of what is calculated are found in each run, one for each place along the axes that the result keeps, as
// the rows of a product or the images of a batch. With `ranges` they are numbers, and values that are never
// negative have codes of u8. Depthwise convolutions and products of short sums stay as they are.
Changed encode_products(Graph* graph, const Ranges* ranges = nullptr, const Kept& kept = {});

}  // namespace tilewright::graph
