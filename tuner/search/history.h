// Uses the database's earlier records for a new tuning run.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "database/store.h"
#include "ir/tensor_expr.h"
#include "tuner/features/cost_model.h"

namespace tilewright {

// A target's records as samples for the cost model, with features of this version
// (feature_version()); those of all targets where `target_hash` is empty. Records of one workload, target
// and thread count are compared with each other. At most `limit` samples. Leaves out the
// workloads in `without` (hashes).
std::vector<Sample> stored_samples(const database::Store& store, const std::string& target_hash,
                                   int feature_version, const std::set<std::string>& without = {},
                                   size_t limit = 65536);

// Configs that are good first guesses for a workload, at most 8. First come the configs that a
// model ranked best for it, on this machine or one with the same features (a GPU's data sheet).
// Then come the winners of the workloads of the same operator that are nearest in size, those at
// this number of threads first.
std::vector<std::string> similar_winners(const database::Store& store,
                                         const database::TargetIdentity& target,
                                         const Workload& workload, int threads);

}  // namespace tilewright
