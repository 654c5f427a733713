// Models for GPUs that are not here: kernels by prediction, runs in the emulator.
#include <gmock/gmock.h>

#include <cmath>
#include <numeric>

#include "cli/models/gpu_program.h"
#include "database/store.h"
#include "graph/graph.h"
#include "runtime/cuda/nvrtc.h"
#include "runtime/tensor/npy.h"
#include "tests/cli/fake_gpu.h"
#include "tests/cli/models/onnx_file.h"
#include "tests/cli/support.h"

namespace tilewright::cli {
namespace {

using test::OnnxFile;
using testing::AllOf;
using testing::HasSubstr;

std::vector<float> values(int64_t count, float step) {
  std::vector<float> made(static_cast<size_t>(count));
  for (size_t i = 0; i < made.size(); ++i) made[i] = std::sin(step * static_cast<float>(i + 1));
  return made;
}

class CompileGpu : public Cli {
 protected:
  void SetUp() override {
    Cli::SetUp();
    if (!cuda::nvrtc_problem().empty()) GTEST_SKIP() << "NVRTC: " << cuda::nvrtc_problem();
    OnnxFile mlp;
    mlp.input("x", {8, 16}).floats("w", {16, 24}, values(16 * 24, 0.7F));
    mlp.floats("v", {24, 8}, values(24 * 8, 1.3F));
    mlp.node("MatMul", {"x", "w"}, {"a"}).node("Relu", {"a"}, {"r"});
    mlp.node("MatMul", {"r", "v"}, {"b"}).node("Softmax", {"b"}, {"y"}).output("y");
    write("mlp.onnx", mlp.bytes());
  }
  Ran compile(const std::string& model, const std::string& options) {
    return run(
        "compile " + model + ".onnx -o " + model + ".tw --db k.db --offline --quiet " + options,
        kNoGpu);
  }
  // The file runs in the emulator, and its outputs are those that the interpreter computes.
  void expect_right(const std::string& model) {
    const Ran ran = compile(model, "--target cuda:sm_80 --trials 0 --tolerance 1e-5 --json");
    ASSERT_EQ(ran.code, 0) << ran.err;
    EXPECT_LT(ran.json()["error"].get<double>(), 1e-5);
  }
  size_t kernels() {
    return database::Store::open(dir_ / "k.db", database::Mode::ReadOnly).records().records.size();
  }
};

TEST_F(CompileGpu, SaysThatNothingWasMeasured) {
  Ran ran = compile("mlp", "--target cuda:sm_80 --trials 0");
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_THAT(ran.out, AllOf(HasSubstr("cuda:sm_80: "), HasSubstr(" us a run, predicted"),
                             HasSubstr("nothing was measured")));
  const auto made = database::Store::open(dir_ / "mlp.tw", database::Mode::ReadOnly);
  EXPECT_EQ(*made.part("target").value, "cuda:sm_80");
  for (const auto& record : made.records().records) EXPECT_TRUE(record.offline);
  EXPECT_EQ(made.records().records.size(), 3u);  // of two products and a softmax
}

TEST_F(CompileGpu, SearchesWhatHasItsFirstAnswerAlone) {
  ASSERT_EQ(compile("mlp", "--target cuda:sm_80 --trials 0").code, 0);
  const size_t first = kernels();
  EXPECT_EQ(first, 3u);
  ASSERT_EQ(compile("mlp", "--target cuda:sm_80 --trials 4").code, 0);
  const size_t searched = kernels();
  EXPECT_GT(searched, first);
  ASSERT_EQ(compile("mlp", "--target cuda:sm_80 --trials 4").code, 0);
  EXPECT_EQ(kernels(), searched) << "nothing is lacking any more";
}

TEST_F(CompileGpu, ExplainsThePredictedTime) {
  const Json made = compile("mlp", "--target cuda:sm_80 --trials 0 --json").json();
  Ran ran = run("explain mlp.tw --json", kNoGpu);
  ASSERT_EQ(ran.code, 0) << ran.err;
  const Json said = ran.json();
  EXPECT_EQ(said["predicted"], true);
  EXPECT_EQ(said["target"], "cuda:sm_80");
  double sum = said["launch_seconds"];
  for (const auto& [cause, seconds] : said["causes"].items()) sum += seconds.get<double>();
  EXPECT_NEAR(sum, said["predicted_seconds"].get<double>(), 1e-12);
  EXPECT_NEAR(sum, made["predicted_seconds"].get<double>(), 1e-12);
  size_t launches = 0;
  for (const Json& node : said["nodes"]) launches += node["launches"].get<size_t>();
  EXPECT_EQ(said["launches"], launches);
  EXPECT_GE(launches, 3u);
  EXPECT_TRUE(said["causes"].contains("product"));
  ran = run("explain mlp.tw", kNoGpu);
  EXPECT_THAT(ran.out, AllOf(HasSubstr(" launches: "), HasSubstr("nothing was measured")));
}

TEST_F(CompileGpu, AnMlpIsRightInTheEmulator) { expect_right("mlp"); }

TEST_F(CompileGpu, ACnnIsRightInTheEmulator) {
  OnnxFile file;
  file.input("x", {1, 3, 10, 10}).floats("w", {8, 3, 3, 3}, values(216, 0.9F));
  file.floats("b", {8}, values(8, 0.4F)).floats("v", {16, 16, 1, 1}, values(256, 1.1F));
  file.node("Conv", {"x", "w", "b"}, {"c"}, {test::wholes("pads", {1, 1, 1, 1})});
  file.node("Relu", {"c"}, {"r"});
  file.node("MaxPool", {"r"}, {"m"},
            {test::wholes("kernel_shape", {2, 2}), test::wholes("strides", {2, 2})});
  file.node("Sigmoid", {"m"}, {"s"});
  file.node("Concat", {"m", "s"}, {"j"}, {test::whole("axis", 1)});
  file.node("Conv", {"j", "v"}, {"d"}).node("GlobalAveragePool", {"d"}, {"y"}).output("y");
  write("cnn.onnx", file.bytes());
  expect_right("cnn");
}

TEST_F(CompileGpu, AttentionIsRightInTheEmulator) {
  OnnxFile file;
  file.input("q", {2, 12, 16}).input("k", {2, 16, 12}).input("v", {2, 12, 16});
  file.node("MatMul", {"q", "k"}, {"s"}).node("Softmax", {"s"}, {"p"});
  file.node("MatMul", {"p", "v"}, {"o"}).node("Add", {"o", "q"}, {"y"}).output("y");
  write("attention.onnx", file.bytes());
  expect_right("attention");
}

TEST_F(CompileGpu, AFileForARangeRunsInTheEmulatorAtEachSize) {
  OnnxFile file;
  file.input("x", {"batch", 16}).floats("w", {16, 8}, values(128, 0.7F));
  file.node("MatMul", {"x", "w"}, {"a"}).node("Relu", {"a"}, {"y"}).output("y");
  write("ranged.onnx", file.bytes());
  const Ran ran =
      compile("ranged", "--dim batch=1..20 --target cuda:sm_80 --trials 0 --tolerance 1e-5 --json");
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_LT(ran.json()["error"].get<double>(), 1e-5);
  EXPECT_EQ(run("explain ranged.tw --json", kNoGpu).json()["nodes"].size(), 1u);
}

TEST_F(CompileGpu, RunsOnGivenArraysInTheEmulatorAlone) {
  ASSERT_EQ(compile("mlp", "--target cuda:sm_80 --trials 0").code, 0);
  HostArray x("x", ElemType::f32, {8, 16});
  for (int64_t i = 0; i < x.count(); ++i) x.set(i, std::cos(static_cast<double>(i)));
  write_npy((dir_ / "x.npy").string(), x);
  Ran ran = run("run mlp.tw --in x=x.npy --out y=y.npy", kNoGpu);
  EXPECT_EQ(ran.code, 4);
  EXPECT_THAT(ran.err, HasSubstr("run --emulate runs them in the emulator"));
  ran = run("run mlp.tw --emulate --in x=x.npy --out y=y.npy", kNoGpu);
  ASSERT_EQ(ran.code, 0) << ran.err;
  const NpyArray y = read_npy((dir_ / "y.npy").string());
  for (int64_t row = 0; row < 8; ++row) {
    double sum = 0;
    for (int64_t j = 0; j < 8; ++j) sum += y.get(8 * row + j);
    EXPECT_NEAR(sum, 1, 1e-5);
  }
}

TEST_F(CompileGpu, RefusesWhatDoesNotFitTheTarget) {
  Ran ran = run("compile mlp.onnx -o m.tw --offline --db k.db");
  EXPECT_EQ(ran.code, 2);
  EXPECT_THAT(ran.err, HasSubstr("--offline: expected a CUDA target such as cuda:sm_90a"));
  ran = run("compile mlp.onnx -o m.tw --target cuda:sm_80 --db k.db", kNoGpu);
  EXPECT_EQ(ran.code, 4);
  EXPECT_THAT(ran.err, HasSubstr("compile --offline choose them without a GPU"));
  ran = compile("mlp", "--target cuda:sm_75 --precision bf16");
  EXPECT_EQ(ran.code, 2);
  EXPECT_THAT(ran.err, HasSubstr("which came with sm_80"));
  ASSERT_EQ(compile("mlp", "--target cuda:sm_80 --trials 0").code, 0);
  ran = run("export mlp.tw -o folder");
  EXPECT_EQ(ran.code, 2);
  EXPECT_THAT(ran.err,
              HasSubstr("'mlp.tw' was compiled for cuda:sm_80; whole models are exported"));
  ASSERT_EQ(run("compile mlp.onnx -o cpu.tw --trials 0 --db k.db --quiet").code, 0);
  ran = run("run cpu.tw --emulate --in x=x.npy");
  EXPECT_EQ(ran.code, 2);
  EXPECT_THAT(ran.err, HasSubstr("'cpu.tw' has kernels for CPUs"));
}

// On a stand-in for a GPU, which takes every kernel for a relu.
TEST_F(FakeGpu, AModelIsTunedAndRunsOnTheGpuThatIsHere) {
  if (!cuda::nvrtc_problem().empty()) GTEST_SKIP() << "NVRTC: " << cuda::nvrtc_problem();
  OnnxFile file;
  file.input("x", {64}).node("Relu", {"x"}, {"y"}).output("y");
  write("relu.onnx", file.bytes());
  const std::string device = driver() + " FAKE_CUDA_ANY=1";
  Ran ran =
      run("compile relu.onnx -o relu.tw --target cuda:sm_80 --trials 2 --db k.db --quiet --json",
          device);
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_TRUE(ran.json()["predicted_seconds"].is_null());
  HostArray x("x", ElemType::f32, {64});
  for (int64_t i = 0; i < 64; ++i) x.set(i, std::cos(static_cast<double>(i)));
  write_npy((dir_ / "x.npy").string(), x);
  ran = run("run relu.tw --in x=x.npy --out y=y.npy", device);
  ASSERT_EQ(ran.code, 0) << ran.err;
  const NpyArray y = read_npy((dir_ / "y.npy").string());
  for (int64_t i = 0; i < 64; ++i) EXPECT_FLOAT_EQ(y.get(i), std::max(x.get(i), 0.0));
  ran = run("explain relu.tw --json", device);
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_FLOAT_EQ(ran.json()["seconds"], 1.5e-3F);  // as the stand-in's events say
}

TEST(GpuProgram, NamesAllNodesThatHaveNoKernel) {
  const graph::Graph graph = graph::parse_graph(
      "graph \"g\"\ninput \"x\": f32[64]\ninput \"at\": i32[1]\n"
      "state \"s\": f32[4, 64]\nstate \"t\": f32[4, 64]\n"
      "\"y\": f32[64] = \"elementwise:shape=64,fn=relu\" (X=\"x\") for \"relu\"\n"
      "\"a\": f32[4, 64] = write \"y\" to \"s\" at \"at\" for \"keys\"\n"
      "\"b\": f32[4, 64] = write \"y\" to \"t\" at \"at\" for \"values\"\noutput \"y\"\n");
  try {
    require_gpu_nodes(graph, Target::parse("cuda:sm_80"));
    FAIL() << "was not refused";
  } catch (const graph::GraphError& e) {
    EXPECT_STREQ(e.what(),
                 "nodes that have no kernel for target 'cuda:sm_80'; --target native compiles the "
                 "model for this machine's processor:\n"
                 "  keys: it writes into a state, which kernels for GPUs do not\n"
                 "  values: it writes into a state, which kernels for GPUs do not");
  }
}

}  // namespace
}  // namespace tilewright::cli
