// Prints what is inferred of a model's values, to be compared with other programs' inference: a line a
// value, NAME<TAB>SIZES, of those whose sizes are all numbers.
//   onnx_shapes MODEL.onnx [NAME=SIZE]…
#include <fmt/format.h>

#include <cstdio>
#include <map>
#include <string>

#include "base/error.h"
#include "models/onnx/external.h"
#include "models/onnx/values.h"
#include "models/weights/mapped_file.h"

using namespace tilewright;

namespace {

void print(const onnx::Values& values, const std::string& name) {
  const onnx::Value& value = values.at(name);
  if (name.empty() || !value.shape) return;
  std::string sizes;
  for (const onnx::Extent& e : *value.shape) {
    if (!e.fixed()) return;
    sizes += fmt::format(" {}", e.number());
  }
  fmt::print("{}\t{}\n", name, sizes);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  try {
    std::map<std::string, DimSize> dims;
    for (int i = 2; i < argc; ++i) {
      const std::string text = argv[i];
      const size_t equals = text.rfind('=');
      const int64_t size = std::stoll(text.substr(equals + 1));
      dims[text.substr(0, equals)] = {size, size};
    }
    weights::MappedFile file(argv[1]);
    onnx::Model model = onnx::read_model(file.bytes(), argv[1]);
    const onnx::ExternalData constants(model);
    const onnx::Values values(model, dims);
    for (const onnx::Node& node : model.nodes) {
      for (const std::string& output : node.outputs) print(values, output);
    }
  } catch (const Error& e) {
    fmt::print(stderr, "{}\n", e.what());
    return 1;
  }
  return 0;
}
