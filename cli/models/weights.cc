// tune-cli weights: what a safetensors or GGUF file holds.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/output/table.h"
#include "models/weights/gguf.h"
#include "models/weights/layers.h"
#include "models/weights/mapped_file.h"
#include "runtime/error.h"

namespace tilewright::cli {
namespace {

using Json = nlohmann::ordered_json;
using weights::Layer;
using weights::LayerEntry;
using weights::StoredTensor;
using weights::TensorFile;

struct WeightsArguments {
  CommonOptions common;
  std::string file;
};

Json tensor_json(const TensorFile& file, const StoredTensor& t) {
  return {{"name", t.name},   {"file", file.path_of(t)}, {"type", t.type->name},
          {"shape", t.shape}, {"offset", t.offset},      {"bytes", t.bytes}};
}

const char* name_of(weights::Zeros zeros) {
  switch (zeros) {
    case weights::Zeros::None: return "none";
    case weights::Zeros::Integers: return "integers";
    case weights::Zeros::Offsets: return "offsets";
  }
  return "";
}

Json layer_json(const LayerEntry& entry) {
  if (!entry.layer) return {{"name", entry.name}, {"problem", entry.problem}};
  const Layer& l = *entry.layer;
  Json json = {{"name", l.name},
               {"format", l.format},
               {"bits", l.bits},
               {"k", l.k},
               {"n", l.n},
               {"group", l.group},
               {"groups", l.groups},
               {"dtype", to_string(l.dtype)},
               {"scale", to_string(l.scale)},
               {"zeros", name_of(l.zeros)},
               {"act_order", !l.group_of_row.empty()}};
  json["w"] = l.spec_keys();
  return json;
}

std::string layer_text(const Layer& l) {
  std::string text =
      fmt::format("{}, {} bits, k={} n={}, groups of {}", l.format, l.bits, l.k, l.n, l.group);
  if (!l.group_of_row.empty()) text += ", act-order";
  return text + "; " + l.spec_keys();
}

void print(const TensorFile& file, const std::vector<LayerEntry>& layers) {
  uint64_t bytes = 0;
  for (const StoredTensor& t : file.tensors()) bytes += t.bytes;
  fmt::print("{}: {}, {}{} tensors, {} bytes\n", file.path(), to_string(file.format()),
             file.files() == 1 ? "" : fmt::format("{} files, ", file.files()),
             file.tensors().size(), bytes);
  const size_t columns = terminal_width(STDOUT_FILENO);
  Table table({"tensor", "type", "shape", "bytes"});
  for (const StoredTensor& t : file.tensors()) {
    table.row(
        {t.name, std::string(t.type->name), describe_shape(t.shape), std::to_string(t.bytes)});
  }
  fmt::print("{}", table.text(columns));
  if (!layers.empty()) fmt::print("{} quantized layers\n", layers.size());
  for (const LayerEntry& entry : layers) {
    const std::string text =
        entry.layer ? layer_text(*entry.layer) : "cannot be read: " + entry.problem;
    fmt::print("  {}\n    {}\n", entry.name, wrapped(text, columns - 4, 4));
  }
}

// A file of another kind is told from a damaged one.
TensorFile open_file(const std::string& path) {
  try {
    return TensorFile::open(path);
  } catch (const FileError& e) {
    const weights::MappedFile file(path);  // says itself that there is none
    const std::string what = e.what();
    const bool named = path.ends_with(".safetensors") || path.ends_with(".gguf") ||
                       path.ends_with(".json") || file.bytes().starts_with(weights::kGgufMagic);
    if (named && !what.starts_with(path + ": byte 0:")) throw;
    throw FileError(
        path + ": not a safetensors or GGUF file" + what.substr(path.size()) +
        (path.ends_with(".onnx") ? "; 'tune-cli extract " + path + "' reads ONNX models" : ""));
  }
}

int run_weights(const WeightsArguments& a) {
  TensorFile file = open_file(a.file);
  std::vector<LayerEntry> layers = list_layers(file);
  if (!a.common.json) {
    print(file, layers);
    return kDone;
  }
  Json tensors = Json::array(), layer_list = Json::array();
  for (const StoredTensor& t : file.tensors()) tensors.push_back(tensor_json(file, t));
  for (const LayerEntry& entry : layers) layer_list.push_back(layer_json(entry));
  print_json({{"file", file.path()},
              {"format", to_string(file.format())},
              {"metadata", file.metadata()},
              {"tensors", tensors},
              {"layers", layer_list}});
  return kDone;
}

}  // namespace

void add_weights(CLI::App& app, Runners& runners) {
  auto a = std::make_shared<WeightsArguments>();
  CLI::App* sub =
      app.add_subcommand("weights", "Lists the tensors and quantized layers of a model's file");
  add_common(*sub, a->common, {.specs = false, .db = false, .target = false, .threads = false});
  sub->add_option("file", a->file,
                  "safetensors or GGUF file, or the index of several safetensors files")
      ->required();
  sub->footer("Example:\n  tune-cli weights model.safetensors --json");
  runners["weights"] = [a] { return run_weights(*a); };
}

}  // namespace tilewright::cli
