// Operators of whole models that several expressions compute: sines, scattering, quantized products, branches.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "models/onnx/model.h"
#include "tests/graph/imports.h"

namespace tilewright::graph {
namespace {

using test::OnnxFile;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr int kUint8 = 2, kInt8 = 3, kInt32 = 6;

TEST(ImportFunctions, SinesOfAnyPlace) {
  std::vector<float> places;
  for (int i = -60; i < 60; ++i) places.push_back(static_cast<float>(i) * 1.7f);
  for (const char* op : {"Sin", "Cos"}) {
    OnnxFile file;
    file.input("x", {120}).node(op, {"x"}, {"y"}).output("y");
    const std::vector<float> got = run(file, {{"x", elements(places)}});
    for (size_t i = 0; i < places.size(); ++i) {
      const double x = places[i];
      EXPECT_NEAR(got[i], op[0] == 'S' ? std::sin(x) : std::cos(x), 1e-6) << op << " " << x;
    }
  }
}

TEST(ImportFunctions, ScattersElements) {
  for (const auto& [reduction, want] :
       std::vector<std::pair<std::string, std::vector<float>>>{{"none", {10, 2, 20, 40, 30, 6}},
                                                               {"add", {11, 2, 23, 44, 35, 6}},
                                                               {"max", {10, 2, 20, 40, 30, 6}},
                                                               {"min", {1, 2, 3, 4, 5, 6}}}) {
    OnnxFile file(18);
    file.input("x", {2, 3})
        .constant("at", test::kInt64, {2, 2}, test::raw_text(std::vector<int64_t>{0, -1, 1, 0}))
        .floats("u", {2, 2}, {10, 20, 30, 40})
        .node("ScatterElements", {"x", "at", "u"}, {"y"},
              {test::whole("axis", 1), test::words("reduction", reduction)})
        .output("y");
    EXPECT_EQ(run(file, {{"x", elements({1, 2, 3, 4, 5, 6})}}), want) << reduction;
  }
}

// With known indices a table tells where an update stands, so that each element is read once.
TEST(ImportFunctions, ScattersManyElementsByATable) {
  OnnxFile file(18);
  file.input("x", {2, 3, 2})
      .constant("at", test::kInt64, {1, 5, 2},
                test::raw_text(std::vector<int64_t>{0, -1, 1, 0, 1, 0, 1, 0, -2, 0}))
      .floats("u", {1, 5, 2}, {10, 20, 30, 40, 50, 60, 70, 80, 90, 100})
      .node("ScatterElements", {"x", "at", "u"}, {"y"}, {test::whole("axis", 1)})
      .output("y");
  const std::vector<float> x = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
  EXPECT_EQ(run(file, {{"x", elements(x)}}),
            (std::vector<float>{10, 100, 90, 4, 5, 20, 7, 8, 9, 10, 11, 12}));
}

TEST(ImportFunctions, DividesIntegers) {
  const auto divided = [](const std::string& op, const std::vector<std::string>& attributes) {
    OnnxFile file;
    file.input("x", {4}, test::kInt64)
        .integers("by", {3, 3, -3, 4})
        .node(op, {"x", "by"}, {"q"}, attributes)
        .node("Cast", {"q"}, {"y"}, {test::whole("to", test::kFloat)})
        .output("y");
    const std::vector<int64_t> x = {7, -7, 7, -8};
    return run(file, {{"x", std::make_shared<std::string>(test::raw_text(x))}});
  };
  EXPECT_THAT(divided("Div", {}), ElementsAre(2, -2, -2, -2));
  EXPECT_THAT(divided("Mod", {}), ElementsAre(1, 2, -2, 0));
  EXPECT_THAT(divided("Mod", {test::whole("fmod", 1)}), ElementsAre(1, -1, 1, 0));
}

TEST(ImportFunctions, TakesTheLargest) {
  for (int64_t output : {0, 1}) {
    OnnxFile file;
    file.input("x", {2, 4}).integers("k", {3}).node("TopK", {"x", "k"}, {"v", "i"});
    if (output == 0) {
      file.output("v");
    } else {
      file.node("Cast", {"i"}, {"y"}, {test::whole("to", test::kFloat)}).output("y");
    }
    const std::vector<float> got = run(file, {{"x", elements({1, 7, 7, 3, -1, -2, 0, -3})}});
    EXPECT_EQ(got, output == 0 ? (std::vector<float>{7, 7, 3, 0, -1, -2})
                               : (std::vector<float>{1, 2, 3, 2, 0, 1}));
  }
}

TEST(ImportFunctions, MultipliesIntegers) {
  OnnxFile file;
  file.input("x", {1, 3})
      .constant("w", kInt8, {3, 2}, byte_text({1, -2, 3, 4, -5, 6}))
      .constant("wz", kInt8, {2}, byte_text({1, 0}))
      .node("DynamicQuantizeLinear", {"x"}, {"q", "s", "z"})
      .node("MatMulInteger", {"q", "w", "z", "wz"}, {"p"})
      .node("Cast", {"p"}, {"c"}, {test::whole("to", test::kFloat)})
      .node("Mul", {"c", "s"}, {"y"})
      .output("y");
  const std::vector<float> y = run(file, {{"x", elements({-1, 0.5, 4})}});
  // Within the rounding of x to codes 5/255 apart.
  EXPECT_NEAR(y[0], -1 * 0 + 0.5 * 2 + 4 * -6, 0.2);
  EXPECT_NEAR(y[1], -1 * -2 + 0.5 * 4 + 4 * 6, 0.2);
}

TEST(ImportFunctions, ConvolvesCodes) {
  OnnxFile file;
  file.input("x", {1, 1, 2, 2})
      .number("xs", 0.5)
      .constant("xz", kUint8, {}, byte_text({10}))
      .constant("w", kInt8, {1, 1, 2, 2}, byte_text({1, 2, 3, 4}))
      .floats("ws", {1}, {0.25})
      .constant("wz", kInt8, {1}, byte_text({0}))
      .number("ys", 0.125)
      .constant("yz", kUint8, {}, byte_text({3}))
      .constant("b", kInt32, {1}, test::raw_text(std::vector<int32_t>{8}))
      .node("QuantizeLinear", {"x", "xs", "xz"}, {"q"})
      .node("QLinearConv", {"q", "xs", "xz", "w", "ws", "wz", "ys", "yz", "b"}, {"c"},
            {test::wholes("pads", {0, 0, 1, 1})})
      .node("DequantizeLinear", {"c", "ys", "yz"}, {"y"})
      .output("y");
  // Codes of x: 2, 4, -2, 0 apart from 10; the sums are 4, 4, -2, 0, plus 8, times 0.125.
  EXPECT_THAT(run(file, {{"x", elements({1, 2, -1, 0})}}), ElementsAre(1.5, 1.5, 0.75, 1));
}

// y = x + 1 where the rate is 16000, else 2 x.
OnnxFile branches() {
  OnnxFile then, other;
  then.node("Add", {"x", "one"}, {"sum"}).output("sum");
  other.node("Add", {"x", "x"}, {"twice"}).output("twice");
  OnnxFile file;
  file.input("x", {2})
      .input("rate", {}, test::kInt64)
      .number("one", 1)
      .constant("wanted", test::kInt64, {}, test::raw_text(std::vector<int64_t>{16000}))
      .node("Equal", {"rate", "wanted"}, {"is"})
      .node("If", {"is"}, {"y"},
            {then.as_attribute("then_branch"), other.as_attribute("else_branch")})
      .output("y");
  return file;
}

TEST(ImportFunctions, AConstantInputTakesABranch) {
  const std::string bytes = branches().bytes();
  for (double rate : {16000, 8000}) {
    onnx::Model model = onnx::read_model(bytes, "m.onnx");
    onnx::fix_input(&model, "rate", rate);
    const Graph graph = import_onnx(model, {});
    ASSERT_EQ(graph.inputs.size(), 1u);
    const Bytes y = interpret(graph, {{"x", elements({3, 5})}})[0];
    EXPECT_EQ(*y, *(rate == 16000 ? elements({4, 6}) : elements({6, 10})));
  }
  EXPECT_THAT(import_refusal(branches()), HasSubstr("it runs graphs of its own"));
  onnx::Model model = onnx::read_model(bytes, "m.onnx");
  try {
    onnx::fix_input(&model, "sr", 1);
    FAIL();
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), HasSubstr("no input is called 'sr'; the model has x, rate"));
  }
}

}  // namespace
}  // namespace tilewright::graph
