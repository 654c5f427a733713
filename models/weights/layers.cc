#include "models/weights/layers.h"

#include <fmt/format.h>

#include <array>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "base/files.h"
#include "models/weights/schemes.h"
#include "runtime/error.h"

namespace tilewright::weights {
namespace {

// A format that shares its marker with one after it comes first: it looks whether it is meant.
constexpr std::array kSchemes = {&kAwq, &kGptq, &kCompressedTensors};

// The names of everything that looks like a layer, in the order of the file.
std::vector<std::string> candidates(const TensorFile& file) {
  std::vector<std::string> names;
  std::set<std::string> known;
  for (const StoredTensor& t : file.tensors()) {
    std::string name;
    if (file.format() == TensorFile::Format::Gguf) {
      if (is_block_format(t.type->name)) name = t.name;
    } else {
      for (const Scheme* scheme : kSchemes) {
        if (t.name.size() > scheme->marker.size() && t.name.ends_with(scheme->marker)) {
          name = t.name.substr(0, t.name.size() - scheme->marker.size());
        }
      }
    }
    if (!name.empty() && known.insert(name).second) names.push_back(name);
  }
  return names;
}

}  // namespace

std::string Layer::spec_keys() const {
  std::string keys = fmt::format("w.dtype={},w.group={},w.scale={}", to_string(dtype),
                                 groups == 1 ? -1 : group, to_string(scale));
  switch (zeros) {
    case Zeros::None: break;
    case Zeros::Integers: keys += ",w.zero=" + to_string(dtype); break;
    case Zeros::Offsets: keys += ",w.offset=" + to_string(scale); break;
  }
  return keys;
}

std::optional<Layer> find_layer(const TensorFile& file, const std::string& name) {
  if (file.format() == TensorFile::Format::Gguf) {
    const StoredTensor* tensor = file.find(name);
    if (tensor == nullptr || !is_block_format(tensor->type->name)) return std::nullopt;
    return describe_blocks(file, *tensor);
  }
  for (const Scheme* scheme : kSchemes) {
    if (file.find(name + std::string(scheme->marker)) == nullptr) continue;
    std::optional<Layer> layer = scheme->describe(file, name);
    if (!layer) continue;
    layer->scheme = scheme;
    return layer;
  }
  return std::nullopt;
}

QuantizedWeight read_layer(const TensorFile& file, const Layer& layer, const LayerOptions& options,
                           const std::string& operand) {
  if (layer.scheme == nullptr) return read_blocks(file, layer, operand);
  return layer.scheme->read(file, layer, options, operand);
}

std::vector<LayerEntry> list_layers(const TensorFile& file) {
  std::vector<LayerEntry> entries;
  for (const std::string& name : candidates(file)) {
    LayerEntry entry{name, std::nullopt, ""};
    try {
      entry.layer = find_layer(file, name);
    } catch (const FileError& e) {
      entry.problem = e.what();
    }
    entries.push_back(std::move(entry));
  }
  return entries;
}

GptqZeros gptq_zeros_beside(const std::string& model_path) {
  std::filesystem::path folder = std::filesystem::path(model_path).parent_path();
  for (const char* name : {"quantize_config.json", "config.json"}) {
    std::string path = (folder / name).string();
    std::optional<std::string> text = read_file(path);
    if (!text) continue;
    nlohmann::json config = nlohmann::json::parse(*text, nullptr, false);
    if (config.is_discarded()) throw FileError(path + ": is no JSON");
    if (config.is_object() && config.contains("quantization_config")) {
      nlohmann::json inner = config["quantization_config"];
      config = std::move(inner);
    }
    if (!config.is_object() || !config.contains("checkpoint_format")) continue;
    return config["checkpoint_format"] == "gptq_v2" ? GptqZeros::AsTheyAre : GptqZeros::LessOne;
  }
  return GptqZeros::LessOne;
}

LayerOptions layer_options(const TensorFile& file, const Layer& layer,
                           const std::string& gptq_format) {
  if (layer.format != "gptq") return {};
  if (gptq_format.empty()) return {gptq_zeros_beside(file.path())};
  return {gptq_format == "gptq_v2" ? GptqZeros::AsTheyAre : GptqZeros::LessOne};
}

}  // namespace tilewright::weights
