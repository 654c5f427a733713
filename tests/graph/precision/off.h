// How far a pass of precision moves the outputs of a graph.
#pragma once

#include <algorithm>

#include "graph/precision/choice.h"
#include "tests/graph/graphs.h"

namespace tilewright::graph {

// The largest difference of outputs on random inputs, as a share of an output's largest magnitude.
inline double off(const Graph& before, const Graph& after) {
  verify(after);
  const auto inputs = random_inputs(before);
  const auto wanted = interpret(before, inputs), got = interpret(after, inputs);
  double most = 0;
  for (size_t o = 0; o < wanted.size(); ++o) {
    const Value& v = before.values[before.outputs[o]];
    EXPECT_EQ(type_text(after.values[after.outputs[o]]), type_text(v));
    most = std::max(most, share_off(v.elem, *got[o], *wanted[o]));
  }
  return most;
}

}  // namespace tilewright::graph
