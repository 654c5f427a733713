#include "tuner/search/gpu_estimates.h"

#include <spdlog/spdlog.h>

#include "tuner/gpu/gpu_model.h"

namespace tilewright {

const std::vector<double>& GpuEstimates::at_sizes(const Candidate& c) {
  auto [it, is_new] = known_.try_emplace(c.fingerprint);
  if (!is_new) return it->second;
  if (sizes_.size() == 1 && sizes_[0].empty()) return it->second = {c.predicted_seconds};
  for (const GpuEstimate& e : estimate_gpu_at(c.module.main, target_, sizes_)) {
    if (!e.fits()) spdlog::debug("{}: {}", c.config, e.refusal);
    it->second.push_back(e.seconds);
  }
  return it->second;
}

void GpuEstimates::score(std::vector<Candidate>& candidates, size_t size) {
  for (Candidate& c : candidates) {
    if (cancelled_ && *cancelled_) return;
    double s = at_sizes(c)[size];
    c.score = s > 0 ? static_cast<float>(1 / s) : 0;
  }
}

SearchPolicy::Scorer gpu_scorer(std::shared_ptr<GpuEstimates> estimates, size_t size) {
  return [estimates = std::move(estimates), size](std::vector<Candidate>& candidates) {
    estimates->score(candidates, size);
  };
}

}  // namespace tilewright
