// Arithmetic that processors do slowly.
#pragma once

#include "graph/graph.h"

namespace tilewright::graph {

// `x / 6` becomes `x * 0.16666666666666666` in expressions: a division takes as long as ten products. The
// result may differ in its last bit, so single numbers, whose divisions take no time, keep them: scales decide how
// much is rounded. Returns the number of divisions.
int multiply_by_inverses(Graph* graph);

// Subnormal numbers among the weights and biases of sums become zeros. Trained weights hold them where training
// let channels die. On many processors an instruction that meets one takes a hundred cycles or more. A product
// changes by less than 1.2e-38 times its other factor. Returns how many constants changed.
int drop_subnormals(Graph* graph);

}  // namespace tilewright::graph
