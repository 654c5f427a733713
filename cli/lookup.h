// Looking kernels up in the database for this machine.
#pragma once

#include "cli/command.h"
#include "codegen/target.h"

namespace tilewright::cli {

struct Lookup {
  explicit Lookup(const CommonOptions& options);

  // The best kernel with its artifact, or why there is none.
  database::BestResult best(const database::Store& store, const Workload& workload) const;

  Target target;
  database::TargetIdentity identity;
  int threads;
};

}  // namespace tilewright::cli
