// Predicts the times of GPU kernels that are drawn at random:
//   gpu_predictions < REQUEST.json
// The request has "specs", "targets" of one architecture, "count" draws of each spec, a "seed", and
// of which knobs the choice is "drawn", by the end of their names (".tile"). "pinned" has choices as
// tests write them (".copies?"). Every other knob has its first option. Prints a JSON object per
// kernel and target: its spec, target, config, and by the analytical model its seconds, its limit
// and what bounds each of its kernels. Draws that no rewrite or chip takes are left out.
#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "codegen/cuda_lowering.h"
#include "codegen/lowering.h"
#include "ir/ops/spec.h"
#include "schedule/error.h"
#include "schedule/trial.h"
#include "tuner/gpu/gpu_model.h"
#include "tuner/parallel.h"
#include "tuner/sketch.h"

using namespace tilewright;

namespace {

using Json = nlohmann::json;

// These choices, "?" and ".knob" for the knobs of all blocks, by the names that the sketch asks for.
Json named(const SketchInput& input, const Json& pinned) {
  Trial trial = Trial::with(pinned.dump());
  apply_sketch(cuda_sketches().front(), input, trial);
  Json full = Json::object();
  const Json config = Json::parse(trial.config());
  for (const auto& [name, choice] : config.items()) {
    for (const auto& [end, wanted] : pinned.items()) {
      if (name.ends_with(end.substr(0, end.find('?')))) full[name] = choice;
    }
  }
  return full;
}

// The choices of a random trial of the sketch with these choices, on knobs with names that end so;
// nothing if it is refused.
Json draw(const SketchInput& input, const Json& pinned, const std::vector<std::string>& drawn,
          uint64_t seed) {
  Trial trial = Trial::mutate(pinned.dump(), 0, seed);
  try {
    apply_sketch(cuda_sketches().front(), input, trial);
  } catch (const ScheduleError&) {
    return {};
  }
  const Json config = Json::parse(trial.config());
  Json kept = Json::object();
  for (const auto& [name, choice] : config.items()) {
    const bool is_drawn = std::any_of(drawn.begin(), drawn.end(),
                                      [&n = name](const auto& end) { return n.ends_with(end); });
    if (is_drawn) kept[name] = choice;
  }
  return kept;
}

Json of_kernels(const GpuEstimate& e, const std::vector<GpuKernelWork>& works) {
  Json kernels = Json::array();
  for (size_t i = 0; i < works.size(); ++i) {
    const GpuKernelEstimate& k = e.kernels[i];
    Json alone = Json::object();
    for (GpuLimit limit : kGpuLimits) alone[std::string(name_of(limit))] = k.of(limit);
    kernels.push_back({{"bound_by", std::string(name_of(k.bound_by))},
                       {"alone", alone},
                       {"exposed", works[i].waits.exposed},
                       {"overlapped", works[i].waits.overlapped},
                       {"bare_instructions", works[i].bare.instructions},
                       {"blocks_per_sm", k.blocks_per_sm},
                       {"waves", k.waves},
                       {"dram_bytes", k.dram_bytes},
                       {"l2_bytes", k.l2_bytes}});
  }
  return kernels;
}

// The lines of one draw, one per target.
std::vector<std::string> predict(const Json& request, const std::string& spec, const Workload& w,
                                 const std::vector<Target>& targets, const Json& choices) {
  std::vector<std::string> lines;
  try {
    Trial trial = Trial::with(choices.dump());
    const Schedule s = apply_sketch(cuda_sketches().front(), {w, targets.front(), 1}, trial);
    const Program lowered = lower_for_cuda(s.program(), targets.front());
    for (size_t t = 0; t < targets.size(); ++t) {
      const std::vector<GpuKernelWork> works = gpu_work_of(lowered, targets[t]);
      const GpuEstimate e = estimate_works(works, targets[t]);
      if (!e.fits()) continue;
      const Json line = {{"spec", spec},
                         {"target", request.at("targets").at(t)},
                         {"config", Json::parse(trial.config())},
                         {"seconds", e.seconds},
                         {"kernels", of_kernels(e, works)}};
      lines.push_back(line.dump());
    }
  } catch (const ScheduleError&) {
  } catch (const LoweringError&) {
  }
  return lines;
}

void run(const Json& request) {
  std::vector<Target> targets;
  for (const std::string name : request.at("targets")) targets.push_back(Target::parse(name));
  const std::vector<std::string> drawn = request.at("drawn");
  for (const std::string spec : request.at("specs")) {
    const Workload w = parse_workload(spec);
    std::set<std::string> seen;
    std::vector<Json> draws;
    const Json pinned = named({w, targets.front(), 1}, request.at("pinned"));
    const uint64_t seed = request.at("seed"), count = request.at("count");
    for (uint64_t i = 0; i < count; ++i) {
      Json choices = draw({w, targets.front(), 1}, pinned, drawn, seed + i);
      if (!choices.is_object()) continue;
      choices.update(request.at("pinned"));
      if (seen.insert(choices.dump()).second) draws.push_back(std::move(choices));
    }
    std::vector<std::vector<std::string>> lines(draws.size());
    for_each_in_parallel(
        draws.size(), [&](size_t i) { lines[i] = predict(request, spec, w, targets, draws[i]); });
    for (const auto& of_draw : lines) {
      for (const std::string& line : of_draw) std::cout << line << '\n';
    }
    std::cout << std::flush;
  }
}

}  // namespace

int main() {
  try {
    run(Json::parse(std::cin));
  } catch (const std::exception& e) {
    std::cerr << "gpu_predictions: " << e.what() << '\n';
    return 1;
  }
  return 0;
}
