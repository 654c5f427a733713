// Operators of whole models that one expression or a few compute, beside their definitions.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <numbers>

#include "tests/graph/imports.h"

namespace tilewright::graph {
namespace {

using test::OnnxFile;
using testing::ElementsAre;
using testing::FloatNear;
using testing::HasSubstr;
using testing::Pointwise;

TEST(ImportOperators, CircularAndHyperbolicFunctions) {
  const std::vector<std::pair<const char*, std::function<double(double)>>> functions = {
      {"Atan", [](double x) { return std::atan(x); }},
      {"Asin", [](double x) { return std::asin(x / 4); }},
      {"Acos", [](double x) { return std::acos(x / 4); }},
      {"Sinh", [](double x) { return std::sinh(x); }},
      {"Cosh", [](double x) { return std::cosh(x); }},
      {"Asinh", [](double x) { return std::asinh(x); }},
      {"Acosh", [](double x) { return std::acosh(x + 5); }},
      {"Atanh", [](double x) { return std::atanh(x / 4.5); }}};
  const std::vector<float> x = {-4, -2.5, -1, -0.3f, 0, 0.2f, 0.5f, 1.1f, 3, 4};
  for (const auto& [op, of] : functions) {
    const std::string name = op;
    std::vector<float> given;
    for (float v : x) {
      given.push_back(name == "Asin" || name == "Acos" ? v / 4
                      : name == "Acosh"                ? v + 5
                      : name == "Atanh"                ? v / 4.5f
                                                       : v);
    }
    OnnxFile file(13);
    file.input("x", {10}).node(op, {"x"}, {"y"}).output("y");
    const std::vector<float> y = run(file, {{"x", elements(given)}});
    for (size_t i = 0; i < x.size(); ++i) {
      EXPECT_NEAR(y[i], of(x[i]), 1e-5 * std::max(1.0, std::abs(of(x[i])))) << op << " " << x[i];
    }
  }
}

TEST(ImportOperators, PowersWithACalculatedExponent) {
  OnnxFile file(13);
  file.input("x", {6}).input("e", {6}).node("Pow", {"x", "e"}, {"y"}).output("y");
  EXPECT_THAT(
      run(file, {{"x", elements({2, -2, -2, 0, 0, 9})}, {"e", elements({-1, 3, 2, 0, 2, 0.5})}}),
      Pointwise(FloatNear(1e-4f), {0.5f, -8.f, 4.f, 1.f, 0.f, 3.f}));
}

TEST(ImportOperators, SumsThatATextNames) {
  const auto sum = [](const std::string& equation, const test::OnnxShape& a,
                      const test::OnnxShape& b) {
    OnnxFile file(13);
    file.input("a", a).input("b", b).node("Einsum", {"a", "b"}, {"y"},
                                          {test::words("equation", equation)});
    file.output("y");
    std::vector<float> x, z;
    for (int i = 0; i < 6; ++i) x.push_back(static_cast<float>(i + 1));
    for (int i = 0; i < 6; ++i) z.push_back(static_cast<float>(6 - i));
    return run(file, {{"a", elements(x)}, {"b", elements(z)}});
  };
  EXPECT_THAT(sum("ij,jk->ik", {2, 3}, {3, 2}), ElementsAre(20, 14, 56, 41));
  EXPECT_THAT(sum("ij,jk", {2, 3}, {3, 2}), ElementsAre(20, 14, 56, 41));
  EXPECT_THAT(sum("...i,...i->...", {2, 3}, {2, 3}), ElementsAre(28, 28));
  EXPECT_THAT(sum("ij,kj->", {2, 3}, {2, 3}), ElementsAre(9 * 5 + 7 * 7 + 5 * 9));
  OnnxFile file(13);
  file.input("a", {2, 3}).node("Einsum", {"a"}, {"y"}, {test::words("equation", "ijk->i")});
  file.output("y");
  EXPECT_THAT(import_refusal(file), HasSubstr("y (Einsum): its equation is 'ijk->i'"));
}

TEST(ImportOperators, SpectraOfStretches) {
  OnnxFile file(17);
  std::vector<float> x, window(8, 0.5f);
  for (int i = 0; i < 16; ++i) x.push_back(static_cast<float>((i * 7) % 5) - 2);
  file.input("x", {1, 16, 1})
      .constant("step", test::kInt64, {}, test::raw_text(std::vector<int64_t>{4}))
      .floats("w", {8}, window)
      .node("STFT", {"x", "step", "w"}, {"y"})
      .output("y");
  const std::vector<float> y = run(file, {{"x", elements(x)}});
  ASSERT_EQ(y.size(), 3u * 5 * 2);
  for (int frame = 0; frame < 3; ++frame) {
    for (int k = 0; k < 5; ++k) {
      double real = 0, imaginary = 0;
      for (int n = 0; n < 8; ++n) {
        const double turn = -2 * std::numbers::pi * k * n / 8;
        real += 0.5 * x[static_cast<size_t>(frame * 4 + n)] * std::cos(turn);
        imaginary += 0.5 * x[static_cast<size_t>(frame * 4 + n)] * std::sin(turn);
      }
      EXPECT_NEAR(y[static_cast<size_t>((frame * 5 + k) * 2)], real, 1e-5);
      EXPECT_NEAR(y[static_cast<size_t>((frame * 5 + k) * 2 + 1)], imaginary, 1e-5);
    }
  }
}

TEST(ImportOperators, ElementsBetweenPlaces) {
  OnnxFile file(16);
  file.input("x", {1, 1, 2, 2})
      .input("g", {1, 1, 3, 2})
      .node("GridSample", {"x", "g"}, {"y"}, {test::whole("align_corners", 1)});
  file.output("y");
  // The middle, the second corner, and half an element beyond the last one.
  EXPECT_THAT(run(file, {{"x", elements({1, 2, 3, 6})}, {"g", elements({0, 0, 1, -1, 2, 1})}}),
              Pointwise(FloatNear(1e-5f), {3.f, 2.f, 3.f}));
}

TEST(ImportOperators, NormalizesByCalculatedFactors) {
  OnnxFile file(17);
  file.input("x", {2, 2}).input("g", {2}).node("LayerNormalization", {"x", "g"}, {"n", "mean"});
  file.node("Add", {"n", "mean"}, {"y"}).output("y");
  EXPECT_THAT(run(file, {{"x", elements({1, 3, 5, 5})}, {"g", elements({2, 10})}}),
              Pointwise(FloatNear(1e-3f), {0.f, 12.f, 5.f, 5.f}));
}

TEST(ImportOperators, ConvolvesWithCalculatedWeights) {
  OnnxFile conv(13), transposed(13);
  conv.input("x", {1, 2, 3})
      .input("w", {2, 1, 2})
      .node("Conv", {"x", "w"}, {"y"}, {test::whole("group", 2), test::wholes("pads", {1, 0})});
  conv.output("y");
  EXPECT_THAT(run(conv, {{"x", elements({1, 2, 3, 4, 5, 6})}, {"w", elements({1, 10, 2, 1})}}),
              ElementsAre(10, 21, 32, 4, 13, 16));
  transposed.input("x", {1, 1, 3}).floats("w", {1, 2, 3}, {1, 2, 3, 1, 0, 0});
  transposed.node("ConvTranspose", {"x", "w"}, {"y"}, {test::wholes("strides", {2})}).output("y");
  EXPECT_THAT(run(transposed, {{"x", elements({1, 2, 3})}}),
              ElementsAre(1, 2, 5, 4, 9, 6, 9, 1, 0, 2, 0, 3, 0, 0));
}

}  // namespace
}  // namespace tilewright::graph
