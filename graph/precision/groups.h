// Products of f32 models with weights of a few bits.
#pragma once

#include <cstdint>
#include <string>

#include "graph/graph.h"
#include "graph/precision/products.h"

namespace tilewright::graph {

// How weights are stored.
struct WeightForm {
  ElemType type = ElemType::u4;   // weights::can_quantize
  int64_t group = -1;             // terms of a product that share a scale; -1: all of a column's
  bool byte_activations = false;  // the other factor becomes codes of i8 in the kernel, row by row
};

// Stores the constant weights of products of matrices in a few bits, by weights::quantize, in the form that
// `matmul` has for them; all else stays f32. Before -> after:
//   "y": f32[2, 3] = "matmul:m=2,n=4,k=256,epilogue=[relu]" (A="x", B="w")
//   "y": f32[2, 3] = "matmul:m=2,n=4,k=256,epilogue=[relu],w.dtype=u4,w.zero=u4,w.group=128,w.scale=f32"
//                    (A="x", B="w/u4", B.scale="w/u4/scale", B.zero="w/u4/zero")
// Products stay as they are where groups do not divide k, where rows of codes fill no whole bytes, and where the
// weight is so small that its bytes cost nothing.
Changed group_products(Graph* graph, const WeightForm& form, const Kept& kept = {});

}  // namespace tilewright::graph
