// Plain nodes of model files: a run finds sizes, and the kernels behind have these.
#include <gmock/gmock.h>

#include <algorithm>

#include "tests/serving/models/model_fixture.h"

namespace tilewright::serving::testing {
namespace {

using ::testing::HasSubstr;

// The products of the rows that a run chooses.
graph::Graph chosen_products(const Floats& b) {
  const std::string data(static_cast<const char*>(b.tensor.data), 16 * 8 * sizeof(float));
  graph::Graph graph = graph::parse_graph(
      "graph \"chosen\"\ndim \"n\": at most 16 as 2137\ninput \"x\": f32[16, 16]\n"
      "input \"c\": u8[16]\nconst \"B\": f32[16, 8] = " +
      graph::data_hash(data) +
      "\n\"rows\": f32[2137, 16] = plain \"Compress:axis=0\" (C=\"c\", X=\"x\") for \"choose\"\n"
      "\"y\": f32[2137, 8] = \"matmul:m=2137,n=8,k=16\" (A=\"rows\", B=\"B\") for \"dense\"\n"
      "output \"rows\"\noutput \"y\"\n");
  graph.values[graph.find("B")].data = std::make_shared<const std::string>(data);
  return graph;
}

struct Flags {
  explicit Flags(std::vector<uint8_t> of)
      : values(std::move(of)), shape(static_cast<int64_t>(values.size())) {
    tensor.data = values.data();
    tensor.device = {kDLCPU, 0};
    tensor.ndim = 1;
    tensor.dtype = {kDLBool, 8, 1};
    tensor.shape = &shape;
  }
  std::vector<uint8_t> values;
  int64_t shape;
  DLTensor tensor{};
};

tw_status run(tw_model* model, const Floats& x, const Flags& c, const Floats& rows,
              const Floats& y) {
  const DLTensor *inputs[] = {&x.tensor, &c.tensor}, *outputs[] = {&rows.tensor, &y.tensor};
  auto args = TW_INIT(tw_model_args);
  args.inputs = inputs;
  args.outputs = outputs;
  args.input_count = args.output_count = 2;
  args.profile = 1;
  return tw_model_run(model, &args);
}

TEST(ServingPlain, KernelsBehindHaveTheSizeThatARunFinds) {
  Database db{{.spec = "matmul:m=1..64,n=8,k=16", .dynamic = true, .tag = 5}};
  const Floats b({16, 8}, 2), x({16, 16}, 1);
  OpenedModel opened(write_model(db.path(), chosen_products(b)));
  ASSERT_EQ(opened.status, TW_OK) << tw_last_error();
  int64_t shape[] = {-1, -1};
  EXPECT_EQ(tw_model_last_output_shape(opened.model, 1, shape), TW_ERROR_ARGUMENT);
  EXPECT_THAT(tw_last_error(), HasSubstr("the model has not run"));
  // In any order: a size of a former run says nothing.
  for (const std::vector<uint8_t>& flags :
       {std::vector<uint8_t>{1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1},
        std::vector<uint8_t>(16, 0),
        std::vector<uint8_t>(16, 1),
        {0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}}) {
    const Flags c(flags);
    const Floats rows({16, 16}), y({16, 8});
    std::fill_n(static_cast<float*>(y.tensor.data), 16 * 8, -7.0f);
    ASSERT_EQ(run(opened.model, x, c, rows, y), TW_OK) << tw_last_error();
    const int64_t found = std::count(flags.begin(), flags.end(), 1);
    ASSERT_EQ(tw_model_last_output_shape(opened.model, 1, shape), TW_OK) << tw_last_error();
    EXPECT_EQ(shape[0], found);
    EXPECT_EQ(shape[1], 8);
    for (int64_t i = 0, k = 0; i < 16; ++i) {
      if (flags[static_cast<size_t>(i)] == 0) continue;
      for (int64_t j = 0; j < 16; ++j) EXPECT_EQ(rows[k * 16 + j], x[i * 16 + j]);
      for (int64_t j = 0; j < 8; ++j) {
        float sum = 5;  // the kernel's tag
        for (int64_t l = 0; l < 16; ++l) sum += x[i * 16 + l] * b[l * 8 + j];
        EXPECT_NEAR(y[k * 8 + j], sum, 1e-4) << i << ", " << j;
      }
      ++k;
    }
    for (int64_t i = found * 8; i < 16 * 8; ++i) EXPECT_EQ(y[i], -7) << "nothing behind it";
  }
}

TEST(ServingPlain, PortsHaveRoomForTheMost) {
  Database db{{.spec = "matmul:m=1..64,n=8,k=16", .dynamic = true, .tag = 5}};
  const Floats b({16, 8}, 2), x({16, 16}, 1);
  OpenedModel opened(write_model(db.path(), chosen_products(b)));
  ASSERT_EQ(opened.status, TW_OK) << tw_last_error();
  auto port = TW_INIT(tw_port);
  ASSERT_EQ(tw_model_output_at(opened.model, 1, &port), TW_OK);
  EXPECT_EQ(port.shape[0], 16);
  EXPECT_EQ(port.least[0], 0);
  const Flags c(std::vector<uint8_t>(16, 1));
  const DLTensor* inputs[] = {&x.tensor, &c.tensor};
  int64_t shape[] = {0, 0};
  ASSERT_EQ(tw_model_output_shape(opened.model, inputs, 2, 1, shape), TW_OK) << tw_last_error();
  EXPECT_EQ(shape[0], 16);
  const Floats rows({16, 16}), few({3, 8});
  EXPECT_EQ(run(opened.model, x, c, rows, few), TW_ERROR_TENSOR);
  EXPECT_THAT(tw_last_error(),
              HasSubstr("output 'y': axis 0 has 3; expected 16, which is n at most"));
  ASSERT_EQ(tw_model_node_count(opened.model), 2u);
  auto node = TW_INIT(tw_model_node);
  ASSERT_EQ(tw_model_node_at(opened.model, 0, &node), TW_OK);
  EXPECT_STREQ(node.label, "choose");
  EXPECT_STREQ(node.spec, "plain Compress:axis=0");
  EXPECT_EQ(node.outcome, TW_HIT);
}

}  // namespace
}  // namespace tilewright::serving::testing
