// Which nodes make a region, and its ONNX model.
#include "provider/region.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "models/onnx/model.h"
#include "provider/compare.h"
#include "tests/provider/stand_in.h"

namespace tilewright::provider::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class RegionTest : public ::testing::Test {
 protected:
  FakeInfo* value(const std::string& name, std::vector<int64_t> sizes = {2, 3}) {
    return graph.value(name, std::move(sizes));
  }
  std::vector<Region> regions(const std::set<std::string>& excluded = {},
                              const std::set<std::string>& missing = {}) {
    view.emplace(stand_in.runtime(), as_graph(graph));
    return regions_of(*view, excluded, missing);
  }
  static std::vector<std::string> ops(const Region& region) {
    std::vector<std::string> names;
    for (const NodeView* node : region.nodes) names.push_back(node->op);
    return names;
  }

  StandIn stand_in;
  FakeGraph graph;
  std::optional<GraphView> view;
};

TEST_F(RegionTest, AWholeGraphIsOneRegion) {
  FakeValue weight{ort::kF32, {3}, std::vector<char>(12, 1)};
  auto *x = value("x"), *w = value("w", {3}), *m = value("m"), *y = value("y");
  w->constant = &weight;
  y->is_output = true;
  graph.node("Mul", {x, w}, {m});
  graph.node("Relu", {m}, {y});
  const auto found = regions();
  ASSERT_EQ(found.size(), 1u);
  EXPECT_THAT(ops(found[0]), ElementsAre("Mul", "Relu"));
  EXPECT_THAT(found[0].inputs, ElementsAre("x"));
  EXPECT_THAT(found[0].constants, ElementsAre("w"));
  EXPECT_THAT(found[0].outputs, ElementsAre("y"));
}

TEST_F(RegionTest, MissingNamesAreOfNodesAlone) {
  auto *x = value("x"), *m = value("m"), *r = value("r"), *y = value("y");
  y->is_output = true;
  graph.node("Mul", {x, x}, {m});
  graph.node("Relu", {m}, {r});
  graph.node("Exp", {r}, {y});
  graph.nodes[1].name = "";
  const auto left = [&](const std::string& missing) {
    std::vector<std::string> all;
    for (const Region& region : regions({}, {missing})) {
      for (const std::string& op : ops(region)) all.push_back(op);
    }
    return all;
  };
  EXPECT_THAT(left("node0"), ElementsAre("Relu", "Exp"));
  EXPECT_THAT(left("r"), ElementsAre("Mul", "Exp"));
  for (const char* other : {"m", "y", "Relu"}) {
    EXPECT_THAT(left(other), ElementsAre("Mul", "Relu", "Exp")) << other;
  }
}

// Abs feeds NonZero and, past it, Add: one region of both would wait for itself.
TEST_F(RegionTest, NoPathLeavesARegionAndComesBack) {
  auto *x = value("x"), *a = value("a"), *n = value("n"), *s = value("s"), *y = value("y");
  y->is_output = true;
  graph.node("Abs", {x}, {a});
  graph.node("NonZero", {a}, {n});
  graph.node("Neg", {a}, {s});
  graph.node("Add", {s, n}, {y});
  const auto found = regions();
  ASSERT_EQ(found.size(), 2u);
  EXPECT_THAT(ops(found[0]), ElementsAre("Abs", "Neg"));
  EXPECT_THAT(found[0].outputs, ElementsAre("a", "s"));
  EXPECT_THAT(ops(found[1]), ElementsAre("Add"));
  EXPECT_THAT(found[1].inputs, ElementsAre("s", "n"));
}

TEST_F(RegionTest, NodesAndOperatorsAreExcludedByName) {
  auto *x = value("x"), *a = value("a"), *y = value("y");
  y->is_output = true;
  graph.node("Abs", {x}, {a});
  graph.node("Neg", {a}, {y});
  EXPECT_THAT(ops(regions({"Neg"}).at(0)), ElementsAre("Abs"));
  EXPECT_THAT(ops(regions({"node0"}).at(0)), ElementsAre("Neg"));
  EXPECT_THAT(ops(regions({"a"}).at(0)), ElementsAre("Neg")) << "by what it gives";
  EXPECT_THAT(regions({"Abs", "Neg"}), IsEmpty());
}

TEST_F(RegionTest, WhatGivesNoNumbersOrRunsGraphsStays) {
  auto *x = value("x"), *text = value("text"), *list = value("list"), *y = value("y");
  text->elem = ort::kText;
  list->elem = 0;
  y->is_output = true;
  graph.node("A", {x}, {text});
  graph.node("B", {x}, {list});
  graph.node("If", {x}, {y});
  graph.nodes.back().graphs = 2;
  EXPECT_THAT(regions(), IsEmpty());
}

TEST_F(RegionTest, ItsModelIsReadAsOnnx) {
  FakeValue weight{ort::kF32, {3}, std::vector<char>(12, 1)};
  auto *x = value("x", {-1, 3}), *w = value("w", {3}), *y = value("y", {-1, 3});
  x->names = {"batch", ""};
  y->names = {"batch", ""};
  w->constant = &weight;
  y->is_output = true;
  graph.node("Mul", {x, w}, {y});
  const auto found = regions();
  const std::string text = onnx_of(*view, found.at(0)).text();
  const onnx::Model model = onnx::read_model(text, "region.onnx");
  ASSERT_EQ(model.nodes.size(), 1u);
  EXPECT_EQ(model.nodes[0].op, "Mul");
  EXPECT_THAT(model.nodes[0].inputs, ElementsAre("x", "w"));
  EXPECT_THAT(model.nodes[0].outputs, ElementsAre("y"));
  EXPECT_EQ(digest_of(onnx_of(*view, found[0])).size(), 32u);
}

TEST_F(RegionTest, ItsDigestFollowsConstantsAndShapes) {
  FakeValue weight{ort::kF32, {3}, std::vector<char>(12, 1)};
  auto *x = value("x"), *w = value("w", {3}), *y = value("y");
  w->constant = &weight;
  y->is_output = true;
  graph.node("Mul", {x, w}, {y});
  const auto digest = [&] {
    const auto found = regions();
    return digest_of(onnx_of(*view, found.at(0)));
  };
  const std::string first = digest();
  EXPECT_EQ(digest(), first);
  weight.data[7] = 2;
  const std::string other_weight = digest();
  EXPECT_NE(other_weight, first);
  weight.data[7] = 1;
  x->sizes = {4, 3};
  EXPECT_NE(digest(), first);
}

// The part reads what stands between its nodes, and its first output is another node's input alone.
TEST_F(RegionTest, ContextsStandBehindWhatTheyReadWithTheTypesOfTheirOutputs) {
  FakeValue weight{ort::kF32, {3}, std::vector<char>(12, 1)};
  auto *x = value("x"), *w = value("w", {3}), *m = value("m"), *v = value("v"), *t = value("t"),
       *y = value("y");
  w->constant = &weight;
  y->is_output = true;
  graph.node("Mul", {x, w}, {m});
  graph.node("Exp", {v}, {t});
  graph.node("Add", {m, t}, {y});
  regions();
  const Region whole = *whole_of(*view);
  Region part{{whole.nodes[0], whole.nodes[2]}, {"x", "t"}, {"w"}, {"y"}};
  const std::string text = onnx_of(*view, whole, {{&part, "kernels"}}).text();
  const onnx::Model model = onnx::read_model(text, "contexts.onnx");
  ASSERT_EQ(model.nodes.size(), 2u);
  EXPECT_EQ(model.nodes[0].op, "Exp");
  EXPECT_EQ(model.nodes[1].full_op(), "com.microsoft.EPContext");
  EXPECT_THAT(model.nodes[1].inputs, ElementsAre("x", "t"));
  EXPECT_EQ(model.nodes[1].text("ep_cache_context", ""), "kernels");
  EXPECT_THAT(model.constants, IsEmpty());
  EXPECT_THAT(model.values, IsEmpty());

  Region first{{whole.nodes[0]}, {"x"}, {"w"}, {"m"}};
  const std::string other = onnx_of(*view, whole, {{&first, "kernels"}}).text();
  const onnx::Model typed = onnx::read_model(other, "contexts.onnx");
  ASSERT_EQ(typed.values.size(), 1u);
  EXPECT_EQ(typed.values[0].name, "m");
  EXPECT_EQ(typed.values[0].shape->size(), 2u);

  Region second{{whole.nodes[1]}, {"v", "y"}, {}, {"t"}};
  EXPECT_THROW(onnx_of(*view, whole, {{&second, "a circle"}}), ProviderError);
}

std::vector<OwnedValue> values(const Runtime& runtime, FakeValue& value) {
  std::vector<OwnedValue> all;
  all.emplace_back(runtime, reinterpret_cast<ort::Value*>(&value));
  return all;
}

FakeValue floats(const std::vector<float>& numbers) {
  const auto* bytes = reinterpret_cast<const char*>(numbers.data());
  return {ort::kF32, {static_cast<int64_t>(numbers.size())}, {bytes, bytes + numbers.size() * 4}};
}

class CompareTest : public ::testing::Test {
 protected:
  CompareTest() {
    stand_in.set<ort::ReleaseValue>([](ort::Value*) {});
  }
  double apart(FakeValue a, FakeValue b) {
    return difference(stand_in.runtime(), values(stand_in.runtime(), a),
                      values(stand_in.runtime(), b));
  }
  StandIn stand_in;
};

TEST_F(CompareTest, FloatsByTheLargestMagnitude) {
  const float nan = std::nanf("");
  EXPECT_EQ(apart(floats({1, -4}), floats({1, -4})), 0);
  EXPECT_NEAR(apart(floats({1, -3}), floats({1, -4})), 0.25, 1e-9);
  EXPECT_NEAR(apart(floats({1e-7F}), floats({3e-7F})), 2e-4, 1e-9) << "small ones by 0.001";
  EXPECT_EQ(apart(floats({nan, 2}), floats({nan, 2})), 0);
  EXPECT_EQ(apart(floats({nan, 2}), floats({1, 2})), std::numeric_limits<double>::infinity());
  EXPECT_EQ(apart(floats({1}), floats({1, 2})), std::numeric_limits<double>::infinity());
}

TEST_F(CompareTest, CodesMayDifferByOne) {
  EXPECT_EQ(apart({ort::kU8, {2}, {1, 9}}, {ort::kU8, {2}, {2, 9}}), 0);
  EXPECT_EQ(apart({ort::kU8, {2}, {1, 9}}, {ort::kU8, {2}, {3, 9}}), 0.5);
  EXPECT_EQ(apart({ort::kBool, {2}, {1, 1}}, {ort::kBool, {2}, {0, 1}}), 0.5);
}

TEST_F(CompareTest, MadeUpValuesAreTheSameInEachType) {
  std::vector<char> f32(64 * 4), f16(64 * 2), i64(16);
  fill(f32, ort::kF32, 5);
  fill(f16, ort::kF16, 5);
  fill(i64, ort::kI64, 5);
  EXPECT_EQ(apart({ort::kF16, {64}, f16}, {ort::kF16, {64}, f16}), 0);
  const auto* numbers = reinterpret_cast<const float*>(f32.data());
  float least = 1, most = -1;
  for (size_t i = 0; i < 64; ++i) {
    least = std::min(least, numbers[i]);
    most = std::max(most, numbers[i]);
  }
  EXPECT_LT(least, -0.5F);
  EXPECT_GT(most, 0.5F);
  EXPECT_LE(most, 1.0F);
  EXPECT_EQ(reinterpret_cast<const int64_t*>(i64.data())[1], 1);
}

}  // namespace
}  // namespace tilewright::provider::testing
