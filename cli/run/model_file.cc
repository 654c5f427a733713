#include "cli/run/model_file.h"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "cli/gpu.h"
#include "cli/output/table.h"
#include "cli/run/emulated_kernel.h"
#include "cli/run/model_tensors.h"
#include "cli/run/predicted_model.h"
#include "cli/run/run_inputs.h"
#include "database/serving.h"
#include "runtime/error.h"
#include "runtime/tensor/npy.h"
#include "runtime/thread_pool.h"
#include "serving/models/model.h"
#include "serving/models/stored_model.h"

namespace tilewright::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kProfiled = 15;  // runs, the median of which counts

size_t port_named(const std::vector<serving::Port>& ports, const std::string& name,
                  const char* option) {
  std::string names;
  for (size_t i = 0; i < ports.size(); ++i) {
    if (ports[i].name == name) return i;
    names += (i == 0 ? "" : ", ") + ports[i].name;
  }
  throw UsageError(fmt::format("{}: no '{}'; the model has {}", option, name, names));
}

// The target that the file was compiled for.
Target target_of(const CommonOptions& options) {
  require_model_file(options.specs[0]);
  return Target::parse(serving::StoredModel(options.specs[0], trust_of(options)).target());
}

serving::Model opened(const CommonOptions& options, const Target& target, bool emulate) {
  const std::string& path = options.specs[0];
  if (emulate && !target.is_cuda()) {
    throw UsageError(
        fmt::format("--emulate: expected a file for a CUDA target, as compile --target cuda:sm_90a "
                    "makes it; '{}' has kernels for CPUs",
                    path));
  }
  if (target.is_cuda() && !emulate) require_gpu(target);
  serving::ModelOptions own;
  if (emulate) own.emulate = load_emulated_kernel;
  own.threads = options.threads;
  own.log = [&options](const std::string& line) { note(options, line); };
  own.trust = trust_of(options);
  return {path, own};
}

}  // namespace

std::string cause_of(const std::string& inline_spec) {
  if (inline_spec.starts_with("plain ")) return "plain";
  const Spec spec = parse_spec(inline_spec);
  if (spec.op == "matmul" || spec.op.find("conv") != std::string::npos) return "product";
  if (spec.op != "expr") return spec.op == "reduce" ? "reduction" : spec.op;
  const auto text = spec.get<std::string>("expr");
  const bool normalizes = text.find("max=") != std::string::npos;
  if (text.find("+=") != std::string::npos) {
    if (text.find('*') == std::string::npos) return "reduction";
    return normalizes ? "attention" : "product";
  }
  if (normalizes || text.find("min=") != std::string::npos) return "reduction";
  const std::string value = text.substr(text.find('=') + 1);
  const bool computes =
      value.find('/') != std::string::npos || value.find("exp(") != std::string::npos ||
      value.find("max(") != std::string::npos || value.find("] *") != std::string::npos ||
      value.find("] +") != std::string::npos;
  return computes ? "elements" : "movement";
}

void require_model_file(const std::string& path) {
  if (std::filesystem::exists(path)) return;
  throw UsageError(fmt::format(
      "there is no model file '{}'; 'tune-cli compile MODEL.onnx -o {}' makes one", path, path));
}

bool names_model(const CommonOptions& options) {
  return options.specs.size() == 1 &&
         (options.specs[0].ends_with(".tw") || database::is_serving_file(options.specs[0]));
}

void refuse_of_model(const CLI::App& command, const std::vector<std::string>& options) {
  for (const std::string& option : options) {
    if (command.count(option) == 0) continue;
    throw UsageError(
        fmt::format("{}: a model file has its kernels, sizes and target; expected a spec "
                    "beside this option",
                    option));
  }
}

std::vector<std::string> workloads_of_model(const CommonOptions& options) {
  require_model_file(options.specs[0]);
  const serving::StoredModel stored(options.specs[0], trust_of(options));
  std::vector<std::string> specs;
  for (const serving::NodeSpec& spec : stored.index().specs) {
    if (std::ranges::find(specs, spec.facts.text) == specs.end()) specs.push_back(spec.facts.text);
  }
  return specs;
}

int run_model(const CommonOptions& options, const std::vector<std::string>& in,
              const std::vector<std::string>& out, bool emulate) {
  const Target target = target_of(options);
  if (emulate) {
    note(options,
         "the kernels run in the emulator, node by node: this takes minutes and more for models "
         "of some size");
  }
  serving::Model model = opened(options, target, emulate);
  const std::vector<serving::Port>& ports = model.inputs();
  std::vector<std::optional<std::pair<NpyArray, std::string>>> given(ports.size());
  for (const std::string& text : in) {
    auto [name, path] = named_file(text, "--in", "NAME=FILE.npy");
    given[port_named(ports, name, "--in")] = {read_npy(path), path};
  }
  std::vector<std::vector<int64_t>> shapes;
  for (size_t i = 0; i < given.size(); ++i) {
    if (!given[i]) throw UsageError(fmt::format("--in: input '{}' is missing", ports[i].name));
    const bool fixed = ports[i].shape == ports[i].least;
    shapes.push_back(fixed ? ports[i].shape : given[i]->first.shape);
  }
  Tensors inputs(ports, shapes);
  for (size_t i = 0; i < given.size(); ++i) {
    assign_input(&inputs.at(i), given[i]->first, given[i]->second);
  }
  Tensors outputs(model.outputs(), model.sizes_of(inputs.data(), inputs.size()));
  Threads threads(thread_count(options));
  model.run(inputs.data(), inputs.size(), outputs.data(), outputs.size(),
            {&threads.executor, nullptr});
  Json written = Json::array();
  for (const std::string& text : out) {
    auto [name, path] = named_file(text, "--out", "NAME=FILE.npy");
    write_npy(path, outputs.found(model, port_named(model.outputs(), name, "--out")));
    written.push_back(path);
    if (!options.json) note(options, fmt::format("wrote {}", path));
  }
  if (options.json)
    print_json({{"model", options.specs[0]}, {"out", written}, {"emulated", emulate}});
  return kDone;
}

int explain_model(const CommonOptions& options) {
  const Target target = target_of(options);
  if (target.is_cuda() && !runs_on_gpu_here(target)) return explain_predicted(options);
  serving::Model model = opened(options, target, false);
  const serving::Sizes sizes = model.largest_sizes();
  Tensors inputs(model.inputs(), sizes), outputs(model.outputs(), sizes);
  Threads threads(thread_count(options));
  std::vector<std::vector<double>> seconds(model.nodes().size());
  for (int run = 0; run < kProfiled; ++run) {
    model.profile(inputs.data(), inputs.size(), outputs.data(), outputs.size(),
                  {&threads.executor, nullptr});
    for (size_t i = 0; i < seconds.size(); ++i) seconds[i].push_back(model.nodes()[i].seconds);
  }
  std::map<std::string, double> causes;
  std::vector<std::pair<double, size_t>> order;
  double total = 0;
  for (size_t i = 0; i < seconds.size(); ++i) {
    std::nth_element(seconds[i].begin(), seconds[i].begin() + kProfiled / 2, seconds[i].end());
    const double median = seconds[i][kProfiled / 2];
    order.emplace_back(-median, i);
    causes[cause_of(model.nodes()[i].spec)] += median;
    total += median;
  }
  std::sort(order.begin(), order.end());
  Json nodes = Json::array();
  Table table({"node", "us", "share", "tuned", "kernel"});
  for (const auto& [negative, i] : order) {
    const serving::NodeLine& line = model.nodes()[i];
    nodes.push_back({{"node", line.label},
                     {"spec", line.spec},
                     {"cause", cause_of(line.spec)},
                     {"seconds", -negative},
                     {"tuned_seconds", line.tuned_seconds},
                     {"sketch", line.sketch}});
    const char* served[] = {"hit", "near", "default", "miss"};
    table.row({line.label, fmt::format("{:.1f}", -negative * 1e6),
               fmt::format("{:.1f}%", total > 0 ? -negative / total * 100 : 0),
               fmt::format("{:.1f}", line.tuned_seconds * 1e6),
               line.spec.starts_with("plain ") ? "plain" : served[line.outcome]});
    table.note(line.spec);
  }
  if (options.json) {
    print_json({{"model", options.specs[0]},
                {"seconds", total},
                {"causes", causes},
                {"memory", model.arena_bytes()},
                {"least_memory", model.least_arena_bytes()},
                {"weights", model.weight_bytes()},
                {"nodes", nodes}});
    return kDone;
  }
  fmt::print("{}", table.text(terminal_width(STDOUT_FILENO)));
  for (const auto& [cause, time] : causes) {
    fmt::print("{}: {:.1f} us, {:.1f}%\n", cause, time * 1e6, total > 0 ? time / total * 100 : 0);
  }
  fmt::print("all nodes: {:.1f} us; memory of a run {:.1f} MB, weights {:.1f} MB\n", total * 1e6,
             static_cast<double>(model.arena_bytes()) * 1e-6,
             static_cast<double>(model.weight_bytes()) * 1e-6);
  return kDone;
}

}  // namespace tilewright::cli
