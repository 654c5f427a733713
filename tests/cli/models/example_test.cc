// examples/onnx_model: a model with a convolution, a quantized product and what stands between them is
// extracted, tuned, and run from the database.
#include <gmock/gmock.h>

#include <cmath>

#include "tests/cli/models/onnx_file.h"
#include "tests/cli/support.h"

namespace tilewright::cli {
namespace {

using test::OnnxFile;
using test::whole;
using test::wholes;
using testing::HasSubstr;

std::vector<float> waves(size_t count, double step) {
  std::vector<float> values;
  for (size_t i = 0; i < count; ++i) {
    values.push_back(static_cast<float>(std::sin(step * static_cast<double>(i))));
  }
  return values;
}

// Images through two convolutions, rows through a product of 4-bit weights and one of floats.
std::string small_model() {
  std::string codes;
  for (int i = 0; i < 24 * 2 * 8; ++i) codes += static_cast<char>(i * 37 % 251);
  OnnxFile file;
  file.input("images", {2, 4, 8, 8}).output("odds");
  file.floats("w1", {8, 4, 3, 3}, waves(8 * 4 * 9, 0.7)).floats("b1", {8}, waves(8, 0.3));
  file.floats("w2", {8, 4, 1, 1}, waves(32, 1.1)).integers("rows", {-1, 32});
  file.constant("codes", test::kUint8, {24, 2, 8}, codes).floats("scales", {24, 2}, waves(48, 0.9));
  file.floats("shift", {24}, waves(24, 0.2)).floats("w3", {10, 24}, waves(240, 0.4));
  file.floats("b3", {10}, waves(10, 0.8));
  file.node("Conv", {"images", "w1", "b1"}, {"c1"},
            {wholes("pads", {1, 1, 1, 1}), wholes("strides", {2, 2})});
  file.node("Relu", {"c1"}, {"r1"});
  file.node("Conv", {"r1", "w2"}, {"c2"}, {whole("group", 2)}).node("Add", {"c2", "r1"}, {"sum"});
  file.node("Reshape", {"sum", "rows"}, {"flat"});
  file.node("MatMulNBits", {"flat", "codes", "scales"}, {"q"},
            {whole("K", 32), whole("N", 24), whole("bits", 4), whole("block_size", 16)},
            "com.microsoft");
  file.node("Add", {"q", "shift"}, {"h"}).node("Relu", {"h"}, {"r2"});
  file.node("Gemm", {"r2", "w3", "b3"}, {"z"}, {whole("transB", 1)});
  return file.node("Softmax", {"z"}, {"odds"}).bytes();
}

class OnnxExample : public Cli {};

TEST_F(OnnxExample, AModelsLayersRunFromTheDatabase) {
  std::ofstream(dir_ / "m.onnx", std::ios::binary) << small_model();
  const std::string program = TILEWRIGHT_BINARY_DIR "/onnx_model m.onnx kernels.db";
  Ran extracted = run("extract m.onnx --nodes --json -o specs.json");
  ASSERT_EQ(extracted.code, 0) << extracted.err;
  EXPECT_EQ(extracted.json()["results"].size(), 5u) << extracted.out;
  EXPECT_EQ(extracted.json()["left_out"], Json::array());
  ASSERT_EQ(run("tune conv1d:n=1,l=8,ci=2,co=2,kernel=1 --trials 1 --threads 1 --quiet "
                "--db kernels.db")
                .code,
            0);
  Ran missing = shell(program);
  EXPECT_EQ(missing.code, 1);
  EXPECT_THAT(missing.err, HasSubstr("this makes it: tune-cli tune 'conv2d:n=2,h=8,w=8,ci=4"));
  Ran tuned = run("tune specs.json --trials 4 --threads 1 --quiet --db kernels.db");
  ASSERT_EQ(tuned.code, 0) << tuned.err;
  Ran ran = shell(program);
  EXPECT_EQ(ran.code, 0) << ran.out << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("5 kernels for 10 nodes; largest error "));
}

}  // namespace
}  // namespace tilewright::cli
