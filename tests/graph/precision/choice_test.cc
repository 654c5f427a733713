// Which products take a precision.
#include "graph/precision/choice.h"

#include <gmock/gmock.h>

#include "base/error.h"
#include "tests/graph/precision/off.h"

namespace tilewright::graph {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// A product whose columns have one large weight each, which four bits cannot hold beside the small ones.
Graph graph_with_a_hard_product() {
  Graph graph = graph_with({{"w", {128, 128}}, {"u", {128, 32}}}, R"(input "x": f32[4, 128]
"a": f32[4, 128] = "matmul:m=4,n=128,k=128" (A="x", B="w") for "hard"
"y": f32[4, 32] = "matmul:m=4,n=32,k=128" (A="a", B="u") for "easy"
output "y"
)");
  std::vector<float> hard = random_floats(128 * 128, 5);
  for (size_t column = 0; column < 128; ++column) hard[(column % 128) * 128 + column] = 40;
  graph.values[graph.find("w")].data = floats(hard);
  return graph;
}

std::string mistake(const std::string& text) {
  try {
    Precision::parse(text);
  } catch (const UsageError& e) {
    return e.what();
  }
  return "";
}

TEST(GraphPrecisionText, NamesTypesAndGroups) {
  EXPECT_FALSE(Precision::parse("f32").is_narrow());
  EXPECT_EQ(Precision::parse("i8").factors, ElemType::i8);
  const Precision p = Precision::parse("u4:128:i8");
  ASSERT_TRUE(p.weights);
  EXPECT_EQ(p.weights->type, ElemType::u4);
  EXPECT_EQ(p.weights->group, 128);
  EXPECT_TRUE(p.weights->byte_activations);
  EXPECT_EQ(Precision::parse("i8:-1").weights->group, -1);
}

TEST(GraphPrecisionText, RefusesWithWhatIsAccepted) {
  for (const char* text : {"bf17", "u4", "u4:", "u4:0", "u4:-2", "u4:12x", "f16:32", "u4:128:u8",
                           "u4:128:i8:x", "nf4:64:i8", ""}) {
    EXPECT_THAT(mistake(text), HasSubstr("such as u4:128")) << text;
  }
  EXPECT_THAT(mistake("u1:32"), HasSubstr("no weights are stored as u1"));
}

TEST(GraphChoice, ErrorsAreThoseOfANodeAlone) {
  const Graph graph = graph_with_a_hard_product();
  const Choice choice =
      choose_products(graph, Precision::parse("i4:128"), nullptr, {{random_inputs(graph), {}}}, 1);
  ASSERT_EQ(choice.errors.size(), 2u);
  EXPECT_EQ(choice.errors[0].label, "hard");
  EXPECT_GT(choice.errors[0].error, 3 * choice.errors[1].error);
  EXPECT_TRUE(choice.kept.empty());
  EXPECT_EQ(choice.output, "y");
}

TEST(GraphChoice, TheWorstProductsStay) {
  const Graph graph = graph_with_a_hard_product();
  const std::vector<Sample> samples = {{random_inputs(graph), {}}};
  const Precision precision = Precision::parse("i4:128");
  const double all = choose_products(graph, precision, nullptr, samples, 1).error_of_all;
  const Choice choice = choose_products(graph, precision, nullptr, samples, all / 2);
  EXPECT_THAT(choice.kept, ElementsAre("a"));
  EXPECT_LE(choice.error, all / 2);
  EXPECT_EQ(choice.error_of_all, all);
  Graph after = graph;
  apply(&after, precision, nullptr, choice.kept);
  EXPECT_NEAR(off(graph, after), choice.error, 1e-9);
}

TEST(GraphChoice, NoProductHoldsATinyTolerance) {
  const Graph graph = graph_with_a_hard_product();
  const Choice choice =
      choose_products(graph, Precision::parse("i8"), nullptr, {{random_inputs(graph), {}}}, 1e-9);
  EXPECT_EQ(choice.kept.size(), choice.errors.size());
}

TEST(GraphChoice, RangesAreThoseOfAllSamples) {
  const Graph graph = graph_with({}, R"(input "x": f32[2]
"y": f32[2] = "expr:expr=\"Y[i] = max(X[i], 0)\",dims.i=2" (X="x")
output "y"
)");
  const Ranges ranges =
      ranges_of(graph, {{{{"x", floats({-3, 1})}}, {}}, {{{"x", floats({2, -1})}}, {}}});
  EXPECT_EQ(ranges.at("x").least, -3);
  EXPECT_EQ(ranges.at("x").most, 2);
  EXPECT_EQ(ranges.at("y").least, 0);
  EXPECT_EQ(ranges.at("y").most, 2);
}

}  // namespace
}  // namespace tilewright::graph
