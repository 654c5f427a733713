// What the cost model sees of a candidate for a GPU: what the analytical model makes of its kernels.
#pragma once

#include <string>
#include <vector>

#include "codegen/target.h"
#include "ir/stmt.h"

namespace tilewright {

struct GpuFeatures {
  // Always as many (gpu_feature_names().size()): of the whole program, then of the two kernels that take
  // longest the time that each pipe and each level of memory needs for it, and its share of the kernel's;
  // waves of blocks and how full the last one is; barriers, latencies that nothing hides, boxes of tensor
  // copies. Quantities that span orders of magnitude are log2(1 + x).
  std::vector<float> values;
  double seconds = 0;        // as the model predicts; 0: the program does not run on the target
  std::string refusal = {};  // why it does not
};

// Of a scheduled program, with dynamic dimensions at their largest.
GpuFeatures gpu_features(const Program& scheduled, const Target& target);
const std::vector<std::string>& gpu_feature_names();

// Scores of candidates by nothing but the time that is predicted for them: 1 for what is as fast as the
// fastest of `known`, half for what takes twice as long, 0 for what does not run.
std::vector<float> predicted_scores(const std::vector<std::vector<float>>& known,
                                    const std::vector<std::vector<float>>& candidates);

}  // namespace tilewright
