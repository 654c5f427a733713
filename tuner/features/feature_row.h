// A feature row for the cost model, with feature names on request.
#pragma once

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

namespace tilewright {

// Log scale for quantities that span orders of magnitude.
inline float log2p(double x) { return static_cast<float>(std::log2(1 + std::max(0.0, x))); }

class FeatureRow {
 public:
  explicit FeatureRow(std::vector<std::string>* names = nullptr) : names_(names) {}

  void add(const std::string& name, double value) {
    if (names_) names_->push_back(name);
    values.push_back(static_cast<float>(value));
  }

  std::vector<float> values;

 private:
  std::vector<std::string>* names_;
};

}  // namespace tilewright
