// The learned cost model: gradient-boosted trees (XGBoost) that rank candidates before compilation.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace tilewright {

// One measured (or failed) candidate, in the model's terms.
struct Sample {
  std::vector<float> features;  // extract_features: the same length in all samples
  // Speed relative to the candidate's own workload: best seconds seen / seconds, in (0, 1]. 0 for a
  // candidate that failed.
  float score = 0;
};

struct CostModelOptions {
  int rounds = 60;  // trees
  int max_depth = 5;
  double learning_rate = 0.15;
  // Share of the samples that each tree may use, and share of the features that each node may use.
  // Many features are correlated, and few samples would make all trees alike.
  double samples_of_tree = 0.7, features_of_node = 0.3;
  int seed = 0;
  int threads = 1;
};

// Predicts `score`. Training is deterministic: the same samples give the same model. A NaN feature
// counts as missing. Not thread-safe.
class CostModel {
 public:
  explicit CostModel(CostModelOptions options = {});
  ~CostModel();
  CostModel(CostModel&&) noexcept;
  CostModel& operator=(CostModel&&) noexcept;

  // Replaces the trained model; does nothing without samples. With `priors` (one per sample) the
  // trees learn the residual. Throws Error with XGBoost's message.
  void train(const std::vector<Sample>& samples, const std::vector<float>& priors = {});
  // Adds trees that fit the trained model's residual. Trains a new model if none is trained.
  void train_further(const std::vector<Sample>& samples);
  bool trained() const;
  // Returns one prediction per row, on top of `priors` if the model was trained with them. Rows
  // have the length of the training samples.
  std::vector<float> predict(const std::vector<std::vector<float>>& rows,
                             const std::vector<float>& priors = {}) const;

  // The model as bytes, to be stored in the database. load() throws Error for bytes that are not a
  // model.
  std::vector<std::byte> save() const;
  void load(const std::vector<std::byte>& bytes);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tilewright
