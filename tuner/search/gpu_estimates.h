// Memoized estimates of the analytical model for candidates.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "kernel/target.h"
#include "tuner/candidate.h"
#include "tuner/search/search.h"

namespace tilewright {

// The target must outlive it. Not thread-safe.
class GpuEstimates {
 public:
  using Sizes = std::map<std::string, int64_t>;

  // The sizes of the workload's dynamic dimensions, at least one entry. Dimensions that an entry
  // does not name take their maximum. `cancelled` (null: never) must outlive this object; it stops
  // scoring.
  explicit GpuEstimates(const Target& target, std::vector<Sizes> sizes = {{}},
                        const std::atomic<bool>* cancelled = nullptr)
      : target_(target), sizes_(std::move(sizes)), cancelled_(cancelled) {}

  // Seconds at each of the sizes; 0 for a candidate that does not run on the target.
  const std::vector<double>& at_sizes(const Candidate& candidate);
  // Seconds at the last size.
  double seconds(const Candidate& candidate) { return at_sizes(candidate).back(); }
  // Sets scores by the time at sizes[size]: the faster, the higher. After a cancellation the
  // remaining scores stay as they are.
  void score(std::vector<Candidate>& candidates, size_t size);

 private:
  const Target& target_;
  std::vector<Sizes> sizes_;
  const std::atomic<bool>* cancelled_;
  std::unordered_map<std::string, std::vector<double>> known_;  // by fingerprint
};

// A scorer by the time at sizes[size]. Several scorers may share the estimates.
SearchPolicy::Scorer gpu_scorer(std::shared_ptr<GpuEstimates> estimates, size_t size);

}  // namespace tilewright
