// Attention that is written out becomes one node.
#include "graph/attention.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "graph/optimize.h"
#include "tests/graph/graphs.h"

namespace tilewright::graph {
namespace {

using testing::HasSubstr;
using testing::Not;

// The parts of attention over 2 heads of 8 rows and 4 elements, as exporters write it.
struct Written {
  std::string queries = "X[b, s, h, e]", keys = "X[b, s, h, e]";
  std::string scores = "Z[b, h, i, j] = S[b, h, i, j] / 2", mask;
  std::string softmax = "softmax:m=16,n=8";
  std::string product = "Y[b, h, i, e] += P[b, h, i, r] * V[b, h, r, e]";
  std::string more;

  std::string text() const {
    const std::string dims = "dims.b=1,dims.h=2,dims.s=8,dims.e=4";
    auto heads = [&](const char* name, const std::string& value, const char* from, bool across) {
      return fmt::format(
          "\"{}\": f32[1, 2, {}] = \"expr:expr=\\\"Y[b, h, {}] = {}\\\",{}\" (X=\"{}\")\n", name,
          across ? "4, 8" : "8, 4", across ? "e, s" : "s, e", value, dims, from);
    };
    const bool masked = scores.find("M[") != std::string::npos;
    return "input \"q\": f32[1, 8, 2, 4]\ninput \"k\": f32[1, 8, 2, 4]\ninput \"v\": f32[1, 8, 2, "
           "4]\n" +
           mask + heads("qt", queries, "q", false) + heads("kt", keys, "k", true) +
           heads("vt", "X[b, s, h, e]", "v", false) +
           fmt::format(
               "\"s\": f32[1, 2, 8, 8] = \"expr:expr=\\\"S[b, h, i, j] += Q[b, h, i, r] * "
               "K[b, h, r, j]; {}\\\",dims.b=1,dims.h=2,dims.i=8,dims.j=8,dims.r=4{}\" "
               "(K=\"kt\", {}Q=\"qt\")\n",
               scores, masked ? ",shapes.M=[8,8]" : "", masked ? "M=\"m\", " : "") +
           fmt::format("\"p\": f32[1, 2, 8, 8] = \"{}\" (X=\"s\")\n", softmax) +
           fmt::format(
               "\"o\": f32[1, 2, 8, 4] = \"expr:expr=\\\"{}\\\",dims.b=1,dims.h=2,dims.i=8,"
               "dims.e=4,dims.r=8,shapes.P=[1,2,8,8],shapes.V=[1,2,8,4]\" (P=\"p\", V=\"vt\")\n",
               product) +
           "\"y\": f32[1, 8, 2, 4] = \"expr:expr=\\\"Y[b, s, h, e] = X[b, h, s, e]\\\"," + dims +
           "\" (X=\"o\")\noutput \"y\"\n" + more;
  }
};

Graph fused(const Written& written, int expected) {
  return after_pass(fuse_attention, parse_graph(written.text()), expected);
}

// All of it, with the copies of heads.
std::string optimized(const Graph& before) {
  Graph after = before;
  optimize(&after);
  expect_near(before, after);
  EXPECT_EQ(after.nodes.size(), 1u) << to_string(after);
  return after.nodes[0].spec;
}

TEST(GraphAttention, IsOneNodeThatReadsHeadsWhereTheyStand) {
  const std::string spec = optimized(parse_graph(Written().text()));
  EXPECT_THAT(spec, HasSubstr("T0[i0, i1, i2, i3] += X0[0, i2, i1, r0] * X1[0, i3, i1, r0]"));
  EXPECT_THAT(spec, HasSubstr("max="));
  EXPECT_THAT(spec, HasSubstr("Y[i0, i1"));
}

TEST(GraphAttention, TakesFactorsOfQueriesAndKeys) {
  Written written;
  written.queries = "X[b, s, h, e] * 0.5";
  written.keys = "X[b, s, h, e] / 2";
  written.scores = "Z[b, h, i, j] = S[b, h, i, j]";
  EXPECT_THAT(optimized(parse_graph(written.text())), HasSubstr("* 0.5 * 0.5"));
}

TEST(GraphAttention, KeepsMasksThatAreCalculated) {
  Written written;
  written.mask = "input \"m\": f32[8, 8]\n";
  written.scores = "Z[b, h, i, j] = S[b, h, i, j] / 2 + M[i, j]";
  const Graph graph = fused(written, 1);
  EXPECT_EQ(graph.nodes[graph.nodes.size() - 2].operands.size(), 4u);
}

Graph with_mask(const std::string& scores, float hidden, bool shifted) {
  std::vector<float> mask;
  for (int i = 0; i < 8; ++i) {
    for (int j = 0; j < 8; ++j) mask.push_back(j <= i + (shifted ? 1 : 0) ? 0 : hidden);
  }
  Written written;
  written.mask = "const \"m\": f32[8, 8] = " + data_hash(*floats(mask)) + "\n";
  written.scores = scores;
  Graph graph = parse_graph(written.text());
  graph.values[graph.find("m")].data = floats(mask);
  return graph;
}

TEST(GraphAttention, ConstantsThatHideTheFutureAreCausalMasks) {
  const std::string scores =
      "W[b, h, i, j] = S[b, h, i, j] / 2; Z[b, h, i, j] = W[b, h, i, j] + M[i, j]";
  EXPECT_THAT(optimized(with_mask(scores, -3.4e38f, false)), HasSubstr("select(i3 <= i2"));
  EXPECT_THAT(optimized(with_mask(scores, -3.4e38f, true)), Not(HasSubstr("select")));
  EXPECT_THAT(optimized(with_mask(scores, -100, false)), Not(HasSubstr("select")));
  EXPECT_THAT(optimized(with_mask("W[b, h, i, j] = S[b, h, i, j] / 2; Z[b, h, i, j] = W[b, h, i, "
                                  "j] + M[j, i]",
                                  -3.4e38f, false)),
              Not(HasSubstr("select")));
}

// Choices by a constant of truth values, as Where writes them.
TEST(GraphAttention, ChoicesThatHideTheFutureAreCausalMasks) {
  const std::string shown = "Z[b, h, i, j] = select(M[i, j] != 0, S[b, h, i, j] / 2, -3.4e38)",
                    hidden = "Z[b, h, i, j] = select(M[i, j] != 0, -3.4e38, S[b, h, i, j] / 2)";
  auto spec_of = [](const std::string& scores, bool past) {
    std::string mask;
    for (int i = 0; i < 8; ++i) {
      for (int j = 0; j < 8; ++j) mask += static_cast<char>((j <= i) == past ? 1 : 0);
    }
    Written written;
    written.scores = scores;
    written.mask = "const \"m\": u8[8, 8] = " + data_hash(mask) + "\n";
    std::string text = written.text();
    text.replace(text.find("shapes.M"), 0, "dtypes.M=u8,");
    Graph graph = parse_graph(text);
    graph.values[graph.find("m")].data = std::make_shared<const std::string>(mask);
    return optimized(graph);
  };
  EXPECT_THAT(spec_of(shown, true), HasSubstr("select(i3 <= i2"));
  EXPECT_THAT(spec_of(hidden, false), HasSubstr("select(i3 <= i2"));
  EXPECT_THAT(spec_of(shown, false), HasSubstr("dtypes.X2=u8"));
  EXPECT_THAT(spec_of(hidden, true), Not(HasSubstr("select(i3 <= i2")));
}

TEST(GraphAttention, LeavesWhatIsNone) {
  Written read_twice;
  read_twice.more = "output \"p\"\n";
  fused(read_twice, 0);
  Written scores_read;
  scores_read.more = "output \"s\"\n";
  fused(scores_read, 0);
  Written long_rows;  // over keys and rows together
  long_rows.softmax = "softmax:m=2,n=64";
  fused(long_rows, 0);
  Written across;  // the product sums over rows
  across.product = "Y[b, h, i, e] += P[b, h, r, i] * V[b, h, r, e]";
  fused(across, 0);
  Written other_head;
  other_head.product = "Y[b, h, i, e] += P[b, 1, i, r] * V[b, h, r, e]";
  fused(other_head, 0);
  Written squares;
  squares.product = "Y[b, h, i, e] += P[b, h, i, r] * V[b, h, r, e] * 2";
  fused(squares, 0);
}

}  // namespace
}  // namespace tilewright::graph
