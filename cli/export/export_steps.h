// The steps of an exported model in C: calls of kernels, loops, and the memory that they share.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <string>
#include <utility>

#include "cli/export/export_model.h"
#include "graph/plan.h"

namespace tilewright::cli {

/// A graph, the model's or a loop's body, with the places of its values.
struct ExportedFrame {
  const graph::Graph& graph;
  const graph::Plan& plan;
  int64_t base = 0;                     // of the plan's block in the model's memory
  std::map<size_t, std::string> whole;  // addresses of values that a body has from around it
};

/// The memory of a run, and the constants.
class ExportedMemory {
 public:
  ExportedMemory(const ExportedModel& model, int64_t bytes);

  /// The address of a value's elements, in C.
  std::string of(const ExportedFrame& frame, size_t value);
  /// The address of so many bytes more, which no value shares.
  std::string reserve(int64_t bytes);
  int64_t bytes() const { return bytes_; }
  const std::string& constants() const { return constants_; }

 private:
  const ExportedModel& model_;
  int64_t bytes_;
  std::map<std::pair<const graph::Graph*, size_t>, int64_t> at_;  // of constants in their file
  std::string constants_;
};

/// Each workload's kernel once, those of bodies among them.
class ExportedKernels {
 public:
  explicit ExportedKernels(const ExportedModel& model);

  const ExportedKernel& of(const graph::Node& node) const { return *by_spec_.at(node.spec); }
  const std::map<std::string, ExportedKernel>& by_name() const { return by_name_; }

 private:
  std::list<Workload> workloads_;
  std::map<std::string, ExportedKernel> by_name_;
  std::map<std::string, const ExportedKernel*> by_spec_;
};

/// Statements that pack the weights of all nodes, and those that run them. They return `status` where a kernel
/// fails.
struct ExportedSteps {
  std::string packs, runs;
};
ExportedSteps export_steps(const ExportedFrame& frame, const ExportedKernels& kernels,
                           ExportedMemory& memory);

}  // namespace tilewright::cli
