// The inputs of a workload from the caller's files: --in of tune-cli run.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "ir/tensor_expr.h"
#include "runtime/tensor/operands.h"

namespace CLI {
class App;
}

namespace tilewright::cli {

struct InputArguments {
  std::vector<std::string> in;  // NAME=FILE.npy or NAME=FILE:TENSOR
  std::string gptq_format;      // "gptq" or "gptq_v2"; empty: what the files beside the model say
};
void add_inputs(CLI::App& app, InputArguments& arguments);

// Fills every input from its file; a quantized layer fills its scales and zero points along. Throws
// UsageError or FileError for names, shapes and types that do not fit.
void read_inputs(const Workload& workload, const InputArguments& arguments, OperandSet& operands);

// "A=a.npy" as ("A", "a.npy"). Throws UsageError that begins with the option and says `expected`.
std::pair<std::string, std::string> named_file(const std::string& text, const char* option,
                                               const char* expected);
// The names of the inputs or of the outputs: "A, B, bias".
std::string operand_names(const OperandSet& operands, bool outputs);
// The input or output of that name. Throws UsageError.
const OperandInfo& operand(const OperandSet& operands, const std::string& name, bool output,
                           const char* option);

}  // namespace tilewright::cli
