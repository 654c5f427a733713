#include "tuner/gpu_estimates.h"

#include <spdlog/spdlog.h>

#include <memory>

#include "tuner/gpu_model.h"

namespace tilewright {

double GpuEstimates::seconds(const Candidate& c) {
  auto [it, is_new] = known_.try_emplace(c.fingerprint, 0);
  if (!is_new) return it->second;
  GpuEstimate e = estimate_gpu(c.module.main, target_);
  if (!e.fits()) spdlog::debug("{}: {}", c.config, e.refusal);
  return it->second = e.seconds;
}

void GpuEstimates::score(std::vector<Candidate>& candidates) {
  for (Candidate& c : candidates) {
    double s = seconds(c);
    c.score = s > 0 ? static_cast<float>(1 / s) : 0;
  }
}

SearchPolicy::Scorer gpu_scorer(const Target& target) {
  auto estimates = std::make_shared<GpuEstimates>(target);
  return [estimates](std::vector<Candidate>& candidates) { estimates->score(candidates); };
}

}  // namespace tilewright
