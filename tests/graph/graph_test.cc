// Graphs: text, verifier, meaning, folding, fusion, places in memory.
#include "graph/graph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "graph/fuse.h"
#include "graph/interpret.h"
#include "graph/plan.h"
#include "runtime/tensor/element.h"
#include "tests/graph/graphs.h"

namespace tilewright::graph {
namespace {

using testing::HasSubstr;

const char* const kScaled = R"(graph "scaled"
input "x": f32[2, 3]
const "s": f32[3] = {0.5, 1, -2}
"y": f32[2, 3] = "expr:expr=\"Y[i, j] = X[i, j] * S[j]\",dims.i=2,dims.j=3" (S="s", X="x")
"z": f32[3, 2] = view "y" for "flat"
output "z"
)";

std::vector<float> numbers(const Bytes& bytes) {
  std::vector<float> values(bytes->size() / sizeof(float));
  std::memcpy(values.data(), bytes->data(), bytes->size());
  return values;
}

std::string replaced(std::string text, const std::string& what, const std::string& by) {
  const size_t at = text.find(what);
  EXPECT_NE(at, std::string::npos) << what;
  return text.replace(at, what.size(), by);
}

TEST(GraphText, PrintsWhatItParses) {
  const Graph graph = parse_graph(kScaled);
  verify(graph);
  EXPECT_EQ(to_string(graph), kScaled);
  EXPECT_EQ(graph.nodes[1].label, "flat");
}

TEST(GraphText, NamesTheDataOfLargeConstants) {
  Graph graph;
  Value v;
  v.name = "quote \" and\nline";
  v.shape = {9};
  v.constant = true;
  v.data = floats(std::vector<float>(9, 1.5f));
  graph.outputs = {graph.add(v)};
  const std::string text = to_string(graph);
  EXPECT_THAT(text, HasSubstr(data_hash(*v.data)));
  const Graph again = parse_graph(text);
  EXPECT_EQ(again.values[0].name, v.name);
  EXPECT_EQ(again.values[0].data, nullptr);
  EXPECT_EQ(again.values[0].hash, data_hash(*v.data));
  EXPECT_EQ(to_string(again), text);
}

TEST(GraphText, RefusesWithTheLine) {
  EXPECT_THAT(refusal("graph \"g\"\ninput \"x\": f33[1]\n"), HasSubstr("line 2, column 15"));
  EXPECT_THAT(refusal("input \"x\": f32[0]\n"), HasSubstr("sizes of 1 or more"));
  EXPECT_THAT(refusal("output \"x\"\n"), HasSubstr("no value of that name"));
  EXPECT_THAT(refusal("input \"x\": f32[1]\ninput \"x\": f32[1]\n"), HasSubstr("occurs twice"));
  EXPECT_THAT(refusal("input \"x\": f32[1] 3\n"), HasSubstr("something follows"));
  EXPECT_THAT(refusal("input \"x\": f32[1048576, 1048576, 1048576]\n"), HasSubstr("overflows"));
  EXPECT_THAT(refusal("input \"x"), HasSubstr("does not end"));
}

TEST(GraphVerify, NamesTheNodeAtFault) {
  EXPECT_THAT(refusal(replaced(kScaled, "f32[3] =", "f32[2] =")), HasSubstr("line 3"));
  EXPECT_THAT(refusal(replaced(kScaled, "input \"x\": f32[2, 3]", "input \"x\": f32[2, 4]")),
              HasSubstr("'y': operand X is 'x' of 8 elements of f32; expected 6 of f32"));
  EXPECT_THAT(refusal(replaced(kScaled, "input \"x\": f32", "input \"x\": i32")),
              HasSubstr("operand X"));
  EXPECT_THAT(refusal(replaced(kScaled, "S=\"s\", ", "")), HasSubstr("operand S is missing"));
  EXPECT_THAT(refusal(replaced(kScaled, "(S=", "(Q=\"s\", S=")), HasSubstr("it has 3 operands"));
  EXPECT_THAT(refusal(replaced(kScaled, "\"z\": f32[3, 2]", "\"z\": f32[3, 3]")),
              HasSubstr("'flat': 'z' is no view of 'y'"));
  EXPECT_THAT(refusal(replaced(kScaled, "dims.i=2", "dims.i=1..2")), HasSubstr("range of sizes"));
  EXPECT_THAT(refusal(replaced(kScaled, "expr:expr", "expr:exqr")), HasSubstr("'y': "));
}

TEST(GraphVerify, WantsConstantWeights) {
  const std::string text = R"(input "x": f32[4, 8]
input "w": f32[8, 2]
"y": f32[4, 2] = "matmul:m=4,n=2,k=8" (A="x", B="w")
output "y"
)";
  EXPECT_THAT(refusal(text), HasSubstr("operand B has to be a constant, and 'w' is calculated"));
}

TEST(GraphInterpret, ComputesEachNode) {
  const auto out = interpret(parse_graph(kScaled), {{"x", floats({1, 2, 3, 4, 5, 6})}});
  ASSERT_EQ(out.size(), 1u);
  EXPECT_THAT(numbers(out[0]), testing::ElementsAre(0.5f, 2.f, -6.f, 2.f, 5.f, -12.f));
}

TEST(GraphInterpret, RefusesInputsOfAnotherSize) {
  EXPECT_THROW(interpret(parse_graph(kScaled), {}), GraphError);
  EXPECT_THROW(interpret(parse_graph(kScaled), {{"x", floats({1, 2})}}), GraphError);
}

TEST(GraphFold, ComputesWhatConstantsDecideAndDropsTheRest) {
  Graph graph = parse_graph(R"(input "x": f32[3]
const "a": f32[3] = {1, 2, 3}
const "b": f32[3] = {4, 5, 6}
"s": f32[3] = "expr:expr=\"Y[i] = A[i] * B[i]\",dims.i=3" (A="a", B="b")
"unused": f32[3] = "expr:expr=\"Y[i] = X[i] + 1\",dims.i=3" (X="x")
"y": f32[3] = "expr:expr=\"Y[i] = X[i] + S[i]\",dims.i=3" (S="s", X="x")
output "y"
)");
  fold_constants(&graph);
  verify(graph);
  ASSERT_EQ(graph.nodes.size(), 1u);
  EXPECT_THAT(numbers(graph.values[graph.find("s")].data), testing::ElementsAre(4, 10, 18));
  EXPECT_THROW(graph.find("a"), GraphError);
  EXPECT_THROW(graph.find("unused"), GraphError);
}

// x * hard_sigmoid(x) behind a convolution, and a sum behind that: one node.
const char* const kHardSwish = R"(graph "swish"
input "x": f32[1, 4, 6, 6]
input "d": f32[1, 5, 6, 6]
const "b": f32[5] = {0.5, -1, 0, 0.25, 2}
"c": f32[1, 5, 6, 6] = "conv2d:n=1,h=6,w=6,ci=4,co=5,kernel=3,pad=1,layout=nchw,epilogue=[bias]" (W="w", X="x", bias="b")
"h": f32[1, 5, 6, 6] = "expr:expr=\"Y[i0, i1, i2, i3] = max(min(X0[i0, i1, i2, i3] / 6 + 0.5, 1), 0)\",dims.i0=1,dims.i1=5,dims.i2=6,dims.i3=6" (X0="c")
"m": f32[1, 5, 6, 6] = "expr:expr=\"Y[i0, i1, i2, i3] = X0[i0, i1, i2, i3] * X1[i0, i1, i2, i3]\",dims.i0=1,dims.i1=5,dims.i2=6,dims.i3=6" (X0="c", X1="h")
"y": f32[1, 5, 6, 6] = "expr:expr=\"Y[i0, i1, i2, i3] = X0[i0, i1, i2, i3] + X1[i0, i1, i2, i3]\",dims.i0=1,dims.i1=5,dims.i2=6,dims.i3=6" (X0="m", X1="d")
output "y"
)";

Graph hard_swish() {
  const Bytes w = floats(random_floats(5 * 4 * 3 * 3, 1));
  std::string text = replaced(kHardSwish, "const \"b\"",
                              "const \"w\": f32[5, 4, 3, 3] = " + data_hash(*w) + "\nconst \"b\"");
  Graph graph = parse_graph(text);
  graph.values[graph.find("w")].data = w;
  verify(graph);
  return graph;
}

TEST(GraphFuse, TakesFunctionsIntoTheConvolution) {
  Graph graph = hard_swish();
  const std::map<std::string, Bytes> inputs = {{"x", floats(random_floats(4 * 36, 2))},
                                               {"d", floats(random_floats(5 * 36, 3))}};
  const std::vector<float> before = numbers(interpret(graph, inputs)[0]);
  EXPECT_EQ(fuse(&graph), 3);
  verify(graph);
  ASSERT_EQ(graph.nodes.size(), 1u) << to_string(graph);
  const std::vector<float> after = numbers(interpret(graph, inputs)[0]);
  ASSERT_EQ(before.size(), after.size());
  for (size_t i = 0; i < before.size(); ++i) EXPECT_NEAR(before[i], after[i], 1e-5) << i;
}

TEST(GraphFuse, KeepsWhatOthersRead) {
  Graph graph = hard_swish();
  graph.outputs.push_back(graph.find("c"));
  EXPECT_EQ(fuse(&graph), 2);  // the convolution stands alone, the functions are one node
  verify(graph);
  EXPECT_EQ(graph.nodes.size(), 2u) << to_string(graph);
}

TEST(GraphFuse, KeepsReadsOfOtherElements) {
  Graph graph = parse_graph(R"(input "x": f32[2, 3]
"a": f32[2, 3] = "expr:expr=\"Y[i, j] = X[i, j] * 2\",dims.i=2,dims.j=3" (X="x")
"y": f32[3, 2] = "expr:expr=\"Y[i, j] = X[j, 2 - i] + 1\",dims.i=3,dims.j=2" (X="a")
output "y"
)");
  EXPECT_EQ(fuse(&graph), 0);
}

TEST(GraphFuse, LooksThroughAxesOfOneElement) {
  Graph graph = parse_graph(R"(input "x": f32[4, 8]
const "w": f32[8, 1] = {1, 2, 3, 4, 5, 6, 7, 8}
"a": f32[1, 4, 1] = "matmul:m=4,n=1,k=8" (A="x", B="w")
"y": f32[1, 4, 1] = "expr:expr=\"Y[i, j, k] = tanh(X[0, j, k])\",dims.i=1,dims.j=4,dims.k=1" (X="a")
output "y"
)");
  const std::map<std::string, Bytes> inputs = {{"x", floats(random_floats(32, 4))}};
  const std::vector<float> before = numbers(interpret(graph, inputs)[0]);
  EXPECT_EQ(fuse(&graph), 1);
  verify(graph);
  const std::vector<float> after = numbers(interpret(graph, inputs)[0]);
  for (size_t i = 0; i < before.size(); ++i) EXPECT_NEAR(before[i], after[i], 1e-6);
}

// A chain of `count` nodes with a branch from the first to the last.
Graph chain(int count) {
  std::string text = "input \"v0\": f32[100]\n";
  for (int i = 1; i <= count; ++i) {
    text += "\"v" + std::to_string(i) +
            "\": f32[100] = \"expr:expr=\\\"Y[i] = X[i] + Z[i]\\\",dims.i=100\" (X=\"v" +
            std::to_string(i - 1) + "\", Z=\"v" + std::to_string(i == count ? 1 : i - 1) + "\")\n";
  }
  return parse_graph(text + "output \"v" + std::to_string(count) + "\"\n");
}

TEST(GraphPlan, SharesPlacesOfValuesThatNeverMeet) {
  const Graph graph = chain(12);
  const Plan plan = plan_memory(graph);
  EXPECT_EQ(plan.least_bytes, 3 * 448);
  EXPECT_EQ(plan.bytes, plan.least_bytes);
  // No two values that are needed at once overlap.
  std::vector<size_t> last(graph.values.size(), 0), first(graph.values.size(), 0);
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    first[graph.nodes[n].output] = n + 1;
    last[graph.nodes[n].output] = n + 1;
    for (const auto& [name, value] : graph.nodes[n].operands) last[value] = n + 1;
  }
  for (size_t i : graph.outputs) last[i] = graph.nodes.size() + 1;
  for (size_t a = 0; a < last.size(); ++a) {
    EXPECT_EQ(plan.offsets[a] % kValueAlignment, 0);
    for (size_t b = 0; b < a; ++b) {
      if (first[a] > last[b] || first[b] > last[a]) continue;
      const int64_t x = plan.offsets[a], y = plan.offsets[b];
      EXPECT_TRUE(x + 400 <= y || y + 400 <= x) << a << " and " << b;
    }
  }
}

TEST(GraphPlan, GivesViewsThePlaceOfTheirElements) {
  const Graph graph = parse_graph(kScaled);
  const Plan plan = plan_memory(graph);
  EXPECT_EQ(plan.places[graph.find("z")].root, graph.find("y"));
  EXPECT_EQ(plan.offsets[graph.find("z")], -1);
  EXPECT_EQ(plan.offsets[graph.find("s")], -1);
}

}  // namespace
}  // namespace tilewright::graph
