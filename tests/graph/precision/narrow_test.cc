// Products on operands of a narrower type, and the conversions that become part of other nodes.
#include "graph/precision/narrow.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "graph/fuse.h"
#include "graph/interpret.h"
#include "runtime/tensor/element.h"
#include "tests/graph/graphs.h"

namespace tilewright::graph {
namespace {

using testing::HasSubstr;

std::vector<double> elements(const Value& v, const Bytes& data) {
  std::vector<double> all;
  for (int64_t i = 0; i < v.count(); ++i) all.push_back(load_element(v.elem, data->data(), i));
  return all;
}

// The passes of compile. Outputs stay as near as bf16 factors allow.
Graph narrowed(const Graph& before, int products) {
  Graph after = before;
  EXPECT_EQ(narrow_products(&after, ElemType::bf16).outputs.size(), static_cast<size_t>(products))
      << to_string(after);
  verify(after);
  fold_constants(&after);
  fuse(&after);
  verify(after);
  const std::map<std::string, Bytes> inputs = random_inputs(before);
  const auto wanted = interpret(before, inputs), got = interpret(after, inputs);
  for (size_t o = 0; o < wanted.size(); ++o) {
    const Value& v = before.values[before.outputs[o]];
    EXPECT_EQ(after.values[after.outputs[o]].elem, ElemType::f32);
    const std::vector<double> want = elements(v, wanted[o]), is = elements(v, got[o]);
    double largest = 0, off = 0;
    for (size_t i = 0; i < want.size(); ++i) {
      largest = std::max(largest, std::abs(want[i]));
      off = std::max(off, std::abs(want[i] - is[i]));
    }
    EXPECT_LT(off, 0.02 * largest);
    EXPECT_EQ(off > 0, products > 0) << "factors are rounded";
  }
  return after;
}

size_t conversions(const Graph& graph) {
  return static_cast<size_t>(std::ranges::count_if(
      graph.values, [](const Value& v) { return v.name.ends_with("/bf16") && !v.constant; }));
}

TEST(GraphPrecision, ProducersStoreWhatProductsRead) {
  const Graph graph =
      narrowed(graph_with({{"w", {16, 24}}, {"u", {24, 8}}, {"b", {24}}}, R"(input "x": f32[4, 16]
"a": f32[4, 24] = "matmul:m=4,n=24,k=16,epilogue=[bias,relu]" (A="x", B="w", bias="b")
"y": f32[4, 8] = "matmul:m=4,n=8,k=24" (A="a", B="u")
output "y"
)"),
               2);
  // The input's conversion is a node; the first product stores bf16; weights are constants.
  ASSERT_EQ(graph.nodes.size(), 3u) << to_string(graph);
  EXPECT_EQ(graph.values[graph.nodes[1].output].elem, ElemType::bf16);
  EXPECT_TRUE(graph.values[graph.find("w/bf16")].constant);
  EXPECT_THROW(graph.find("w"), GraphError) << "nothing reads the weight in f32";
  EXPECT_THAT(graph.nodes[1].spec, HasSubstr("dtypes.Y=bf16"));
}

TEST(GraphPrecision, WhatOthersReadIsConvertedOnce) {
  const Graph graph = narrowed(graph_with({{"w", {16, 16}}}, R"(input "x": f32[4, 16]
"a": f32[4, 16] = "matmul:m=4,n=16,k=16" (A="x", B="w")
"b": f32[4, 16] = "matmul:m=4,n=16,k=16,epilogue=[relu]" (A="a", B="w")
"y": f32[4, 16] = "matmul:m=4,n=16,k=16,epilogue=[add]" (A="a", B="w", D="a")
output "b"
output "y"
)"),
                               3);
  EXPECT_EQ(conversions(graph), 2u) << to_string(graph);  // of x, and of a beside a itself
  EXPECT_EQ(graph.values[graph.find("a")].elem, ElemType::f32);
}

TEST(GraphPrecision, PaddedWindowsAreReadInTheNarrowType) {
  const Graph graph =
      narrowed(graph_with({{"w", {8, 4, 3, 3}}, {"b", {8}}}, R"(input "x": f32[1, 4, 6, 6]
"y": f32[1, 8, 6, 6] = "conv2d:n=1,h=6,w=6,ci=4,co=8,kernel=3,pad=1,layout=nchw,epilogue=[bias]" (W="w", X="x", bias="b")
output "y"
)"),
               1);
  EXPECT_THAT(graph.nodes.back().spec, HasSubstr("dtypes.T0=bf16")) << to_string(graph);
}

TEST(GraphPrecision, DepthwiseConvolutionsStay) {
  narrowed(graph_with({{"w", {8, 1, 3, 3}}}, R"(input "x": f32[1, 8, 6, 6]
"y": f32[1, 8, 6, 6] = "conv2d:n=1,h=6,w=6,ci=8,co=8,kernel=3,pad=1,groups=8,layout=nchw" (W="w", X="x")
output "y"
)"),
           0);
}

// One row: the weight's elements are read once, and have half of the bytes.
TEST(GraphPrecision, ARowTimesAConstantIsWorthIt) {
  narrowed(graph_with({{"w", {64, 32}}}, R"(input "x": f32[1, 64]
"y": f32[1, 32] = "matmul:m=1,n=32,k=64" (A="x", B="w")
output "y"
)"),
           1);
}

TEST(GraphPrecision, OtherOperatorsConvertTheirOutput) {
  const Graph graph = narrowed(graph_with({{"w", {32, 16}}}, R"(input "x": f32[4, 32]
"s": f32[4, 32] = "softmax:m=4,n=32" (X="x")
"y": f32[4, 16] = "matmul:m=4,n=16,k=32" (A="s", B="w")
output "y"
)"),
                               1);
  ASSERT_EQ(graph.nodes.size(), 2u) << to_string(graph);
  EXPECT_THAT(graph.nodes[0].spec, HasSubstr("out=bf16"));
}

// A value that is multiplied by itself is one input.
TEST(GraphPrecision, AValueTimesItself) {
  const Graph graph = narrowed(graph_with({}, R"(input "x": f32[6, 16]
"y": f32[6, 6] = "expr:expr=\"Y[i, j] += X[i, k] * X[j, k]\",dims.i=6,dims.j=6,dims.k=16" (X="x")
output "y"
)"),
                               1);
  EXPECT_EQ(graph.nodes.back().operands.size(), 1u);
}

}  // namespace
}  // namespace tilewright::graph
