// Values that stay from run to run, and the rows that are written to them.
#include <gmock/gmock.h>

#include "graph/optimize.h"
#include "graph/plan.h"
#include "graph/rows.h"
#include "tests/graph/graphs.h"
#include "tests/models/weights/files.h"

namespace tilewright::graph {
namespace {

using testing::HasSubstr;

// Twice the rows "x" of 3 go into "s"; the sum of all columns is read behind that.
std::string text_with(const std::string& write, const std::string& sum = "t") {
  return "graph \"g\"\ninput \"x\": f32[1, 3]\ninput \"p\": i32[1]\nstate \"s\": f32[4, 3]\n"
         "\"r\": f32[1, 3] = \"expr:expr=\\\"Y[i, j] = X[i, j] * 2\\\",dims.i=1,dims.j=3\" "
         "(X=\"x\")\n" +
         write + "\"y\": f32[3] = \"expr:expr=\\\"Y[j] += X[i, j]\\\",dims.i=4,dims.j=3\" (X=\"" +
         sum + "\")\noutput \"y\"\n";
}
const std::string kWrite = "\"t\": f32[4, 3] = write \"r\" to \"s\" at \"p\"\n";

std::vector<float> read(const Bytes& bytes) {
  std::vector<float> values(bytes->size() / sizeof(float));
  std::memcpy(values.data(), bytes->data(), bytes->size());
  return values;
}

std::map<std::string, Bytes> inputs(const std::vector<float>& x, int32_t p) {
  return {{"x", floats(x)}, {"p", std::make_shared<const std::string>(test::raw(p))}};
}

TEST(GraphStates, KeepTheirElementsFromRunToRun) {
  const Graph graph = parse_graph(text_with(kWrite));
  verify(graph);
  EXPECT_EQ(to_string(graph), text_with(kWrite));
  std::map<std::string, Bytes> states;
  EXPECT_EQ(read(interpret(graph, inputs({1, 2, 3}, 1), &states)[0]),
            (std::vector<float>{2, 4, 6}));
  EXPECT_EQ(read(interpret(graph, inputs({1, 1, 1}, 3), &states)[0]),
            (std::vector<float>{4, 6, 8}));
  EXPECT_EQ(read(interpret(graph, inputs({0, 0, 5}, 1), &states)[0]),
            (std::vector<float>{2, 2, 12}));
  EXPECT_EQ(read(states.at("s")), (std::vector<float>{0, 0, 0, 0, 0, 10, 0, 0, 0, 2, 2, 2}));
  EXPECT_THROW(interpret(graph, inputs({1, 2, 3}, 4), &states), GraphError);
  EXPECT_THROW(interpret(graph, inputs({1, 2, 3}, -1), &states), GraphError);
}

TEST(GraphStates, RowsMayLieAlongAnyAxis) {
  const Graph graph = parse_graph(
      "input \"x\": f32[2, 1, 2]\ninput \"p\": i32[1]\nstate \"s\": f32[2, 3, 2]\n"
      "\"t\": f32[2, 3, 2] = write \"x\" to \"s\" at \"p\"\n");
  verify(graph);
  std::map<std::string, Bytes> states;
  interpret(graph, inputs({1, 2, 3, 4}, 2), &states);
  EXPECT_EQ(read(states.at("s")), (std::vector<float>{0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 3, 4}));
}

TEST(GraphStates, AWriteNeedsNoReader) {
  Graph graph = parse_graph(text_with(kWrite, "s"));
  graph.nodes.erase(graph.nodes.begin() + 2);
  graph.outputs.clear();
  drop_unused(&graph);
  EXPECT_EQ(graph.nodes.size(), 2u);
  verify(graph);
}

TEST(GraphStates, LieOutsideOfTheBlock) {
  const Graph graph = parse_graph(text_with(kWrite));
  const Plan plan = plan_memory(graph);
  const size_t state = graph.find("s");
  EXPECT_EQ(plan.offsets[state], -1);
  EXPECT_EQ(plan.places[graph.find("t")].root, state);
  EXPECT_EQ(plan.bytes, 3 * kValueAlignment) << "x, p, and y in the place of x or behind r";
}

TEST(GraphStates, StayAsTheyAreInPasses) {
  Graph graph = parse_graph(text_with(kWrite));
  const std::string before = to_string(graph);
  optimize(&graph);
  EXPECT_EQ(to_string(graph), before);
}

TEST(GraphStates, RefusesReadsOfWhatWasWritten) {
  EXPECT_THAT(refusal(text_with(kWrite, "s")),
              HasSubstr("'y': operand X is 's', which was written since"));
  EXPECT_THAT(refusal(text_with(kWrite + "\"u\": f32[4, 3] = write \"r\" to \"s\" at \"p\"\n")),
              HasSubstr("operand X is 's', which was written since"));
  EXPECT_EQ(refusal(text_with(kWrite + "\"u\": f32[4, 3] = write \"r\" to \"t\" at \"p\"\n", "u")),
            "");
  EXPECT_THAT(refusal(text_with(kWrite) + "output \"s\"\n"), HasSubstr("written since"));
}

TEST(GraphStates, RefusesWritesThatDoNotFit) {
  auto wrong = [](const std::string& write) { return refusal(text_with(write)); };
  EXPECT_THAT(wrong("\"t\": f32[4, 3] = write \"r\" to \"x\" at \"p\"\n"),
              HasSubstr("'x' is no state"));
  EXPECT_THAT(wrong("\"t\": f32[12] = write \"r\" to \"s\" at \"p\"\n"),
              HasSubstr("'t' is f32[12]; expected f32[4, 3], as 's' is"));
  EXPECT_THAT(wrong("\"t\": f32[4, 3] = write \"p\" to \"s\" at \"p\"\n"),
              HasSubstr("'p' of i32[1] is no rows of 's' of f32[4, 3]"));
  EXPECT_THAT(
      wrong("\"v\": f32[3] = view \"r\"\n\"t\": f32[4, 3] = write \"v\" to \"s\" at \"p\"\n"),
      HasSubstr("is no rows of 's'"));
  EXPECT_THAT(wrong("\"t\": f32[4, 3] = write \"r\" to \"s\" at \"x\"\n"),
              HasSubstr("'x' of f32[1, 3] says no row; expected an input of one i32"));
  EXPECT_THAT(wrong("\"t\": f32[4, 3] = write \"r\" to \"s\" for \"n\"\n"),
              HasSubstr("expected 'at'"));
  EXPECT_THAT(wrong(kWrite + "\"v\": f32[12] = view \"t\"\n"),
              HasSubstr("'t' is a state, of which there are no views"));
}

}  // namespace
}  // namespace tilewright::graph
