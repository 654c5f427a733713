#include "tuner/features/cost_model.h"

#include <fmt/core.h>
#include <xgboost/c_api.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/error.h"
#include "runtime/machine/timer.h"

namespace tilewright {
namespace {

void check(int status, const char* what) {
  if (status != 0) throw Error(fmt::format("XGBoost: {}: {}", what, XGBGetLastError()));
}

// An XGBoost matrix of rows, freed at the end of its scope.
class Matrix {
 public:
  Matrix(const std::vector<float>& flat, size_t rows, size_t columns) {
    check(XGDMatrixCreateFromMat(flat.data(), rows, columns,
                                 std::numeric_limits<float>::quiet_NaN(), &handle_),
          "making a matrix");
  }
  ~Matrix() {
    if (handle_) XGDMatrixFree(handle_);
  }
  Matrix(Matrix&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Matrix(const Matrix&) = delete;
  Matrix& operator=(const Matrix&) = delete;
  DMatrixHandle get() const { return handle_; }
  // Sets one value per row: "label", "weight" or "base_margin". Does nothing if `values` is empty.
  void set(const char* field, const std::vector<float>& values) {
    if (values.empty()) return;
    check(XGDMatrixSetFloatInfo(handle_, field, values.data(), values.size()), field);
  }

 private:
  DMatrixHandle handle_ = nullptr;
};

Matrix matrix_of(const std::vector<Sample>& samples, const std::vector<float>& priors) {
  size_t columns = samples[0].features.size();
  std::vector<float> flat, labels, weights;
  for (const Sample& s : samples) {
    TW_ASSERT(s.features.size() == columns, "samples have features of different lengths");
    flat.insert(flat.end(), s.features.begin(), s.features.end());
    labels.push_back(s.target);
    weights.push_back(s.weight);
  }
  Matrix matrix(flat, samples.size(), columns);
  matrix.set("label", labels);
  matrix.set("weight", weights);
  matrix.set("base_margin", priors);
  return matrix;
}

constexpr double kMostError =
    1.5;  // logarithm: what is slower for another reason teaches nothing more

}  // namespace

double predicted_seconds(const std::vector<float>& features) {
  return features.empty() ? 0 : 1e-9 * (std::exp2(double{features[0]}) - 1);
}

std::vector<Sample> samples_of_errors(const MeasuredRows& rows) {
  std::vector<double> errors;
  double best = std::numeric_limits<double>::infinity();
  for (const auto& [features, seconds] : rows) {
    const double predicted = predicted_seconds(features);
    if (seconds <= 0 || predicted <= 0) continue;
    errors.push_back(std::log(seconds / predicted));
    best = std::min(best, seconds);
  }
  if (errors.empty()) return {};
  const double common = median_of(errors);
  std::vector<Sample> samples;
  for (const auto& [features, seconds] : rows) {
    if (seconds <= 0 || predicted_seconds(features) <= 0) continue;
    const double error = errors[samples.size()] - common;
    samples.push_back(sample_of_speed(features, static_cast<float>(best / seconds)));
    samples.back().target = static_cast<float>(std::clamp(error, -kMostError, kMostError));
  }
  return samples;
}

struct CostModel::Impl {
  CostModelOptions options;
  BoosterHandle booster = nullptr;

  ~Impl() { reset(); }
  void reset() {
    if (booster) XGBoosterFree(booster);
    booster = nullptr;
  }

  void set(const char* name, const std::string& value) {
    check(XGBoosterSetParam(booster, name, value.c_str()), name);
  }

  void create(const DMatrixHandle* matrices, int count) {
    reset();
    check(XGBoosterCreate(matrices, count, &booster), "making a booster");
    configure();
  }

  void configure() {
    set("objective", options.classifies ? "binary:logistic" : "reg:squarederror");
    set("max_depth", std::to_string(options.max_depth));
    set("eta", std::to_string(options.learning_rate));
    set("subsample", std::to_string(options.samples_of_tree));
    set("colsample_bynode", std::to_string(options.features_of_node));
    set("min_child_weight", "1");
    set("seed", std::to_string(options.seed));
    set("nthread", std::to_string(options.threads));
    set("verbosity", "0");
  }

  void add_trees(const Matrix& matrix) {
    int before = 0;
    check(XGBoosterBoostedRounds(booster, &before), "counting trees");
    for (int i = before; i < before + options.rounds; ++i) {
      check(XGBoosterUpdateOneIter(booster, i, matrix.get()), "training");
    }
  }
};

CostModel::CostModel(CostModelOptions options) : impl_(std::make_unique<Impl>()) {
  impl_->options = options;
}
CostModel::~CostModel() = default;
CostModel::CostModel(CostModel&&) noexcept = default;
CostModel& CostModel::operator=(CostModel&&) noexcept = default;

bool CostModel::trained() const { return impl_->booster != nullptr; }

void CostModel::train(const std::vector<Sample>& samples, const std::vector<float>& priors) {
  if (samples.empty()) return;
  Matrix matrix = matrix_of(samples, priors);
  DMatrixHandle handle = matrix.get();
  impl_->create(&handle, 1);
  impl_->add_trees(matrix);
}

void CostModel::train_further(const std::vector<Sample>& samples) {
  if (!trained()) return train(samples);
  if (samples.empty()) return;
  impl_->add_trees(matrix_of(samples, {}));
}

std::vector<float> CostModel::predict(const std::vector<std::vector<float>>& rows,
                                      const std::vector<float>& priors) const {
  if (rows.empty()) return {};
  if (!trained()) return priors.empty() ? std::vector<float>(rows.size(), 0) : priors;
  std::vector<float> flat;
  for (const auto& row : rows) flat.insert(flat.end(), row.begin(), row.end());
  Matrix matrix(flat, rows.size(), rows[0].size());
  matrix.set("base_margin", priors);
  bst_ulong count = 0;
  const float* values = nullptr;
  check(XGBoosterPredict(impl_->booster, matrix.get(), 0, 0, 0, &count, &values), "predicting");
  return {values, values + count};
}

std::vector<std::byte> CostModel::save() const {
  if (!trained()) return {};
  bst_ulong length = 0;
  const char* bytes = nullptr;
  check(XGBoosterSaveModelToBuffer(impl_->booster, R"({"format": "ubj"})", &length, &bytes),
        "saving a model");
  auto* first = reinterpret_cast<const std::byte*>(bytes);
  return {first, first + length};
}

void CostModel::load(const std::vector<std::byte>& bytes) {
  impl_->create(nullptr, 0);
  int status = XGBoosterLoadModelFromBuffer(impl_->booster, bytes.data(), bytes.size());
  if (status != 0) impl_->reset();
  check(status, "loading a model");
  impl_->configure();  // a loaded model has no training parameters for further trees
}

}  // namespace tilewright
