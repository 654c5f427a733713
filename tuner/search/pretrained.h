// The cost model shipped with the tuner, the start for a machine with an empty database.
#pragma once

#include <cstddef>
#include <set>
#include <string>
#include <vector>

#include "database/store.h"
#include "tuner/features/cost_model.h"

namespace tilewright {

// The bytes of the model shipped for CPUs (for CostModel::load), with features of kFeatureVersion. It
// predicts errors of the analytical model, which knows the chip. Made by scripts/pretrain.
std::vector<std::byte> pretrained_model();

struct TrainingOptions {
  std::vector<std::byte> base;    // the model to train further; empty: from scratch
  std::set<std::string> without;  // hashes of workloads to leave out
  int threads = 1;
  int feature_version = 0;  // of the target (Backend::feature_version())
};

// Trains `options.base` further on all records of a target; on those of all targets where
// `target_hash` is empty. Sets `samples` to the number of records
// used; if there are none, the model is untrained.
CostModel train_on(const database::Store& store, const std::string& target_hash,
                   const TrainingOptions& options, int64_t* samples);

// Stores the model as the target's, for later runs.
void store_model(database::Store& store, const std::string& target_hash, const CostModel& model,
                 int64_t samples, int feature_version);

}  // namespace tilewright
