// Convolutions as products of transformed tiles.
#include "graph/winograd.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/optimize.h"
#include "tests/graph/graphs.h"

namespace tilewright::graph {
namespace {

using testing::HasSubstr;

struct Windows {
  int64_t batch = 1, height = 16, width = 16, channels = 64, outputs = 64;
  int64_t pad = 1, window = 3, stride = 1;
  std::string epilogue = "Y[n, y, x, o] = max(S[n, y, x, o] + B[o], 0)";

  int64_t made(int64_t size) const { return (size + 2 * pad - window) / stride + 1; }

  // A convolution with the channels last, as a graph has it behind the pass that chooses layouts.
  Graph graph() const {
    const int64_t h = made(height), w = made(width);
    const auto at = [&](const std::string& index, const std::string& offset) {
      return index + (stride > 1 ? " * " + std::to_string(stride) : "") + " + " + offset;
    };
    const std::string p = std::to_string(pad);
    const auto inside = [&](const std::string& index, int64_t size) {
      return index + " >= " + p + " && " + index + " < " + std::to_string(size + pad);
    };
    std::string text;
    if (pad > 0) {
      text = "P[n, v, u, c] = select(" + inside("v", height) + " && " + inside("u", width) +
             ", X[n, v - " + p + ", u - " + p + ", c], 0); ";
    }
    text += std::string("S[n, y, x, o] += ") + (pad > 0 ? "P" : "X") + "[n, " + at("y", "r") +
            ", " + at("x", "s") + ", c] * W[r, s, c, o]; " + epilogue;
    std::string dims = "dims.n=" + std::to_string(batch);
    const auto dim = [&](const std::string& name, int64_t size) {
      dims += ",dims." + name + "=" + std::to_string(size);
    };
    if (pad > 0) {
      dim("v", height + 2 * pad);
      dim("u", width + 2 * pad);
    }
    for (const auto& [name, size] : std::map<std::string, int64_t>{
             {"c", channels}, {"y", h}, {"x", w}, {"o", outputs}, {"r", window}, {"s", window}}) {
      dim(name, size);
    }
    const Shape in = {batch, height, width, channels}, out = {batch, h, w, outputs};
    const Shape weight = {window, window, channels, outputs};
    const auto shape = [](const char* name, const Shape& sizes) {
      return type_text(Value{.name = name, .shape = sizes});
    };
    const auto sizes = [&](const char* name, const Shape& s) {
      std::string list = shape(name, s).substr(3);
      std::erase(list, ' ');
      return std::string(",shapes.") + name + "=" + list;
    };
    return graph_with(
        {{"w", weight}, {"b", {outputs}}},
        "input \"x\": " + shape("x", in) + "\n\"y\": " + shape("y", out) + " = \"expr:expr=\\\"" +
            text + "\\\"," + dims + sizes("X", in) + sizes("W", weight) + sizes("B", {outputs}) +
            ",weights=[W,B]\" (X=\"x\", W=\"w\", B=\"b\") for \"conv\"\noutput \"y\"\n");
  }
};

// The pass takes so many convolutions. Coefficients up to 8 cost some digits.
Graph with_winograd(const Graph& before, int expected) {
  Graph after = before;
  EXPECT_EQ(use_winograd(&after), expected) << to_string(after);
  const auto inputs = random_inputs(before);
  const Bytes wanted = interpret(before, inputs)[0], got = interpret(after, inputs)[0];
  EXPECT_EQ(wanted->size(), got->size());
  const auto element = [](const Bytes& bytes, size_t i) {
    float value = 0;
    std::memcpy(&value, bytes->data() + i * sizeof(float), sizeof(float));
    return value;
  };
  const size_t count = wanted->size() / sizeof(float);
  float largest = 0;
  for (size_t i = 0; i < count; ++i) largest = std::max(largest, std::abs(element(wanted, i)));
  for (size_t i = 0; i < count; ++i) {
    EXPECT_NEAR(element(wanted, i), element(got, i), 1e-5 * largest) << "element " << i;
    if (testing::Test::HasFailure()) break;
  }
  verify(after);
  return after;
}

std::string transform_of(const Graph& graph) {
  for (const Value& v : graph.values) {
    if (v.name.starts_with("w/winograd")) return v.name;
  }
  return "";
}

TEST(Winograd, TilesOfFourByFour) {
  const Graph graph = with_winograd(Windows{}.graph(), 1);
  ASSERT_EQ(graph.nodes.size(), 4u);
  EXPECT_EQ(transform_of(graph), "w/winograd4");
  EXPECT_EQ(graph.values[graph.find("y/padded")].shape, (Shape{1, 18, 18, 64}));
  EXPECT_EQ(graph.values[graph.find("y/products")].shape, (Shape{36, 16, 64}));
  EXPECT_THAT(graph.nodes[3].spec, HasSubstr("max(")) << "the epilogue comes last";
}

// Its estimates are those of a CPU.
TEST(Winograd, IsNoPassOfAGpuProgram) {
  Graph cpu = Windows{}.graph(), gpu = cpu;
  optimize(&cpu);
  optimize(&gpu, Processor::Gpu);
  EXPECT_EQ(cpu.nodes.size(), 4u);
  EXPECT_EQ(gpu.nodes.size(), 1u) << to_string(gpu);
}

TEST(Winograd, PartialTilesAndBatches) {
  with_winograd(Windows{.batch = 2, .height = 13, .width = 22}.graph(), 1);
  with_winograd(Windows{.height = 15, .width = 17, .pad = 0}.graph(), 1);
}

TEST(Winograd, TilesThatFitNeedNoPadding) {
  const Graph graph = with_winograd(Windows{.height = 18, .width = 18, .pad = 0}.graph(), 1);
  EXPECT_EQ(graph.nodes.size(), 3u);
}

// A weight of four times the size would be read for four tiles.
TEST(Winograd, SmallMapsHaveSmallTiles) {
  const Graph graph =
      with_winograd(Windows{.height = 7, .width = 7, .channels = 128, .outputs = 128}.graph(), 1);
  EXPECT_EQ(transform_of(graph), "w/winograd2");
}

TEST(Winograd, SumsAsEpilogues) {
  Windows net;
  net.epilogue =
      "T[n, y, x, o] = S[n, y, x, o] + B[o]; Y[n, y, x, o] = T[n, y, x, o] + tanh(T[n, y, x, o])";
  with_winograd(net.graph(), 1);
}

TEST(Winograd, OtherWindowsStay) {
  with_winograd(Windows{.stride = 2}.graph(), 0);
  with_winograd(Windows{.pad = 2, .window = 5}.graph(), 0);
  with_winograd(Windows{.pad = 0, .window = 1}.graph(), 0);
}

TEST(Winograd, FewChannelsStay) {
  with_winograd(Windows{.channels = 3, .outputs = 8}.graph(), 0);
  with_winograd(Windows{.height = 3, .width = 3}.graph(), 0);
}

}  // namespace
}  // namespace tilewright::graph
