#include "cli/gpu_kernel.h"

#include <fmt/format.h>

#include "cli/output/progress.h"
#include "codegen/codegen.h"
#include "runtime/check/weight_packing.h"
#include "runtime/cuda/nvrtc.h"
#include "tuner/measure/gpu_offline_kernel.h"
#include "tuner/sketch.h"

namespace tilewright::cli {

GpuKernel stored_gpu_kernel(const Workload& w, const database::Record& record,
                            const database::Artifact& artifact) {
  GpuKernel k;
  try {
    k.description = CudaDescription::from_json(artifact.description);
  } catch (const Error& e) {
    throw database::DatabaseError(database::DatabaseError::Kind::Damaged,
                                  fmt::format("the stored kernel of {}: {}",
                                              spec_to_inline(parse_spec(w.canonical)), e.what()));
  }
  k.description.source.text = artifact.source;
  k.cubin.assign(reinterpret_cast<const char*>(artifact.bytes.data()), artifact.bytes.size());
  k.config = record.config;
  k.predicted = record.offline;
  std::string seconds = readable_seconds(record.median_seconds);
  k.origin = record.offline
                 ? fmt::format("Chosen for {} by a model that expects {}; not measured",
                               record.target.chip, seconds)
                 : fmt::format("Tuned for {}, where it takes {}", record.target.chip, seconds);
  return k;
}

GpuKernel default_gpu_kernel(const Workload& w, const Target& target) {
  GpuKernel k;
  Trial none = Trial::first();
  Schedule schedule = apply_sketch(cuda_default_sketch(), {w, target, 1}, none);
  k.description.source = generate_cuda(schedule.module(), target);
  k.config = none.config();
  k.origin = "The untuned default for " + target.name;
  return k;
}

GpuKernel gpu_kernel_for(const Workload& w, const CommonOptions& options, const Lookup& lookup,
                         bool untuned, const std::string& otherwise,
                         const std::map<std::string, int64_t>& sizes) {
  if (untuned) return default_gpu_kernel(w, lookup.target);
  database::Store store = open_store(options);
  database::BestResult best = lookup.best_or_predicted(store, w, sizes);
  if (!best.record || !best.artifact) throw MissError(w, options, best.miss, otherwise);
  GpuKernel kernel = stored_gpu_kernel(w, *best.record, *best.artifact);
  kernel.range = best.range;
  return kernel;
}

void compile_kernel(GpuKernel& k, const Target& target) {
  if (!k.cubin.empty()) return;
  const CudaSource& source = k.description.source;
  k.cubin = cuda::compile_to_cubin(source.text, "kernel", architecture_of(target));
  k.description.facts = facts_of_cubin(source, k.cubin);
  k.description.packing = compile_packing(source.packing);
}

}  // namespace tilewright::cli
