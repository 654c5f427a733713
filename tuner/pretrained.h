// The cost model that comes with the tuner: what a machine with an empty database starts from.
#pragma once

#include <cstddef>
#include <set>
#include <string>
#include <vector>

#include "database/store.h"
#include "tuner/cost_model.h"

namespace tilewright {

// The bytes of the shipped model (for CostModel::load), of features of kFeatureVersion. Made by
// scripts/pretrain.
std::vector<std::byte> pretrained_model();

struct TrainingOptions {
  bool from_nothing = false;      // leave the shipped model out
  std::set<std::string> without;  // hashes of workloads that are not to be learnt from
  int threads = 1;
};

// A model of everything that the database holds of a target: the shipped model, trained further.
// `samples` is set to the number of records used; the model is untrained when there are none.
CostModel train_on(const database::Store& store, const std::string& target_hash,
                   const TrainingOptions& options, int64_t* samples);

// Stores it as the target's model, to which later runs go back.
void store_model(database::Store& store, const std::string& target_hash, const CostModel& model,
                 int64_t samples);

}  // namespace tilewright
