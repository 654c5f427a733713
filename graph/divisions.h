// Divisions by numbers as products.
#pragma once

#include "graph/graph.h"

namespace tilewright::graph {

// `x / 6` becomes `x * 0.16666666666666666` in expressions: a division takes as long as ten products. The
// result may differ in its last bit, so single numbers, whose divisions take no time, keep them: scales decide how
// much is rounded. Returns the number of divisions.
int multiply_by_inverses(Graph* graph);

}  // namespace tilewright::graph
