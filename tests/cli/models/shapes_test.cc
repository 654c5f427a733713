// Inferred shapes of single operators, as ONNX defines them. Each was wrong or unknown in a file that
// others wrote.
#include <gmock/gmock.h>

#include <limits>

#include "cli/models/extract.h"
#include "models/onnx/values.h"
#include "tests/cli/models/onnx_file.h"

namespace tilewright::onnx {
namespace {

using test::OnnxFile;
using test::whole;
using test::wholes;

// "2,3", or "?" for an unknown shape; a size that is known only at launch by its name.
std::string shape_of(const OnnxFile& file, const std::string& value,
                     const std::map<std::string, DimSize>& sizes = {}) {
  const std::string bytes = file.bytes();
  const Model model = read_model(bytes, "m.onnx");
  const Values values(model, sizes);
  const std::optional<Shape>& shape = values.at(value).shape;
  if (!shape) return "?";
  std::string text;
  for (const Extent& e : *shape) text += (text.empty() ? "" : ",") + e.text();
  return text;
}

OnnxFile sliced(int64_t size, int64_t start, int64_t end, int64_t step) {
  return OnnxFile()
      .input("x", {2, size})
      .integers("from", {start})
      .integers("to", {end})
      .integers("axis", {1})
      .integers("step", {step})
      .node("Slice", {"x", "from", "to", "axis", "step"}, {"y"})
      .output("y");
}

TEST(OnnxShapes, ASliceMayGoBackwards) {
  constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();
  EXPECT_EQ(shape_of(sliced(10, -1, kLeast, -1), "y"), "2,10");
  EXPECT_EQ(shape_of(sliced(10, 9, 0, -1), "y"), "2,9");
  EXPECT_EQ(shape_of(sliced(10, 20, -20, -3), "y"), "2,4");
  EXPECT_EQ(shape_of(sliced(10, 2, 5, -1), "y"), "2,0");
  EXPECT_EQ(shape_of(sliced(10, -3, -6, -2), "y"), "2,2");
  EXPECT_EQ(shape_of(sliced(10, -1, kLeast, kLeast), "y"), "2,1");
  EXPECT_EQ(shape_of(sliced(10, 1, std::numeric_limits<int64_t>::max(), 1), "y"), "2,9");
}

TEST(OnnxShapes, WhatIsSlicedBackwardsKeepsItsContents) {
  // PyTorch reverses the pairs of a padding so.
  const OnnxFile file = OnnxFile()
                            .input("x", {2, 3, 4})
                            .integers("sizes", {24, 1})
                            .integers("from", {-1})
                            .integers("to", {std::numeric_limits<int64_t>::min()})
                            .integers("axis", {0})
                            .integers("step", {-1})
                            .node("Slice", {"sizes", "from", "to", "axis", "step"}, {"turned"})
                            .node("Reshape", {"x", "turned"}, {"y"})
                            .output("y");
  EXPECT_EQ(shape_of(file, "y"), "1,24");
}

// PyTorch writes a padding as pairs of the last axis first, and turns them in the model.
TEST(OnnxShapes, APaddingIsTurnedInTheModel) {
  const OnnxFile file = OnnxFile()
                            .input("x", {2, 3, 10})
                            .integers("given", {4, 5, 0, 0, 0, 1})
                            .integers("pairs", {-1, 2})
                            .integers("list", {-1})
                            .integers("from", {-1})
                            .integers("to", {std::numeric_limits<int64_t>::min()})
                            .integers("axis", {0})
                            .integers("step", {-1})
                            .node("Reshape", {"given", "pairs"}, {"in_pairs"})
                            .node("Slice", {"in_pairs", "from", "to", "axis", "step"}, {"turned"})
                            .node("Transpose", {"turned"}, {"sides"}, {wholes("perm", {1, 0})})
                            .node("Reshape", {"sides", "list"}, {"pads"})
                            .node("Pad", {"x", "pads"}, {"y"})
                            .output("y");
  EXPECT_EQ(shape_of(file, "y"), "3,3,19");
}

TEST(OnnxShapes, ASliceBackwardsOfANamedSizeKeepsTheName) {
  const auto of = [](int64_t step) {
    return shape_of(OnnxFile()
                        .input("x", {"seq", 4})
                        .integers("from", {-1})
                        .integers("to", {std::numeric_limits<int64_t>::min()})
                        .integers("axis", {0})
                        .integers("step", {step})
                        .node("Slice", {"x", "from", "to", "axis", "step"}, {"y"})
                        .output("y"),
                    "y", {{"seq", {1, 64}}});
  };
  EXPECT_EQ(of(-1), "seq,4");
  EXPECT_EQ(of(-2), "seq[-1:-9223372036854775808:-2],4");  // the run calculates it
}

// A window that would begin behind the input and the padding in front of it is left out.
TEST(OnnxShapes, RoundingUpAddsNoEmptyWindow) {
  const auto pooled = [](const std::string& op, int64_t size, const std::vector<int64_t>& kernel,
                         const std::vector<int64_t>& strides, const std::vector<int64_t>& pads) {
    return shape_of(OnnxFile()
                        .input("x", {1, 1, size, size})
                        .node(op, {"x"}, {"y"},
                              {wholes("kernel_shape", kernel), wholes("strides", strides),
                               wholes("pads", pads), whole("ceil_mode", 1)})
                        .output("y"),
                    "y");
  };
  EXPECT_EQ(pooled("MaxPool", 2, {1, 1}, {2, 2}, {0, 0, 0, 0}), "1,1,1,1");
  EXPECT_EQ(pooled("AveragePool", 2, {3, 3}, {3, 3}, {1, 1, 1, 1}), "1,1,1,1");
  EXPECT_EQ(pooled("MaxPool", 4, {3, 3}, {2, 2}, {0, 0, 0, 0}), "1,1,2,2");
}

TEST(OnnxShapes, ASumOfManyIsAddedOneAfterAnother) {
  const std::string bytes = OnnxFile()
                                .input("a", {4, 6})
                                .input("b", {6})
                                .input("c", {4, 6})
                                .input("d", {1, 6})
                                .node("Sum", {"a", "b", "c", "d"}, {"s"})
                                .output("s")
                                .bytes();
  const Model model = read_model(bytes, "m.onnx");
  ASSERT_EQ(model.nodes.size(), 3u);
  EXPECT_EQ(model.nodes[2].outputs[0], "s");
  const auto all = cli::model_workloads(model, {}, {});
  EXPECT_TRUE(all.left_out.empty());
  int64_t count = 0;
  for (const auto& w : all.workloads) count += w.count;
  EXPECT_EQ(count, 3);
}

// Both would be other values than the model's.
TEST(OnnxShapes, WhatSpecsCannotSayIsLeftOut) {
  const std::string bytes =
      OnnxFile(18)
          .input("x", {2, 6})
          .weight("table", {5, 3})
          .integers("none", {})
          .integers("back", {0, -1})
          .node("ReduceSum", {"x", "none"}, {"kept"}, {whole("noop_with_empty_axes", 1)})
          .node("ReduceSum", {"x", "none"}, {"sum"})
          .node("Gather", {"table", "x"}, {"by_input"})
          .output("sum")
          .bytes();
  const Model model = read_model(bytes, "m.onnx");
  const auto all = cli::model_workloads(model, {}, {});
  ASSERT_EQ(all.left_out.size(), 1u);
  EXPECT_EQ(all.left_out[0].reason, "it reduces no axis");
  const std::string negative = OnnxFile(18)
                                   .input("table", {5, 3})
                                   .integers("back", {0, -1})
                                   .node("Gather", {"table", "back"}, {"y"})
                                   .node("Relu", {"y"}, {"z"})
                                   .output("z")
                                   .bytes();
  const auto gathered = cli::model_workloads(read_model(negative, "m.onnx"), {}, {});
  ASSERT_EQ(gathered.left_out.size(), 1u);
  EXPECT_EQ(gathered.left_out[0].reason, "it has negative indices");
}

TEST(OnnxShapes, ResizeTakesSizesOrScales) {
  const OnnxFile scaled = OnnxFile()
                              .input("x", {1, 3, "h", 7})
                              .floats("scales", {4}, {1, 1, 2, 1.5f})
                              .node("Resize", {"x", "", "scales"}, {"y"})
                              .output("y");
  EXPECT_EQ(shape_of(scaled, "y", {{"h", {5, 5}}}), "1,3,10,10");
  EXPECT_EQ(shape_of(scaled, "y", {{"h", {1, 64}}}), "1,3,2*h,10");
  const OnnxFile sized =
      OnnxFile()
          .input("x", {1, 3, 4, 7})
          .integers("sizes", {8, 9})
          .node("Resize", {"x", "", "", "sizes"}, {"y"}, {wholes("axes", {2, 3})})
          .output("y");
  EXPECT_EQ(shape_of(sized, "y"), "1,3,8,9");
  const OnnxFile odd =
      OnnxFile()
          .input("x", {1, 3, 4, 7})
          .integers("sizes", {8, 9})
          .node("Resize", {"x", "", "", "sizes"}, {"y"},
                {wholes("axes", {2, 3}), test::words("keep_aspect_ratio_policy", "not_larger")})
          .output("y");
  EXPECT_EQ(shape_of(odd, "y"), "1,3,5,9");  // by the least of both scales
}

TEST(OnnxShapes, ElementsThatAreChosen) {
  const OnnxFile file = OnnxFile()
                            .input("x", {2, 8, 6})
                            .input("at", {2, 3, 6}, test::kInt64)
                            .input("places", {5, 2}, test::kInt64)
                            .integers("k", {4})
                            .integers("depth", {9})
                            .floats("values", {2}, {0, 1})
                            .node("GatherElements", {"x", "at"}, {"chosen"}, {whole("axis", 1)})
                            .node("GatherND", {"x", "places"}, {"slices"})
                            .node("TopK", {"x", "k"}, {"top", "which"}, {whole("axis", 1)})
                            .node("OneHot", {"at", "depth", "values"}, {"hot"}, {whole("axis", 1)})
                            .output("hot");
  EXPECT_EQ(shape_of(file, "chosen"), "2,3,6");
  EXPECT_EQ(shape_of(file, "slices"), "5,6");
  EXPECT_EQ(shape_of(file, "top"), "2,4,6");
  EXPECT_EQ(shape_of(file, "which"), "2,4,6");
  EXPECT_EQ(shape_of(file, "hot"), "2,9,3,6");
}

TEST(OnnxShapes, DepthAndRecurrentLayers) {
  const OnnxFile file =
      OnnxFile()
          .input("x", {1, 12, 4, 6})
          .input("rows", {7, 2, 5})
          .weight("w", {2, 12, 5})
          .weight("r", {2, 12, 3})
          .node("DepthToSpace", {"x"}, {"space"}, {whole("blocksize", 2)})
          .node("SpaceToDepth", {"x"}, {"deep"}, {whole("blocksize", 2)})
          .node("LSTM", {"rows", "w", "r"}, {"all", "last", "cell"},
                {whole("hidden_size", 3), test::words("direction", "bidirectional")})
          .output("all");
  EXPECT_EQ(shape_of(file, "space"), "1,3,8,12");
  EXPECT_EQ(shape_of(file, "deep"), "1,48,2,3");
  EXPECT_EQ(shape_of(file, "all"), "7,2,2,3");
  EXPECT_EQ(shape_of(file, "last"), "2,2,3");
  EXPECT_EQ(shape_of(file, "cell"), "2,2,3");
}

}  // namespace
}  // namespace tilewright::onnx
