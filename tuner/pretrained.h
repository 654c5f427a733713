// The cost model that comes with the tuner: what a machine with an empty database starts from.
#pragma once

#include <cstddef>
#include <set>
#include <string>
#include <vector>

#include "codegen/target.h"
#include "database/store.h"
#include "tuner/cost_model.h"

namespace tilewright {

// The bytes of the model that is shipped for such targets (for CostModel::load), of features of
// kFeatureVersion; none for GPUs. Processors with vectors of 512 bits have one, all others another:
// what is fast on one kind tells little about the other. Made by scripts/pretrain.
std::vector<std::byte> pretrained_model(const Target& target);

struct TrainingOptions {
  std::vector<std::byte> base;    // of the model to train further; empty: from nothing
  std::set<std::string> without;  // hashes of workloads that are not to be learnt from
  int threads = 1;
  int feature_version = 0;  // of the target (feature_version())
};

// A model of everything that the database holds of a target: `options.base`, trained further.
// `samples` is set to the number of records used; the model is untrained when there are none.
CostModel train_on(const database::Store& store, const std::string& target_hash,
                   const TrainingOptions& options, int64_t* samples);

// Stores it as the target's model, to which later runs go back.
void store_model(database::Store& store, const std::string& target_hash, const CostModel& model,
                 int64_t samples, int feature_version);

}  // namespace tilewright
