// Graphs of small ONNX models.
#pragma once

#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "graph/import_onnx.h"
#include "graph/interpret.h"
#include "tests/cli/models/onnx_file.h"

namespace tilewright::graph {

inline Bytes elements(const std::vector<float>& values) {
  return std::make_shared<std::string>(reinterpret_cast<const char*>(values.data()),
                                       values.size() * sizeof(float));
}

// Codes of a byte each.
inline std::string byte_text(const std::vector<int>& values) {
  return {values.begin(), values.end()};
}

inline Graph imported(const test::OnnxFile& file,
                      const std::map<std::string, DimSize>& sizes = {}) {
  const std::string bytes = file.bytes();
  const onnx::Model model = onnx::read_model(bytes, "m.onnx");
  Graph graph = import_onnx(model, sizes);
  verify(graph);
  return graph;
}

inline std::vector<float> run(const test::OnnxFile& file,
                              const std::map<std::string, Bytes>& inputs) {
  Graph graph = imported(file);
  fold_constants(&graph);
  verify(graph);
  const Bytes out = interpret(graph, inputs)[0];
  std::vector<float> values(out->size() / sizeof(float));
  std::memcpy(values.data(), out->data(), out->size());
  return values;
}

inline std::string import_refusal(const test::OnnxFile& file,
                                  const std::map<std::string, DimSize>& sizes = {}) {
  try {
    imported(file, sizes);
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

}  // namespace tilewright::graph
