// Products of one operand with several weights become one product.
#pragma once

#include "graph/graph.h"

namespace tilewright::graph {

// Products that share their left operand, their k and their epilogue, with constant weights, become one
// product of the joined weights, as those of queries, keys and values do; weights of few bits, too. Before -> after:
//   "q": f32[8, 16] = "matmul:m=8,n=16,k=32,epilogue=[bias]" (A="x", B="wq", bias="bq")
//   "k": f32[8, 16] = "matmul:m=8,n=16,k=32,epilogue=[bias]" (A="x", B="wk", bias="bk")
//   ->
//   "q+k": f32[8, 32] = "matmul:m=8,n=32,k=32,epilogue=[bias]" (A="x", B="wq+wk", bias="bq+bk")
// This holds where each reader takes its columns from the joined result in its own indices (fold_moves), so
// that nothing is copied. An epilogue that adds another tensor stays apart. Returns the number of products
// that went away.
int join_products(Graph* graph);

}  // namespace tilewright::graph
