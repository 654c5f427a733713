// Products of f32 models on factors of a narrower float.
#pragma once

#include "graph/graph.h"
#include "graph/precision/products.h"

namespace tilewright::graph {

// Rounds the factors of products and convolutions to `type`, a float narrower than f32; sums stay f32. A
// value that several products read is converted once. Conversions are nodes: fold_constants makes those of
// weights, fuse those behind the node that makes their value. Before -> after:
//   "y": f32[2, 3] = "matmul:m=2,n=3,k=4" (A="x", B="w")
//   "x/bf16": bf16[2, 4] = "expr:… Y[i0, i1] = X0[i0, i1],…dtypes.Y=bf16" (X0="x")
//   "w/bf16": bf16[4, 3] = "expr:… Y[i0, i1] = X0[i0, i1],…dtypes.Y=bf16" (X0="w")
//   "y": f32[2, 3] = "expr:… Y[i0, i1] += X0[i0, r0] * X1[r0, i1],…" (X0="x/bf16", X1="w/bf16")
// Products that read each element of what is calculated once stay as they are, as depthwise convolutions
// do: they would only convert.
Changed narrow_products(Graph* graph, ElemType type, const Kept& kept = {});

}  // namespace tilewright::graph
