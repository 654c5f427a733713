// Products of one operand with several weights.
#include "graph/join_products.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "graph/optimize.h"
#include "tests/graph/graphs.h"

namespace tilewright::graph {
namespace {

using testing::HasSubstr;

// A product of "x" with a weight, or with its rows and columns exchanged, and a reader of its heads.
struct Part {
  std::string name = "a";
  int64_t columns = 8;
  std::string more = ",epilogue=[bias]", left = "x";
  std::string reader = "tanh(X[s, h, e])";
  bool turned = false;
};

Graph graph_of(const std::vector<Part>& parts, const std::string& more = "") {
  std::string nodes;
  std::vector<std::pair<std::string, Shape>> constants;
  for (const Part& p : parts) {
    const bool bias = p.more.find("bias") != std::string::npos;
    constants.emplace_back(p.name + "w", p.turned ? Shape{p.columns, 6} : Shape{6, p.columns});
    if (bias) constants.emplace_back(p.name + "b", Shape{p.columns});
    nodes += fmt::format(
        "\"{0}\": f32[4, {1}] = \"matmul:m=4,n={1},k=6{2}{3}\" (A=\"{4}\", B=\"{0}w\"{5})\n",
        p.name, p.columns, p.turned ? ",trans_b=true" : "", p.more, p.left,
        bias ? fmt::format(", bias=\"{}b\"", p.name) : "");
    nodes += fmt::format(
        "\"{0}y\": f32[{1}, 4, 4] = \"expr:expr=\\\"Y[h, s, e] = {2}\\\",dims.h={1},"
        "dims.s=4,dims.e=4,shapes.X=[4,{1},4]\" (X=\"{0}\")\n",
        p.name, p.columns / 4, p.reader);
  }
  for (const Part& p : parts) nodes += fmt::format("output \"{}y\"\n", p.name);
  return graph_with(constants, "input \"x\": f32[4, 6]\ninput \"z\": f32[4, 6]\n" + nodes + more);
}

Graph with_joined(const std::vector<Part>& parts, int expected, const std::string& more = "") {
  return after_pass(join_products, graph_of(parts, more), expected);
}

Part named(const std::string& name, int64_t columns = 8) {
  Part part;
  part.name = name;
  part.columns = columns;
  return part;
}

TEST(GraphJoin, ReadersTakeTheirColumns) {
  const Graph graph = with_joined({named("a"), named("b", 12), named("c")}, 2);
  ASSERT_EQ(graph.nodes.size(), 4u);
  EXPECT_THAT(graph.nodes[0].spec, HasSubstr("matmul:m=4,n=28,k=6,epilogue=[bias]"));
  EXPECT_THAT(to_string(graph), HasSubstr("tanh(X0[i1, i0 * 4 + i2 + 20])"));
  Part a = named("a"), b = named("b");
  a.turned = b.turned = true;
  a.more = b.more = "";
  with_joined({a, b}, 1);
}

TEST(GraphJoin, KeepsWhatDiffers) {
  Part other_left = named("b");
  other_left.left = "z";
  with_joined({named("a"), other_left}, 0);
  Part turned = named("b");
  turned.turned = true;
  with_joined({named("a"), turned}, 0);
  Part plain = named("b");
  plain.more = "";
  with_joined({named("a"), plain}, 0);
  with_joined({named("a"), named("b")}, 0, "output \"b\"\n");
}

// A reader that is no expression needs its rows side by side.
TEST(GraphJoin, KeepsWhatWouldBeCopied) {
  with_joined({named("a"), named("b")}, 0,
              "\"s\": f32[4, 8] = \"softmax:m=4,n=8\" (X=\"b\")\noutput \"s\"\n");
}

TEST(GraphJoin, IsAPassOfTheOptimizer) {
  const Graph before = graph_of({named("a"), named("b")});
  Graph after = before;
  optimize(&after);
  expect_near(before, after);
}

}  // namespace
}  // namespace tilewright::graph
