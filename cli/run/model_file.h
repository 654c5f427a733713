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
// Runs the model on NAME=FILE.npy and writes NAME=FILE.npy; both may be named by their order.
int run_model(const CommonOptions& options, const std::vector<std::string>& in,
              const std::vector<std::string>& out);
// The specs of the model's workloads, each once.
std::vector<std::string> workloads_of_model(const CommonOptions& options);
// Time by node and by cause, on zeros.
int explain_model(const CommonOptions& options);

}  // namespace tilewright::cli
