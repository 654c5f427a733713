#include "cli/run/run_inputs.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <map>
#include <set>

#include "cli/command.h"
#include "models/weights/fill_operands.h"
#include "models/weights/shard_index.h"
#include "runtime/tensor/npy.h"

namespace tilewright::cli {
namespace {

using weights::Layer;
using weights::TensorFile;

bool is_file(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::is_regular_file(path, ignored);
}

bool ends_like_weights(const std::string& path) {
  return path.ends_with(".safetensors") || path.ends_with(".gguf") || weights::is_shard_index(path);
}

// A NumPy file, or something in a file of weights.
struct Source {
  std::string file;
  std::string tensor;  // empty: the whole file
};

// Paths and names may have colons in them: the file is what exists.
Source source_of(const std::string& text) {
  if (is_file(text)) return {text, ""};
  for (bool exists : {true, false}) {
    for (size_t colon = text.find(':'); colon != std::string::npos;
         colon = text.find(':', colon + 1)) {
      std::string path = text.substr(0, colon);
      if (exists ? is_file(path) : ends_like_weights(path)) return {path, text.substr(colon + 1)};
    }
  }
  return {text, ""};
}

class Inputs {
 public:
  Inputs(const Workload& workload, const InputArguments& arguments, OperandSet& operands)
      : spec_(parse_spec(workload.canonical)), arguments_(arguments), operands_(operands) {}

  void read() {
    std::map<std::string, std::string> files = given();
    for (const OperandInfo& info : operands_.infos()) {
      if (info.role == ParamRole::Output || filled_.count(info.name) > 0) continue;
      auto it = files.find(info.name);
      if (it == files.end()) {
        throw UsageError(
            fmt::format("--in: operand '{}' is missing; expected a file for each of {}", info.name,
                        operand_names(operands_, false)));
      }
      read(info.name, it->second);
    }
    for (const auto& [name, file] : files) {
      auto from = filled_.find(name);
      if (from != filled_.end() && from->second != name) {
        throw UsageError(fmt::format(
            "--in: operand '{}' comes with the layer of '{}'; leave it out", name, from->second));
      }
    }
    if (!order_.empty()) weights::take_columns(&operands_.at("A"), order_);
  }

 private:
  std::map<std::string, std::string> given() {
    std::map<std::string, std::string> files;
    for (const std::string& text : arguments_.in) {
      auto [name, file] = named_file(text, "--in", "NAME=FILE.npy or NAME=FILE:TENSOR");
      operand(operands_, name, false, "--in");
      if (!files.emplace(name, file).second) {
        throw UsageError(fmt::format("--in: operand '{}' is given twice", name));
      }
    }
    return files;
  }

  void read(const std::string& name, const std::string& text) {
    Source source = source_of(text);
    if (source.tensor.empty() && !ends_like_weights(source.file)) {
      assign(&operands_.at(name), read_npy(source.file), source.file);
      return;
    }
    auto place = files_.find(source.file);
    if (place == files_.end()) {
      place = files_.emplace(source.file, TensorFile::open(source.file)).first;
    }
    read(name, place->second, source.tensor);
  }

  void read(const std::string& name, const TensorFile& file, const std::string& tensor) {
    const weights::StoredTensor* stored = file.find(tensor);
    if (stored != nullptr && stored->type->elem) {
      assign(&operands_.at(name), file.view(*stored), file.path() + ":" + tensor);
      return;
    }
    std::optional<Layer> layer = find_layer(file, tensor);
    if (layer) {
      read(name, file, *layer);
    } else if (stored != nullptr) {
      file.view(*stored);  // says why it cannot be read
    } else {
      throw UsageError(fmt::format(
          "--in {}: {}; tune-cli weights '{}' lists what there is", name,
          tensor.empty()
              ? fmt::format("expected {}:TENSOR", file.path())
              : fmt::format("{} has no tensor or quantized layer '{}'", file.path(), tensor),
          file.path()));
    }
  }

  void read(const std::string& name, const TensorFile& file, const Layer& layer) {
    bool factor = spec_.op == "matmul" && name == "B";
    weights::Filled filled = fill_operands(&operands_, name, file, layer,
                                           layer_options(file, layer, arguments_.gptq_format),
                                           factor && spec_.get<bool>("trans_b"));
    for (const std::string& part : filled.names) filled_[part] = name;
    if (filled.order.empty()) return;
    if (!factor || spec_.get<bool>("trans_a")) {
      throw UsageError(
          fmt::format("--in {}: {}:{} has its rows in act-order, which only B of a "
                      "matmul without trans_a may have; leave out the keys w.*",
                      name, file.path(), layer.name));
    }
    order_ = std::move(filled.order);
  }

  Spec spec_;
  const InputArguments& arguments_;
  OperandSet& operands_;
  std::map<std::string, TensorFile> files_;
  std::map<std::string, std::string> filled_;  // by a layer, and the operand that it was given for
  std::vector<int64_t> order_;                 // of the columns of A
};

}  // namespace

void add_inputs(CLI::App& app, InputArguments& a) {
  app.add_option("--in", a.in,
                 "NAME=FILE.npy, or NAME=FILE:TENSOR for a tensor or quantized layer of a "
                 "safetensors or GGUF file, or of an index of them; one for each input")
      ->take_all()
      ->allow_extra_args(false);
  app.add_option("--gptq-format", a.gptq_format,
                 "GPTQ zero points are stored minus one (gptq) or as they are (gptq_v2); default: "
                 "the model's configuration decides")
      ->check(CLI::IsMember({"gptq", "gptq_v2"}));
}

void read_inputs(const Workload& workload, const InputArguments& arguments, OperandSet& operands) {
  Inputs(workload, arguments, operands).read();
}

std::pair<std::string, std::string> named_file(const std::string& text, const char* option,
                                               const char* expected) {
  size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0 || equals + 1 == text.size()) {
    throw UsageError(fmt::format("{}: expected {}, got '{}'", option, expected, text));
  }
  return {text.substr(0, equals), text.substr(equals + 1)};
}

std::string operand_names(const OperandSet& operands, bool outputs) {
  std::string names;
  for (const OperandInfo& info : operands.infos()) {
    if ((info.role == ParamRole::Output) != outputs) continue;
    names += (names.empty() ? "" : ", ") + info.name;
  }
  return names;
}

const OperandInfo& operand(const OperandSet& operands, const std::string& name, bool output,
                           const char* option) {
  for (const OperandInfo& info : operands.infos()) {
    if (info.name == name && (info.role == ParamRole::Output) == output) return info;
  }
  throw UsageError(fmt::format("{}: there is no operand '{}'; expected {}", option, name,
                               operand_names(operands, output)));
}

}  // namespace tilewright::cli
