// The cost model's features of a candidate.
#pragma once

#include <string>
#include <vector>

#include "ir/stmt.h"
#include "kernel/target.h"
#include "tuner/cpu/cpu_model.h"

namespace tilewright {

// Changes whenever the meaning of a feature changes, or that of what models predict: models and samples of
// another version are not used. Features hold terms of the analytical models, so that changes of these count,
// too. GPU kernels have their own features (gpu_features.h), and never a version that CPUs had.
inline constexpr int kFeatureVersion = 4, kGpuFeatureVersion = 5;

// Features of a program scheduled for a CPU. Their number is fixed: feature_names().size().
// - Whole program: work, parallel grain, code size.
// - The two most expensive statements: loop structure, vector width, register pressure.
// - The three most touched buffers of each statement: stride, footprint, bytes that must cross
//   each cache level.
// - The analytical model's time, and the shares of the core's pipes, of waiting and of memory in it.
//
// The bytes are estimated as in "A data locality optimizing algorithm" (Wolf and Lam, PLDI 1991). A
// loop nest whose working set fits a cache loads its footprint once; the loops around it repeat
// that. Quantities that span orders of magnitude are log2(1 + x).
//
// `nest` is the program that lowering has brought so far as to "simplify_loops", and `estimate` what the
// model says of it on `core`.
std::vector<float> features_of_nest(const Program& nest, const CpuEstimate& estimate,
                                    const CpuCore& core, const Target& target, int threads);
// The same of a program as scheduled that cannot be lowered: there is no estimate.
std::vector<float> extract_features(const Program& scheduled, const Target& target, int threads);
const std::vector<std::string>& feature_names();

}  // namespace tilewright
