// Operators of whole models that several expressions compute: sines, scattering, quantized products, branches.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>

#include "graph/optimize.h"
#include "models/onnx/model.h"
#include "tests/graph/graphs.h"
#include "tests/graph/imports.h"

namespace tilewright::graph {
namespace {

using test::OnnxFile;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr int kUint8 = 2, kInt8 = 3, kInt32 = 6, kBool = 9;

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
  onnx::Model model = onnx::read_model(bytes, "m.onnx");
  try {
    onnx::fix_input(&model, "sr", 1);
    FAIL();
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), HasSubstr("no input is called 'sr'; the model has x, rate"));
  }
}

// [batch, heads, rows, width] by hand.
std::vector<float> attended(const std::vector<float>& q, const std::vector<float>& k,
                            const std::vector<float>& v, int heads, int rows, int keys, int width,
                            const std::function<bool(int, int)>& sees) {
  std::vector<float> out;
  for (int h = 0; h < heads; ++h) {
    for (int i = 0; i < rows; ++i) {
      std::vector<double> weight(static_cast<size_t>(keys), 0), sum(static_cast<size_t>(width), 0);
      double all = 0;
      for (int j = 0; j < keys; ++j) {
        double score = 0;
        for (int d = 0; d < width; ++d)
          score += double{q[(h * rows + i) * width + d]} * k[j * width + d];
        weight[j] = sees(i, j) ? std::exp(score / std::sqrt(width)) : 0;
        all += weight[j];
      }
      for (int d = 0; d < width; ++d) {
        for (int j = 0; j < keys; ++j) sum[d] += weight[j] * v[j * width + d];
        out.push_back(static_cast<float>(all == 0 ? 0 : sum[d] / all));
      }
    }
  }
  return out;
}

// Two heads of queries share the keys; the last two of five keys are new, and the second query sees none by a mask.
TEST(ImportFunctions, AttentionBehindEarlierKeysWithAMask) {
  const std::vector<float> q = random_floats(16, 1), k = random_floats(20, 2),
                           v = random_floats(20, 3);
  const auto tail = [](const std::vector<float>& x) {
    return std::vector<float>(x.begin() + 12, x.end());
  };
  const auto head = [](const std::vector<float>& x) {
    return std::vector<float>(x.begin(), x.begin() + 12);
  };
  OnnxFile file(23);
  file.input("q", {1, 2, 2, 4}).input("k", {1, 1, 2, 4}).input("v", {1, 1, 2, 4});
  file.input("pk", {1, 1, 3, 4}).input("pv", {1, 1, 3, 4});
  file.constant("mask", kBool, {2, 5}, byte_text({1, 0, 1, 1, 1, 0, 0, 0, 0, 0}));
  file.node("Attention", {"q", "k", "v", "mask", "pk", "pv"}, {"y", "nk", "nv"},
            {test::whole("is_causal", 1)});
  file.output("y").output("nk");
  const Graph graph = imported(file);
  const auto made = interpret(graph, {{"q", elements(q)},
                                      {"k", elements(tail(k))},
                                      {"v", elements(tail(v))},
                                      {"pk", elements(head(k))},
                                      {"pv", elements(head(v))}});
  const std::vector<float> want =
      attended(q, k, v, 2, 2, 5, 4, [](int i, int j) { return i == 0 && j != 1 && j <= 3; });
  ASSERT_EQ(made[0]->size(), want.size() * sizeof(float));
  for (size_t n = 0; n < want.size(); ++n) {
    float got = 0;
    std::memcpy(&got, made[0]->data() + n * sizeof(float), sizeof got);
    EXPECT_NEAR(got, want[n], 1e-5) << n;
  }
  EXPECT_EQ(*made[1], *elements(k));
}

// One kernel computes it.
TEST(ImportFunctions, AttentionOfOneNodeIsFused) {
  for (const test::OnnxShape& shape : {test::OnnxShape{2, 3, 8, 16}, test::OnnxShape{2, 8, 48}}) {
    OnnxFile file(23);
    file.input("q", shape).input("k", shape).input("v", shape);
    file.node("Attention", {"q", "k", "v"}, {"y"},
              {test::whole("is_causal", 1), test::whole("q_num_heads", 3),
               test::whole("kv_num_heads", 3)});
    file.output("y");
    Graph graph = imported(file);
    optimize(&graph);
    EXPECT_EQ(std::ranges::count_if(graph.nodes, &Node::is_workload), 1) << to_string(graph);
    // Keys that the mask hides have the weight 0, by which kernels leave them out.
    EXPECT_THAT(to_string(graph), testing::ContainsRegex("select.i3 <= i2, exp"));
  }
}

TEST(ImportFunctions, RotaryPositionsByPairsAndHalves) {
  for (const bool pairs : {false, true}) {
    OnnxFile file(23);
    file.input("x", {1, 1, 2, 4})
        .constant("at", test::kInt64, {1, 2}, test::raw_text(std::vector<int64_t>{1, 0}));
    file.floats("c", {2, 2}, {1, 2, 3, 4}).floats("s", {2, 2}, {5, 6, 7, 8});
    file.node("RotaryEmbedding", {"x", "c", "s", "at"}, {"y"},
              {test::whole("interleaved", pairs ? 1 : 0)});
    file.output("y");
    // Row 0 has the angles of place 1: cosines 3, 4, sines 7, 8.
    const std::vector<float> want =
        pairs ? std::vector<float>{1 * 3 - 2 * 7, 2 * 3 + 1 * 7, 3 * 4 - 4 * 8, 4 * 4 + 3 * 8,
                                   5 * 1 - 6 * 5, 6 * 1 + 5 * 5, 7 * 2 - 8 * 6, 8 * 2 + 7 * 6}
              : std::vector<float>{1 * 3 - 3 * 7, 2 * 4 - 4 * 8, 3 * 3 + 1 * 7, 4 * 4 + 2 * 8,
                                   5 * 1 - 7 * 5, 6 * 2 - 8 * 6, 7 * 1 + 5 * 5, 8 * 2 + 6 * 6};
    EXPECT_EQ(run(file, {{"x", elements({1, 2, 3, 4, 5, 6, 7, 8})}}), want) << pairs;
  }
}

TEST(ImportFunctions, GathersAndScattersByRowsOfIndices) {
  const std::vector<float> x = {1, 2, 3, 4, 5, 6};
  OnnxFile gather(18);
  gather.input("x", {3, 2})
      .constant("at", test::kInt64, {2, 2}, test::raw_text(std::vector<int64_t>{-1, 0, 1, 1}));
  gather.node("GatherND", {"x", "at"}, {"y"}).output("y");
  EXPECT_EQ(run(gather, {{"x", elements(x)}}), (std::vector<float>{5, 4}));
  for (const auto& [reduction, want] : std::vector<std::pair<std::string, std::vector<float>>>{
           {"none", {1, 2, 30, 40, 10, 20}}, {"add", {1, 2, 33, 44, 15, 26}}}) {
    OnnxFile scatter(18);
    scatter.input("x", {3, 2})
        .constant("at", test::kInt64, {2, 1}, test::raw_text(std::vector<int64_t>{-1, 1}));
    scatter.floats("u", {2, 2}, {10, 20, 30, 40});
    scatter.node("ScatterND", {"x", "at", "u"}, {"y"}, {test::words("reduction", reduction)})
        .output("y");
    EXPECT_EQ(run(scatter, {{"x", elements(x)}}), want) << reduction;
  }
}

}  // namespace
}  // namespace tilewright::graph
