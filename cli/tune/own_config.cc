#include "cli/tune/own_config.h"

#include <fmt/format.h>

#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "schedule/error.h"

namespace tilewright::cli {
namespace {

using SortedJson = nlohmann::json;

[[noreturn]] void refuse(const std::string& file, const std::string& what) {
  throw UsageError(fmt::format("{}: {}; 'tune-cli show SPEC --config' prints one", file, what));
}

std::vector<std::string> sketch_names() {
  std::vector<std::string> names = {default_sketch().name};
  for (const auto* sketches : {&cpu_sketches(), &cuda_sketches()}) {
    for (const Sketch& s : *sketches) names.push_back(s.name);
  }
  return names;
}

OwnConfig read_one(const SortedJson& json, const std::string& file) {
  if (!json.is_object() || !json.contains("config")) {
    refuse(file, "expected an object with the keys 'sketch' and 'config'");
  }
  const SortedJson *of = &json, *config = &json["config"];
  SortedJson printed;  // `show --config --json` gives what it prints as text
  if (config->is_string()) {
    printed = SortedJson::parse(config->get<std::string>(), nullptr, false);
    if (!printed.is_object() || !printed.contains("config")) refuse(file, "'config' is no object");
    of = &printed;
    config = &printed["config"];
  }
  if (!config->is_object()) refuse(file, "'config' is no object");
  const SortedJson named = of->value("sketch", SortedJson());
  const std::string name = named.is_string() ? named.get<std::string>() : "";
  const Sketch* sketch = find_sketch(name);
  if (sketch == nullptr) {
    refuse(file, fmt::format("'sketch': expected one of {}, got '{}'",
                             fmt::join(sketch_names(), ", "), name));
  }
  const SortedJson version = of->value("version", SortedJson(sketch->version));
  if (version != sketch->version) {
    refuse(file, fmt::format("made for version {} of sketch '{}'; this is version {}",
                             version.dump(), name, sketch->version));
  }
  std::string canonical;
  if (json.contains("spec") && json["spec"].is_string()) {
    canonical = parse_workload(json["spec"].get<std::string>()).canonical;
  }
  return {sketch, config->dump(), canonical};
}

}  // namespace

std::vector<OwnConfig> read_own_configs(const std::string& file) {
  std::ifstream in(file);
  if (!in) throw UsageError(file + ": the file of a config cannot be opened");
  const std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  const SortedJson json = SortedJson::parse(text, nullptr, false);
  if (json.is_discarded()) refuse(file, "no JSON document; expected a config");
  const SortedJson* list = json.is_object() && json.contains("results") ? &json["results"] : &json;
  std::vector<OwnConfig> configs;
  if (!list->is_array()) {
    configs.push_back(read_one(*list, file));
  } else {
    for (const SortedJson& item : *list) configs.push_back(read_one(item, file));
  }
  if (configs.empty()) refuse(file, "it holds no config");
  return configs;
}

void require_fitting(const OwnConfig& own, const std::string& file, const SketchInput& input) {
  try {
    Trial trial = Trial::replay(own.config);
    apply_sketch(*own.sketch, input, trial);
  } catch (const ScheduleError& e) {
    refuse(file, fmt::format("the config does not fit {}: {}",
                             spec_to_inline(parse_spec(input.workload.canonical)), e.what()));
  }
}

}  // namespace tilewright::cli
