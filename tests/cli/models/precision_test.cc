// tune-cli compile --precision: small models from file to result.
#include <gmock/gmock.h>

#include <cmath>
#include <cstring>

#include "graph/graph.h"
#include "runtime/tensor/npy.h"
#include "tests/cli/models/onnx_file.h"
#include "tests/cli/support.h"

namespace tilewright::cli {
namespace {

using test::OnnxFile;
using test::whole;
using test::wholes;
using testing::HasSubstr;

std::vector<float> spread(size_t count, int step, float scale) {
  std::vector<float> values;
  for (size_t i = 0; i < count; ++i) {
    values.push_back(scale * (static_cast<float>(i * static_cast<size_t>(step) % 211) / 105 - 1));
  }
  return values;
}

class Precision : public Cli {
 protected:
  void write_mlp() {
    OnnxFile file;
    file.input("x", {"batch", 64}).floats("w", {64, 128}, spread(64 * 128, 37, 0.2f));
    file.floats("b", {128}, spread(128, 53, 0.5f))
        .floats("u", {128, 32}, spread(128 * 32, 71, 0.2f));
    file.node("MatMul", {"x", "w"}, {"a"})
        .node("Add", {"a", "b"}, {"c"})
        .node("Relu", {"c"}, {"d"});
    file.node("MatMul", {"d", "u"}, {"y"}).output("y");
    write("mlp.onnx", file.bytes());
  }
  // Heads of attention, a sum, a normalization.
  void write_block() {
    OnnxFile file;
    file.input("x", {1, 16, 64});
    for (const char* name : {"wq", "wk", "wv", "wo"}) {
      file.floats(name, {64, 64}, spread(64 * 64, 31 + name[1], 0.15f));
    }
    file.integers("heads", {1, 16, 4, 16}).integers("flat", {1, 16, 64});
    const std::vector<std::string> turn = {wholes("perm", {0, 2, 1, 3})};
    for (const std::string n : {"q", "k", "v"}) {
      file.node("MatMul", {"x", "w" + n}, {n + "0"}).node("Reshape", {n + "0", "heads"}, {n + "1"});
      file.node("Transpose", {n + "1"}, {n},
                n == "k" ? std::vector{wholes("perm", {0, 2, 3, 1})} : turn);
    }
    file.node("MatMul", {"q", "k"}, {"s"}).node("Softmax", {"s"}, {"p"}, {whole("axis", -1)});
    file.node("MatMul", {"p", "v"}, {"h"}).node("Transpose", {"h"}, {"t"}, turn);
    file.node("Reshape", {"t", "flat"}, {"f"}).node("MatMul", {"f", "wo"}, {"o"});
    file.node("Add", {"o", "x"}, {"y"}).output("y");
    write("block.onnx", file.bytes());
  }
  void write_cnn() {
    OnnxFile file;
    file.input("x", {1, 8, 12, 12}).floats("w", {16, 8, 3, 3}, spread(16 * 8 * 9, 37, 0.3f));
    file.floats("v", {16, 1, 3, 3}, spread(16 * 9, 41, 0.5f));
    file.floats("u", {32, 16, 3, 3}, spread(32 * 16 * 9, 43, 0.3f));
    const std::vector<std::string> pads = {wholes("pads", {1, 1, 1, 1})};
    file.node("Conv", {"x", "w"}, {"a"}, pads).node("Relu", {"a"}, {"b"});
    file.node("Conv", {"b", "v"}, {"c"}, {pads[0], whole("group", 16)});
    file.node("Conv", {"c", "u"}, {"d"}, pads).node("GlobalAveragePool", {"d"}, {"y"}).output("y");
    write("cnn.onnx", file.bytes());
  }
  Json compile(const std::string& more) {
    const Ran ran = run("compile --db k.db --threads 1 --quiet --trials 0 --json -o m.tw " + more);
    EXPECT_EQ(ran.code, 0) << more << "\n" << ran.err;
    return ran.code == 0 ? ran.json() : Json::object();
  }
  void write_array(const std::string& name, const std::vector<int64_t>& shape, float scale) {
    HostArray array("x", ElemType::f32, shape);
    const std::vector<float> values = spread(static_cast<size_t>(array.count()), 89, scale);
    std::memcpy(array.data(), values.data(), values.size() * sizeof(float));
    write_npy((dir_ / name).string(), array);
  }
};

void expect_error(const Json& said, double most, int products) {
  EXPECT_GT(said["error"].get<double>(), 0) << said;
  EXPECT_LT(said["error"].get<double>(), most) << said;
  EXPECT_EQ(said["products"], products) << said;
  EXPECT_TRUE(said["kept"].empty()) << said;
}

TEST_F(Precision, LayersInEachPrecision) {
  write_mlp();
  expect_error(compile("mlp.onnx --dim batch=4 --precision i8"), 0.02, 2);
  expect_error(compile("mlp.onnx --dim batch=4 --precision u4:32"), 0.1, 2);
  expect_error(compile("mlp.onnx --dim batch=4 --precision i8:-1"), 0.02, 2);
  const Json said = compile("mlp.onnx --dim batch=4 --precision u8:64:i8");
  expect_error(said, 0.02, 2);
  EXPECT_EQ(said["precision"], "u8:64:i8");
}

TEST_F(Precision, ABlockOfATransformer) {
  write_block();
  expect_error(compile("block.onnx --precision i8"), 0.03, 4);
  const Json said = compile("block.onnx --precision i4:16");
  expect_error(said, 0.2, 4);
  EXPECT_EQ(said["others"], 0) << "products of two calculated values have no weight";
}

TEST_F(Precision, Convolutions) {
  write_cnn();
  const Json said = compile("cnn.onnx --precision i8");
  expect_error(said, 0.03, 2);
  const Json few = compile("cnn.onnx --precision u4:16");
  EXPECT_EQ(few["products"], 0) << "convolutions stay in f32";
}

TEST_F(Precision, ARangeOfSizes) {
  write_mlp();
  expect_error(compile("mlp.onnx --dim batch=1..4 --precision i8"), 0.02, 2);
  expect_error(compile("mlp.onnx --dim batch=1..4 --precision i4:32"), 0.3, 2);
  write_array("x.npy", {3, 64}, 1);
  EXPECT_EQ(run("run m.tw --in x=x.npy --out y=y.npy").code, 0);
  EXPECT_EQ(read_npy((dir_ / "y.npy").string()).shape, (std::vector<int64_t>{3, 32}));
}

// The scales of what is calculated are those of the samples: inputs of a hundredth of the size have finer codes,
// and larger inputs are cut off.
TEST_F(Precision, GivenInputsGiveStaticScales) {
  write_mlp();
  write_array("small.npy", {4, 64}, 0.01f);
  write_array("large.npy", {4, 64}, 1);
  const std::string text = "compile mlp.onnx --dim batch=4 --precision i8 --text ";
  const Ran plain = run(text), fixed = run(text + "--in x=small.npy --in x=large.npy");
  ASSERT_EQ(fixed.code, 0) << fixed.err;
  EXPECT_THAT(plain.out, HasSubstr("max= abs("));
  EXPECT_THAT(fixed.out, Not(HasSubstr("max= abs(")));
  EXPECT_EQ(graph::parse_graph(fixed.out).nodes.size(), 3u) << fixed.out;
  expect_error(compile("mlp.onnx --dim batch=4 --precision i8 --in x=small.npy"), 0.02, 2);
  write_array("x.npy", {4, 64}, 1);
  ASSERT_EQ(run("run m.tw --in x=x.npy --out y=cut.npy").code, 0);
  compile("mlp.onnx --dim batch=4 --tolerance 1e-4");
  ASSERT_EQ(run("run m.tw --in x=x.npy --out y=y.npy").code, 0);
  const NpyArray cut = read_npy((dir_ / "cut.npy").string()),
                 y = read_npy((dir_ / "y.npy").string());
  double off = 0, largest = 0;
  for (int64_t i = 0; i < y.count(); ++i) {
    off = std::max(off, std::abs(y.get(i) - cut.get(i)));
    largest = std::max(largest, std::abs(y.get(i)));
  }
  EXPECT_GT(off, 0.1 * largest) << "inputs beyond the samples are cut off";
}

// The worst products stay f32, and only as many as it takes.
TEST_F(Precision, AToleranceKeepsProducts) {
  write_mlp();
  const Json all = compile("mlp.onnx --dim batch=4 --precision u2:64 --tolerance 10");
  const double error = all["error"].get<double>();
  const Json some = compile("mlp.onnx --dim batch=4 --precision u2:64 --tolerance " +
                            std::to_string(0.9 * error));
  ASSERT_EQ(some["kept"].size(), 1u) << some;
  EXPECT_EQ(some["products"], 1);
  EXPECT_LE(some["error"].get<double>(), 0.9 * error);
  const Ran none =
      run("compile mlp.onnx --dim batch=4 --precision u2:64 --tolerance 1e-9 -o m.tw --db k.db");
  EXPECT_EQ(none.code, 3);
  EXPECT_THAT(none.err, HasSubstr("output 'y' is off by"));
  EXPECT_THAT(none.err, HasSubstr("by themselves the nodes are off the most: "));
  EXPECT_THAT(none.err, HasSubstr("--precision u2:32 has finer scales"));
}

TEST_F(Precision, RefusesWhatItDoesNotKnow) {
  write_mlp();
  const std::string text = "compile mlp.onnx --dim batch=4 --text ";
  EXPECT_THAT(run(text + "--precision u4").err, HasSubstr("such as u4:128"));
  EXPECT_THAT(run(text + "--precision i8 --in z=x.npy").err, HasSubstr("no 'z'; the model has x"));
  EXPECT_THAT(run(text + "--in x=x.npy").err, HasSubstr("expected --precision or --tolerance"));
  write_array("x.npy", {4, 63}, 1);
  const Ran ran = run(text + "--precision i8 --in x=x.npy");
  EXPECT_EQ(ran.code, 2);
  EXPECT_THAT(ran.err, HasSubstr("x.npy"));
}

}  // namespace
}  // namespace tilewright::cli
