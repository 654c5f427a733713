// Helpers of the tests of graphs.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "graph/graph.h"
#include "graph/interpret.h"

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

// Random elements of each input, all of f32.
inline std::map<std::string, Bytes> random_inputs(const Graph& graph) {
  std::map<std::string, Bytes> inputs;
  for (size_t i : graph.inputs) {
    const Value& v = graph.values[i];
    inputs[v.name] =
        floats(random_floats(static_cast<size_t>(v.count()), static_cast<unsigned>(i)));
  }
  return inputs;
}

// Both graphs are legal and compute the same outputs, but for roundings.
inline void expect_near(const Graph& before, const Graph& after) {
  verify(before);
  verify(after);
  const auto inputs = random_inputs(before);
  const auto wanted = interpret(before, inputs), got = interpret(after, inputs);
  ASSERT_EQ(wanted.size(), got.size());
  for (size_t o = 0; o < wanted.size(); ++o) {
    ASSERT_EQ(wanted[o]->size(), got[o]->size());
    for (size_t i = 0; i * sizeof(float) < wanted[o]->size(); ++i) {
      float a = 0, b = 0;
      std::memcpy(&a, wanted[o]->data() + i * sizeof(float), sizeof(float));
      std::memcpy(&b, got[o]->data() + i * sizeof(float), sizeof(float));
      ASSERT_NEAR(a, b, 1e-5 * (1 + std::abs(a))) << "output " << o << ", element " << i;
    }
  }
}

// A copy of the graph after a pass that changes so many things: the same outputs, but for roundings.
inline Graph after_pass(const std::function<int(Graph*)>& pass, const Graph& before, int expected) {
  Graph after = before;
  EXPECT_EQ(pass(&after), expected) << to_string(after);
  expect_near(before, after);
  return after;
}

// The graph of the text behind its constants, which get random elements of f32.
inline Graph graph_with(const std::vector<std::pair<std::string, Shape>>& constants,
                        const std::string& text) {
  std::string all;
  std::vector<Bytes> data;
  for (const auto& [name, shape] : constants) {
    const Value v{.name = name, .shape = shape};
    data.push_back(floats(
        random_floats(static_cast<size_t>(v.count()), static_cast<unsigned>(data.size()) + 1)));
    all += "const \"" + name + "\": " + type_text(v) + " = " + data_hash(*data.back()) + "\n";
  }
  Graph graph = parse_graph(all + text);
  for (size_t i = 0; i < data.size(); ++i) {
    graph.values[graph.find(constants[i].first)].data = data[i];
  }
  verify(graph);
  return graph;
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
