// ONNX models: the bytes, the inferred shapes and types of values, and the layers found in the
// graph.
#include "ir/ops/spec.h"
#include "models/onnx/layers.h"
#include "models/onnx/values.h"
#include "runtime/error.h"
#include "tests/cli/models/onnx_file.h"
#include "tests/fuzz/fuzz_target.h"

namespace tilewright::fuzz {

std::vector<std::string> seed_inputs() {
  using namespace tilewright::test;
  OnnxFile product, image, rows;
  product.input("x", {2, 4}).weight("w", {4, 3}).weight("b", {3});
  product.node("MatMul", {"x", "w"}, {"p"}).node("Add", {"p", "b"}, {"s"});
  product.node("Relu", {"s"}, {"y"}).output("y");
  image.input("x", {1, 2, 5, 5}).weight("w", {3, 2, 3, 3});
  image.node("Conv", {"x", "w"}, {"c"}, {wholes("pads", {1, 1, 1, 1}), wholes("strides", {2, 2})});
  image.node("GlobalAveragePool", {"c"}, {"g"}).integers("shape", {1, 3});
  image.node("Reshape", {"g", "shape"}, {"y"}).output("y");
  rows.input("x", {OnnxSize("n"), 8}).weight("g", {8});
  rows.node("Softmax", {"x"}, {"s"}, {whole("axis", -1)});
  rows.node("LayerNormalization", {"s", "g"}, {"y"}, {real("epsilon", 1e-5f)}).output("y");
  return {product.bytes(), image.bytes(), rows.bytes()};
}

}  // namespace tilewright::fuzz

using namespace tilewright;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    onnx::Model model = onnx::read_model(fuzz::text_of(data, size), "fuzz.onnx");
    onnx::Values values(model, {{"n", {1, 16}}});
    onnx::Graph graph(model, values);
    for (const onnx::Layer& layer : find_layers(graph, {}).layers) parse_workload(layer.spec);
  } catch (const SpecError&) {
    fuzz::require(false, "a layer has a spec that does not parse");
  } catch (const Error&) {  // FileError, and sizes that the caller must give
  }
  return 0;
}
