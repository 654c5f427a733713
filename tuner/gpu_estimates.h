// What the analytical model says of candidates, remembered.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "codegen/target.h"
#include "tuner/candidate.h"
#include "tuner/search.h"

namespace tilewright {

// The target must outlive it. Not thread-safe.
class GpuEstimates {
 public:
  using Sizes = std::map<std::string, int64_t>;

  // At these sizes of a workload's dynamic dimensions, one at least; those that a size does not name
  // are the largest. `cancelled` (null: never), which must outlive it, ends scoring.
  explicit GpuEstimates(const Target& target, std::vector<Sizes> sizes = {{}},
                        const std::atomic<bool>* cancelled = nullptr)
      : target_(target), sizes_(std::move(sizes)), cancelled_(cancelled) {}

  // Seconds at each of the sizes; 0 for what does not run on the target.
  const std::vector<double>& at_sizes(const Candidate& candidate);
  // At the last of the sizes.
  double seconds(const Candidate& candidate) { return at_sizes(candidate).back(); }
  // Sets scores by the time at the size of that index: the faster, the higher. Leaves those to which it
  // had not come when all was cancelled.
  void score(std::vector<Candidate>& candidates, size_t size);

 private:
  const Target& target_;
  std::vector<Sizes> sizes_;
  const std::atomic<bool>* cancelled_;
  std::unordered_map<std::string, std::vector<double>> known_;  // by fingerprint
};

// Scores by the time at that one of the sizes, which several scorers may share.
SearchPolicy::Scorer gpu_scorer(std::shared_ptr<GpuEstimates> estimates, size_t size);

}  // namespace tilewright
