#include "cli/models/gpu_program.h"

#include <fmt/format.h>

#include <map>
#include <string>

#include "codegen/codegen.h"
#include "graph/sizes.h"
#include "schedule/error.h"
#include "tuner/sketch.h"

namespace tilewright::cli {
namespace {

constexpr uint64_t kDrawn = 16;  // candidates, where the untuned default is none

// Why the candidate has no code; empty where it has.
std::string problem_of(const Workload& workload, const Target& target, Trial trial) {
  try {
    const Schedule schedule = apply_sketch(cuda_sketches().front(), {workload, target, 1}, trial);
    generate_cuda(schedule.module(), target);
    return "";
  } catch (const ScheduleError& e) {
    return e.what();
  } catch (const LoweringError& e) {
    return e.what();
  }
}

// Why the workload has no kernel for the GPU; empty where its untuned default or one of a few others has code.
std::string refusal_of(const std::string& spec, const Target& target) {
  const Workload workload = parse_workload(spec);
  std::string refusal = problem_of(workload, target, Trial::first());
  for (uint64_t seed = 0; seed < kDrawn && !refusal.empty(); ++seed) {
    if (problem_of(workload, target, Trial::random(seed)).empty()) refusal.clear();
  }
  return refusal;
}

}  // namespace

void require_gpu_nodes(const graph::Graph& graph, const Target& target) {
  std::map<std::string, std::string> known;  // by spec
  std::string refused;
  for (const graph::Node& node : graph.nodes) {
    std::string why;
    if (node.is_write()) {
      why = "it writes into a state, which kernels for GPUs do not";
    } else if (node.is_loop()) {
      why = "it is a loop, whose rounds run on CPUs alone";
    } else if (node.is_plain()) {
      why = "it is a plain node, which says a size by values and runs on CPUs alone";
    } else if (node.is_workload()) {
      const std::string spec = graph::ranged(graph, node).spec;
      const auto [entry, fresh] = known.try_emplace(spec);
      if (fresh) entry->second = refusal_of(spec, target);
      why = entry->second;
    }
    if (!why.empty())
      refused += fmt::format("\n  {}: {}", node.label, why.substr(0, why.find('\n')));
  }
  if (refused.empty()) return;
  throw graph::GraphError(fmt::format(
      "nodes that have no kernel for target '{}'; --target native compiles the model for "
      "this machine's processor:{}",
      target.name, refused));
}

}  // namespace tilewright::cli
