// Feature maps with their channels last, and the cut that chooses them.
#include "graph/layouts/layouts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/fuse.h"
#include "graph/layouts/minimum_cut.h"
#include "graph/reads.h"
#include "graph/views.h"
#include "tests/graph/graphs.h"

namespace tilewright::graph {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr const char* kProduct =
    "conv2d:n=1,h=5,w=6,ci=64,co=64,kernel=3,pad=1,layout=nchw,epilogue=[bias,relu]";

// A graph in the making, with constants.
class Net {
 public:
  Net& line(const std::string& text) {
    lines_ += text + "\n";
    return *this;
  }
  Net& constant(const std::string& name, const Shape& shape) {
    constants_.emplace_back(name, shape);
    return *this;
  }
  Graph graph() const { return graph_with(constants_, lines_); }

 private:
  std::string lines_;
  std::vector<std::pair<std::string, Shape>> constants_;
};

// Inputs x, and weights w and u with biases b and c of two products of 64 channels.
Net products() {
  Net net;
  net.line("input \"x\": f32[1, 64, 5, 6]");
  net.constant("w", {64, 64, 3, 3}).constant("b", {64});
  net.constant("u", {64, 64, 3, 3}).constant("c", {64});
  return net;
}

std::string product(const std::string& to, const std::string& from, const std::string& weight,
                    const std::string& bias) {
  return "\"" + to + "\": f32[1, 64, 5, 6] = \"" + kProduct + "\" (W=\"" + weight + "\", X=\"" +
         from + "\", bias=\"" + bias + "\")";
}

std::string expr(const std::string& shape, const std::string& text, const std::string& dims,
                 const std::string& operands) {
  return "f32[" + shape + "] = \"expr:expr=\\\"" + text + "\\\"," + dims + "\" (" + operands + ")";
}

// A join "j" of two products, a product "k" of it, and the last 32 channels "s" of that, of which "y" has the sums.
Net joined_products() {
  Net net = products();
  net.constant("v", {64, 128, 3, 3}).line(product("p", "x", "w", "b"));
  net.line(product("q", "p", "u", "c"));
  net.line("\"j\": f32[1, 128, 5, 6] = view \"p\", \"q\"");
  net.line(
      "\"k\": f32[1, 64, 5, 6] = "
      "\"conv2d:n=1,h=5,w=6,ci=128,co=64,kernel=3,pad=1,layout=nchw\" (W=\"v\", X=\"j\")");
  net.line("\"s\": f32[1, 32, 5, 6] = view \"k\" from 960");
  net.line("\"y\": " + expr("1, 32", "Y[i, j] += L[i, j, h, w]",
                            "dims.i=1,dims.j=32,dims.h=5,dims.w=6", "L=\"s\""));
  return net;
}

// The layouts change as many values as expected, and outputs keep their names and shapes.
Graph with_layouts(const Graph& before, int expected, const GraphSeconds& seconds = {}) {
  Graph after =
      after_pass([&](Graph* g) { return use_channels_last(g, seconds); }, before, expected);
  for (size_t o = 0; o < before.outputs.size(); ++o) {
    const Value &was = before.values[before.outputs[o]], &is = after.values[after.outputs[o]];
    EXPECT_EQ(was.name, is.name);
    EXPECT_EQ(was.shape, is.shape);
  }
  return after;
}

Shape shape_of(const Graph& graph, const std::string& name) {
  return graph.values[graph.find(name)].shape;
}

TEST(GraphLayouts, StoreChannelsLastBetweenProducts) {
  Net net = products();
  net.line(product("p", "x", "w", "b")).line(product("q", "p", "u", "c"));
  net.line("\"y\": " + expr("1, 64", "Y[i, j] max= Q[i, j, h, w]",
                            "dims.i=1,dims.j=64,dims.h=5,dims.w=6", "Q=\"q\""));
  const Graph graph = with_layouts(net.line("output \"y\"").graph(), 2);
  EXPECT_THAT(shape_of(graph, "x"), ElementsAre(1, 64, 5, 6));
  EXPECT_THAT(shape_of(graph, "p"), ElementsAre(1, 5, 6, 64));
  EXPECT_THAT(shape_of(graph, "q"), ElementsAre(1, 5, 6, 64));
  EXPECT_THAT(shape_of(graph, "w/last"), ElementsAre(3, 3, 64, 64));
  EXPECT_EQ(graph.nodes.size(), 3u) << "nothing is copied";
}

// Kernels pack weights whose indices are all iterators.
TEST(GraphLayouts, LeaveUnitAxesOfWeightsToReads) {
  Net net;
  net.line("input \"x\": f32[1, 64, 5, 6]").constant("w", {64, 64, 1, 1}).constant("b", {64});
  net.constant("u", {64, 64, 1, 1}).constant("c", {64});
  const std::string kernel =
      " = \"conv2d:n=1,h=5,w=6,ci=64,co=64,kernel=1,layout=nchw,epilogue=[bias]\" ";
  net.line("\"p\": f32[1, 64, 5, 6]" + kernel + "(W=\"w\", X=\"x\", bias=\"b\")");
  net.line("\"q\": f32[1, 64, 5, 6]" + kernel + "(W=\"u\", X=\"p\", bias=\"c\")");
  net.line("\"y\": " + expr("1, 64", "Y[i, j] max= Q[i, j, h, w]",
                            "dims.i=1,dims.j=64,dims.h=5,dims.w=6", "Q=\"q\""));
  Graph graph = with_layouts(net.line("output \"y\"").graph(), 2);
  EXPECT_THAT(shape_of(graph, "u/last"), ElementsAre(1, 1, 64, 64));
  simplify_reads(&graph);
  EXPECT_THAT(graph.nodes[1].spec, HasSubstr("shapes.X1=[64,64]"));
}

TEST(GraphLayouts, RestoreOutputs) {
  Net net = products();
  net.line(product("p", "x", "w", "b")).line(product("q", "p", "u", "c"));
  const Graph graph = with_layouts(net.line("output \"q\"").graph(), 2);
  EXPECT_THAT(shape_of(graph, "q/last"), ElementsAre(1, 5, 6, 64));
  EXPECT_EQ(graph.nodes.size(), 3u);
}

TEST(GraphLayouts, CopyOnceForNodesThatNeedTheOther) {
  Net net = products();
  net.line(product("p", "x", "w", "b")).line(product("q", "p", "u", "c"));
  net.line("\"s\": f32[1, 1920] = \"softmax:m=1,n=1920\" (X=\"q\")");
  net.line("\"t\": f32[1, 1920] = \"softmax:m=1,n=1920\" (X=\"q\")");
  const Graph graph = with_layouts(net.line("output \"s\"").line("output \"t\"").graph(), 2);
  EXPECT_EQ(graph.nodes.size(), 5u);
  EXPECT_THAT(shape_of(graph, "q/first"), ElementsAre(1, 64, 5, 6));
}

TEST(GraphLayouts, TakeWindowsMeansAndFactorsOfChannels) {
  Net net = products();
  net.constant("d", {64, 1, 3, 3}).line(product("p", "x", "w", "b"));
  net.line("\"m\": f32[1, 64, 1, 1] = \"reduce:shape=[1,64,5,6],axes=[2,3],kind=mean\" (X=\"p\")");
  net.line("\"f\": " +
           expr("1, 64, 5, 6", "Y[n, c, h, w] = P[0, c, h, w] * M[0, c, 0, 0]",
                "dims.n=1,dims.c=64,dims.h=5,dims.w=6,shapes.P=[1,64,5,6],shapes.M=[1,64,1,1]",
                "P=\"p\", M=\"m\""));
  net.line(
      "\"e\": f32[1, 64, 5, 6] = "
      "\"conv2d:n=1,h=5,w=6,ci=64,co=64,kernel=3,pad=1,groups=64,layout=nchw\" (W=\"d\", X=\"f\")");
  net.line("\"l\": " + expr("1, 64, 2, 3", "Y[n, c, h, w] max= E[n, c, h * 2 + i, w * 2 + j]",
                            "dims.n=1,dims.c=64,dims.h=2,dims.w=3,dims.i=2,dims.j=2,"
                            "shapes.E=[1,64,5,6]",
                            "E=\"e\""));
  net.line("\"y\": " + expr("1, 64", "Y[i, j] += L[i, j, h, w]",
                            "dims.i=1,dims.j=64,dims.h=2,dims.w=3", "L=\"l\""));
  const Graph graph = with_layouts(net.line("output \"y\"").graph(), 4);
  EXPECT_THAT(shape_of(graph, "d/last"), ElementsAre(3, 3, 1, 64));
  EXPECT_EQ(graph.nodes.size(), 6u);
  EXPECT_THAT(to_string(graph), HasSubstr("reduce:shape=[1,5,6,64],axes=[1,2],kind=mean"));
}

TEST(GraphLayouts, CopyJoinsAndSlicesOfChannels) {
  const Graph graph = with_layouts(joined_products().line("output \"y\"").graph(), 5);
  EXPECT_THAT(shape_of(graph, "j"), ElementsAre(1, 5, 6, 128));
  EXPECT_THAT(shape_of(graph, "s"), ElementsAre(1, 5, 6, 32));
}

// Only what is stored with its channels last is copied into a join with its channels first.
TEST(GraphLayouts, JoinsStayViewsOfCopiedParts) {
  Net net;
  net.line("input \"x\": f32[1, 4, 8, 8]").constant("w", {64, 4, 3, 3}).constant("b", {64});
  net.constant("u", {64, 64, 3, 3}).constant("c", {64}).constant("v", {4, 4, 1, 1});
  net.line(
      "\"p\": f32[1, 64, 8, 8] = "
      "\"conv2d:n=1,h=8,w=8,ci=4,co=64,kernel=3,pad=1,layout=nchw,epilogue=[bias]\" "
      "(W=\"w\", X=\"x\", bias=\"b\")");
  net.line(
      "\"q\": f32[1, 64, 8, 8] = "
      "\"conv2d:n=1,h=8,w=8,ci=64,co=64,kernel=3,pad=1,layout=nchw,epilogue=[bias]\" "
      "(W=\"u\", X=\"p\", bias=\"c\")");
  net.line(
      "\"r\": f32[1, 4, 8, 8] = \"conv2d:n=1,h=8,w=8,ci=4,co=4,kernel=1,layout=nchw\" (W=\"v\", "
      "X=\"x\")");
  net.line("\"j\": f32[1, 68, 8, 8] = view \"r\", \"q\"");
  net.line("\"y\": f32[1, 4352] = \"softmax:m=1,n=4352\" (X=\"j\")");
  const Graph graph = with_layouts(net.line("output \"y\"").graph(), 2);
  EXPECT_THAT(to_string(graph), HasSubstr("\"j\": f32[1, 68, 8, 8] = view \"r\", \"q/first\""));
}

// Seconds by the layouts of the output and of what is read, which a spec's shapes tell.
class Seconds {
 public:
  // `made` and `read`: whether the channels are last.
  double& of(bool made, bool read) { return seconds_[made][read]; }
  GraphSeconds function() {
    return [this](const Graph& graph) -> std::optional<double> {
      ++asked;
      EXPECT_EQ(graph.outputs.size(), 1u);
      const Value &to = graph.values[graph.outputs[0]], &from = graph.values[graph.inputs[0]];
      if (to.shape.size() != 4) return 1;
      const double known = seconds_[to.shape.back() == 64][from.shape.back() == 64];
      return known > 0 ? std::optional(known) : std::nullopt;
    };
  }
  int asked = 0;

 private:
  double seconds_[2][2] = {{1, 1}, {1, 1}};
};

// Two products and a reader of each layout.
Graph chain_of_products() {
  Net net = products();
  net.line(product("p", "x", "w", "b")).line(product("q", "p", "u", "c"));
  net.line("\"y\": " + expr("1, 64", "Y[i, j] max= Q[i, j, h, w]",
                            "dims.i=1,dims.j=64,dims.h=5,dims.w=6", "Q=\"q\""));
  return net.line("output \"y\"").graph();
}

TEST(GraphLayouts, FollowTheTimesOfSums) {
  Seconds seconds;
  seconds.of(true, false) = seconds.of(true, true) = 2;
  with_layouts(chain_of_products(), 0, seconds.function());
  EXPECT_EQ(seconds.asked, 6) << "the products alike, in each layout of both, and the maximum";
  Seconds other;
  other.of(false, false) = other.of(false, true) = 2;
  with_layouts(chain_of_products(), 2, other.function());
}

// The second product reads either layout as fast, where the first one is slow with its channels last.
TEST(GraphLayouts, CountReadsOfTheOtherLayoutByTheirTimes) {
  Net net = products();
  net.constant("v", {64, 64, 1, 1}).line(product("p", "x", "w", "b"));
  net.line(
      "\"q\": f32[1, 64, 5, 6] = \"conv2d:n=1,h=5,w=6,ci=64,co=64,kernel=1,layout=nchw\" "
      "(W=\"v\", X=\"p\")");
  net.line("\"y\": " + expr("1, 64", "Y[i, j] max= Q[i, j, h, w]",
                            "dims.i=1,dims.j=64,dims.h=5,dims.w=6", "Q=\"q\""));
  const Graph before = net.line("output \"y\"").graph();
  const auto with_reads = [](double across) -> GraphSeconds {
    return [across](const Graph& graph) -> std::optional<double> {
      const bool made = graph.values[graph.outputs[0]].shape.back() == 64;
      const bool read = graph.values[graph.inputs[0]].shape.back() == 64;
      const bool windows =
          graph.values.size() > 3 && graph.nodes[0].spec.find("r2") != std::string::npos;
      if (windows) return made ? 2 : 1;
      return (made ? 1 : 2) + (made != read ? across : 0);
    };
  };
  const Graph few = with_layouts(before, 1, with_reads(0.5));
  EXPECT_THAT(shape_of(few, "p"), ElementsAre(1, 64, 5, 6));
  EXPECT_THAT(shape_of(few, "q"), ElementsAre(1, 5, 6, 64));
}

// The layout of an input stays: what its reader takes with another output is known exactly.
TEST(GraphLayouts, CountReadsOfInputsAsTheyAre) {
  Net net = products();
  net.line(product("p", "x", "w", "b"));
  net.line("\"y\": " + expr("1, 64", "Y[i, j] max= Q[i, j, h, w]",
                            "dims.i=1,dims.j=64,dims.h=5,dims.w=6", "Q=\"p\""));
  Seconds seconds;
  seconds.of(false, false) = 8;
  seconds.of(true, false) = 5;
  seconds.of(true, true) = 10;
  with_layouts(net.line("output \"y\"").graph(), 1, seconds.function());
}

// Nodes whose numbers alone differ share a workload with other constants: their own specs are not asked for.
TEST(GraphLayouts, AskNothingOfWorkloadsThatWillBeShared) {
  Net net;
  net.line("input \"x\": f32[1, 64, 5, 6]").constant("w", {64, 64, 3, 3});
  for (const char* const node : {"p q 0.5", "q r 0.25"}) {
    const std::string from(1, node[0]), to(1, node[2]), factor(node + 4);
    net.line(
        "\"" + to + "\": " +
        expr("1, 64, 5, 6",
             "T[n, c, h, w] += X[n, k, h, w] * W[c, k, 0, 0]; Y[n, c, h, w] = T[n, c, h, w] * " +
                 factor,
             "dims.n=1,dims.c=64,dims.h=5,dims.w=6,dims.k=64,shapes.W=[64,64,3,3]",
             "X=\"" + (from == "p" ? "x" : from) + "\", W=\"w\""));
  }
  net.line("\"y\": " + expr("1, 64", "Y[i, j] max= Q[i, j, h, w]",
                            "dims.i=1,dims.j=64,dims.h=5,dims.w=6", "Q=\"r\""));
  Seconds seconds;
  Graph graph = net.line("output \"y\"").graph();
  use_channels_last(&graph, seconds.function());
  EXPECT_EQ(seconds.asked, 2) << "the maximum alone";
}

TEST(GraphLayouts, AskForAllTimesWhereSomeAreNotKnown) {
  Seconds seconds;
  seconds.of(false, false) = 0;
  seconds.of(true, true) = 9;
  with_layouts(chain_of_products(), 2, seconds.function());  // by estimates
  EXPECT_EQ(seconds.asked, 6);
}

// Any choice keeps the meaning: times by hashes of texts lead to many.
TEST(GraphLayouts, KeepTheMeaningWhateverTheTimes) {
  const Graph before = joined_products().line("output \"y\"").line("output \"k\"").graph();
  std::set<std::string> texts;
  for (size_t seed = 0; seed < 40; ++seed) {
    Graph after = before;
    use_channels_last(&after, [&](const Graph& graph) -> std::optional<double> {
      return 1e-6 *
             static_cast<double>(std::hash<std::string>()(to_string(graph)) * (2 * seed + 1) % 97);
    });
    expect_near(before, after);
    texts.insert(to_string(after));
  }
  EXPECT_GT(texts.size(), 4u);
}

TEST(GraphLayouts, StayWhereSumsSaveLessThanCopiesTake) {
  Net net;
  net.line("input \"x\": f32[1, 4, 5, 6]").constant("w", {4, 4, 1, 1});
  net.line(
      "\"p\": f32[1, 4, 5, 6] = \"conv2d:n=1,h=5,w=6,ci=4,co=4,kernel=1,layout=nchw\" (W=\"w\", "
      "X=\"x\")");
  with_layouts(net.line("output \"p\"").graph(), 0);
}

TEST(GraphLayouts, TakeRowsAndColumnsAsOneAxis) {
  Net net = products();
  net.line(product("p", "x", "w", "b"));
  net.line("\"y\": " + expr("1, 30, 64", "Y[n, i, c] = P[n, c, i] + P[n, c, 0]",
                            "dims.n=1,dims.i=30,dims.c=64,shapes.P=[1,64,30]", "P=\"p\""));
  const Graph graph = with_layouts(net.line("output \"y\"").graph(), 1);
  EXPECT_THAT(to_string(graph), HasSubstr("X0[i0, i1, i2] + X0[i0, 0, i2]"));
  EXPECT_EQ(graph.nodes.size(), 2u);
}

// Patches of an image whose channels come first.
TEST(GraphLayouts, ReadTheOtherLayoutInProducts) {
  Net net;
  net.line("input \"x\": f32[1, 3, 64, 64]").constant("w", {256, 3, 8, 8});
  net.line(
      "\"p\": f32[1, 256, 8, 8] = "
      "\"conv2d:n=1,h=64,w=64,ci=3,co=256,kernel=8,stride=8,layout=nchw\" (W=\"w\", X=\"x\")");
  net.line("\"y\": " + expr("1, 64, 256", "Y[n, i, c] = P[n, c, i] + P[n, c, 0]",
                            "dims.n=1,dims.i=64,dims.c=256,shapes.P=[1,256,64]", "P=\"p\""));
  with_layouts(net.line("output \"y\"").graph(), 1);
}

TEST(GraphLayouts, LeaveProductsOfCalculatedValuesAlone) {
  Net net;
  net.line("input \"a\": f32[1, 32, 4, 64]").line("input \"b\": f32[1, 32, 4, 64]");
  net.line("\"s\": " + expr("1, 4, 32, 32", "Y[n, h, i, j] += A[n, i, h, k] * B[n, j, h, k]",
                            "dims.n=1,dims.h=4,dims.i=32,dims.j=32,dims.k=64,"
                            "shapes.A=[1,32,4,64],shapes.B=[1,32,4,64]",
                            "A=\"a\", B=\"b\""));
  net.line("\"y\": f32[128, 32] = \"softmax:m=128,n=32\" (X=\"s\")");
  with_layouts(net.line("output \"y\"").graph(), 0);
}

// Every choice of eight items.
TEST(TwoSides, ChooseTheLeastOfAllChoices) {
  std::mt19937 generator(5);
  for (int round = 0; round < 200; ++round) {
    constexpr size_t kItems = 8;
    const auto below = [&](int64_t end) { return static_cast<int64_t>(generator()) % end; };
    TwoSides sides(kItems);
    std::vector<std::array<int64_t, 2>> own;
    std::vector<std::array<int64_t, 4>> apart;
    for (size_t i = 0; i < kItems; ++i) {
      own.push_back({below(20), below(20)});
      sides.add(i, own[i][0], own[i][1]);
    }
    for (int k = 0; k < 12; ++k) {
      const int64_t a = below(kItems), b = below(kItems), cost = below(15), back = below(15);
      if (a == b) continue;
      apart.push_back({a, b, cost, back});
      sides.add_apart(static_cast<size_t>(a), static_cast<size_t>(b), cost, back);
    }
    const auto cost_of = [&](unsigned choice) {
      int64_t cost = 0;
      for (size_t i = 0; i < kItems; ++i) cost += own[i][choice >> i & 1];
      for (const auto& [a, b, b_last, a_last] : apart) {
        if ((choice >> a & 1) < (choice >> b & 1)) cost += b_last;
        if ((choice >> a & 1) > (choice >> b & 1)) cost += a_last;
      }
      return cost;
    };
    unsigned chosen = 0;
    const std::vector<bool> second = sides.choose();
    for (size_t i = 0; i < kItems; ++i) chosen |= second[i] ? 1u << i : 0;
    for (unsigned choice = 0; choice < 1u << kItems; ++choice) {
      ASSERT_LE(cost_of(chosen), cost_of(choice)) << "round " << round;
      if (cost_of(chosen) == cost_of(choice)) {
        ASSERT_EQ(chosen & ~choice, 0u) << "the first side where costs are equal";
      }
    }
  }
}

}  // namespace
}  // namespace tilewright::graph
