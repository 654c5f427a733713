// The learnt cost model: gradient-boosted trees (XGBoost) that rank candidates before they are
// compiled.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace tilewright {

// One measured (or failed) candidate as the model sees it.
struct Sample {
  std::vector<float> features;  // extract_features: of one length for all samples
  // Relative speed within the candidate's own workload: best seconds seen / seconds, so in (0, 1];
  // 0 for a candidate that failed.
  float score = 0;
};

struct CostModelOptions {
  int rounds = 60;  // trees
  int max_depth = 5;
  double learning_rate = 0.15;
  // Shares of the samples that each tree and of the features that each of its nodes may use: many
  // features tell the same, and few samples would make the trees all alike.
  double samples_of_tree = 0.7, features_of_node = 0.3;
  int seed = 0;
  int threads = 1;
};

// Predicts `score`. Training twice on the same samples gives the same model. A feature that is not
// a number counts as not known. Not thread-safe.
class CostModel {
 public:
  explicit CostModel(CostModelOptions options = {});
  ~CostModel();
  CostModel(CostModel&&) noexcept;
  CostModel& operator=(CostModel&&) noexcept;

  // Replaces what was learnt. Does nothing without samples. With `priors` (one a sample) the trees
  // learn what those leave unexplained. Throws Error with XGBoost's words.
  void train(const std::vector<Sample>& samples, const std::vector<float>& priors = {});
  // Adds trees to a trained model, for what it does not explain yet; trains one that is not.
  void train_further(const std::vector<Sample>& samples);
  bool trained() const;
  // One prediction a row, on top of `priors` where the model was trained with them; rows have the
  // length of the training samples.
  std::vector<float> predict(const std::vector<std::vector<float>>& rows,
                             const std::vector<float>& priors = {}) const;

  // The model as bytes, to be kept in the database; load() throws Error for bytes that are none.
  std::vector<std::byte> save() const;
  void load(const std::vector<std::byte>& bytes);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tilewright
