// Dimensions whose sizes each run gives.
#include "graph/sizes.h"

#include <gmock/gmock.h>

#include "graph/optimize.h"
#include "graph/plan.h"
#include "ir/ops/spec.h"
#include "tests/graph/graphs.h"

namespace tilewright::graph {
namespace {

using testing::HasSubstr;

// Two layers and a softmax; batch is 2137.
Graph layers() {
  return graph_with(
      {{"w", {16, 8}}, {"v", {8, 5}}, {"c", {8}}},
      "dim \"batch\": 1..9 as 2137\n"
      "input \"x\": f32[2137, 4, 4]\n"
      "\"a\": f32[2137, 8] = \"matmul:m=2137,n=8,k=16\" (A=\"x\", B=\"w\")\n"
      "\"b\": f32[2137, 8] = \"expr:expr=\\\"Y[i, j] = max(X[i, j] + C[j], 0)\\\",dims.i=2137,"
      "dims.j=8\" (C=\"c\", X=\"a\")\n"
      "\"d\": f32[2137, 5] = \"matmul:m=2137,n=5,k=8\" (A=\"b\", B=\"v\")\n"
      "\"y\": f32[2137, 5] = \"softmax:m=2137,n=5\" (X=\"d\")\n"
      "\"z\": f32[10685] = view \"y\"\n"
      "output \"y\"\noutput \"z\"\n");
}

std::string size_refusal(const Graph& graph) {
  try {
    for (const Node& node : graph.nodes) {
      if (!node.is_view()) ranged(graph, node);
    }
  } catch (const GraphError& e) {
    return e.what();
  }
  return "";
}

TEST(GraphSizes, StandInsAreFactors) {
  const Graph graph = parse_graph("dim \"b\": 1..8 as 2137\ndim \"s\": 2..5 as 1913\n");
  const Size size = size_of(graph, int64_t{3} * 2137 * 1913 * 1913);
  EXPECT_EQ(to_string(graph, size), "3*b*s*s");
  EXPECT_EQ(range_of(graph, size), (DimSize{12, 600}));
  const int64_t dims[] = {7, 4};
  EXPECT_EQ(size.at(dims), 3 * 7 * 4 * 4);
  EXPECT_EQ(to_string(graph, size_of(graph, 12)), "12");
}

TEST(GraphSizes, TextsHaveDimensions) {
  const Graph graph = layers();
  EXPECT_EQ(to_string(parse_graph(to_string(graph))), to_string(graph));
  EXPECT_THAT(refusal("dim \"b\": 1..8 as 2136\n"),
              HasSubstr("2136 is no stand-in; expected one of 2137"));
  EXPECT_THAT(refusal("dim \"b\": 8..8 as 2137\n"), HasSubstr("the range is empty"));
  EXPECT_THAT(refusal("dim \"b\": 1..8 as 2137\ndim \"b\": 1..8 as 1913\n"),
              HasSubstr("occurs twice"));
}

TEST(GraphSizes, SpecsHaveRanges) {
  const Graph graph = layers();
  const RangedSpec first = ranged(graph, graph.nodes[0]);
  EXPECT_EQ(first.spec, "matmul:m=1..9,n=8,k=16");
  ASSERT_EQ(first.sizes.size(), 1u);
  EXPECT_EQ(first.sizes.at("m"), size_of(graph, 2137));
}

// Passes do not know of ranges: the graph that they make is right at each size.
TEST(GraphSizes, OptimizedGraphsAreRightAtEachSize) {
  const Graph before = layers();
  Graph after = before;
  optimize(&after);
  EXPECT_LT(after.nodes.size(), before.nodes.size());
  EXPECT_EQ(size_refusal(after), "");
  for (int64_t batch : {1, 2, 9}) {
    const Graph fixed = at_sizes(after, {{"batch", batch}});
    EXPECT_EQ(fixed.values[fixed.outputs[0]].shape, (Shape{batch, 5}));
    expect_near(at_sizes(before, {{"batch", batch}}), fixed);
  }
  EXPECT_THROW(at_sizes(after, {{"batch", 10}}), GraphError);
  EXPECT_THROW(at_sizes(after, {}), GraphError);
}

TEST(GraphSizes, MemoryIsPlannedForTheLargest) {
  const Graph graph = layers();
  const Plan plan = plan_memory(graph);
  EXPECT_EQ(plan.bytes, plan_memory(at_sizes(graph, {{"batch", 9}})).bytes);
}

TEST(GraphSizes, RefusesWhatIsNoFactor) {
  const std::string head = "dim \"b\": 1..8 as 2137\ninput \"x\": f32[2137, 4]\n";
  // The mean over a size that each run gives has it in its text.
  const Graph mean = parse_graph(head +
                                 "\"y\": f32[4] = \"expr:expr=\\\"Y[j] += X[i, j] / "
                                 "2137\\\",dims.i=2137,dims.j=4\" (X=\"x\")\n");
  EXPECT_THAT(size_refusal(mean), HasSubstr("'y': its expr depends on a size that each run gives"));
  // The first of two rows: the operand has another size than its value.
  const Graph rows = parse_graph(head +
                                 "\"y\": f32[2, 4] = \"expr:expr=\\\"Y[i, j] = X[i, "
                                 "j]\\\",dims.i=2,dims.j=4,shapes.X=[2137,4]\" "
                                 "(X=\"x\")\n");
  EXPECT_THAT(size_refusal(rows), HasSubstr("axis 0 of operand X"));
}

TEST(GraphSizes, ReadsFixedPlacesOfRangedAxes) {
  const Graph graph = parse_graph(
      "dim \"s\": 1..6 as 2137\ninput \"x\": f32[2, 2137, 3]\n"
      "\"y\": f32[2, 3] = \"expr:expr=\\\"Y[i, j] = X[i, 0, "
      "j]\\\",dims.i=2,dims.j=3,shapes.X=[2,2137,3]\" "
      "(X=\"x\")\noutput \"y\"\n");
  EXPECT_EQ(size_refusal(graph), "");
  const Graph fixed = at_sizes(graph, {{"s", 2}});
  const Bytes got = interpret(fixed, {{"x", floats({1, 2, 3, 0, 0, 0, 4, 5, 6, 0, 0, 0})}})[0];
  EXPECT_EQ(*got, *floats({1, 2, 3, 4, 5, 6}));
}

TEST(GraphSizes, OtherStandInsTellWhatIsNoFactor) {
  const std::string text =
      "\"y\": f32[4] = \"expr:expr=\\\"Y[i] = X[i] + $\\\",dims.i=4\" (X=\"x\")\noutput \"y\"\n";
  const auto graph = [&](const std::string& number, const std::string& added) {
    std::string own = "dim \"b\": 1..8 as " + number + "\ninput \"x\": f32[4]\n" + text;
    return parse_graph(own.replace(own.find('$'), 1, added));
  };
  EXPECT_NO_THROW(require_same(graph("2137", "5"), graph("2141", "5")));
  EXPECT_THROW(require_same(graph("2137", "2138"), graph("2141", "2142")), GraphError);
}

}  // namespace
}  // namespace tilewright::graph
