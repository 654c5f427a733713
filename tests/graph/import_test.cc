// Whole ONNX models as graphs.
#include "graph/import_onnx.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/graph/imports.h"

namespace tilewright::graph {
namespace {

using test::kFloat;
using test::kInt64;
using test::OnnxFile;
using testing::ElementsAre;
using testing::HasSubstr;

OnnxFile unary(const std::string& op, const std::vector<std::string>& attributes = {}) {
  OnnxFile file;
  file.input("x", {2, 3}).node(op, {"x"}, {"y"}, attributes).output("y");
  return file;
}

const Bytes kSix = elements({1, -2, 3, -4, 5, -6});

TEST(ImportOnnx, MovesElements) {
  EXPECT_THAT(run(unary("Transpose"), {{"x", kSix}}), ElementsAre(1, -4, -2, 5, 3, -6));
  EXPECT_THAT(run(unary("Flatten"), {{"x", kSix}}), ElementsAre(1, -2, 3, -4, 5, -6));
}

TEST(ImportOnnx, SlicesBackwardsAndJoins) {
  OnnxFile file;
  file.input("x", {2, 3})
      .integers("starts", {-1})
      .integers("ends", {-100})
      .integers("axes", {1})
      .integers("steps", {-2})
      .node("Slice", {"x", "starts", "ends", "axes", "steps"}, {"s"})
      .node("Concat", {"s", "x"}, {"y"}, {test::whole("axis", 1)})
      .output("y");
  EXPECT_THAT(run(file, {{"x", kSix}}), ElementsAre(3, 1, 1, -2, 3, -6, -4, -4, 5, -6));
}

TEST(ImportOnnx, PoolsOverThePadding) {
  OnnxFile most, mean;
  for (auto [file, op] : {std::pair(&most, "MaxPool"), std::pair(&mean, "AveragePool")}) {
    file->input("x", {1, 1, 2, 3})
        .node(op, {"x"}, {"y"},
              {test::wholes("kernel_shape", {2, 2}), test::wholes("pads", {1, 1, 0, 0})})
        .output("y");
  }
  EXPECT_THAT(run(most, {{"x", kSix}}), ElementsAre(1, 1, 3, 1, 5, 5));
  EXPECT_THAT(run(mean, {{"x", kSix}}), ElementsAre(1, -0.5, 0.5, -1.5, 0, 0));
}

TEST(ImportOnnx, FoldsStatisticsIntoTheConvolution) {
  OnnxFile file;
  file.input("x", {1, 1, 2, 3})
      .floats("w", {1, 1, 1, 1}, {2})
      .floats("g", {1}, {3})
      .floats("b", {1}, {1})
      .floats("mean", {1}, {4})
      .floats("var", {1}, {9 - 1e-5f})
      .node("Conv", {"x", "w"}, {"c"}, {test::wholes("kernel_shape", {1, 1})})
      .node("BatchNormalization", {"c", "g", "b", "mean", "var"}, {"y"})
      .output("y");
  Graph graph = imported(file);
  fold_constants(&graph);
  EXPECT_EQ(graph.nodes.size(), 1u) << to_string(graph);
  const std::vector<float> y = run(file, {{"x", kSix}});  // 2 x - 4 + 1
  const std::vector<float> want = {-1, -7, 3, -11, 7, -15};
  for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(y[i], want[i], 1e-5);
}

TEST(ImportOnnx, PadsOneSideInFrontOfTheConvolution) {
  OnnxFile file;
  file.input("x", {1, 1, 2, 3})
      .floats("w", {1, 1, 1, 2}, {1, 10})
      .node("Conv", {"x", "w"}, {"y"}, {test::wholes("pads", {0, 0, 0, 1})})
      .output("y");
  EXPECT_THAT(run(file, {{"x", kSix}}), ElementsAre(-19, 28, 3, 46, -55, -6));
}

TEST(ImportOnnx, ReordersATransposedConvolution) {
  OnnxFile file;
  file.input("x", {1, 1, 2, 3})
      .floats("w", {1, 1, 1, 2}, {1, 10})
      .floats("b", {1}, {1})
      .node("ConvTranspose", {"x", "w", "b"}, {"y"}, {test::wholes("kernel_shape", {1, 2})})
      .output("y");
  EXPECT_THAT(run(file, {{"x", kSix}}), ElementsAre(2, 9, -16, 31, -3, -34, 45, -59));
}

// Windows that do not overlap are a product of channels.
TEST(ImportOnnx, MakesBlocksOfATransposedConvolution) {
  OnnxFile file;
  file.input("x", {1, 2, 1, 2})
      .floats("w", {2, 2, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0, 1, 0, 2, 0, 0})
      .floats("b", {2}, {0, 100})
      .node("ConvTranspose", {"x", "w", "b"}, {"y"}, {test::wholes("strides", {2, 2})})
      .output("y");
  EXPECT_THAT(
      run(file, {{"x", elements({1, 10, 1000, 2000})}}),
      ElementsAre(1, 2, 10, 20, 3, 1004, 30, 2040, 105, 2106, 150, 4160, 107, 108, 170, 180));
  EXPECT_THAT(to_string(imported(file)), testing::Not(HasSubstr("conv2d_transpose")));
}

TEST(ImportOnnx, ConvertsTowardZeroAndBack) {
  OnnxFile file;
  file.input("x", {1, 4})
      .node("Cast", {"x"}, {"i"}, {test::whole("to", kInt64)})
      .node("Cast", {"i"}, {"y"}, {test::whole("to", kFloat)})
      .output("y");
  EXPECT_THAT(run(file, {{"x", elements({1.7f, -1.7f, -0.5f, 3})}}), ElementsAre(1, -1, 0, 3));
}

TEST(ImportOnnx, TakesRowsFromTheEndToo) {
  OnnxFile file;
  file.input("x", {2, 3}).input("i", {2}, kInt64).node("Gather", {"x", "i"}, {"y"}).output("y");
  const std::vector<int64_t> indices = {-1, 0};
  const Bytes given = std::make_shared<std::string>(reinterpret_cast<const char*>(indices.data()),
                                                    indices.size() * sizeof(int64_t));
  EXPECT_THAT(run(file, {{"x", kSix}, {"i", given}}), ElementsAre(-4, 5, -6, 1, -2, 3));
}

TEST(ImportOnnx, DoublesImages) {
  OnnxFile file;
  file.input("x", {1, 1, 1, 3})
      .floats("scales", {4}, {1, 1, 2, 2})
      .node("Resize", {"x", "", "scales"}, {"y"},
            {test::words("coordinate_transformation_mode", "asymmetric"),
             test::words("nearest_mode", "floor")})
      .output("y");
  EXPECT_THAT(run(file, {{"x", elements({1, 2, 3})}}),
              ElementsAre(1, 1, 2, 2, 3, 3, 1, 1, 2, 2, 3, 3));
}

// Two gates of four are open by half; what is kept comes from the step before.
TEST(ImportOnnx, UnrollsAnLstm) {
  OnnxFile file;
  file.input("x", {2, 1, 1})
      .floats("w", {1, 4, 1}, {0, 0, 0, 1})  // input, output, forget, cell
      .floats("r", {1, 4, 1}, {0, 0, 0, 0})
      .node("LSTM", {"x", "w", "r"}, {"y", "", "c"}, {test::whole("hidden_size", 1)})
      .output("y")
      .output("c");
  const double first = 0.5 * std::tanh(1.0), second = 0.5 * first + 0.5 * std::tanh(-2.0);
  EXPECT_THAT(run(file, {{"x", elements({1, -2})}}),
              ElementsAre(testing::FloatEq(static_cast<float>(0.5 * std::tanh(first))),
                          testing::FloatEq(static_cast<float>(0.5 * std::tanh(second)))));
}

// More steps than one layer joins; the second direction begins at the last one.
TEST(ImportOnnx, UnrollsBothDirections) {
  constexpr int kSteps = 70;
  OnnxFile file;
  file.input("x", {kSteps, 1, 1})
      .floats("w", {2, 1, 1}, {1, 1})
      .floats("r", {2, 1, 1}, {0.5F, 0.5F})
      .node("RNN", {"x", "w", "r"}, {"y"}, {test::words("direction", "bidirectional")})
      .output("y");
  std::vector<float> x, want(2 * kSteps);
  for (int t = 0; t < kSteps; ++t) x.push_back(0.01F * static_cast<float>(t * t % 37));
  double forward = 0, backward = 0;
  for (int t = 0; t < kSteps; ++t) {
    forward = std::tanh(x[t] + 0.5 * forward);
    want[2 * t] = static_cast<float>(forward);
    const int back = kSteps - 1 - t;
    backward = std::tanh(x[back] + 0.5 * backward);
    want[2 * back + 1] = static_cast<float>(backward);
  }
  const std::vector<float> got = run(file, {{"x", elements(x)}});
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-6) << i;
}

TEST(ImportOnnx, RefusesOtherRecurrentLayers) {
  auto refusal = [](int steps, const std::vector<std::string>& attributes) {
    OnnxFile file;
    file.input("x", {steps, 1, 1})
        .floats("w", {1, 3, 1}, {1, 1, 1})
        .floats("r", {1, 3, 1}, {1, 1, 1})
        .node("GRU", {"x", "w", "r"}, {"y"}, attributes)
        .output("y");
    return import_refusal(file);
  };
  EXPECT_EQ(refusal(3, {}), "");
  EXPECT_EQ(refusal(257, {}), "");
  EXPECT_THAT(refusal(3, {test::texts("activations", {"Relu", "Tanh"})}),
              HasSubstr("its activation is Relu; expected sigmoid"));
  EXPECT_EQ(refusal(3, {test::texts("activations", {"Sigmoid", "Tanh"})}), "");
}

TEST(ImportOnnx, NamesAllNodesWithoutAKernel) {
  OnnxFile file;
  file.input("x", {2, 3})
      .node("BitShift", {"x", "x"}, {"c"})
      .node("Det", {"c"}, {"d"})
      .node("NonZero", {"x"}, {"unused"})
      .node("BitwiseNot", {"x"}, {"s"})
      .node("Add", {"c", "s"}, {"y"})
      .output("y");
  const std::string text = import_refusal(file);
  EXPECT_THAT(text, HasSubstr("m.onnx: 2 of its 5 nodes have no kernel:"));
  EXPECT_THAT(text, HasSubstr("make_c (BitShift): it takes f32; expected integers of 8"));
  EXPECT_THAT(text, HasSubstr("make_s (BitwiseNot): it takes f32; expected integers of 8"));
  EXPECT_THAT(text, testing::Not(HasSubstr("NonZero")));  // no output needs it
}

TEST(ImportOnnx, RefusesCircles) {
  OnnxFile circle;
  circle.input("x", {2}).note("a", {2}).note("b", {2});
  circle.node("Add", {"x", "b"}, {"a"}).node("Add", {"x", "a"}, {"b"}).output("a");
  EXPECT_NE(import_refusal(circle), "");
}

}  // namespace
}  // namespace tilewright::graph
