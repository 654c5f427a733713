// Quantized products of whole models: plain sums of products of bytes, corrected by their zero points.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "graph/optimize.h"
#include "tests/graph/imports.h"

namespace tilewright::graph {
namespace {

using test::OnnxFile;
using testing::HasSubstr;
using testing::Not;

std::vector<int> random_codes(size_t count, int least, int most, unsigned seed) {
  std::mt19937 generator(seed);
  std::vector<int> codes(count);
  for (int& c : codes) {
    c = least + static_cast<int>(generator() % static_cast<unsigned>(most - least + 1));
  }
  return codes;
}

Bytes codes_of(const std::vector<int>& values) {
  return std::make_shared<std::string>(byte_text(values));
}

// A folded graph, as it is and with all passes.
struct BothGraphs {
  Graph plain, passed;
};

BothGraphs both_graphs(const OnnxFile& file) {
  BothGraphs both{imported(file), {}};
  fold_constants(&both.plain);
  verify(both.plain);
  both.passed = both.plain;
  optimize(&both.passed);
  verify(both.passed);
  return both;
}

std::vector<float> floats_of(const Graph& graph, const std::map<std::string, Bytes>& inputs) {
  const Bytes out = interpret(graph, inputs)[0];
  std::vector<float> values(out->size() / sizeof(float));
  std::memcpy(values.data(), out->data(), out->size());
  return values;
}

std::string all_specs(const Graph& graph) {
  std::string all;
  for (const Node& node : graph.nodes) all += node.spec + "\n";
  return all;
}

void expect_values(const BothGraphs& both, const std::map<std::string, Bytes>& inputs,
                   const std::vector<float>& wanted, float step = 0) {
  for (const Graph* graph : {&both.plain, &both.passed}) {
    const std::vector<float> got = floats_of(*graph, inputs);
    ASSERT_EQ(got.size(), wanted.size());
    for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], wanted[i], step) << i;
  }
}

TEST(ImportCodes, ProductsAreOfBytesAndTheirSumsExact) {
  // Sums beyond 2^24, where floats have gaps.
  const int64_t m = 3, k = 1024, n = 4;
  const std::vector<int> a = random_codes(static_cast<size_t>(m * k), 200, 255, 1);
  const std::vector<int> w = random_codes(static_cast<size_t>(k * n), 100, 127, 2);
  const std::vector<int> wz = {-128, 0, 3, -127};
  OnnxFile file;
  file.input("a", {m, k}, test::kUint8)
      .constant("az", test::kUint8, {}, byte_text({7}))
      .constant("w", test::kInt8, {k, n}, byte_text(w))
      .constant("wz", test::kInt8, {n}, byte_text(wz))
      .node("MatMulInteger", {"a", "w", "az", "wz"}, {"sums"})
      .integers("low", {65536})
      .node("Cast", {"low"}, {"part"}, {test::whole("to", test::kInt32)})
      .node("Mod", {"sums", "part"}, {"rest"})
      .node("Cast", {"rest"}, {"y"}, {test::whole("to", test::kFloat)})
      .output("y");
  std::vector<float> wanted;
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      int64_t sum = 0;
      for (int64_t r = 0; r < k; ++r) {
        sum += (a[static_cast<size_t>(i * k + r)] - 7) *
               (w[static_cast<size_t>(r * n + j)] - wz[static_cast<size_t>(j)]);
      }
      ASSERT_TRUE(j == 0 || j == 3 ? sum > (1 << 24) : true);
      wanted.push_back(static_cast<float>(sum % 65536));
    }
  }
  const BothGraphs both = both_graphs(file);
  EXPECT_THAT(all_specs(both.plain), HasSubstr("S[i0, i1] += X0[i0, r0] * X1[r0, i1]"));
  EXPECT_THAT(all_specs(both.plain), HasSubstr("dtypes.S=i32,dtypes.X0=u8,dtypes.X1=i8"));
  EXPECT_THAT(all_specs(both.plain), HasSubstr("weights=[X1]"));
  expect_values(both, {{"a", codes_of(a)}}, wanted);
}

// A convolution of codes, as numbers.
struct CodeCase {
  int64_t channels, outputs, groups, size, kernel, stride;
  std::vector<int64_t> pads;
  int x_zero;
  std::vector<int> w_zero;
};

std::vector<int64_t> window_sums_of(const CodeCase& c, const std::vector<int>& x,
                                    const std::vector<int>& w) {
  const int64_t out = (c.size + c.pads[0] + c.pads[2] - c.kernel) / c.stride + 1;
  const int64_t each = c.channels / c.groups;
  std::vector<int64_t> sums;
  for (int64_t o = 0; o < c.outputs; ++o) {
    for (int64_t at = 0; at < out * out; ++at) {
      int64_t sum = 0;
      for (int64_t r = 0; r < each * c.kernel * c.kernel; ++r) {
        const int64_t from = r / (c.kernel * c.kernel);
        const int64_t h = at / out * c.stride + r / c.kernel % c.kernel - c.pads[0];
        const int64_t v = at % out * c.stride + r % c.kernel - c.pads[1];
        if (h < 0 || v < 0 || h >= c.size || v >= c.size) continue;
        const int64_t channel = o / (c.outputs / c.groups) * each + from;
        const int zero = c.w_zero.size() == 1 ? c.w_zero[0] : c.w_zero[static_cast<size_t>(o)];
        sum += (x[static_cast<size_t>((channel * c.size + h) * c.size + v)] - c.x_zero) *
               (w[static_cast<size_t>(o * each * c.kernel * c.kernel + r)] - zero);
      }
      sums.push_back(sum);
    }
  }
  return sums;
}

std::vector<CodeCase> code_cases() {
  return {{3, 8, 1, 9, 3, 2, {1, 1, 1, 1}, 128, {0}},
          {8, 8, 1, 6, 1, 1, {0, 0, 0, 0}, 3, {0}},
          {8, 8, 8, 7, 3, 1, {1, 1, 1, 1}, 0, {0}},
          {8, 4, 2, 7, 3, 1, {0, 0, 1, 1}, 200, {5}},
          {4, 4, 1, 5, 3, 1, {1, 1, 1, 1}, 9, {1, -2, 0, 3}}};
}

TEST(ImportCodes, ConvolutionsWithZeroPointsGroupsAndPadding) {
  for (const CodeCase& c : code_cases()) {
    const int64_t each = c.channels / c.groups;
    const std::vector<int> x =
        random_codes(static_cast<size_t>(c.channels * c.size * c.size), 0, 255, 3);
    const std::vector<int> w =
        random_codes(static_cast<size_t>(c.outputs * each * c.kernel * c.kernel), -128, 127, 4);
    OnnxFile file;
    file.input("x", {1, c.channels, c.size, c.size}, test::kUint8)
        .constant("xz", test::kUint8, {}, byte_text({c.x_zero}))
        .constant("w", test::kInt8, {c.outputs, each, c.kernel, c.kernel}, byte_text(w))
        .constant("wz", test::kInt8, {static_cast<int64_t>(c.w_zero.size())}, byte_text(c.w_zero))
        .node("ConvInteger", {"x", "w", "xz", "wz"}, {"sums"},
              {test::wholes("pads", c.pads), test::wholes("strides", {c.stride, c.stride}),
               test::whole("group", c.groups)})
        .node("Cast", {"sums"}, {"y"}, {test::whole("to", test::kFloat)})
        .output("y");
    const BothGraphs both = both_graphs(file);
    const std::vector<int64_t> sums = window_sums_of(c, x, w);
    expect_values(both, {{"x", codes_of(x)}}, {sums.begin(), sums.end()});
  }
}

// DequantizeLinear -> Conv -> Relu -> QuantizeLinear, or the same as one node.
OnnxFile quantized_convolution(bool nodes, const std::vector<int>& w) {
  OnnxFile file;
  file.input("x", {1, 8, 6, 6}, test::kUint8)
      .number("xs", 0.5)
      .constant("xz", test::kUint8, {}, byte_text({100}))
      .constant("w", test::kInt8, {8, 8, 3, 3}, byte_text(w))
      .floats("ws", {8}, {0.25, 0.5, 0.125, 1, 0.25, 0.5, 0.125, 1})
      .constant("wz", test::kInt8, {8}, std::string(8, '\0'))
      .constant("b", test::kInt32, {8}, test::raw_text(std::vector<int32_t>(8, 40)))
      .floats("bs", {8}, {0.125, 0.25, 0.0625, 0.5, 0.125, 0.25, 0.0625, 0.5})
      .number("ys", 64)
      .constant("yz", test::kUint8, {}, byte_text({120}));
  const std::vector<std::string> attributes = {test::wholes("pads", {1, 1, 1, 1})};
  if (nodes) {
    file.node("DequantizeLinear", {"x", "xs", "xz"}, {"xf"})
        .node("DequantizeLinear", {"w", "ws", "wz"}, {"wf"}, {test::whole("axis", 0)})
        .node("DequantizeLinear", {"b", "bs"}, {"bf"}, {test::whole("axis", 0)})
        .node("Conv", {"xf", "wf", "bf"}, {"c"}, attributes)
        .node("QuantizeLinear", {"c", "ys", "yz"}, {"q"});
  } else {
    file.node("QLinearConv", {"x", "xs", "xz", "w", "ws", "wz", "ys", "yz", "b"}, {"q"},
              attributes);
  }
  return file.node("Cast", {"q"}, {"y"}, {test::whole("to", test::kFloat)}).output("y");
}

TEST(ImportCodes, DequantizedConvolutionsAreThoseOfCodes) {
  const std::vector<int> x = random_codes(8 * 36, 0, 255, 5), w = random_codes(576, -128, 127, 6);
  const BothGraphs one = both_graphs(quantized_convolution(false, w));
  const BothGraphs several = both_graphs(quantized_convolution(true, w));
  const std::vector<float> wanted = floats_of(one.plain, {{"x", codes_of(x)}});
  EXPECT_GT(std::ranges::count_if(wanted, [](float y) { return y > 0 && y < 255; }), 150);
  expect_values(one, {{"x", codes_of(x)}}, wanted);
  expect_values(several, {{"x", codes_of(x)}}, wanted, 1);
  for (const Graph* graph : {&one.passed, &several.passed}) {
    EXPECT_THAT(all_specs(*graph), HasSubstr("dtypes.X1=i8"));
    EXPECT_THAT(all_specs(*graph), HasSubstr("dtypes.T1=i32"));
  }
}

TEST(ImportCodes, CodesAreStoredBetweenProducts) {
  OnnxFile file;
  file.input("x", {4, 8}, test::kUint8)
      .number("s", 0.5)
      .constant("z", test::kUint8, {}, byte_text({9}))
      .constant("w", test::kInt8, {8, 8}, byte_text(random_codes(64, -128, 127, 9)))
      .constant("v", test::kInt8, {8, 8}, byte_text(random_codes(64, -128, 127, 10)))
      .node("DequantizeLinear", {"x", "s", "z"}, {"xf"});
  for (const std::string side : {"w", "v"}) {
    file.node("DequantizeLinear", {side, "s"}, {side + "f"})
        .node("MatMul", {"xf", side + "f"}, {side + "p"})
        .node("QuantizeLinear", {side + "p", "s", "z"}, {side + "q"})
        .node("DequantizeLinear", {side + "q", "s", "z"}, {side + "r"});
  }
  file.node("Add", {"wr", "vr"}, {"y"}).output("y");
  const Graph graph = both_graphs(file).passed;
  ASSERT_EQ(graph.nodes.size(), 2u);
  EXPECT_EQ(graph.values[graph.nodes[0].output].elem, ElemType::u8);
}

TEST(ImportCodes, CalculatedWeightsStayFloats) {
  OnnxFile file;
  file.input("x", {4, 8}, test::kUint8)
      .input("w", {8, 4}, test::kInt8)
      .number("s", 0.5)
      .node("DequantizeLinear", {"x", "s"}, {"xf"})
      .node("DequantizeLinear", {"w", "s"}, {"wf"})
      .node("MatMul", {"xf", "wf"}, {"y"})
      .output("y");
  EXPECT_THAT(all_specs(both_graphs(file).plain), Not(HasSubstr("i32")));
}

TEST(ImportCodes, GemmTakesATransposedWeight) {
  const std::vector<int> x = random_codes(32, 0, 255, 7), w = random_codes(32, -128, 127, 8);
  std::vector<float> wanted;
  for (size_t i = 0; i < 4; ++i) {
    for (size_t j = 0; j < 4; ++j) {
      int sum = static_cast<int>(j);
      for (size_t r = 0; r < 8; ++r) sum += (x[i * 8 + r] - 50) * (w[j * 8 + r] - 2);
      wanted.push_back(static_cast<float>(sum) * 0.125f);
    }
  }
  for (bool nodes : {false, true}) {
    OnnxFile file;
    file.input("x", {4, 8}, test::kUint8)
        .number("xs", 0.25)
        .number("ws", 0.5)
        .constant("xz", test::kUint8, {}, byte_text({50}))
        .constant("wz", test::kInt8, {}, byte_text({2}))
        .constant("w", test::kInt8, {4, 8}, byte_text(w))
        .constant("b", test::kInt32, {4}, test::raw_text(std::vector<int32_t>{0, 1, 2, 3}))
        .floats("bf", {4}, {0, 0.125, 0.25, 0.375})
        .output("y");
    if (nodes) {
      file.node("DequantizeLinear", {"x", "xs", "xz"}, {"xf"})
          .node("DequantizeLinear", {"w", "ws", "wz"}, {"wf"})
          .node("Gemm", {"xf", "wf", "bf"}, {"y"}, {test::whole("transB", 1)});
    } else {
      file.node("QGemm", {"x", "xs", "xz", "w", "ws", "wz", "b"}, {"y"}, {test::whole("transB", 1)},
                "com.microsoft");
    }
    const BothGraphs both = both_graphs(file);
    EXPECT_THAT(all_specs(both.plain), HasSubstr("X0[i0, r0] * X1[i1, r0]"));
    expect_values(both, {{"x", codes_of(x)}}, wanted);
  }
}

TEST(ImportCodes, SumsAndMeansOfCodes) {
  const std::vector<int> x = {10, 20, 30, 40, 250, 250, 0, 0};
  OnnxFile file;
  file.input("x", {1, 2, 2, 2}, test::kUint8)
      .number("s", 0.5)
      .number("t", 0.25)
      .constant("z", test::kUint8, {}, byte_text({10}))
      .node("QLinearAdd", {"x", "s", "z", "x", "t", "z", "s", "z"}, {"sum"}, {}, "com.microsoft")
      .node("QLinearGlobalAveragePool", {"sum", "s", "z", "t", "z"}, {"mean"}, {}, "com.microsoft")
      .node("Cast", {"mean"}, {"y"}, {test::whole("to", test::kFloat)})
      .output("y");
  // Codes of the sums less 10: 0, 15, 30, 45, and 245, 245, -10, -10 at their limits.
  expect_values(both_graphs(file), {{"x", codes_of(x)}}, {55, 245});
}

TEST(ImportCodes, SoftmaxOfCodes) {
  OnnxFile file;
  file.input("x", {2, 3}, test::kUint8)
      .number("s", 0.5)
      .number("t", 1.0f / 256)
      .constant("z", test::kUint8, {}, byte_text({0}))
      .node("QLinearSoftmax", {"x", "s", "z", "t", "z"}, {"q"}, {test::whole("opset", 13)},
            "com.microsoft")
      .node("Cast", {"q"}, {"y"}, {test::whole("to", test::kFloat)})
      .output("y");
  // exp(0), exp(0.5), exp(1) over their sum of 5.367, in steps of 1 / 256; then the limit of a byte.
  expect_values(both_graphs(file), {{"x", codes_of({100, 101, 102, 0, 0, 255})}},
                {48, 79, 130, 0, 0, 255});
}

TEST(ImportCodes, QuantizesAllElementsByTheirExtremes) {
  OnnxFile file;
  file.input("x", {2, 3})
      .node("DynamicQuantizeLinear", {"x"}, {"q", "s", "z"})
      .node("Cast", {"q"}, {"codes"}, {test::whole("to", test::kFloat)})
      .node("Cast", {"z"}, {"zero"}, {test::whole("to", test::kFloat)})
      .node("Mul", {"codes", "s"}, {"scaled"})
      .node("Add", {"scaled", "zero"}, {"y"})
      .output("y");
  // From -51 to 204 in steps of 1: 51 is the code of 0.
  expect_values(both_graphs(file), {{"x", elements({0, 204, 1.4f, -51, 2.5f, 3.5f})}},
                {51 + 51, 255 + 51, 52 + 51, 0 + 51, 53 + 51, 55 + 51});
}

}  // namespace
}  // namespace tilewright::graph
