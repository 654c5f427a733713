// Helpers of the tests of graphs.
#pragma once

#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace tilewright::graph {

inline Bytes floats(const std::vector<float>& values) {
  auto bytes = std::make_shared<std::string>(values.size() * sizeof(float), '\0');
  std::memcpy(bytes->data(), values.data(), bytes->size());
  return bytes;
}

inline std::vector<float> random_floats(size_t count, unsigned seed) {
  std::mt19937 generator(seed);
  std::uniform_real_distribution<float> uniform(-2, 2);
  std::vector<float> values(count);
  for (float& v : values) v = uniform(generator);
  return values;
}

// The reason why the text is no legal graph; "" where it is one.
inline std::string refusal(const std::string& text) {
  try {
    verify(parse_graph(text));
  } catch (const GraphError& e) {
    return e.what();
  }
  return "";
}

}  // namespace tilewright::graph
