// What the database's earlier records are worth to a new tuning run.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "database/store.h"
#include "ir/tensor_expr.h"
#include "tuner/cost_model.h"

namespace tilewright {

// Records of a target as samples for the cost model, each score relative to the best of its own
// workload and thread count, with features of that version (feature_version()). The newest `limit` at
// most; workloads in `without` (hashes) are left out.
std::vector<Sample> stored_samples(const database::Store& store, const std::string& target_hash,
                                   int feature_version, const std::set<std::string>& without = {},
                                   size_t limit = 16384);

// Configs that are good first guesses for a workload: what a model ranked first for it, on this machine
// or for another one of the same features (a GPU by its data sheet), then the winners of the workloads
// of its operator that are nearest in size, at this number of threads first. At most 8.
std::vector<std::string> similar_winners(const database::Store& store,
                                         const database::TargetIdentity& target,
                                         const Workload& workload, int threads);

}  // namespace tilewright
