// A session of the provider on a stand-in runtime.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "provider/region.h"
#include "tests/provider/stand_in.h"
#include "tests/serving/models/model_fixture.h"

namespace tilewright::provider::testing {

using serving::testing::Floats;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

inline const std::string kPrefix = "ep.tilewrightexecutionprovider.";

// A session of the provider on a graph of one node, whose model file is that of product_graph().
class ProviderTest : public ::testing::Test {
 protected:
  ProviderTest() {
    size_t count = 0;
    EXPECT_EQ(
        message_of(CreateEpFactories("tilewright", stand_in.base(), nullptr, &factory, 1, &count)),
        "");
    EXPECT_EQ(count, 1u);
    options[kPrefix + "models"] = folder.path("");
    options[kPrefix + "trial"] = "0";
    options[kPrefix + "threads"] = "1";
    x = graph.value("x", {2, 2, 16});
    y = graph.value("y", {4, 8});
    z = graph.value("z", {32});
    y->is_output = z->is_output = true;
    graph.node("Custom", {x}, {y, z});
  }
  ~ProviderTest() override {
    if (ep != nullptr) {
      if (info != nullptr) info->release_state(info, state);
      ep->release_compute_infos(ep, &info, info == nullptr ? 0 : 1);
      factory->release_ep(factory, ep);
    }
    EXPECT_EQ(message_of(ReleaseEpFactory(factory)), "");
  }

  std::string create() {
    return message_of(
        factory->create_ep(factory, nullptr, nullptr, 0, as_options(options), nullptr, &ep));
  }
  // The path at which the model file of the graph's one region is looked for.
  std::string model_path() const {
    const GraphView view(stand_in.runtime(), as_graph(graph));
    return folder.path(digest_of(onnx_of(view, regions_of(view, {}).at(0))) + ".tw");
  }
  void write_file(const graph::Graph& program, const serving::testing::HandMade& kernel = {}) {
    const serving::testing::Database database({kernel});
    std::filesystem::copy(serving::testing::write_model(database.path(), program), model_path());
  }
  std::string capability() { return message_of(ep->get_capability(ep, as_graph(graph), nullptr)); }
  std::string compile() {
    const ort::Graph* graphs[] = {as_graph(graph)};
    const ort::Node* fused[] = {as_node(&graph.nodes[0])};
    return message_of(ep->compile(ep, graphs, fused, 1, &info, nullptr));
  }
  // Runs the node on rows of x.
  std::string run(const FakeValue& input, FakeContext& context) {
    context.inputs = {&input};
    context.outputs.resize(2);
    EXPECT_EQ(message_of(info->create_state(info, nullptr, &state)), "");
    return message_of(info->compute(info, state, as_context(context)));
  }
  FakeValue input(std::vector<int64_t> shape) const {
    const Floats values(shape, 3);
    FakeValue value{ort::kF32, std::move(shape), {}};
    const size_t rows = static_cast<size_t>(value.shape[0] * value.shape[1]);
    const auto* bytes = static_cast<const char*>(values.tensor.data);
    value.data.assign(bytes, bytes + rows * 16 * 4);
    return value;
  }
  void expect_product(const FakeValue& x_value, const FakeValue& y_value) const {
    const auto* a = reinterpret_cast<const float*>(x_value.data.data());
    const auto* b_data = static_cast<const float*>(b.tensor.data);
    const auto* c = reinterpret_cast<const float*>(y_value.data.data());
    for (size_t i = 0; i < y_value.data.size() / 32; ++i) {
      for (size_t j = 0; j < 8; ++j) {
        float sum = 0;
        for (size_t k = 0; k < 16; ++k) sum += a[i * 16 + k] * b_data[k * 8 + j];
        EXPECT_EQ(c[i * 8 + j], sum) << i << ", " << j;
      }
    }
  }

  StandIn stand_in;
  test::TempDir folder;
  FakePairs options;
  FakeGraph graph;
  FakeInfo *x, *y, *z;
  Floats b{{16, 8}, 1};
  ort::Factory* factory = nullptr;
  ort::Ep* ep = nullptr;
  ort::ComputeInfo* info = nullptr;
  void* state = nullptr;
};

}  // namespace tilewright::provider::testing
