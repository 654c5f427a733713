// Looking kernels up in the database for this machine.
#pragma once

#include "cli/command.h"
#include "codegen/target.h"

namespace tilewright::cli {

// Under which this machine's kernels for the target are kept.
database::TargetIdentity target_identity(const Target& target);

struct Lookup {
  explicit Lookup(const CommonOptions& options);

  // The best measured kernel with its artifact, or why there is none.
  database::BestResult best(const database::Store& store, const Workload& workload) const;
  // The same, or what a model ranked first where nothing was measured: its record says `offline`.
  database::BestResult best_or_predicted(const database::Store& store,
                                         const Workload& workload) const;

  Target target;
  database::TargetIdentity identity;
  int threads;
};

// Every workload that was tuned for the target, with its latest label.
std::vector<Workload> stored_workloads(const database::Store& store, const Lookup& lookup);

}  // namespace tilewright::cli
