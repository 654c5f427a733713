// tune-cli bench of a model file, beside programs that run whole models.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/command.h"

namespace tilewright::cli {

struct ModelBench {
  std::string onnx;                    // what the peers run
  std::vector<std::string> constants;  // inputs that the model file has as constants: "sr=16000"
  std::string peer_precision = "f32";  // or "default"
  std::string time = "10s";
  uint64_t seed = 0;
};

// Throws UsageError, with the commands that lead there, where the only argument names an ONNX file.
void refuse_onnx(const CommonOptions& options);
// Runs the model file in turns with the peers that are installed. Throws ToolchainError, with the command that
// installs them, where none is.
int bench_model(const CommonOptions& options, const ModelBench& bench);

}  // namespace tilewright::cli
