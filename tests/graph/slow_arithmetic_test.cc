// Divisions by numbers as products, and subnormal weights as zeros.
#include "graph/slow_arithmetic.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/graph/graphs.h"

namespace tilewright::graph {
namespace {

using testing::HasSubstr;
using testing::Not;

Graph function(const std::string& value) {
  return parse_graph("input \"x\": f32[3, 8]\n\"y\": f32[3, 8] = \"expr:expr=\\\"Y[i, j] = " +
                     value + "\\\",dims.i=3,dims.j=8,shapes.X=[3,8]\" (X=\"x\")\noutput \"y\"\n");
}

TEST(Divisions, ByNumbersAreProducts) {
  const Graph after =
      after_pass(multiply_by_inverses, function("X[i, j] / 6 + 2 * (X[i, j] - 1) / 0.4"), 2);
  EXPECT_THAT(after.nodes[0].spec, Not(HasSubstr("/")));
}

TEST(Divisions, ByAnythingElseStay) {
  after_pass(multiply_by_inverses, function("X[i, j] / (1 + abs(X[i, j]))"), 0);
  after_pass(multiply_by_inverses, function("X[i, j // 2]"), 0);
}

TEST(Divisions, OfSingleNumbersStay) {
  after_pass(multiply_by_inverses,
             parse_graph("input \"x\": f32[1]\n\"y\": f32[1] = \"expr:expr=\\\"Y[i] = X[i] / "
                         "255\\\",dims.i=1,shapes.X=[1]\" (X=\"x\")\noutput \"y\"\n"),
             0);
}

// The inverse of such a number is none that a float holds in full.
TEST(Divisions, ByNumbersWithoutAnInverseStay) {
  after_pass(multiply_by_inverses, function("X[i, j] / 2e38"), 0);
}

// A product with a bias, and a function of a constant.
Graph with_constants(std::initializer_list<float> weight, std::initializer_list<float> bias) {
  Graph graph = parse_graph(
      "input \"x\": f32[3, 4]\n"
      "const \"w\": f32[4, 2] = {1, 1, 1, 1, 1, 1, 1, 1}\n"
      "const \"b\": f32[2] = {1, 1}\n"
      "\"y\": f32[3, 2] = \"matmul:m=3,n=2,k=4,epilogue=[bias]\" (A=\"x\", B=\"w\", bias=\"b\")\n"
      "output \"y\"\n");
  graph.values[graph.find("w")].data = floats(weight);
  graph.values[graph.find("b")].data = floats(bias);
  return graph;
}

TEST(Subnormals, OfWeightsAndBiasesAreZeros) {
  const Graph after = after_pass(
      drop_subnormals, with_constants({1e-40f, 1, -1e-45f, 0, 1.2e-38f, -2, 3, 4}, {1e-39f, 5}), 2);
  EXPECT_EQ(*after.values[after.find("w")].data, *floats({0, 1, 0, 0, 1.2e-38f, -2, 3, 4}));
  EXPECT_EQ(*after.values[after.find("b")].data, *floats({0, 5}));
  after_pass(drop_subnormals, with_constants({1, 2, 3, 4, 5, 6, 7, 8}, {1, 2}), 0);
}

// log(x + 1e-40) is -92 at 0, and log(x + 0) is none.
TEST(Subnormals, OfFunctionsStay) {
  Graph graph = parse_graph(
      "input \"x\": f32[3, 2]\n"
      "const \"c\": f32[2] = {1, 1}\n"
      "\"y\": f32[3, 2] = \"expr:expr=\\\"Y[i, j] = log(abs(X[i, j]) + C[j])\\\",dims.i=3,dims.j=2,"
      "shapes.X=[3,2],shapes.C=[2]\" (X=\"x\", C=\"c\")\n"
      "output \"y\"\n");
  graph.values[graph.find("c")].data = floats({1e-40f, 1e-40f});
  after_pass(drop_subnormals, graph, 0);
}

}  // namespace
}  // namespace tilewright::graph
