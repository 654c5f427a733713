// Convolutions with windows of three by three as products of transformed tiles.
#pragma once

#include "graph/graph.h"

namespace tilewright::graph {

// Winograd's minimal filtering, F(m x m, 3 x 3) with m = 2 or 4 (Lavin and Gray, "Fast Algorithms for
// Convolutional Neural Networks", CVPR 2016). A convolution of stride 1 with its channels last and a constant
// weight becomes a copy with padding, a transform of its tiles, (m + 2)^2 products, and a transform of their
// results, which has the epilogue. So 9 multiplications of an output become 4 or 2.25. The pass takes the m
// that saves time by an estimate of products, moved bytes and read weights; most small maps and few channels
// stay as they are. Weights are transformed here. Sums are rounded elsewhere than before: with m = 4 the error
// of an output is some ten times that of the direct sum. Returns the number of convolutions that changed.
int use_winograd(Graph* graph);

}  // namespace tilewright::graph
