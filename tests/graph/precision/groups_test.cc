// Weights of a few bits in groups.
#include "graph/precision/groups.h"

#include <gmock/gmock.h>

#include "graph/join_products.h"
#include "graph/moves.h"
#include "graph/sizes.h"
#include "tests/graph/precision/off.h"

namespace tilewright::graph {
namespace {

using testing::HasSubstr;

Graph matrix_product(const std::string& keys, Shape weight, const std::string& shape = "4, 256") {
  return graph_with({{"w", std::move(weight)}},
                    "input \"x\": f32[" + shape + "]\n\"y\": f32[4, 32] = \"matmul:m=4,n=32,k=256" +
                        keys + "\" (A=\"x\", B=\"w\")\noutput \"y\"\n");
}

Graph grouped(const Graph& before, const WeightForm& form) {
  Graph after = before;
  EXPECT_EQ(group_products(&after, form).outputs.size(), 1u);
  fold_constants(&after);
  verify(after);
  return after;
}

TEST(GraphGroups, WeightsBecomeCodesScalesAndZeroPoints) {
  const Graph before = matrix_product(",epilogue=[relu]", {256, 32});
  const Graph after = grouped(before, {ElemType::u4, 128});
  EXPECT_EQ(type_text(after.values[after.find("w/u4")]), "u4[256, 32]");
  EXPECT_EQ(type_text(after.values[after.find("w/u4/scale")]), "f32[2, 32]");
  EXPECT_EQ(type_text(after.values[after.find("w/u4/zero")]), "u4[2, 32]");
  EXPECT_THAT(after.nodes[0].spec, HasSubstr("epilogue=[relu],w.dtype=u4,w.group=128,w.zero=u4"));
  EXPECT_THROW(after.find("w"), GraphError);
  const double error = off(before, after);
  EXPECT_GT(error, 0);
  EXPECT_LT(error, 0.1);
}

// Bytes are nearer than four bits, smaller groups than larger ones, and all of them in the same places.
TEST(GraphGroups, MoreBitsAndSmallerGroupsAreNearer) {
  const Graph before = matrix_product("", {256, 32});
  const double bytes = off(before, grouped(before, {ElemType::u8, -1}));
  const double small = off(before, grouped(before, {ElemType::i4, 16}));
  const double large = off(before, grouped(before, {ElemType::i4, 256}));
  EXPECT_LT(bytes, 0.01);
  EXPECT_LT(small, large);
  EXPECT_LT(large, 0.15);
  EXPECT_LT(off(before, grouped(before, {ElemType::nf4, 64})), 0.15);
  EXPECT_LT(off(before, grouped(before, {ElemType::f8e4m3, 64})), 0.05);
}

TEST(GraphGroups, ATurnedWeightIsStoredByItsTerms) {
  const Graph before = matrix_product(",trans_b=true", {32, 256});
  const Graph after = grouped(before, {ElemType::u8, 64});
  EXPECT_EQ(type_text(after.values[after.find("w/u8")]), "u8[256, 32]");
  EXPECT_LT(off(before, after), 0.01);
}

TEST(GraphGroups, ActivationsOfBytesAreTheKernels) {
  const Graph before = matrix_product("", {256, 32});
  const Graph after = grouped(before, {ElemType::u4, 128, true});
  EXPECT_THAT(after.nodes[0].spec, HasSubstr("a.dtype=i8"));
  EXPECT_LT(off(before, after), 0.1);
}

TEST(GraphGroups, OtherSizesStay) {
  for (const WeightForm& form : {WeightForm{ElemType::u4, 100}, WeightForm{ElemType::u4, 512}}) {
    Graph graph = matrix_product("", {256, 32});
    const Changed changed = group_products(&graph, form);
    EXPECT_TRUE(changed.outputs.empty()) << form.group << " does not divide 256";
    EXPECT_EQ(changed.others, 1);
  }
  Graph small = graph_with({{"w", {64, 32}}}, R"(input "x": f32[4, 64]
"y": f32[4, 32] = "matmul:m=4,n=32,k=64" (A="x", B="w")
output "y"
)");
  EXPECT_EQ(group_products(&small, {ElemType::u4, 32}).others, 1);
  Graph odd = graph_with({{"w", {256, 33}}}, R"(input "x": f32[4, 256]
"y": f32[4, 33] = "matmul:m=4,n=33,k=256" (A="x", B="w")
output "y"
)");
  EXPECT_EQ(group_products(&odd, {ElemType::u4, 32}).others, 1) << "half a byte a row";
}

// As those of queries, keys and values.
TEST(GraphGroups, ProductsOfOneOperandAreJoined) {
  const std::string reader =
      "Y[h, s, e] = X[s, h, e]\\\",dims.h=8,dims.s=4,dims.e=8,shapes.X=[4,8,8]\" (X=";
  std::string text = "input \"x\": f32[4, 64]\n";
  for (const std::string n : {"a", "b"}) {
    text += "\"" + n + "\": f32[4, 64] = \"matmul:m=4,n=64,k=64,epilogue=[bias]\" (A=\"x\", B=\"" +
            n + "w\", bias=\"" + n + "b\")\n\"" + n + "y\": f32[8, 4, 8] = \"expr:expr=\\\"" +
            reader + "\"" + n + "\")\n";
  }
  Graph graph = graph_with({{"aw", {64, 64}}, {"bw", {64, 64}}, {"ab", {64}}, {"bb", {64}}},
                           text +
                               "\"y\": f32[8, 4, 8] = \"expr:expr=\\\"Y[h, s, e] = A[h, s, e] * "
                               "B[h, s, e]\\\",dims.h=8,dims.s=4,"
                               "dims.e=8\" (A=\"ay\", B=\"by\")\noutput \"y\"\n");
  ASSERT_EQ(group_products(&graph, {ElemType::u4, 32}).outputs.size(), 2u);
  fold_constants(&graph);
  Graph after = graph;
  fold_moves(&after);
  ASSERT_EQ(join_products(&after), 1) << to_string(after);
  EXPECT_THAT(to_string(after), HasSubstr("u4[64, 128]"));
  EXPECT_THAT(to_string(after), HasSubstr("u4[2, 128]"));
  EXPECT_LT(off(graph, after), 1e-6);
}

TEST(GraphGroups, ASizeOfEachRun) {
  const Graph before = graph_with({{"w", {256, 32}}}, R"(dim "batch": 1..8 as 2137
input "x": f32[2137, 256]
"y": f32[2137, 32] = "matmul:m=2137,n=32,k=256" (A="x", B="w")
output "y"
)");
  const Graph after = grouped(before, {ElemType::u8, 128});
  EXPECT_NO_THROW(ranged(after, after.nodes[0]));
  EXPECT_LT(off(at_sizes(before, {{"batch", 3}}), at_sizes(after, {{"batch", 3}})), 0.01);
}

}  // namespace
}  // namespace tilewright::graph
