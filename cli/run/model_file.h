// Model files, as 'run', 'explain', 'export', 'bench' and 'report' take them in the place of a spec.
#pragma once

#include <string>
#include <vector>

#include "cli/command.h"

namespace tilewright::cli {

// Whether the only argument names a model file: it ends in ".tw", or is a file that serves.
bool names_model(const CommonOptions& options);
// Throws UsageError, with the command that makes the file, where there is none.
void require_model_file(const std::string& path);
// Throws UsageError for one of these options, which say nothing of a model file.
void refuse_of_model(const CLI::App& command, const std::vector<std::string>& options);
// Runs the model on NAME=FILE.npy and writes NAME=FILE.npy; both may be named by their order. The kernels of a
// CUDA target run in the emulator where `emulate` says so.
int run_model(const CommonOptions& options, const std::vector<std::string>& in,
              const std::vector<std::string>& out, bool emulate);
// The specs of the model's workloads, each once.
std::vector<std::string> workloads_of_model(const CommonOptions& options);
// The cause that a node's time is counted under: "product", "attention", "movement".
std::string cause_of(const std::string& inline_spec);
// Time by node and by cause, on zeros; of kernels for a GPU that is not here, what the model expects.
int explain_model(const CommonOptions& options);

}  // namespace tilewright::cli
