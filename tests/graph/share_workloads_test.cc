// Nodes that differ in numbers alone.
#include "graph/share_workloads.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/graph/graphs.h"

namespace tilewright::graph {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string line(const std::string& to, const std::string& from, const std::string& value) {
  return "\"" + to + "\": f32[3, 8] = \"expr:expr=\\\"Y[i, j] = " + value +
         "\\\",dims.i=3,dims.j=8,shapes.X0=[3,8]\" (X0=\"" + from + "\")\n";
}

Graph chain(const std::vector<std::string>& values) {
  std::string text = "input \"x\": f32[3, 8]\n", from = "x";
  for (const std::string& value : values) {
    const std::string to = from + "y";
    text += line(to, from, value);
    from = to;
  }
  return parse_graph(text + "output \"" + from + "\"\n");
}

TEST(ShareWorkloads, OfTheSameTextButForNumbers) {
  const Graph after = after_pass(
      share_workloads,
      chain({"X0[i, j] * 0.5 + 3", "X0[i, j] * 0.25 + 3", "X0[i, j] * (-0.125) + 3"}), 2);
  EXPECT_EQ(after.nodes[0].spec, after.nodes[1].spec);
  EXPECT_EQ(after.nodes[0].spec, after.nodes[2].spec);
  EXPECT_THAT(after.nodes[0].spec, HasSubstr("+ 3")) << "all have it";
  EXPECT_EQ(after.nodes[0].operands.size(), 2u);
}

TEST(ShareWorkloads, EachPlaceHasItsNumber) {
  const Graph after = after_pass(
      share_workloads, chain({"max(X0[i, j] * 0.5, 0.25) - 1", "max(X0[i, j] * 2, 0.5) - 3"}), 1);
  EXPECT_EQ(after.nodes[0].operands.size(), 4u);
}

// A stage of integers that reads a float is calculated in floats.
TEST(ShareWorkloads, StagesOfIntegersStaySuch) {
  std::string text = "input \"x\": u8[3]\n";
  for (const char* zero : {"3", "128"}) {
    text += std::string("\"y") + zero + "\": f32[3] = \"expr:expr=\\\"S[i] = X[i] - " + zero +
            "; Y[i] = S[i] * 0.5\\\",dims.i=3,dtypes.S=i32,dtypes.X=u8,shapes.X=[3]\" (X=\"x\")\n";
  }
  Graph graph = parse_graph(text + "output \"y3\"\noutput \"y128\"\n");
  EXPECT_EQ(share_workloads(&graph), 1);
  verify(graph);
  EXPECT_EQ(graph.nodes[0].spec, graph.nodes[1].spec);
  const Workload shared = parse_workload(graph.nodes[0].spec);
  EXPECT_THAT(to_string(shared), HasSubstr("T0[i0] = i32(X0[i0]) - X1[0]"));
}

// Numbers of indices, comparisons and values of indices are no operands.
TEST(ShareWorkloads, LeaveIndicesAlone) {
  after_pass(share_workloads, chain({"X0[i, j // 2]", "X0[i, j // 4]"}), 0);
  after_pass(share_workloads, chain({"select(j < 2, X0[i, j], 1)", "select(j < 3, X0[i, j], 1)"}),
             0);
  after_pass(share_workloads, chain({"X0[i, j] * (j + 1)", "X0[i, j] * (j + 2)"}), 0);
}

TEST(ShareWorkloads, LeaveEqualNodesAlone) {
  const Graph after = after_pass(share_workloads, chain({"X0[i, j] * 0.5", "X0[i, j] * 0.5"}), 0);
  EXPECT_THAT(after.nodes[0].spec, HasSubstr("0.5"));
}

}  // namespace
}  // namespace tilewright::graph
