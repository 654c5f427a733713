// The result of `extract` on a model that a test writes.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "cli/command.h"
#include "cli/models/extract.h"
#include "tests/cli/models/onnx_file.h"

namespace tilewright::test {

using Dims = std::map<std::string, DimSize>;

inline constexpr const char* kMicrosoft = "com.microsoft";

inline cli::ModelWorkloads extracted(const OnnxFile& file, const Dims& dims = {},
                                     const onnx::LayerOptions& options = {}) {
  const std::string bytes = file.bytes();
  return cli::model_workloads(onnx::read_model(bytes, "m.onnx"), dims, options);
}

// "2 softmax:m=4,n=8": counts and specs in inline form, in order.
inline std::vector<std::string> specs_of(const cli::ModelWorkloads& all) {
  std::vector<std::string> specs;
  for (const cli::ModelWorkload& w : all.workloads) {
    specs.push_back(std::to_string(w.count) + " " +
                    spec_to_inline(parse_spec(w.workload.canonical)));
  }
  return specs;
}

inline std::vector<std::string> specs(const OnnxFile& file, const Dims& dims = {},
                                      const onnx::LayerOptions& options = {}) {
  return specs_of(extracted(file, dims, options));
}

// Why the only node of a model has no spec.
inline std::string reason(const OnnxFile& file, const Dims& dims = {}) {
  try {
    cli::ModelWorkloads all = extracted(file, dims);
    return all.left_out.empty() ? "" : all.left_out[0].reason;
  } catch (const UsageError& e) {
    const std::string what = e.what();
    return what.substr(what.find("): ") + 3);
  }
}

}  // namespace tilewright::test
