#include "tuner/search/trial_record.h"

#include "tuner/backend.h"

namespace tilewright {

database::Artifact artifact_of(const KernelSource& source, const std::string& object,
                               const std::string& compiler, const std::string& cuda) {
  database::Artifact a;
  auto* first = reinterpret_cast<const std::byte*>(object.data());
  a.bytes = {first, first + object.size()};
  a.description = cuda.empty() ? source.description.to_json() : cuda;
  a.source = source.code;
  a.compiler = compiler;
  for (const std::string& f : source.flags) a.flags += (a.flags.empty() ? "" : " ") + f;
  return a;
}

database::Record record_of(const Workload& workload, const database::TargetIdentity& target,
                           const Candidate& candidate, const TuneOptions& options,
                           const std::string& run_id) {
  database::Record r;
  r.workload_hash = workload.hash();
  r.workload_canonical = workload.canonical;
  r.op = workload.op;
  r.label = workload.label;
  r.target = target;
  r.sketch = candidate.sketch->name;
  r.sketch_version = candidate.sketch->version;
  r.config = candidate.config;
  r.threads = options.threads;
  r.features = candidate.features;
  r.feature_version = candidate.feature_version;
  r.seed = options.seed;
  r.run_id = run_id;
  r.tool_version = options.tool_version;
  r.driver_version = options.driver_version;
  r.is_default = candidate.is_default;
  return r;
}

database::Record confirmation_of(const database::Record& trial, const Comparison& comparison,
                                 size_t kernel, const std::string& run_id) {
  const double seconds = comparison.medians[kernel];
  database::Record r = trial;
  r.median_seconds = r.best_seconds = seconds;
  r.samples = {seconds};
  r.reason = with_claim(trial.reason, comparison.behind[kernel]);
  r.confirmed = true;
  r.created = 0;
  r.run_id = run_id;
  return r;
}

database::BestQuery best_query(const Workload& workload, const Target& target,
                               const database::TargetIdentity& identity, int threads) {
  database::BestQuery query;
  query.workload_hash = workload.hash();
  query.target = identity;
  query.threads = threads;
  query.processor = Backend::of(target).processor();
  return query;
}

}  // namespace tilewright
