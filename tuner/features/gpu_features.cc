#include "tuner/features/gpu_features.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "codegen/cuda_lowering.h"
#include "codegen/lowering.h"
#include "tuner/features/feature_row.h"
#include "tuner/gpu/gpu_model.h"
#include "tuner/gpu/gpu_work.h"

namespace tilewright {
namespace {

constexpr size_t kKernels = 2;
constexpr double kNano = 1e9;

constexpr std::array<const char*, kGpuLimits.size()> kLimitNames = {
    "tensor", "fma", "issue", "special", "shared", "l2", "dram", "latency"};

void add_kernel(FeatureRow& row, const std::string& prefix, const GpuKernelWork& w,
                const GpuKernelEstimate& e) {
  auto log = [&](const char* name, double value) { row.add(prefix + name, log2p(value)); };
  log(".seconds", e.seconds * kNano);
  for (size_t l = 0; l < kGpuLimits.size(); ++l) {
    log((std::string(".") + kLimitNames[l]).c_str(), e.alone[l] * kNano);
    row.add(prefix + "." + kLimitNames[l] + "_share", e.seconds > 0 ? e.alone[l] / e.seconds : 0);
  }
  log(".blocks", static_cast<double>(e.blocks));
  log(".threads", e.threads);
  log(".registers", e.registers);
  log(".shared_bytes", static_cast<double>(e.shared_bytes));
  row.add(prefix + ".blocks_per_sm", e.blocks_per_sm);
  log(".waves", e.waves);
  row.add(prefix + ".waves_filled", e.waves > 0 ? e.waves / std::ceil(e.waves) : 0);
  row.add(prefix + ".occupancy", e.occupancy);
  log(".dram_bytes", e.dram_bytes);
  log(".l2_bytes", e.l2_bytes);
  log(".shared_passes", e.shared_passes);
  log(".instructions", w.instructions);
  log(".fma_instructions", w.units.fma);
  log(".mma_operations", w.products.operations);
  row.add(prefix + ".wgmma", w.products.is_wgmma ? 1 : 0);
  log(".barriers", w.waits.barriers);
  log(".exposed", w.waits.exposed);
  log(".bare_instructions", w.bare.instructions);
  log(".overlapped", w.waits.overlapped);
  log(".box_bytes", w.tma.bytes);
  log(".multicast_bytes", w.tma.multicast_bytes);
}

void fill(FeatureRow& row, const std::vector<GpuKernelWork>& works, const GpuEstimate& estimate) {
  row.add("seconds", log2p(estimate.seconds * kNano));
  row.add("fits", estimate.fits() ? 1 : 0);
  row.add("kernels", static_cast<double>(estimate.kernels.size()));
  std::vector<size_t> order(estimate.kernels.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return estimate.kernels[a].seconds > estimate.kernels[b].seconds;
  });
  for (size_t k = 0; k < kKernels; ++k) {
    const bool is_there = k < order.size();
    add_kernel(
        row, "k" + std::to_string(k), is_there ? works[order[k]] : GpuKernelWork{},
        is_there ? estimate.kernels[order[k]] : GpuKernelEstimate{.blocks = 0, .threads = 0});
  }
}

}  // namespace

GpuFeatures gpu_features(const Program& scheduled, const Target& target) {
  FeatureRow row;
  GpuEstimate estimate;
  std::vector<GpuKernelWork> works;
  try {
    works = gpu_work_of(lower_for_cuda(scheduled, target), target);
    estimate = estimate_works(works, target);
  } catch (const LoweringError& e) {
    estimate.refusal = e.what();
  }
  fill(row, works, estimate);
  return {std::move(row.values), estimate.seconds, estimate.refusal};
}

const std::vector<std::string>& gpu_feature_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> list;
    FeatureRow row(&list);
    fill(row, {}, {});
    return list;
  }();
  return names;
}

}  // namespace tilewright
