// ONNX models whose named dimensions have ranges: one program is right at each size.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/optimize.h"
#include "graph/sizes.h"
#include "tests/graph/graphs.h"
#include "tests/graph/imports.h"

namespace tilewright::graph {
namespace {

using test::OnnxFile;
using testing::HasSubstr;

// As `compile` makes it: with either stand-ins.
Graph ranged_graph(const OnnxFile& file, const std::map<std::string, DimSize>& sizes) {
  const std::string bytes = file.bytes();
  const onnx::Model model = onnx::read_model(bytes, "m.onnx");
  const auto made = [&](const onnx::StandIns& stand_ins) {
    Graph graph = import_onnx(model, sizes, stand_ins);
    fold_constants(&graph);
    optimize(&graph);
    verify(graph);
    return graph;
  };
  Graph graph = made(onnx::kStandIns);
  require_same(graph, made(onnx::kOtherStandIns));
  for (const Node& node : graph.nodes) {
    if (!node.is_view()) ranged(graph, node);
  }
  return graph;
}

// The program for the ranges, at sizes among them, computes what the model does that is imported at these sizes.
void expect_right(const OnnxFile& file, const std::map<std::string, DimSize>& ranges,
                  const std::vector<std::map<std::string, int64_t>>& sizes) {
  const Graph graph = ranged_graph(file, ranges);
  for (const auto& at : sizes) {
    std::map<std::string, DimSize> fixed;
    for (const auto& [name, size] : at) fixed[name] = {size, size};
    Graph plain = imported(file, fixed);
    fold_constants(&plain);
    expect_near(plain, at_sizes(graph, at));
  }
}

std::string range_refusal(const OnnxFile& file, const std::map<std::string, DimSize>& ranges) {
  try {
    ranged_graph(file, ranges);
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

TEST(ImportRanges, APerceptron) {
  OnnxFile file;
  file.input("x", {"batch", 12})
      .weight("w", {12, 8})
      .weight("b", {8})
      .weight("v", {8, 3})
      .node("MatMul", {"x", "w"}, {"p"})
      .node("Add", {"p", "b"}, {"s"})
      .node("Relu", {"s"}, {"r"})
      .node("MatMul", {"r", "v"}, {"q"})
      .node("Softmax", {"q"}, {"y"}, {test::whole("axis", -1)})
      .output("y");
  expect_right(file, {{"batch", {1, 8}}}, {{{"batch", 1}}, {{"batch", 3}}, {{"batch", 8}}});
}

TEST(ImportRanges, ImagesOfAnyNumber) {
  OnnxFile file;
  file.input("x", {"n", 3, 8, 8})
      .weight("w", {16, 3, 3, 3})
      .weight("v", {16, 16, 3, 3})
      .weight("f", {16, 5})
      .node("Conv", {"x", "w"}, {"c"},
            {test::wholes("pads", {1, 1, 1, 1}), test::wholes("strides", {2, 2})})
      .node("Relu", {"c"}, {"r"})
      .node("Conv", {"r", "v"}, {"d"}, {test::wholes("pads", {1, 1, 1, 1})})
      .node("MaxPool", {"d"}, {"m"},
            {test::wholes("kernel_shape", {2, 2}), test::wholes("strides", {2, 2})})
      .node("GlobalAveragePool", {"m"}, {"g"})
      .node("Flatten", {"g"}, {"h"})
      .node("Gemm", {"h", "f"}, {"y"})
      .output("y");
  expect_right(file, {{"n", {1, 4}}}, {{{"n", 1}}, {{"n", 4}}});
}

// Attention with one head over any number of tokens, then the first token.
TEST(ImportRanges, RowsOfAnyLength) {
  OnnxFile file;
  file.input("x", {"batch", "seq", 8})
      .weight("w", {8, 8})
      .number("s", 0.35f)
      .constant("first", test::kInt64, {}, test::raw_text(std::vector<int64_t>{0}))
      .node("MatMul", {"x", "w"}, {"q"})
      .node("Transpose", {"x"}, {"k"}, {test::wholes("perm", {0, 2, 1})})
      .node("MatMul", {"q", "k"}, {"a"})
      .node("Mul", {"a", "s"}, {"b"})
      .node("Softmax", {"b"}, {"p"}, {test::whole("axis", -1)})
      .node("MatMul", {"p", "x"}, {"o"})
      .node("ReduceMean", {"o"}, {"mean"}, {test::wholes("axes", {1}), test::whole("keepdims", 0)})
      .node("Gather", {"o", "first"}, {"head"}, {test::whole("axis", 1)})
      .output("o")
      .output("mean")
      .output("head");
  expect_right(
      file, {{"batch", {1, 3}}, {"seq", {1, 9}}},
      {{{"batch", 1}, {"seq", 1}}, {{"batch", 3}, {"seq", 9}}, {{"batch", 2}, {"seq", 5}}});
  expect_right(file, {{"batch", {2, 2}}, {"seq", {2, 9}}}, {{{"batch", 2}, {"seq", 3}}});
}

TEST(ImportRanges, RefusesWhatARangeCannotSay) {
  OnnxFile last;
  last.input("x", {"seq", 4})
      .constant("last", test::kInt64, {}, test::raw_text(std::vector<int64_t>{-1}))
      .node("Gather", {"x", "last"}, {"y"})
      .output("y");
  EXPECT_THAT(range_refusal(last, {{"seq", {1, 8}}}), HasSubstr("counts from the end"));
  OnnxFile token;
  token.input("x", {1, "seq", 4})
      .weight("t", {1, 1, 4})
      .node("Concat", {"t", "x"}, {"y"}, {test::whole("axis", 1)})
      .output("y");
  EXPECT_THAT(range_refusal(token, {{"seq", {1, 8}}}), HasSubstr("is no multiple of a ranged"));
  OnnxFile many;
  std::map<std::string, DimSize> ranges;
  for (const char* name : {"a", "b", "c", "d", "e", "f", "g", "h", "i"}) {
    ranges[name] = {1, 2};
    many.input(std::string("x") + name, {name})
        .node("Relu", {std::string("x") + name}, {std::string("y") + name})
        .output(std::string("y") + name);
  }
  EXPECT_THAT(range_refusal(many, ranges), HasSubstr("9 dimensions have ranges; at most 8"));
}

}  // namespace
}  // namespace tilewright::graph
