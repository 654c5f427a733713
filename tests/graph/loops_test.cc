// Loops: what they mean, what is refused of them, and what ONNX's nodes with bodies become.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "graph/interpret.h"
#include "graph/loops/loops.h"
#include "graph/optimize.h"
#include "graph/plan.h"
#include "tests/graph/imports.h"

namespace tilewright::graph {
namespace {

using test::OnnxFile;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr const char* kSums = R"(graph "sums"
input "xs": f32[3, 2]
input "h0": f32[2]
input "n": i64[1]
loop 3 at most "n" for "sum"
input "h": f32[2] = "h0" then "h'"
input "x": f32[2] = rows "xs"
"h'": f32[2] = "expr:dims.i0=2,expr=\"Y[i0] = A[i0] + B[i0]\"" (A="h", B="x")
output "h'"
rows "all": f32[3, 2] = "h'"
last "sum": f32[2] = "h'"
end
output "all"
output "sum"
)";

Bytes count(int64_t n) {
  return std::make_shared<std::string>(reinterpret_cast<const char*>(&n), sizeof n);
}

std::vector<float> numbers_of(const Bytes& bytes) {
  std::vector<float> values(bytes->size() / sizeof(float));
  std::memcpy(values.data(), bytes->data(), bytes->size());
  return values;
}

std::string refusal(const std::string& text) {
  try {
    verify(parse_graph(text));
  } catch (const GraphError& e) {
    return e.what();
  }
  return "";
}

std::string edited(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(GraphLoops, RunTheirBodyAsOftenAsAValueSays) {
  Graph graph = parse_graph(kSums);
  verify(graph);
  EXPECT_EQ(to_string(parse_graph(to_string(graph))), to_string(graph));
  optimize(&graph);
  verify(graph);
  for (int64_t n : {int64_t{0}, int64_t{2}, int64_t{9}}) {
    const std::vector<Bytes> outputs = interpret(
        graph, {{"xs", elements({1, 2, 3, 4, 5, 6})}, {"h0", elements({10, 20})}, {"n", count(n)}});
    EXPECT_EQ(numbers_of(outputs[1]), n == 0   ? (std::vector<float>{10, 20})
                                      : n == 2 ? (std::vector<float>{14, 26})
                                               : (std::vector<float>{19, 32}));
  }
}

TEST(GraphLoops, BackwardsTheLastRowComesFirst) {
  std::string text = edited(kSums, "rows \"xs\"", "rows back \"xs\"");
  text = edited(text, "rows \"all\"", "rows back \"all\"");
  const std::vector<Bytes> outputs =
      interpret(parse_graph(text),
                {{"xs", elements({1, 2, 3, 4, 5, 6})}, {"h0", elements({0, 0})}, {"n", count(3)}});
  EXPECT_THAT(numbers_of(outputs[0]), ElementsAre(9, 12, 8, 10, 5, 6));
}

TEST(GraphLoops, RefusalsNameNodeAndValue) {
  EXPECT_EQ(refusal(kSums), "");
  EXPECT_THAT(refusal(edited(kSums, "loop 3", "loop 4")),
              HasSubstr("'sum': 'xs' is f32[3, 2]; expected 4 rows of 'x', f32[2]"));
  EXPECT_THAT(refusal(edited(kSums, "f32[2] = \"h0\" then", "f32[2] = \"xs\" then")),
              HasSubstr("'sum': 'xs' is f32[3, 2] and 'h' is f32[2]; expected one type"));
  EXPECT_THAT(refusal(edited(kSums, "rows \"xs\"", "whole \"n\"")),
              HasSubstr("'n' is i64[1] and 'x' is f32[2]"));
  EXPECT_THAT(refusal(edited(kSums, "end\n", "")), HasSubstr("expected rows, last or end"));
  EXPECT_THAT(refusal(edited(kSums, "at most \"n\"", "at most \"h0\"")),
              HasSubstr("'h0' is f32[2]; expected one integer"));
  EXPECT_THAT(
      refusal(edited(kSums, "then \"h'\"", "then \"x\"")),
      HasSubstr("line 6, column 31 (byte 131): 'x' is no output of the body; expected a line "
                "'output \"x\"' in it"));
  EXPECT_THAT(refusal(std::string(kSums, std::strstr(kSums, "end\n"))),
              HasSubstr("expected 'end' of the loop of line"));
  EXPECT_THAT(refusal(edited(kSums, "output \"h'\"\n", "output \"h'\"\noutput \"h'\"\n")),
              HasSubstr("it is an output already"));
}

TEST(GraphLoops, InputsOfABodyKeepTheirPlaces) {
  const Graph graph = parse_graph(kSums);
  const Plan plan = plan_memory(graph);
  const auto& [offset, body] = plan.bodies.at(0);
  EXPECT_GE(offset, 0);
  std::set<int64_t> places;
  for (const char* name : {"h", "x", "h'"}) {
    places.insert(body.offsets[graph.nodes[0].loop->body.find(name)]);
  }
  EXPECT_EQ(places.size(), 3u);
}

OnnxFile cell(const std::string& op, int64_t steps, const std::string& direction) {
  const int64_t gates = op == "LSTM" ? 8 : op == "GRU" ? 6 : 2;
  const int64_t directions = direction == "bidirectional" ? 2 : 1;
  std::vector<float> w, r, b;
  for (int64_t i = 0; i < directions * gates * 3; ++i) w.push_back(float((i * 7) % 11 - 5) / 10);
  for (int64_t i = 0; i < directions * gates * 2; ++i) r.push_back(float((i * 5) % 13 - 6) / 10);
  for (int64_t i = 0; i < directions * gates * 2; ++i) b.push_back(float((i * 3) % 7 - 3) / 10);
  OnnxFile file(14);
  file.input("x", {steps, 2, 3})
      .floats("w", {directions, gates, 3}, w)
      .floats("r", {directions, gates, 2}, r)
      .floats("b", {directions, 2 * gates}, b);
  file.node(op, {"x", "w", "r", "b"}, {"y", "h"},
            {test::whole("hidden_size", 2), test::words("direction", direction)});
  return file.output("y").output("h");
}

// The unrolled layers are those that others checked.
TEST(GraphLoops, RecurrentLayersOfManySteps) {
  for (const char* op : {"LSTM", "GRU", "RNN"}) {
    for (const char* direction : {"forward", "reverse", "bidirectional"}) {
      const std::string bytes = cell(op, 9, direction).bytes();
      const onnx::Model model = onnx::read_model(bytes, "m.onnx");
      std::vector<float> x;
      for (int i = 0; i < 9 * 6; ++i) x.push_back(float((i * 17) % 23 - 11) / 11);
      std::vector<std::vector<float>> got;
      for (bool unrolled : {false, true}) {
        Graph graph = import_onnx(model, {}, onnx::kStandIns, unrolled);
        verify(graph);
        fold_constants(&graph);
        optimize(&graph);
        verify(graph);
        EXPECT_EQ(has_loops(graph), !unrolled);
        for (const Bytes& y : interpret(graph, {{"x", elements(x)}})) got.push_back(numbers_of(y));
      }
      for (size_t o = 0; o < 2; ++o) {
        ASSERT_EQ(got[o].size(), got[o + 2].size());
        for (size_t i = 0; i < got[o].size(); ++i) EXPECT_NEAR(got[o][i], got[o + 2][i], 1e-5);
      }
    }
  }
}

TEST(GraphLoops, BranchesOfARun) {
  OnnxFile then, other;
  then.node("Mul", {"x", "x"}, {"square"}).output("square");
  other.node("Add", {"x", "x"}, {"twice"}).output("twice");
  OnnxFile file;
  file.input("x", {2})
      .input("c", {}, 9)
      .node("If", {"c"}, {"y"},
            {then.as_attribute("then_branch"), other.as_attribute("else_branch")})
      .output("y");
  const auto taken = [&](char condition) {
    return run(file, {{"x", elements({3, 5})}, {"c", std::make_shared<std::string>(1, condition)}});
  };
  EXPECT_THAT(taken(1), ElementsAre(9, 25));
  EXPECT_THAT(taken(0), ElementsAre(6, 10));
}

// x doubles until its first element is above 40, or n rounds are over.
TEST(GraphLoops, RoundsThatAConditionEnds) {
  OnnxFile body;
  body.input("i", {}, test::kInt64)
      .input("go", {}, 9)
      .input("v", {1})
      .floats("edge", {1}, {40})
      .node("Add", {"v", "v"}, {"v2"})
      .node("Less", {"v2", "edge"}, {"on"})
      .node("Squeeze", {"on"}, {"next"})
      .output("next")
      .output("v2");
  OnnxFile file(13);
  file.input("n", {}, test::kInt64).input("x", {1});
  file.constant("yes", 9, {}, std::string(1, '\1'));
  file.node("Loop", {"n", "yes", "x"}, {"y"}, {body.as_attribute("body")}).output("y");
  for (const auto& [n, want] : std::map<int64_t, float>{{0, 3}, {2, 12}, {100, 48}}) {
    EXPECT_THAT(run(file, {{"n", count(n)}, {"x", elements({3})}}), ElementsAre(want));
  }
}

}  // namespace
}  // namespace tilewright::graph
