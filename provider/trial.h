// Whether a model file is right and fast enough to stand for a region, found out by running both.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "provider/region.h"
#include "provider/runner.h"

namespace tilewright::provider {

// The findings of runs of both on the same random inputs.
struct Verdict {
  double ratio =
      0;  // time of the model file over that of the CPU provider, the worst of the sizes tried
  double difference = 0;  // the largest of any output, as a share of its largest magnitude there
  std::string problem;    // why the CPU provider gave nothing to compare with; "": it did
  std::string failure;    // of the model file's side; "": it ran
  bool late = false;      // there was no trial, since the session's time for them is over
};

// A region may take so much of the CPU provider's time. A part of a graph has to win: around it the runtime fuses less
// than in the graph, which no trial of the part sees.
constexpr double most_time(bool is_part) { return is_part ? 0.98 : 1.02; }
inline bool is_part(const GraphView& graph, const Region& region) {
  return region.nodes.size() < graph.nodes().size();
}

// A region with the runner that stands for it.
struct Part {
  Region region;
  std::shared_ptr<Runner> runner;
};

// "131%"
std::string percent(double ratio);

// The verdict of a trial of `whole`, which is written as `onnx`, with these parts of it and without. It times for so
// many seconds at least, longer where the ratio is near `most`. Throws ProviderError where a session cannot start.
Verdict race(const GraphView& graph, const Region& whole, const Rope& onnx,
             const std::vector<Part>& parts, const Options& options, double seconds, double most);

// The verdict of earlier trials on this machine, with this runtime, file and number of threads, which
// stand beside the file; else that of a trial, if one may still begin, which times for so many seconds at each size at
// least. A file that was found too slow once is tried again, since other work may have disturbed the first trial.
Verdict verdict_on(const GraphView& graph, const Region& region, const Rope& onnx,
                   const std::shared_ptr<Runner>& runner, const Options& options, double seconds);

}  // namespace tilewright::provider
