// Attention that a model writes out as products and a softmax becomes one node.
#pragma once

#include "graph/graph.h"

namespace tilewright::graph {

// A product whose rows are normalized by a softmax and multiplied by values, each step read by the next one
// alone, becomes one `expr` with the stages of the workload `attention`, which the rules know by them:
//   "s": f32[1, 2, 8, 8] = "expr:… T0[b, h, i, j] += Q[b, h, i, e] * K[b, h, e, j]; Y… = T0… / 4 + M[j]"
//   "p": f32[1, 2, 8, 8] = "softmax:m=16,n=8" (X="s")
//   "y": f32[1, 2, 8, 4] = "expr:… Y[b, h, i, e] += P[b, h, i, j] * V[b, h, j, e]" (P="p", …)
//   ->
//   "y": f32[1, 2, 8, 4] = "expr:… S += Q K; Z = S / 4 + M; T max= Z; P = exp(Z - T); L += P; O += P V;
//                           Y = O / L"
// Functions of scores between the first product and the softmax stay, as scales and masks are. Factors of
// queries and keys move behind their product. A constant that hides the scores above a diagonal, and only
// them, becomes a causal mask. The softmax has to run along the last axis of the scores,
// over which the second product sums. All stages are of f32. Only the order of roundings changes. Returns
// the number of such nodes.
int fuse_attention(Graph* graph);

}  // namespace tilewright::graph
