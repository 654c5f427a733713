// The learned cost model: gradient-boosted trees (XGBoost) that rank candidates before compilation.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace tilewright {

// A row that a model learns.
struct Sample {
  std::vector<float> features;  // the same length in all samples
  float target = 0;             // to be predicted
  float weight = 1;             // of its error
};

// A sample of a speed relative to the candidate's own workload: best seconds seen / seconds, in (0, 1].
// 0: the candidate failed. The order of fast candidates matters most.
inline Sample sample_of_speed(std::vector<float> features, float speed) {
  return {std::move(features), speed, 0.1f + speed};
}

// The seconds that the analytical model predicted of a candidate with these features: the first one has
// them, for CPUs and for GPUs. 0: none.
double predicted_seconds(const std::vector<float>& features);

// Measured candidates of one workload on one machine: features and seconds (0: it failed).
using MeasuredRows = std::vector<std::pair<std::vector<float>, double>>;

// The samples that a workload gives to the judge of others: natural logarithms of measured by predicted
// seconds. Their median is taken off, which is the same for all candidates of a workload and so nothing
// that a choice depends on. Rows without a measured or a predicted time give no sample.
std::vector<Sample> samples_of_errors(const MeasuredRows& rows);

struct CostModelOptions {
  int rounds = 60;  // trees
  int max_depth = 5;
  double learning_rate = 0.15;
  // Share of the samples that each tree may use, and share of the features that each node may use.
  // Many features are correlated, and few samples would make all trees alike.
  double samples_of_tree = 0.7, features_of_node = 0.3;
  int seed = 0;
  int threads = 1;
  // Targets are 0 or 1 and predictions the probability of 1; priors are logarithms of odds.
  bool classifies = false;
};

// Predicts targets of samples. Training is deterministic: the same samples give the same model. A NaN feature
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
