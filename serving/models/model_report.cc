// A model's report of its kernels when it is opened: untuned and missing ones.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>

#include "serving/models/model.h"
#include "serving/models/stored_model.h"
#include "serving/status.h"

namespace tilewright::serving {

// Says how many nodes run on kernels that were not tuned for them here.
void Model::log_untuned(const std::string& path, const Library::Log& log) const {
  const auto count = [&](tw_outcome outcome) {
    return std::ranges::count(lines_, outcome, &NodeLine::outcome);
  };
  const auto first =
      std::ranges::find_if(lines_, [](const NodeLine& line) { return line.outcome != TW_HIT; });
  if (first == lines_.end()) return;
  const auto report = std::ranges::find(prepared_->report(), first->spec, &ReportLine::spec);
  log(
      fmt::format("{}: {} of {} nodes run on near kernels and {} on untuned defaults; {}: {}; "
                  "'tune-cli explain {}' tells of each; this would tune them: {}",
                  path, count(TW_NEAR), lines_.size(), count(TW_DEFAULT), first->label,
                  first->reason, path, report->command));
}

// Throws a miss that tells each reason once, with how many nodes have no kernel for it and the first.
void Model::require_kernels(const StoredModel& source) const {
  struct Nodes {
    int count = 0;
    std::string first, command;
  };
  const std::string distrust = source.distrust();
  std::map<std::string, Nodes> reasons;
  for (const ReportLine& line : prepared_->report()) {
    if (line.outcome != TW_MISS) continue;
    for (const auto& [node, spec] : specs_) {
      if (source.index().specs[spec].facts.text != line.spec) continue;
      // A reason that holds for the whole file has the row of each kernel in front.
      const bool untrusted = !distrust.empty() && line.reason.find(distrust) != std::string::npos;
      Nodes& nodes = reasons[untrusted ? distrust : line.reason];
      if (nodes.count++ == 0) nodes.first = node->label, nodes.command = line.command;
    }
  }
  if (reasons.empty()) return;
  std::string misses, command;
  for (const auto& [reason, nodes] : reasons) {
    misses += nodes.count == 1 ? fmt::format("\n  {}: {}", nodes.first, reason)
                               : fmt::format("\n  {} nodes, {} among them: {}", nodes.count,
                                             nodes.first, reason);
    if (command.empty()) command = nodes.command;
  }
  if (!command.empty()) misses += fmt::format("\nthis would make them: {}", command);
  throw ServingError(TW_ERROR_MISS, "nodes that no kernel serves here:" + misses);
}

}  // namespace tilewright::serving
