// Reads of nodes: axes of one element, and constants of sums.
#include "graph/reads.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/graph/graphs.h"

namespace tilewright::graph {
namespace {

using testing::HasSubstr;
using testing::Not;

// A convolution over images of one column, as exporters write one over sequences.
TEST(Reads, HaveNoLastAxesOfOneElement) {
  const Graph before = graph_with(
      {{"b", {1, 4, 1}}, {"w", {4, 3, 5, 1}}},
      "input \"x\": f32[1, 3, 8, 1]\n\"y\": f32[1, 4, 4, 1] = \"expr:expr=\\\"T[n, c, h, v] += "
      "X[n, k, h + r, v + s * 2] * W[c, k, r, s]; Y[n, c, h, v] = max(T[n, c, h, v] + B[0, c, 0], "
      "0)\\\",dims.n=1,dims.c=4,dims.h=4,dims.v=1,dims.k=3,dims.r=5,dims.s=1,shapes.X=[1,3,8,1],"
      "shapes.W=[4,3,5,1],shapes.B=[1,4,1],weights=[W]\" (X=\"x\", W=\"w\", B=\"b\")\noutput "
      "\"y\"\n");
  const Graph after = after_pass(simplify_reads, before, 1);
  const std::string& spec = after.nodes[0].spec;
  EXPECT_THAT(spec,
              HasSubstr("T0[i0, i1, i2] += X0[i0, r0, i2 + r1] * X1[i1, r0, r1]; Y[i0, i1, i2] "
                        "= max(T0[i0, i1, i2] + X2[0, i1], 0)"));
  EXPECT_THAT(spec, HasSubstr("shapes.X0=[1,3,8],shapes.X1=[4,3,5],shapes.X2=[1,4]"));
  EXPECT_THAT(spec, Not(HasSubstr("dims.i3")));
}

// Inside the tensor they separate nothing that lies apart, and a sum needs an axis.
TEST(Reads, KeepAxesInside) {
  after_pass(simplify_reads,
             parse_graph("input \"x\": f32[1, 8]\n\"y\": f32[1, 8] = \"expr:expr=\\\"Y[i, j] += "
                         "X[i, j] * X[i + k, j]\\\",dims.i=1,dims.j=8,dims.k=1,shapes.X=[1,8]\" "
                         "(X=\"x\")\noutput \"y\"\n"),
             0);
}

// As a convolution with groups reads the channels of its own.
TEST(Reads, SplitIndicesOverGroups) {
  const Graph before = graph_with(
      {{"w", {4, 12}}, {"b", {12}}},
      "input \"x\": f32[5, 12]\n\"y\": f32[5, 12] = \"expr:expr=\\\"T[i, c] += X[i, c // 6 * 4 + "
      "k] * W[k, c]; "
      "Y[i, c] = T[i, c] + B[c] + X[i, c] + X[i, c // "
      "2]\\\",dims.i=5,dims.c=12,dims.k=4,shapes.X=[5,12],"
      "shapes.W=[4,12],shapes.B=[12],weights=[W]\" (X=\"x\", W=\"w\", B=\"b\")\noutput \"y\"\n");
  const Graph after = after_pass(simplify_reads, before, 1);
  const std::string& spec = after.nodes[0].spec;
  EXPECT_THAT(spec,
              HasSubstr("T0[i0, i1, i2] += X0[i0, i1 * 4 + r0] * X1[r0, i1, i2]; Y[i0, i1, i2] = "
                        "T0[i0, i1, i2] + X2[i1, i2] + X0[i0, i1 * 6 + i2]"));
  EXPECT_THAT(spec, HasSubstr("shapes.X1=[4,2,6],shapes.X2=[2,6]"));
}

TEST(Reads, SplitConvolutionsWithGroups) {
  const Graph before = graph_with({{"w", {6, 2, 3, 3}}},
                                  "input \"x\": f32[1, 4, 5, 5]\n\"y\": f32[1, 6, 5, 5] = "
                                  "\"conv2d:n=1,h=5,w=5,ci=4,co=6,kernel=3,pad=1,"
                                  "groups=2,layout=nchw\" (X=\"x\", W=\"w\")\noutput \"y\"\n");
  const Graph after = after_pass(simplify_reads, before, 1);
  EXPECT_THAT(after.nodes[0].spec, Not(HasSubstr("//")));
  EXPECT_THAT(after.nodes[0].spec, HasSubstr("weights=[X1]"));
}

// As the states of a recurrent layer meet their weight.
TEST(Reads, TakeConstantsOfSumsForWeights) {
  const Graph before =
      graph_with({{"w", {1, 16, 8}}, {"b", {1, 16}}},
                 "input \"x\": f32[1, 8]\n\"y\": f32[1, 16] = \"expr:expr=\\\"S[i, j] += X[i, k] * "
                 "W[0, j, k]; "
                 "Y[i, j] = S[i, j] + B[0, "
                 "j]\\\",dims.i=1,dims.j=16,dims.k=8,shapes.X=[1,8],shapes.W=[1,16,8],"
                 "shapes.B=[1,16]\" (X=\"x\", W=\"w\", B=\"b\")\noutput \"y\"\n");
  const Graph after = after_pass(simplify_reads, before, 1);
  EXPECT_THAT(after.nodes[0].spec, HasSubstr("* X1[i1, r0]"));
  EXPECT_THAT(after.nodes[0].spec, HasSubstr("weights=[X1]"));
}

}  // namespace
}  // namespace tilewright::graph
