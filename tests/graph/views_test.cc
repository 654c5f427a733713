// Views that name parts of a value, or several values, and the pass that makes them of copies.
#include "graph/views.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/fuse.h"
#include "graph/interpret.h"
#include "graph/plan.h"
#include "tests/graph/graphs.h"

namespace tilewright::graph {
namespace {

using testing::HasSubstr;

// "name": f32[shape] = "expr:…" (X="from"), with an index per axis.
std::string doubled(const std::string& name, const std::string& from, int64_t rows) {
  const std::string n = std::to_string(rows);
  return "\"" + name + "\": f32[" + n +
         ", 16] = \"expr:expr=\\\"Y[i, j] = X[i, j] * 2\\\",dims.i=" + n + ",dims.j=16\" (X=\"" +
         from + "\")\n";
}

const std::string kPair = "input \"x\": f32[2, 16]\ninput \"z\": f32[3, 16]\n" +
                          doubled("a", "x", 2) + doubled("b", "z", 3);

std::string joined(const std::string& name, const std::string& first, int64_t split, int64_t rows,
                   const std::string& second) {
  const std::string n = std::to_string(split);
  return "\"" + name + "\": f32[" + std::to_string(rows) +
         ", 16] = \"expr:expr=\\\"Y[i, j] = select(i < " + n + ", A[i, j], B[i - " + n +
         ", j])\\\",dims.i=" + std::to_string(rows) + ",dims.j=16,shapes.A=[" + n +
         ",16],shapes.B=[" + std::to_string(rows - split) + ",16]\" (A=\"" + first + "\", B=\"" +
         second + "\")\n";
}

// The outputs stay the same, bit by bit, through text, too.
void expect_same(const Graph& before, const Graph& after) {
  std::map<std::string, Bytes> inputs;
  for (size_t i : before.inputs) {
    inputs[before.values[i].name] =
        floats(random_floats(before.values[i].shape[0] * 16, static_cast<unsigned>(i)));
  }
  const std::string text = to_string(after);
  EXPECT_EQ(to_string(parse_graph(text)), text);
  const auto wanted = interpret(before, inputs), got = interpret(parse_graph(text), inputs);
  ASSERT_EQ(wanted.size(), got.size());
  for (size_t i = 0; i < wanted.size(); ++i) EXPECT_EQ(*wanted[i], *got[i]) << i;
}

Graph with_views(const std::string& text, int expected) {
  const Graph before = parse_graph(text);
  verify(before);
  Graph after = before;
  EXPECT_EQ(use_views(&after), expected) << to_string(after);
  verify(after);
  expect_same(before, after);
  return after;
}

TEST(GraphViews, JoinsValuesWhereTheyAreMade) {
  const Graph graph =
      with_views(kPair + joined("j", "a", 2, 5, "b") + doubled("y", "j", 5) + "output \"y\"\n", 1);
  const Plan plan = plan_memory(graph);
  EXPECT_EQ(plan.places[graph.find("a")].root, graph.find("j"));
  EXPECT_EQ(plan.places[graph.find("a")].bytes, 0);
  EXPECT_EQ(plan.places[graph.find("b")].root, graph.find("j"));
  EXPECT_EQ(plan.places[graph.find("b")].bytes, 2 * 16 * 4);
  EXPECT_EQ(plan.offsets[graph.find("b")], -1);
}

TEST(GraphViews, JoinsJoins) {
  const Graph graph = with_views(kPair + joined("j", "a", 2, 5, "b") + doubled("c", "j", 5) +
                                     joined("k", "j", 5, 10, "c") + "output \"k\"\noutput \"a\"\n",
                                 2);
  const std::vector<Place> places = places_of(graph);
  EXPECT_EQ(places[graph.find("b")].root, graph.find("k"));
  EXPECT_EQ(places[graph.find("b")].bytes, 2 * 16 * 4);
  EXPECT_EQ(places[graph.find("c")].bytes, 5 * 16 * 4);
  EXPECT_EQ(plan_memory(graph).bytes, plan_memory(graph).least_bytes);
}

// A place that holds parts is taken from the first part on: nothing that is alive meanwhile shares it.
TEST(GraphViews, KeepsThePlaceFromTheFirstPart) {
  const Graph graph =
      with_views(kPair + doubled("m", "b", 3) + doubled("n", "m", 3) + joined("j", "a", 2, 5, "n") +
                     doubled("y", "j", 5) + "output \"y\"\n",
                 1);
  const Plan plan = plan_memory(graph);
  const int64_t from = plan.offsets[graph.find("j")], bytes = 5 * 16 * 4;
  for (const std::string name : {"z", "b", "m"}) {
    const int64_t at = plan.offsets[graph.find(name)];
    EXPECT_TRUE(at >= from + bytes || at + 3 * 16 * 4 <= from) << name;
  }
}

TEST(GraphViews, CopiesWhatLiesElsewhere) {
  with_views(kPair + joined("j", "x", 2, 5, "b") + "output \"j\"\n", 0);  // an input
  with_views(kPair + joined("j", "a", 2, 4, "a") + "output \"j\"\n", 0);  // twice
  with_views(kPair + joined("j", "a", 2, 5, "b") + joined("k", "a", 2, 5, "b") +
                 "output \"j\"\noutput \"k\"\n",
             1);  // in two joins
}

TEST(GraphViews, NeedsPartsThatBeginAligned) {
  const std::string odd =
      "input \"x\": f32[2, 3]\n\"a\": f32[3] = \"expr:expr=\\\"Y[i] = X[1, "
      "i]\\\",dims.i=3,shapes.X=[2,3]\" (X=\"x\")\noutput \"a\"\n";
  Graph graph = parse_graph(odd);
  EXPECT_EQ(use_views(&graph), 0);
}

std::string sliced(const std::string& value, const std::string& shape) {
  return "input \"x\": f32[4, 16]\n\"y\": f32[" + shape + "] = \"expr:expr=\\\"" + value +
         ",shapes.X=[4,16]\" (X=\"x\")\noutput \"y\"\n";
}

TEST(GraphViews, SlicesNeighbouringElements) {
  const Graph graph =
      with_views(sliced("Y[i, j] = X[i + 1, j]\\\",dims.i=2,dims.j=16", "2, 16"), 1);
  EXPECT_EQ(graph.nodes[0].first, 16);
  with_views(sliced("Y[i, j] = X[i, j]\\\",dims.i=4,dims.j=16", "4, 16"), 1);
  with_views(sliced("Y[i, k, j] = X[i + k + 1, j]\\\",dims.i=2,dims.k=1,dims.j=16", "2, 1, 16"), 1);
  with_views(sliced("Y[i, j] = X[3 * i, j]\\\",dims.i=1,dims.j=16", "1, 16"), 1);
}

TEST(GraphViews, KeepsWhatChangesOrderOrElements) {
  with_views(sliced("Y[i, j] = X[i, j + 1]\\\",dims.i=4,dims.j=8", "4, 8"), 0);
  with_views(sliced("Y[j, i] = X[i, j]\\\",dims.i=4,dims.j=16", "16, 4"), 0);
  with_views(sliced("Y[i, j] = X[2 * i, j]\\\",dims.i=2,dims.j=16", "2, 16"), 0);
  with_views(sliced("Y[i, j] = X[3 - i, j]\\\",dims.i=4,dims.j=16", "4, 16"), 0);
  with_views(sliced("Y[i, j] = X[1, j]\\\",dims.i=4,dims.j=16", "4, 16"), 0);
  with_views(sliced("Y[i, j] = X[i, j] * 2\\\",dims.i=4,dims.j=16", "4, 16"), 0);
  with_views(sliced("Y[i, j] = select(i < 2, X[i, j], X[i, j])\\\",dims.i=4,dims.j=16", "4, 16"),
             0);
  with_views(
      sliced("Y[i, j] = select(j < 8, X[i, j], X[i, j - 8])\\\",dims.i=4,dims.j=16", "4, 16"), 0);
}

// The factor of an index that is always 0 may be too large to multiply.
TEST(GraphViews, KeepsSumsThatDoNotFit) {
  const std::string large = "1000000000000";
  with_views(
      sliced("Y[i, j] = X[" + large + " * (" + large + " * i), j]\\\",dims.i=1,dims.j=16", "1, 16"),
      0);
}

TEST(GraphViews, VerifierNamesWhatCannotBe) {
  auto view = [](const std::string& line) { return refusal(kPair + line + "\n"); };
  EXPECT_EQ(view("\"v\": f32[5, 16] = view \"a\", \"b\""), "");
  EXPECT_THAT(view("\"v\": f32[4, 16] = view \"a\", \"b\""), HasSubstr("'v' is no view of 'b'"));
  EXPECT_THAT(view("\"v\": f32[6, 16] = view \"a\", \"b\""), HasSubstr("80 elements; expected 96"));
  EXPECT_THAT(view("\"v\": f32[4, 16] = view \"a\", \"a\""), HasSubstr("it joins 'a' twice"));
  EXPECT_THAT(view("\"v\": f32[4, 16] = view \"a\", \"x\""), HasSubstr("'x' is given"));
  EXPECT_THAT(view("\"v\": f32[16] = view \"a\" from 16\n\"w\": f32[2, 32] = view \"b\", \"v\""),
              HasSubstr("'v' is a part of another value"));
  EXPECT_THAT(view("\"v\": f32[8] = view \"a\" from 8"), HasSubstr("a multiple of 64 bytes"));
  EXPECT_THAT(view("\"v\": f32[32] = view \"a\" from 16"), HasSubstr("'v' is no view of 'a'"));
  EXPECT_THAT(view("\"v\": f32[16] = view \"a\" from 9223372036854775807"),
              HasSubstr("no view of 'a'"));
  EXPECT_THAT(view("\"v\": f32[16] = view \"a\" from -16"),
              HasSubstr("the place of the first element"));
  EXPECT_THAT(refusal("const \"c\": f32[32] = xxh3:00\n\"v\": f32[16] = view \"c\" from 16\n"),
              HasSubstr("a part of a constant"));
}

TEST(GraphFuse, LooksThroughViews) {
  const std::string text = "input \"x\": f32[2, 16]\n" + doubled("a", "x", 2) +
                           "\"v\": f32[1, 2, 16] = view \"a\"\n" + doubled("y", "v", 2) +
                           "output \"y\"\n";
  const Graph before = parse_graph(text);
  Graph after = before;
  EXPECT_EQ(fuse(&after), 1);
  verify(after);
  EXPECT_EQ(after.nodes.size(), 1u) << to_string(after);
  expect_same(before, after);
}

}  // namespace
}  // namespace tilewright::graph
