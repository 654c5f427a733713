// Divisions by numbers as products.
#include "graph/divisions.h"

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

}  // namespace
}  // namespace tilewright::graph
