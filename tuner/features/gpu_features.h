// The cost model's features of a GPU candidate: quantities of the analytical model for its kernels.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ir/stmt.h"
#include "kernel/target.h"

namespace tilewright {

struct GpuFeatures {
  // Always gpu_feature_names().size() features. They begin with the whole program; then come the
  // two slowest kernels. For each kernel:
  // - the time that each pipe and memory level needs, and its share of the kernel's time;
  // - waves of blocks, and how full the last wave is;
  // - barriers, exposed latencies, bytes of TMA tiles.
  //
  // Quantities that span orders of magnitude are log2(1 + x).
  std::vector<float> values;
  double seconds = 0;        // predicted; 0: does not run on the target
  std::string refusal = {};  // why it does not run
};

// Features of a scheduled program, with dynamic dimensions at their maximum.
GpuFeatures gpu_features(const Program& scheduled, const Target& target);
const std::vector<std::string>& gpu_feature_names();

// By which hardware a candidate's slowest kernel works, the least usual that it needs: where one
// kind faults or crawls on a device, another one may run.
enum class GpuKind : uint8_t { Fma, Mma, Wgmma, Tma, Cluster };
GpuKind gpu_kind(const std::vector<float>& features);

}  // namespace tilewright
