// Runs of a kernel that find its weights beyond the caches, as in a model.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/check/check.h"
#include "runtime/load/kernel.h"

namespace tilewright {

// Constants of a model that one of its workloads reads, and the bytes of all weights that a run of the model
// goes through between two launches of the same node.
struct SpreadOperands {
  std::vector<std::string> names;
  int64_t bytes = 0;
};

// A kernel beside copies of its constants, packed or as they are, which its runs read in turn: together they take
// as many bytes as the model's weights do, at most 64 MiB. The bound kernel has to outlive it.
class SpreadWeights {
 public:
  SpreadWeights(const BoundKernel& kernel, const SpreadOperands& operands);
  void run();
  size_t copies() const { return args_.size(); }

 private:
  const BoundKernel& kernel_;
  std::vector<Workspace> memory_;
  std::vector<std::vector<void*>> args_;  // of a launch with each copy
  size_t turn_ = 0;
};

}  // namespace tilewright
