// Products as sums of products of bytes.
#include "graph/precision/codes.h"

#include <gmock/gmock.h>

#include <algorithm>

#include "graph/fuse.h"
#include "graph/sizes.h"
#include "tests/graph/imports.h"
#include "tests/graph/precision/off.h"

namespace tilewright::graph {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// The graph with codes, and what became of it.
Graph encoded(const Graph& before, size_t products, const Ranges* ranges = nullptr) {
  Graph after = before;
  EXPECT_EQ(encode_products(&after, ranges).outputs.size(), products) << to_string(after);
  fold_constants(&after);
  fuse(&after);
  const double error = off(before, after);
  EXPECT_LT(error, 0.02) << to_string(after);
  EXPECT_EQ(error > 0, products > 0) << "factors are rounded";
  return after;
}

const Node& node_of_value(const Graph& graph, const std::string& name) {
  return *std::ranges::find(graph.nodes, graph.find(name), &Node::output);
}

Graph two_products() {
  return graph_with({{"w", {64, 48}}, {"u", {48, 8}}, {"b", {48}}}, R"(input "x": f32[4, 64]
"a": f32[4, 48] = "matmul:m=4,n=48,k=64,epilogue=[bias,relu]" (A="x", B="w", bias="b")
"y": f32[4, 8] = "matmul:m=4,n=8,k=48" (A="a", B="u")
output "y"
)");
}

TEST(GraphCodes, RowsAndColumnsHaveScalesOfTheirOwn) {
  const Graph graph = encoded(two_products(), 2);
  EXPECT_EQ(type_text(graph.values[graph.find("x/scale")]), "f32[4]");
  EXPECT_EQ(type_text(graph.values[graph.find("a/scale")]), "f32[4]");
  EXPECT_EQ(type_text(graph.values[graph.find("a/weight_scale")]), "f32[48]")
      << "of the weight's columns";
  EXPECT_TRUE(graph.values[graph.find("w/i8")].constant);
  EXPECT_THROW(graph.find("w"), GraphError) << "nothing reads the weight in f32";
  const std::string& spec = node_of_value(graph, "y").spec;
  EXPECT_THAT(spec, HasSubstr("T0[i0, i1] += X0[i0, r0] * X1[r0, i1]; "
                              "Y[i0, i1] = T0[i0, i1] * X2[i1] * X3[i0]"));
  EXPECT_THAT(spec, HasSubstr("dtypes.T0=i32,dtypes.X0=i8,dtypes.X1=i8"));
  EXPECT_THAT(spec, HasSubstr("weights=[X1]"));
}

// One small row beside large ones keeps its precision, and rows of zeros stay zero.
TEST(GraphCodes, RowsDoNotShareTheirScale) {
  const Graph before = two_products();
  Graph after = before;
  encode_products(&after);
  std::vector<float> x = random_floats(4 * 64, 3);
  for (size_t i = 0; i < 64; ++i) {
    x[i] *= 1e-4f;
    x[64 + i] = 0;
  }
  Graph product = graph_with({{"w", {64, 48}}}, R"(input "x": f32[4, 64]
"y": f32[4, 48] = "matmul:m=4,n=48,k=64" (A="x", B="w")
output "y"
)");
  Graph codes = product;
  encode_products(&codes);
  const Bytes want = interpret(product, {{"x", floats(x)}})[0],
              got = interpret(codes, {{"x", floats(x)}})[0];
  const size_t bytes = 48 * sizeof(float);
  const auto off = [&](size_t r) {
    return share_off(ElemType::f32, std::string_view(*got).substr(r * bytes, bytes),
                     std::string_view(*want).substr(r * bytes, bytes));
  };
  for (size_t r : {0u, 2u, 3u}) EXPECT_LT(off(r), 0.02) << r;
  EXPECT_EQ(off(1), 0);
}

// The same statements as a model in ONNX becomes that says the same.
TEST(GraphCodes, TheStatementsAreThoseOfQuantizedModels) {
  test::OnnxFile file;
  std::vector<int8_t> codes;
  for (int i = 0; i < 64 * 4; ++i) codes.push_back(static_cast<int8_t>(i * 37 % 255 - 127));
  file.input("x", {4, 64}).floats("s", {}, {0.02f}).floats("t", {4}, {0.5f, 0.1f, 0.2f, 0.3f});
  file.constant("z", test::kInt8, {}, std::string(1, '\0'));
  file.constant("w", test::kInt8, {64, 4}, test::raw_text(codes));
  file.constant("zw", test::kInt8, {4}, std::string(4, '\0'));
  file.node("QuantizeLinear", {"x", "s", "z"}, {"q"});
  file.node("DequantizeLinear", {"q", "s", "z"}, {"d"});
  file.node("DequantizeLinear", {"w", "t", "zw"}, {"f"}, {test::whole("axis", 1)});
  file.node("MatMul", {"d", "f"}, {"y"}).output("y");
  Graph given = imported(file);
  fold_constants(&given);
  fuse(&given);
  Graph own = graph_with({{"w", {64, 4}}}, R"(input "x": f32[4, 64]
"y": f32[4, 4] = "matmul:m=4,n=4,k=64" (A="x", B="w")
output "y"
)");
  const Ranges ranges = {{"x", {-2, 2}}};
  encode_products(&own, &ranges);
  fuse(&own);
  EXPECT_EQ(own.nodes.back().spec, given.nodes.back().spec);
}

TEST(GraphCodes, KnownRangesGiveNumbersAndProducersStoreCodes) {
  const Graph before = two_products();
  const Ranges ranges = {{"x", {-2, 2}}, {"a", {0, 90}}};
  const Graph graph = encoded(before, 2, &ranges);
  ASSERT_EQ(graph.nodes.size(), 3u) << to_string(graph);  // the codes of x, and two products
  const Value& a = graph.values[graph.nodes[1].output];
  EXPECT_EQ(type_text(a), "u8[4, 48]") << "what a rectifier makes is never negative";
  EXPECT_THAT(graph.nodes[1].spec, HasSubstr("dtypes.Y=u8"));
}

TEST(GraphCodes, ConvolutionsPadTheirCodes) {
  const Graph before = graph_with({{"w", {8, 4, 3, 3}}, {"b", {8}}}, R"(input "x": f32[2, 4, 6, 6]
"y": f32[2, 8, 6, 6] = "conv2d:n=2,h=6,w=6,ci=4,co=8,kernel=3,pad=1,layout=nchw,epilogue=[bias]" (W="w", X="x", bias="b")
output "y"
)");
  const Graph graph = encoded(before, 1);
  EXPECT_EQ(type_text(graph.values[graph.find("x/scale")]), "f32[2]") << "one of each image";
  EXPECT_EQ(type_text(graph.values[graph.find("y/weight_scale")]), "f32[8]")
      << "one of each channel";
  EXPECT_THAT(node_of_value(graph, "y").spec, HasSubstr("dtypes.T0=i8,dtypes.T1=i32"));
}

TEST(GraphCodes, DepthwiseConvolutionsAndShortSumsStay) {
  const std::string text = R"(input "x": f32[1, 8, 6, 6]
"d": f32[1, 8, 6, 6] = "conv2d:n=1,h=6,w=6,ci=8,co=8,kernel=3,pad=1,groups=8,layout=nchw" (W="w", X="x")
"y": f32[1, 8, 6, 6] = "conv2d:n=1,h=6,w=6,ci=8,co=8,kernel=1,layout=nchw" (W="v", X="d")
output "y"
)";
  Graph graph = graph_with({{"w", {8, 1, 3, 3}}, {"v", {8, 8, 1, 1}}}, text);
  const Changed changed = encode_products(&graph);
  EXPECT_EQ(changed.outputs.size(), 0u);
  EXPECT_EQ(changed.others, 1) << "the short sum; a depthwise one would only convert";
}

TEST(GraphCodes, ProductsOfTwoCalculatedValuesStay) {
  const Graph graph = graph_with({}, R"(input "x": f32[6, 64]
"y": f32[6, 6] = "expr:expr=\"Y[i, j] += X[i, k] * X[j, k]\",dims.i=6,dims.j=6,dims.k=64" (X="x")
output "y"
)");
  encoded(graph, 0);
}

TEST(GraphCodes, KeptProductsStay) {
  const Graph before = two_products();
  Graph after = before;
  EXPECT_THAT(encode_products(&after, nullptr, {"a"}).outputs, ElementsAre("y"));
  EXPECT_THAT(node_of_value(after, "a").spec, HasSubstr("matmul:"));
}

TEST(GraphCodes, ASizeOfEachRun) {
  const std::string text = R"(dim "batch": 1..8 as 2137
input "x": f32[2137, 64]
"y": f32[2137, 48] = "matmul:m=2137,n=48,k=64" (A="x", B="w")
output "y"
)";
  const Graph before = graph_with({{"w", {64, 48}}}, text);
  Graph after = before;
  ASSERT_EQ(encode_products(&after).outputs.size(), 1u);
  fuse(&after);
  verify(after);
  for (int64_t batch : {1, 5}) {
    EXPECT_LT(off(at_sizes(before, {{"batch", batch}}), at_sizes(after, {{"batch", batch}})), 0.02);
  }
  for (const Node& node : after.nodes) EXPECT_NO_THROW(ranged(after, node)) << node.spec;
}

}  // namespace
}  // namespace tilewright::graph
