#include "serving/models/hits.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <utility>

#include "graph/import_onnx.h"
#include "graph/interpret.h"
#include "graph/loops/loops.h"
#include "graph/optimize.h"
#include "graph/sizes.h"
#include "kernel/target.h"
#include "models/onnx/model.h"

namespace tilewright::serving {
namespace {

void require_fixed_sizes(const onnx::Model& model) {
  for (const onnx::DeclaredValue& input : model.inputs) {
    const bool fixed = input.shape && std::ranges::all_of(*input.shape, [](const auto& size) {
                         return size.number.has_value();
                       });
    if (fixed) continue;
    throw ServingError(
        TW_ERROR_ARGUMENT,
        fmt::format("input '{}' has open sizes; hits are looked for at fixed ones", input.name));
  }
}

// Throws MissingHits for the node that the error being handled begins with ("'y': …"), or else that error.
[[noreturn]] void throw_refused(const graph::Graph& program, const graph::GraphError& error) {
  const std::string text = error.what();
  graph::for_each_node(program, [&](const graph::Graph& around, const graph::Node& node, double) {
    for (const std::string& name : {node.label, around.values[node.output].name}) {
      if (text.starts_with("'" + name + "': ")) throw MissingHits(text, {node.label});
    }
  });
  throw;
}

// The model as it says, with what depends on constants alone computed.
graph::Graph program_of(std::string_view bytes) {
  const onnx::Model model = onnx::read_model(bytes, "the model");
  require_fixed_sizes(model);
  graph::Graph program;
  try {
    program = graph::import_onnx(model, {});
    graph::verify(program);
    graph::fold_constants(&program);
  } catch (const graph::UnmappedError& e) {
    throw MissingHits(e.what(), e.nodes);
  } catch (const graph::GraphError& e) {
    throw_refused(program, e);
  }
  return program;
}

// Throws MissingHits that names the nodes of these specs, and tells of the first one.
[[noreturn]] void throw_missing(const graph::Graph& program,
                                const std::vector<ReportLine>& misses) {
  std::map<std::string, const ReportLine*> lines;
  for (const ReportLine& line : misses) lines.emplace(line.spec, &line);
  std::set<std::string> nodes;
  graph::for_each_node(program, [&](const graph::Graph& around, const graph::Node& node, double) {
    if (!node.is_workload()) return;
    if (lines.contains(graph::ranged(around, node).spec)) nodes.insert(node.label);
  });
  const ReportLine& first = misses.front();
  const std::string next = first.command.empty() ? "" : "; this would tune it: " + first.command;
  throw MissingHits(fmt::format("{} workloads have no kernel that was tuned for them here; the "
                                "first is {}: {}{}",
                                misses.size(), first.spec, first.reason, next),
                    std::move(nodes));
}

void require_workloads(const graph::Graph& program) {
  std::set<std::string> nodes;
  for (const graph::Node& node : program.nodes) {
    if (node.is_workload() || node.is_loop()) return;
    nodes.insert(node.label);
  }
  throw MissingHits("no kernel would run: its nodes are views", std::move(nodes));
}

// The kernels of one database for one request.
struct Lookup {
  Library& library;
  const PrepareOptions& options;
  std::map<std::string, std::optional<double>> known = {};

  // The lines that are no hits.
  std::vector<ReportLine> misses(const StoredModel& source) const {
    std::vector<ReportLine> lines = library.look_up(options, source.index().facts());
    std::erase_if(lines, [](const ReportLine& line) { return line.outcome == TW_HIT; });
    return lines;
  }
  // The time of a hit, when it was tuned. Layouts with a workload that is none are avoided.
  std::optional<double> operator()(const std::string& spec) {
    const auto [place, fresh] = known.try_emplace(spec);
    if (fresh) {
      const ReportLine line =
          library.look_up(options, {facts_of(spec, parse_workload(spec))}).front();
      if (line.outcome != TW_HIT) place->second = graph::kForbiddenSeconds;
      if (line.outcome == TW_HIT && line.seconds > 0) place->second = line.seconds;
    }
    return place->second;
  }
};

// The program behind all passes; nothing where they make none that is well formed. Throws MissingHits.
std::optional<StoredModel> fused(const graph::Graph& plain, const graph::Seconds& seconds) {
  try {
    graph::Graph program = plain;
    graph::optimize(&program, graph::Processor::Cpu, seconds);
    require_workloads(program);
    return StoredModel(std::move(program));
  } catch (const graph::GraphError&) {
    return std::nullopt;
  } catch (const SpecError&) {
    return std::nullopt;
  }
}

// The program whose workloads are all hits: behind all passes, with layouts by times of kernels or by estimates, or
// node by node. Throws MissingHits.
StoredModel program_of_hits(const graph::Graph& plain, Lookup& lookup) {
  if (std::optional<StoredModel> estimated = fused(plain, {})) {
    const size_t misses = lookup.misses(*estimated).size();
    // The choice by times takes long, and a database without any of these kernels hardly has the others.
    if (misses < estimated->index().facts().size()) {
      std::optional<StoredModel> timed = fused(plain, std::ref(lookup));
      if (timed && lookup.misses(*timed).empty()) return *std::move(timed);
    }
    if (misses == 0) return *std::move(estimated);
  }
  require_workloads(plain);
  StoredModel source(plain);
  const std::vector<ReportLine> misses = lookup.misses(source);
  if (!misses.empty()) throw_missing(plain, misses);
  return source;
}

}  // namespace

std::vector<std::unique_ptr<Model>> models_of_hits(Library& library, std::string_view onnx,
                                                   PrepareOptions options, size_t count) {
  if (Target::parse(options.target).is_cuda()) {
    throw ServingError(TW_ERROR_ARGUMENT,
                       fmt::format("target is '{}'; hits are looked for on CPUs: expected 'native'",
                                   options.target));
  }
  Lookup lookup{library, options};
  const StoredModel source = program_of_hits(program_of(onnx), lookup);
  for (SpecFacts& spec : source.index().facts()) options.specs.push_back(std::move(spec.text));
  std::vector<std::unique_ptr<Model>> models;
  while (models.size() < count) {
    std::unique_ptr<Prepared> prepared = library.prepare(options);
    std::vector<ReportLine> unloaded;
    for (const ReportLine& line : prepared->report()) {
      if (line.outcome != TW_HIT) unloaded.push_back(line);
    }
    if (!unloaded.empty()) throw_missing(source.graph(), unloaded);
    models.push_back(std::make_unique<Model>(source, std::move(prepared)));
  }
  return models;
}

}  // namespace tilewright::serving
