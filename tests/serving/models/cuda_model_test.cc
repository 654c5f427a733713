// Whole models on a GPU, through a stand-in for the CUDA driver that logs its calls.
#include <dlfcn.h>

#include "tests/serving/cuda_fixture.h"
#include "tests/serving/models/model_fixture.h"

namespace tilewright::serving::testing {
namespace {

using ::testing::HasSubstr;

constexpr const char* kProductSpec = "matmul:m=8,n=8,k=8";

CudaDescription fake_product() {
  CudaDescription d = fake_relu();
  d.source.params = {{"A", ElemType::f32, {8, 8}, ParamRole::Input},
                     {"B", ElemType::f32, {8, 8}, ParamRole::Input},
                     {"C", ElemType::f32, {8, 8}, ParamRole::Output}};
  d.source.launches[0].entry = "tw_product";
  d.source.launches[0].buffers = {0, 1, 2};
  return d;
}

// A relu that is computed twice, by a second kernel that may start before the first one has ended.
CudaDescription twice(CudaDescription d) {
  d.source.launches.push_back(d.source.launches[0]);
  d.source.launches[1].dependent = true;
  return d;
}

class ServingCudaModel : public ServingCuda {
 protected:
  // y = relu(relu(x) B), of which the first relu has two kernels. Text is put behind the program's.
  std::string model_file(const std::string& more = "") {
    const std::string file = dir.path("kernels.db");
    {
      database::Store store = database::Store::open(file, database::Mode::Create);
      add_kernel(store, kGpuSpec, twice(fake_relu()), "Fake GPU", false);
      add_kernel(store, kProductSpec, fake_product(), "Fake GPU", false);
    }
    const std::string data(static_cast<const char*>(b.tensor.data), 64 * sizeof(float));
    graph::Graph graph = graph::parse_graph(
        "graph \"g\"\ninput \"x\": f32[64]\nconst \"B\": f32[8, 8] = " + graph::data_hash(data) +
        "\n\"h\": f32[64] = \"" + kGpuSpec + "\" (X=\"x\") for \"first\"\n\"p\": f32[8, 8] = \"" +
        kProductSpec + "\" (A=\"h\", B=\"B\") for \"product\"\n\"y\": f32[1, 64] = \"" + kGpuSpec +
        "\" (X=\"p\") for \"last\"\noutput \"y\"\n" + more);
    graph.values[graph.find("B")].data = std::make_shared<const std::string>(data);
    const std::string path = dir.path("model.tw");
    database::Store::open(file, database::Mode::ReadOnly)
        .export_serving(path, model_content(graph, "cuda:sm_80"));
    return path;
  }

  tw_status open(const std::string& file, tw_model** model, const char* target = nullptr) {
    test::ScopedEnv driver("TILEWRIGHT_CUDA_DRIVER", path);
    auto open = TW_INIT(tw_open_options);
    open.log = [](void*, const char*) {};
    auto options = TW_INIT(tw_model_options);
    options.open = &open;
    options.target = target;
    return tw_model_open(file.c_str(), &options, model);
  }

  static tw_status run(tw_model* model, const DLTensor& x, const DLTensor& y,
                       bool profile = false) {
    const DLTensor *inputs[] = {&x}, *outputs[] = {&y};
    auto args = TW_INIT(tw_model_args);
    args.inputs = inputs;
    args.outputs = outputs;
    args.input_count = args.output_count = 1;
    args.profile = profile ? 1 : 0;
    return tw_model_run(model, &args);
  }

  // A letter for each call of the driver since the last call of this.
  std::string calls() const {
    void* driver = dlopen(path.c_str(), RTLD_NOW);
    const auto log = reinterpret_cast<const char* (*)()>(dlsym(driver, "fake_cuda_log"));
    std::string told = log();
    dlclose(driver);
    return told;
  }

  void expect_right(const Floats& x, const Floats& y) const {
    for (int64_t i = 0; i < 8; ++i) {
      for (int64_t j = 0; j < 8; ++j) {
        float sum = 0;
        for (int64_t k = 0; k < 8; ++k) sum += std::max(x[8 * i + k], 0.0F) * b[8 * k + j];
        EXPECT_FLOAT_EQ(y[8 * i + j], std::max(sum, 0.0F));
      }
    }
  }

  Floats b{{8, 8}, 2};
};

// All launches are captured when the model is opened, in their order and with their overlaps.
TEST_F(ServingCudaModel, ARunStartsOneGraphAndReservesNothing) {
  tw_model* model = nullptr;
  ASSERT_EQ(open(model_file(), &model), TW_OK) << tw_last_error();
  const std::string opening = calls();
  EXPECT_THAT(opening, HasSubstr("BLPLLPEI")) << "two kernels, the product, two kernels";
  for (int seed = 3; seed < 6; ++seed) {
    Floats x({64}, seed), y({1, 64});
    ASSERT_EQ(run(model, x.tensor, y.tensor), TW_OK) << tw_last_error();
    EXPECT_EQ(calls(), "UGDW");
    expect_right(x, y);
  }
  Floats x({64}, 3), y({1, 64});
  ASSERT_EQ(run(model, x.tensor, y.tensor, true), TW_OK) << tw_last_error();
  EXPECT_EQ(calls(), "ULPLLPDW") << "each node is timed by itself";
  auto node = TW_INIT(tw_model_node);
  ASSERT_EQ(tw_model_node_at(model, 1, &node), TW_OK);
  EXPECT_FLOAT_EQ(node.seconds, 1.5e-3F);
  tw_model_close(model);
}

TEST_F(ServingCudaModel, TensorsOfTheGpuAreCopiedInOrderWithTheStream) {
  tw_model* model = nullptr;
  ASSERT_EQ(open(model_file(), &model), TW_OK) << tw_last_error();
  Floats x({64}, 3), y({1, 64});
  calls();
  x.tensor.device = y.tensor.device = {kDLCUDA, 0};
  ASSERT_EQ(run(model, x.tensor, y.tensor), TW_OK) << tw_last_error();
  EXPECT_EQ(calls(), "CGC") << "nothing waits";
  expect_right(x, y);
  x.tensor.device = {kDLCUDA, 1};
  EXPECT_EQ(run(model, x.tensor, y.tensor), TW_ERROR_TENSOR);
  EXPECT_STREQ(tw_last_error(),
               "input 'x': it lies on GPU 1; expected the memory of the host or GPU 0");
  tw_model_close(model);
}

TEST_F(ServingCudaModel, ConstantsAreOnTheDeviceOnceAndValuesInOneBlock) {
  tw_model* model = nullptr;
  ASSERT_EQ(open(model_file(), &model), TW_OK) << tw_last_error();
  const std::string opening = calls();
  EXPECT_EQ(std::count(opening.begin(), opening.end(), 'A'), 2) << opening;  // the block, and B
  EXPECT_EQ(std::count(opening.begin(), opening.end(), 'U'), 1) << opening;
  tw_model_close(model);
}

TEST_F(ServingCudaModel, AFailureOfTheDriverNamesWhatWasDone) {
  tw_model* model = nullptr;
  {
    test::ScopedEnv fail("FAKE_CUDA_FAIL", std::string("cuGraphInstantiateWithFlags"));
    EXPECT_EQ(open(model_file(), &model), TW_ERROR_DEVICE);
    EXPECT_THAT(tw_last_error(), HasSubstr("making a graph"));
  }
  ASSERT_EQ(open(dir.path("model.tw"), &model), TW_OK) << tw_last_error();
  Floats x({64}, 3), y({1, 64});
  test::ScopedEnv fail("FAKE_CUDA_FAIL", std::string("cuGraphLaunch"));
  EXPECT_EQ(run(model, x.tensor, y.tensor), TW_ERROR_DEVICE);
  EXPECT_THAT(tw_last_error(), HasSubstr("launching a graph"));
  tw_model_close(model);
}

TEST_F(ServingCudaModel, RefusesOtherTargetsAndStates) {
  tw_model* model = nullptr;
  EXPECT_EQ(open(model_file(), &model, "native"), TW_ERROR_MISS);
  EXPECT_THAT(tw_last_error(), HasSubstr("nodes that no kernel serves here"));
  EXPECT_EQ(open(dir.path("model.tw"), &model, "cuda:sm_90a"), TW_ERROR_DEVICE);
  const std::string stateful = model_file(
      "input \"at\": i32[1]\nstate \"s\": f32[4, 64]\n"
      "\"t\": f32[4, 64] = write \"y\" to \"s\" at \"at\"\n");
  EXPECT_EQ(open(stateful, &model), TW_ERROR_ARGUMENT);
  EXPECT_STREQ(tw_last_error(), "state 's': models with states run on CPUs alone");
}

}  // namespace
}  // namespace tilewright::serving::testing
