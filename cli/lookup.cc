#include "cli/lookup.h"

#include "tuner/identity.h"
#include "tuner/sketch.h"

namespace tilewright::cli {

Lookup::Lookup(const CommonOptions& options)
    : target(Target::parse(options.target)), identity(target_identity(target)),
      threads(thread_count(options)) {}

database::BestResult Lookup::best(const database::Store& store, const Workload& workload) const {
  database::BestQuery query;
  query.workload_hash = workload.hash();
  query.target = identity;
  query.threads = threads;
  query.sketch_versions[default_sketch().name] = default_sketch().version;
  for (const Sketch& s : cpu_sketches()) query.sketch_versions[s.name] = s.version;
  return store.best(query);
}

std::vector<Workload> stored_workloads(const database::Store& store, const Lookup& lookup) {
  std::vector<Workload> all;
  for (const auto& s : store.workloads("", lookup.identity.hash)) {
    all.push_back(parse_workload(s.canonical));
    all.back().label = s.label;
  }
  return all;
}

}  // namespace tilewright::cli
