// Moves that go into the indices of their readers, and into what makes their elements.
#include "graph/moves.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "graph/fuse.h"
#include "tests/graph/graphs.h"

namespace tilewright::graph {
namespace {

using testing::HasSubstr;
using testing::Not;

// "name": f32[shape] = "expr:expr=…,dims.…" (operands)
std::string node(const std::string& name, const std::string& shape, const std::string& statements,
                 const std::string& dims, const std::string& operands) {
  return fmt::format("\"{}\": f32[{}] = \"expr:expr=\\\"{}\\\",{}\" ({})\n", name, shape,
                     statements, dims, operands);
}

const std::string kHeads = node("t", "1, 2, 8, 4", "Y[b, h, s, e] = X[b, s, h, e]",
                                "dims.b=1,dims.h=2,dims.s=8,dims.e=4", "X=\"x\"");

// The graph with its moves folded; `changed` operands changed.
Graph folded(const std::string& text, int changed) {
  return after_pass(fold_moves, parse_graph(text), changed);
}

TEST(GraphMoves, FunctionsReadThroughTranspositions) {
  const Graph graph = folded("input \"x\": f32[1, 8, 2, 4]\n" + kHeads +
                                 node("y", "1, 2, 8, 4", "Y[i, j, k, l] = exp(X[i, j, k, l])",
                                      "dims.i=1,dims.j=2,dims.k=8,dims.l=4", "X=\"t\"") +
                                 "output \"y\"\n",
                             1);
  EXPECT_EQ(graph.nodes.size(), 1u);
  EXPECT_THAT(graph.nodes[0].spec, HasSubstr("exp(X0[0, i2, i1, i3])"));
}

TEST(GraphMoves, ReadersOfViewsReadThroughThem) {
  // The second [2, 8, 4] among three, over other axes.
  const Graph graph =
      folded("input \"x\": f32[8, 24]\n" +
                 node("t", "3, 2, 8, 4", "Y[p, h, s, e] = X[s, p, h, e]",
                      "dims.p=3,dims.h=2,dims.s=8,dims.e=4,shapes.X=[8,3,2,4]", "X=\"x\"") +
                 "\"v\": f32[1, 2, 8, 4] = view \"t\" from 64\n" +
                 node("y", "2, 8, 4", "Y[h, s, e] = exp(X[0, h, s, e])",
                      "dims.h=2,dims.s=8,dims.e=4,shapes.X=[1,2,8,4]", "X=\"v\"") +
                 "output \"y\"\n",
             1);
  EXPECT_EQ(graph.nodes.size(), 1u);
  EXPECT_THAT(graph.nodes[0].spec, HasSubstr("exp(X0[i1, 1, i0, i2])"));
}

TEST(GraphMoves, RepeatedHeadsAreQuotients) {
  const Graph graph = folded("input \"x\": f32[2, 8, 4]\n" +
                                 node("r", "2, 3, 8, 4", "Y[g, r, s, e] = X[g, s, e]",
                                      "dims.g=2,dims.r=3,dims.s=8,dims.e=4", "X=\"x\"") +
                                 "\"v\": f32[6, 8, 4] = view \"r\"\n" +
                                 node("y", "6, 8, 4", "Y[h, s, e] = X[h, s, e] * 2",
                                      "dims.h=6,dims.s=8,dims.e=4", "X=\"v\"") +
                                 "output \"y\"\n",
                             1);
  EXPECT_THAT(graph.nodes.back().spec, HasSubstr("X0[i0 // 3, i1, i2]"));
}

TEST(GraphMoves, AReductionKeepsItsContiguousIndex) {
  const std::string head = "input \"x\": f32[1, 8, 2, 4]\ninput \"w\": f32[2, 4, 8]\n" + kHeads;
  const std::string dims = "dims.h=2,dims.i=8,dims.j=8,dims.r=4,shapes.X=[1,2,8,4]";
  folded(head +
             node("y", "2, 8, 8", "Y[h, i, j] += X[0, h, i, r] * W[h, r, j]", dims,
                  "W=\"w\", X=\"t\"") +
             "output \"y\"\n",
         1);
  // The rows of the first operand would be read across.
  const std::string across = node("u", "1, 2, 4, 8", "Y[b, h, e, s] = X[b, s, h, e]",
                                  "dims.b=1,dims.h=2,dims.s=8,dims.e=4", "X=\"x\"");
  folded("input \"x\": f32[1, 8, 2, 4]\ninput \"w\": f32[2, 8, 4]\n" + across +
             node("y", "2, 8, 8", "Y[h, i, j] += W[h, i, r] * X[0, h, r, j]",
                  "dims.h=2,dims.i=8,dims.j=8,dims.r=4,shapes.X=[1,2,4,8]", "W=\"w\", X=\"u\"") +
             "output \"y\"\n",
         0);
}

TEST(GraphMoves, KeepsWhatNeedsRemainders) {
  // The reader's index over both heads and elements would be cut in two.
  folded(
      "input \"x\": f32[8, 2, 4]\n" +
          node("t", "2, 8, 4", "Y[h, s, e] = X[s, h, e]", "dims.h=2,dims.s=8,dims.e=4", "X=\"x\"") +
          node("y", "64", "Y[i] = X[i] * 2", "dims.i=64", "X=\"t\"") + "output \"y\"\n",
      0);
}

TEST(GraphMoves, OthersKeepTheirCopy) {
  const std::string across = node("t", "4, 8", "Y[j, i] = X[i, j]", "dims.i=8,dims.j=4", "X=\"x\"");
  const std::string reader =
      node("y", "4, 8", "Y[i, j] = X[i, j] * 2", "dims.i=4,dims.j=8", "X=\"t\"");
  const std::string head = "input \"x\": f32[8, 4]\n" + across + reader + "output \"y\"\n";
  EXPECT_EQ(folded(head, 1).nodes.size(), 1u);
  EXPECT_EQ(folded(head + "output \"t\"\n", 0).nodes.size(), 2u);
}

// Rotary positions: a half of each row changes its sign and its place.
TEST(GraphMoves, RotaryPositionsAreOneNode) {
  const std::string dims = "dims.h=2,dims.s=8,dims.e=4";
  const std::string text =
      "input \"x\": f32[1, 8, 2, 8]\ninput \"c\": f32[8, 8]\ninput \"n\": f32[8, 8]\n" +
      node("t", "2, 8, 8", "Y[h, s, e] = X[0, s, h, e]", "dims.h=2,dims.s=8,dims.e=8", "X=\"x\"") +
      node("l", "2, 8, 4", "Y[h, s, e] = X[h, s, e]", dims + ",shapes.X=[2,8,8]", "X=\"t\"") +
      node("m", "2, 8, 4", "Y[h, s, e] = -X[h, s, e + 4]", dims + ",shapes.X=[2,8,8]", "X=\"t\"") +
      node("y", "2, 8, 8",
           "R[h, s, e] = select(e < 4, A[h, s, e], B[h, s, e - 4]); Y[h, s, e] = X[h, s, e] * C[s, "
           "e] + R[h, s, e] * N[s, e]",
           "dims.h=2,dims.s=8,dims.e=8,shapes.A=[2,8,4],shapes.B=[2,8,4]",
           "A=\"m\", B=\"l\", C=\"c\", N=\"n\", X=\"t\"") +
      "output \"y\"\n";
  const Graph before = parse_graph(text);
  Graph after = before;
  EXPECT_GT(fold_moves(&after), 0);
  expect_near(before, after);
  EXPECT_EQ(after.nodes.size(), 1u) << to_string(after);
}

// A costly function is not computed once per element of a larger reader, and not for two.
TEST(GraphMoves, FunctionsAreComputedOnce) {
  const std::string head = "input \"x\": f32[8]\ninput \"z\": f32[8]\n";
  const std::string costly = node("f", "8", "Y[i] = exp(X[i])", "dims.i=8", "X=\"x\"");
  const std::string wide =
      node("y", "4, 8", "Y[i, j] = X[j] + Z[j]", "dims.i=4,dims.j=8", "X=\"f\", Z=\"z\"");
  folded(head + costly + wide + "output \"y\"\n", 0);
  const std::string back = node("y", "8", "Y[i] = X[7 - i] + Z[i]", "dims.i=8", "X=\"f\", Z=\"z\"");
  EXPECT_EQ(folded(head + costly + back + "output \"y\"\n", 1).nodes.size(), 1u);
  folded(head + costly + back + "output \"y\"\noutput \"f\"\n", 0);
}

Graph fused(const std::string& text, int gone) { return after_pass(fuse, parse_graph(text), gone); }

// A product writes its heads where the transposition behind it puts them.
TEST(GraphFuse, ReductionsStoreInAnotherOrder) {
  const std::string product = "input \"p\": f32[2, 8, 8]\ninput \"v\": f32[2, 8, 4]\n" +
                              node("o", "1, 2, 8, 4", "Y[h, i, e] += P[h, i, r] * V[h, r, e]",
                                   "dims.h=2,dims.i=8,dims.e=4,dims.r=8", "P=\"p\", V=\"v\"");
  const Graph graph = fused(product +
                                node("y", "1, 8, 2, 4", "Y[b, s, h, e] = X[b, h, s, e] + 1",
                                     "dims.b=1,dims.s=8,dims.h=2,dims.e=4", "X=\"o\"") +
                                "output \"y\"\n",
                            1);
  EXPECT_THAT(graph.nodes[0].spec, HasSubstr("= T0[i2_1, i1, i3] + 1"));
  // Rows that would be stored across, twice, or in part.
  fused(product +
            node("y", "2, 4, 8", "Y[h, e, i] = X[0, h, i, e]",
                 "dims.h=2,dims.i=8,dims.e=4,shapes.X=[1,2,8,4]", "X=\"o\"") +
            "output \"y\"\n",
        0);
  fused(product +
            node("y", "3, 8, 2, 4", "Y[b, s, h, e] = X[0, h, s, e]",
                 "dims.b=3,dims.s=8,dims.h=2,dims.e=4,shapes.X=[1,2,8,4]", "X=\"o\"") +
            "output \"y\"\n",
        0);
  fused(product +
            node("y", "8, 4", "Y[s, e] = X[0, 1, s, e]", "dims.s=8,dims.e=4,shapes.X=[1,2,8,4]",
                 "X=\"o\"") +
            "output \"y\"\n",
        0);
}

}  // namespace
}  // namespace tilewright::graph
