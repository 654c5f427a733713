#include "provider/provider.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "provider/hits.h"

namespace tilewright::provider {
namespace {

// The runtime calls plain functions with the table that it was given.
Provider& provider_of(ort::Ep* ep) { return *static_cast<Provider*>(ep); }

struct Computed : ort::ComputeInfo {
  Computed(const Runtime& used, std::shared_ptr<Runner> own)
      : runtime(used), runner(std::move(own)) {
    version = ort::kVersion;
    create_state = [](ort::ComputeInfo* self, ort::ComputeContext*, void** state) -> ort::Status* {
      *state = static_cast<Computed*>(self)->runner.get();
      return nullptr;
    };
    compute = [](ort::ComputeInfo* self, void* state, ort::KernelContext* context) {
      return static_cast<Computed*>(self)->runtime.guarded(
          [&] { static_cast<Runner*>(state)->compute(context); });
    };
    release_state = [](ort::ComputeInfo*, void*) {};
  }
  const Runtime& runtime;
  std::shared_ptr<Runner> runner;
};

std::vector<std::string> names_of(const Runtime& runtime,
                                  const std::vector<const ort::ValueInfo*>& infos) {
  std::vector<std::string> names;
  for (const auto* info : infos) {
    const char* name =
        info == nullptr ? nullptr : runtime.get<ort::GetValueInfoName, const char*>(info);
    names.emplace_back(name == nullptr ? "" : name);
  }
  return names;
}
template <class Count, class Items>
std::vector<std::string> values_of(const Runtime& runtime, const ort::Node* node) {
  std::vector<const ort::ValueInfo*> infos(runtime.get<Count, size_t>(node));
  if (!infos.empty()) runtime.checked<Items>(node, infos.data(), infos.size());
  return names_of(runtime, infos);
}

// Why a file does not stand for a region, or "".
std::string misfit(const GraphView& graph, const Region& region, const Runner& runner) {
  const auto check = [&](const Port& port, const std::vector<std::string>& names,
                         const char* what) -> std::string {
    const std::string name = std::string(what) + " '" + port.name + "'";
    if (std::ranges::find(names, port.name) == names.end())
      return "it has " + name + ", which the nodes do not have";
    const ValueType type = graph.type(port.name);
    std::optional<DLDataType> elem = dl_type(type.elem);
    if (elem && elem->code == kDLBool) elem->code = kDLUInt;  // truth values are bytes
    if (!elem || elem->code != port.dtype.code || elem->bits != port.dtype.bits)
      return name + " has another type";
    if (!type.has_shape) return "";
    bool fits = type.sizes.size() == port.most.size();
    for (size_t d = 0; fits && d < type.sizes.size(); ++d) {
      fits = type.sizes[d] < 0 || (port.least[d] <= type.sizes[d] && type.sizes[d] <= port.most[d]);
    }
    if (fits) return "";
    return name + " is " + describe(type.sizes, type.sizes) + "; it takes " +
           describe(port.least, port.most);
  };
  for (const Port& port : runner.inputs()) {
    if (std::string why = check(port, region.inputs, "input"); !why.empty()) return why;
  }
  for (const Port& port : runner.outputs()) {
    if (std::string why = check(port, region.outputs, "output"); !why.empty()) return why;
  }
  for (const std::string& output : region.outputs) {
    if (std::ranges::find(runner.outputs(), output, &Port::name) == runner.outputs().end()) {
      return "it lacks output '" + output + "'";
    }
  }
  return "";
}

// A trial times for so long at least: graphs have many nodes.
constexpr double kRegionSeconds = 0.3;
constexpr double kNodeSeconds = 0.05;

// Whether runs may have sizes that the file does not have.
bool is_narrower(const GraphView& graph, const Region& region) {
  return std::ranges::any_of(region.inputs, [&](const std::string& input) {
    const ValueType type = graph.type(input);
    return !type.has_shape ||
           std::ranges::any_of(type.sizes, [](int64_t size) { return size < 0; });
  });
}

// In one rename, so that nobody reads half of it.
void write_file(const std::string& path, const Rope& content) {
  const std::string part = path + ".part";
  std::ofstream file(part, std::ios::binary);
  content.each([&](const void* data, size_t bytes) {
    file.write(static_cast<const char*>(data), static_cast<std::streamsize>(bytes));
  });
  file.close();
  std::error_code failed;
  if (file) std::filesystem::rename(part, path, failed);
  if (!file || failed) throw ProviderError("option dump: cannot write " + path);
}

}  // namespace

Provider::Provider(const Runtime& runtime, const ort::Logger* logger, Options options)
    : ort::Ep{}, runtime_(runtime), logger_(logger), options_(std::move(options)) {
  version = ort::kVersion;
  name = [](const ort::Ep*) { return kProviderName; };
  get_capability = [](ort::Ep* self, const ort::Graph* graph, ort::Support* support) {
    return provider_of(self).runtime_.guarded(
        [&] { provider_of(self).find_capability(graph, support); });
  };
  ort::Ep::compile = [](ort::Ep* self, const ort::Graph** graphs, const ort::Node** fused,
                        size_t count, ort::ComputeInfo** infos, ort::Node** context_nodes) {
    return provider_of(self).runtime_.guarded([&] {
      for (size_t i = 0; i < count; ++i) {
        infos[i] = provider_of(self).compile(
            graphs[i], fused[i], context_nodes == nullptr ? nullptr : context_nodes + i);
      }
    });
  };
  release_compute_infos = [](ort::Ep*, ort::ComputeInfo** infos, size_t count) {
    for (size_t i = 0; i < count; ++i) delete static_cast<Computed*>(infos[i]);
  };
}

Runner::Log Provider::log_lines() const {
  return [this](const std::string& line) { log(ort::kInfo, "Tilewright: " + line); };
}

std::string Provider::model_file(const std::string& digest) const {
  return options_.models + "/" + digest + ".tw";
}

void Provider::find_capability(const ort::Graph* graph, ort::Support* support) {
  // Graphs within nodes stay with their nodes.
  if (runtime_.get<ort::GetParentNode, const ort::Node*>(graph) != nullptr) return;
  const GraphView view(runtime_, graph);
  bool contexts = false;
  for (const NodeView& node : view.nodes()) {
    if (node.op != kContextOp || node.domain != kContextDomain) continue;
    if (text_attribute(runtime_, node.node, "source") != kProviderName) continue;
    claim_context(view, graph, node, support);
    contexts = true;
  }
  if (contexts) return;
  if (options_.models.empty() && options_.database.empty() && options_.dump.empty()) {
    log(ort::kWarning,
        "Tilewright: no node is claimed, since none of the options models=FOLDER (of model "
        "files), database=FILE (of kernels) and "
        "dump=FOLDER (to write what could be compiled) is set");
    return;
  }
  const std::vector<Region> regions = regions_of(view, options_.excluded);
  if (regions.empty()) {
    log(ort::kWarning, "Tilewright: no node is claimed, since the graph has none that it could be");
    return;
  }
  if (!options_.models.empty() || !options_.dump.empty()) claim_files(view, regions, support);
  if (!options_.database.empty() && claims_.empty()) claim_hits(view, support);
}

void Provider::claim_files(const GraphView& view, const std::vector<Region>& regions,
                           ort::Support* support) {
  std::vector<Left> left;
  size_t alone = 0;
  for (const Region& region : regions) {
    Refusal refused = refusal(view, region, kRegionSeconds, support);
    if (refused.empty()) continue;
    const size_t claimed = claim_nodes(view, region, support);
    alone += claimed;
    if (!dump(view, region)) left.push_back({region.nodes.size() - claimed, std::move(refused)});
  }
  if (!options_.database.empty() && claims_.empty()) {
    std::erase_if(left,
                  [](const Left& one) { return one.refused.missing; });  // its line comes next
  }
  log(ort::kInfo, "Tilewright: claimed " + std::to_string(claims_.size() - alone) + " of " +
                      std::to_string(regions.size()) + " regions, and " + std::to_string(alone) +
                      " nodes alone");
  explain(left, alone);
}

size_t Provider::claim_nodes(const GraphView& graph, const Region& region, ort::Support* support) {
  if (region.nodes.size() == 1) return 0;
  size_t claimed = 0;
  for (const Region& node : nodes_of(graph, region)) {
    // A node of open sizes would need a session of the CPU provider for its other sizes.
    const bool fits = !is_narrower(graph, node) || !options_.fallback;
    if (fits && refusal(graph, node, kNodeSeconds, support).empty()) ++claimed;
  }
  return claimed;
}

void Provider::explain(const std::vector<Left>& left, size_t alone) const {
  // Regions without files get one line together.
  const Left* largest = nullptr;
  size_t missing = 0, nodes = 0;
  const auto line = [&](size_t count, const std::string& why) {
    log(ort::kWarning,
        "Tilewright: " + std::to_string(count) + " nodes run as before, since " + why);
  };
  for (const Left& one : left) {
    if (!one.refused.missing) {
      line(one.nodes, one.refused.why);
      continue;
    }
    ++missing;
    nodes += one.nodes;
    if (largest == nullptr || one.nodes > largest->nodes) largest = &one;
  }
  if (largest == nullptr) return;
  std::string why = largest->refused.why;
  if (missing > 1) why += ", and no files of " + std::to_string(missing - 1) + " smaller regions";
  if (alone > 0) why += " (" + std::to_string(alone) + " others are claimed alone)";
  line(nodes, why + "; the option dump=FOLDER writes what tune-cli compiles to it");
}

void Provider::claim_hits(const GraphView& graph, ort::Support* support) {
  Hits hits;
  try {
    if (options_.writes_context) {
      throw ProviderError("a model with nodes EPContext names model files; expected models=FOLDER");
    }
    hits = find_hits(graph, options_);
  } catch (const ProviderError& e) {
    hits.why = std::string("option database: ") + e.what();
  }
  std::erase_if(hits.parts, [&](const Part& part) {
    const std::string why = misfit(graph, part.region, *part.runner);
    if (!why.empty()) hits.why = part.runner->path() + " does not fit: " + why;
    return !why.empty();
  });
  if (options_.trial) keep_winners(graph, options_, hits);
  size_t claimed = 0;
  for (const Part& part : hits.parts) {
    claim(part.region, part.runner, support);
    claimed += part.region.nodes.size();
  }
  const auto nodes = [](size_t count) { return std::to_string(count) + " nodes"; };
  log(ort::kInfo, "Tilewright: claimed " + std::to_string(hits.parts.size()) + " parts with " +
                      nodes(claimed) + " for hits of " + options_.database +
                      (hits.ratio ? ", with which the graph takes " + percent(*hits.ratio) +
                                        " of the CPU provider's time"
                                  : ""));
  if (hits.why.empty()) return;
  log(ort::kWarning, "Tilewright: " + nodes(graph.nodes().size() - claimed) +
                         " run as before, since " + hits.why.substr(0, hits.why.find('\n')));
}

void Provider::claim_context(const GraphView& graph, const ort::Graph* owner, const NodeView& node,
                             ort::Support* support) {
  std::filesystem::path path = text_attribute(runtime_, node.node, "ep_cache_context");
  std::shared_ptr<Runner> runner = Lending::find(path);
  if (runner == nullptr && path.is_relative()) {
    const std::filesystem::path model = runtime_.get<ort::GetModelPath, const char*>(owner);
    path = model.parent_path() / path;
  }
  Region region;
  region.nodes = {&node};
  region.inputs = node.inputs;
  region.outputs = node.outputs;
  if (runner == nullptr) {
    runner = std::make_shared<Runner>(runtime_, path.string(), options_, log_lines());
  }
  if (const std::string why = misfit(graph, region, *runner); !why.empty()) {
    throw ProviderError(path.string() + " does not fit the node '" + node.name + "': " + why);
  }
  claim(region, std::move(runner), support);
}

Provider::Refusal Provider::judge(const std::string& path, const Verdict& verdict,
                                  bool part) const {
  if (verdict.late) return {path + " was not tried: " + late_text(options_)};
  if (!verdict.failure.empty()) return {path + " fails in a trial: " + verdict.failure};
  if (!verdict.problem.empty()) {
    log(ort::kInfo, "Tilewright: no trial of " + path + ": " + verdict.problem);
    return {};
  }
  if (verdict.difference > options_.tolerance) {
    std::array<char, 32> share{};
    std::snprintf(share.data(), share.size(), "%.2g", verdict.difference);
    return {path + " has outputs that differ from the CPU provider's by " + share.data() +
            " of their largest magnitude; the option tolerance allows more"};
  }
  const std::string time =
      path + " takes " + percent(verdict.ratio) + " of the CPU provider's time";
  const double most = most_time(part);
  if (verdict.ratio > most) {
    const std::string limit =
        part ? ", of which a part of a graph takes " + percent(most) + " at most" : "";
    return {time + " here" + limit +
            "; tune it longer (tune-cli compile --time), or set the option trial=0"};
  }
  log(ort::kInfo, "Tilewright: " + time);
  return {};
}

Provider::Refusal Provider::refusal(const GraphView& graph, const Region& region, double seconds,
                                    ort::Support* support) {
  const Rope onnx = onnx_of(graph, region);
  const std::string path = model_file(digest_of(onnx));
  if (options_.models.empty() || !std::filesystem::exists(path)) {
    return {"there is no " + path, true};
  }
  std::shared_ptr<Runner> runner;
  try {
    runner = std::make_shared<Runner>(runtime_, path, options_, log_lines());
  } catch (const ProviderError& e) {
    return {path + " cannot serve: " + e.what()};
  }
  if (const std::string why = misfit(graph, region, *runner); !why.empty()) {
    return {path + " does not fit: " + why};
  }
  const bool narrower = is_narrower(graph, region) && options_.fallback;
  if (options_.trial) {
    Refusal refused = judge(path, verdict_on(graph, region, onnx, runner, options_, seconds),
                            is_part(graph, region));
    if (!refused.empty()) return refused;
  }
  if (narrower) {
    runner->set_fallback(
        std::make_unique<InnerSession>(runtime_, onnx.text(), options_.threads,
                                       InnerSession::Names{region.inputs, region.outputs}));
  }
  claim(region, std::move(runner), support);
  return {};
}

void Provider::claim(const Region& region, std::shared_ptr<Runner> runner, ort::Support* support) {
  std::vector<const ort::Node*> nodes;
  for (const NodeView* node : region.nodes) nodes.push_back(node->node);
  const ort::FusionOptions fusion{ort::kVersion, true};
  const ort::EpApi* api = runtime_.plain<ort::GetEpApi>();
  runtime_.check(ort::call<ort::AddNodesToFuse>(api, support, nodes.data(), nodes.size(), &fusion));
  claims_.push_back({region.outputs, std::move(runner)});
}

bool Provider::dump(const GraphView& graph, const Region& region) const {
  if (options_.dump.empty()) return false;
  if (!options_.alone || region.nodes.size() == 1) return write_region(graph, region);
  size_t written = 0;
  for (const Region& node : nodes_of(graph, region)) written += write_region(graph, node) ? 1 : 0;
  return written > 0;
}

bool Provider::write_region(const GraphView& graph, const Region& region) const {
  const Rope onnx = onnx_of(graph, region);
  const std::string digest = digest_of(onnx);
  if (!options_.models.empty() && std::filesystem::exists(model_file(digest))) {
    return false;
  }
  std::filesystem::create_directories(options_.dump);
  const std::string path = options_.dump + "/" + digest + ".onnx";
  if (onnx.bytes() > size_t{1} << 31) {
    log(ort::kWarning, "Tilewright: " + std::to_string(region.nodes.size()) +
                           " nodes with constants have " + std::to_string(onnx.bytes()) +
                           " bytes; ONNX files have at most 2 GiB");
    return true;
  }
  if (!std::filesystem::exists(path)) write_file(path, onnx);
  if (is_part(graph, region)) write_file(options_.dump + "/" + digest + ".part", {});
  std::string dims;
  for (const std::string& input : region.inputs) {
    const ValueType type = graph.type(input);
    for (size_t d = 0; d < type.sizes.size(); ++d) {
      if (type.sizes[d] >= 0) continue;
      const bool unnamed = type.names[d].empty() || type.names[d] == "?";
      const std::string name = unnamed ? input + "." + std::to_string(d) : type.names[d];
      const std::string option = " --dim '" + name + "=SIZE'";
      if (dims.find(option) == std::string::npos) dims += option;
    }
  }
  const std::string models = options_.models.empty() ? "MODELS" : options_.models;
  log(ort::kWarning, "Tilewright: " + std::to_string(region.nodes.size()) +
                         " nodes can be compiled: tune-cli compile " + path + " -o " + models +
                         "/" + digest + ".tw" + dims);
  return true;
}

ort::ComputeInfo* Provider::compile(const ort::Graph* graph, const ort::Node* fused,
                                    ort::Node** context) {
  const auto inputs = values_of<ort::NodeNumInputs, ort::NodeInputs>(runtime_, fused);
  const auto outputs = values_of<ort::NodeNumOutputs, ort::NodeOutputs>(runtime_, fused);
  const auto claim = std::ranges::find_if(claims_, [&](const Claim& c) {
    return c.runner != nullptr && std::ranges::find(c.outputs, outputs.at(0)) != c.outputs.end();
  });
  if (claim == claims_.end())
    throw ProviderError("the runtime compiles nodes that were not claimed");
  claim->runner->bind(inputs, outputs);
  if (options_.writes_context && context != nullptr)
    *context = context_node(graph, fused, *claim->runner);
  return new Computed(runtime_, std::move(claim->runner));
}

ort::Node* Provider::context_node(const ort::Graph* graph, const ort::Node* fused,
                                  const Runner& runner) const {
  // By its path from the folder of the model that is written.
  std::filesystem::path model = options_.context_path;
  if (model.empty()) model = runtime_.get<ort::GetModelPath, const char*>(graph);
  const std::filesystem::path folder = std::filesystem::absolute(model).parent_path();
  const std::string path =
      std::filesystem::proximate(std::filesystem::absolute(runner.path()), folder).string();
  std::vector<OwnedAttribute> owned;
  const auto add = [&](const char* key, const void* data, size_t bytes, ort::AttributeType type) {
    OwnedAttribute attribute(runtime_);
    runtime_.checked<ort::CreateAttribute>(key, data, static_cast<int>(bytes), type,
                                           attribute.out());
    owned.push_back(std::move(attribute));
  };
  const int64_t main = 1, embedded = 0;
  add("main_context", &main, 1, ort::kInt);
  add("embed_mode", &embedded, 1, ort::kInt);
  add("ep_cache_context", path.data(), path.size(), ort::kString);
  add("source", kProviderName, std::char_traits<char>::length(kProviderName), ort::kString);
  std::vector<ort::Attribute*> attributes;
  // The runtime copies them, and releases what it copied.
  for (OwnedAttribute& attribute : owned) attributes.push_back(attribute.release());
  std::vector<const char*> inputs, outputs;
  for (const Port& port : runner.inputs()) inputs.push_back(port.name.c_str());
  for (const Port& port : runner.outputs()) outputs.push_back(port.name.c_str());
  const char* name = runtime_.get<ort::NodeName, const char*>(fused);
  ort::Node* node = nullptr;
  runtime_.check(ort::call<ort::CreateNode>(
      runtime_.plain<ort::GetEditorApi>(), kContextOp, kContextDomain, name, inputs.data(),
      inputs.size(), outputs.data(), outputs.size(), attributes.data(), attributes.size(), &node));
  return node;
}

}  // namespace tilewright::provider
