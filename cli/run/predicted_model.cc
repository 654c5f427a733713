#include "cli/run/predicted_model.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <vector>

#include "cli/lookup.h"
#include "cli/output/progress.h"
#include "cli/output/table.h"
#include "cli/run/model_file.h"
#include "graph/plan.h"
#include "kernel/cuda_description.h"
#include "runtime/error.h"
#include "runtime/machine/cpus.h"
#include "serving/models/stored_model.h"
#include "tuner/gpu/gpu_model.h"

namespace tilewright::cli {
namespace {

using Json = nlohmann::ordered_json;

// The prediction for a spec's kernel.
struct Predicted {
  double seconds = 0;         // without starting it
  double launch_seconds = 0;  // of starting its kernels
  size_t launches = 0;
  std::string sketch;
};

struct PredictedNode {
  std::string label, spec;
  Predicted kernel;
};

Predicted predicted_of(const serving::Table& table, const serving::Request& request) {
  serving::Box largest;
  for (const serving::Dim& d : request.dims) largest.push_back({d.max, d.max});
  const std::vector<serving::Candidate> found = serving::candidates(table, request, largest);
  if (found.empty()) throw KernelError(serving::miss_reason(table, request));
  const serving::StoredKernel& best = *found.front().kernel;
  const CudaDescription made = CudaDescription::from_json(table.artifact(best)->description);
  Predicted p;
  p.launches = made.source.launches.size();
  const auto dependent = std::ranges::count(made.source.launches, true, &CudaLaunch::dependent);
  p.launch_seconds = launch_seconds(p.launches, static_cast<size_t>(dependent));
  p.seconds = std::max(best.seconds - p.launch_seconds, 0.0);
  p.sketch = best.sketch;
  return p;
}

// The workloads in the order of the program.
std::vector<PredictedNode> nodes_of(serving::StoredModel& stored, const Target& target) {
  const serving::ModelIndex index = stored.index();
  const serving::Table table = stored.take_table();
  const database::TargetIdentity identity = described_identity(target);
  const std::map<const graph::Node*, size_t> specs = serving::specs_of_nodes(stored.graph());
  std::map<std::string, Predicted> known;
  std::vector<PredictedNode> nodes;
  for (const graph::Node& node : stored.graph().nodes) {
    if (!node.is_workload()) continue;
    const serving::SpecFacts& facts = index.specs[specs.at(&node)].facts;
    const auto [entry, fresh] = known.try_emplace(facts.text);
    try {
      if (fresh) {
        entry->second = predicted_of(table, {facts, target, identity, {0, available_threads()}});
      }
    } catch (const Error& e) {
      throw Error(fmt::format("'{}': {}", node.label, e.what()));
    }
    nodes.push_back({node.label, facts.text, entry->second});
  }
  return nodes;
}

struct Sums {
  std::map<std::string, double> causes;
  double all = 0, launching = 0;
  size_t launches = 0;
};

Sums sums_of(const std::vector<PredictedNode>& nodes) {
  Sums sums;
  for (const PredictedNode& node : nodes) {
    sums.causes[cause_of(node.spec)] += node.kernel.seconds;
    sums.launching += node.kernel.launch_seconds;
    sums.launches += node.kernel.launches;
    sums.all += node.kernel.seconds + node.kernel.launch_seconds;
  }
  return sums;
}

void print_tables(const std::vector<PredictedNode>& nodes, const Sums& sums, const Target& target) {
  const auto share = [&](double seconds) {
    return fmt::format("{:.1f}%", sums.all > 0 ? seconds / sums.all * 100 : 0);
  };
  Table table({"node", "us, predicted", "share", "launches"});
  for (const PredictedNode& node : nodes) {
    table.row({node.label, fmt::format("{:.1f}", node.kernel.seconds * 1e6),
               share(node.kernel.seconds), std::to_string(node.kernel.launches)});
    table.note(node.spec);
  }
  fmt::print("{}", table.text(terminal_width(STDOUT_FILENO)));
  for (const auto& [cause, seconds] : sums.causes) {
    fmt::print("{}: {:.1f} us, {}\n", cause, seconds * 1e6, share(seconds));
  }
  fmt::print("{} launches: {:.1f} us, {}\n", sums.launches, sums.launching * 1e6,
             share(sums.launching));
  fmt::print(
      "a run: {:.1f} us, predicted for {} by the data sheet of {}; no such GPU is here, and "
      "nothing "
      "was measured\n",
      sums.all * 1e6, target.name, target.gpu.model);
}

}  // namespace

int explain_predicted(const CommonOptions& options) {
  serving::StoredModel stored(options.specs[0], trust_of(options));
  const Target target = Target::parse(stored.target());
  std::vector<PredictedNode> nodes = nodes_of(stored, target);
  const Sums sums = sums_of(nodes);
  std::ranges::stable_sort(nodes, [](const PredictedNode& a, const PredictedNode& b) {
    return a.kernel.seconds > b.kernel.seconds;
  });
  if (!options.json) {
    print_tables(nodes, sums, target);
    return kDone;
  }
  const graph::Plan plan = graph::plan_memory(stored.graph());
  Json lines = Json::array();
  for (const PredictedNode& node : nodes) {
    lines.push_back({{"node", node.label},
                     {"spec", node.spec},
                     {"cause", cause_of(node.spec)},
                     {"predicted_seconds", node.kernel.seconds},
                     {"launches", node.kernel.launches},
                     {"sketch", node.kernel.sketch}});
  }
  print_json({{"model", options.specs[0]},
              {"target", target.name},
              {"predicted", true},
              {"predicted_seconds", sums.all},
              {"causes", sums.causes},
              {"launches", sums.launches},
              {"launch_seconds", sums.launching},
              {"memory", plan.bytes},
              {"least_memory", plan.least_bytes},
              {"nodes", lines}});
  return kDone;
}

}  // namespace tilewright::cli
