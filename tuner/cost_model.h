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
  int rounds = 60;
  int max_depth = 6;
  double learning_rate = 0.15;
  int seed = 0;
  int threads = 1;
};

// Predicts `score`. Training twice on the same samples gives the same model. Not thread-safe.
class CostModel {
 public:
  explicit CostModel(CostModelOptions options = {});
  ~CostModel();
  CostModel(CostModel&&) noexcept;
  CostModel& operator=(CostModel&&) noexcept;

  // Replaces what was learnt. Does nothing without samples. Throws Error with XGBoost's words.
  void train(const std::vector<Sample>& samples);
  bool trained() const;
  // One prediction a row; rows have the length of the training samples.
  std::vector<float> predict(const std::vector<std::vector<float>>& rows) const;

  // The model as bytes, to be kept in the database; load() throws Error for bytes that are none.
  std::vector<std::byte> save() const;
  void load(const std::vector<std::byte>& bytes);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tilewright
