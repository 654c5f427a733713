// The kernels that golden text holds, one of each family.
#pragma once

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "ir/tensor_expr.h"
#include "kernel/target.h"
#include "tests/golden.h"
#include "tuner/sketch.h"

namespace tilewright {

// A kernel is that of its whole config, so a new knob or another default of the sketch changes none.
struct GoldenKernel {
  std::string family, name, spec, config;
  Target target;
  int threads = 1;

  // Under tests/golden.
  std::filesystem::path file() const {
    return std::filesystem::path("golden_kernels_test") / family / (name + ".txt");
  }

  friend void PrintTo(const GoldenKernel& k, std::ostream* out) { *out << k.name; }
};

// The cases of a file in this folder, which has a list per family.
inline std::vector<GoldenKernel> read_golden_kernels(const char* file) {
  std::ifstream in(test::source_dir() / "tests" / "tuner" / file);
  const nlohmann::json families = nlohmann::json::parse(in);
  std::vector<GoldenKernel> kernels;
  for (const auto& [family, list] : families.items()) {
    for (const nlohmann::json& j : list) {
      GoldenKernel k{family, j.at("name"), j.at("spec"), j.at("config").dump(),
                     Target::parse(j.at("target").get<std::string>())};
      k.threads = j.value("threads", 1);
      kernels.push_back(std::move(k));
    }
  }
  return kernels;
}

inline const std::vector<GoldenKernel>& golden_gpu_kernels() {
  static const std::vector<GoldenKernel> kernels = read_golden_kernels("golden_gpu_kernels.json");
  return kernels;
}

inline const std::vector<GoldenKernel>& golden_cpu_kernels() {
  static const std::vector<GoldenKernel> kernels = read_golden_kernels("golden_cpu_kernels.json");
  return kernels;
}

// A replayed config answers every question of the sketch, and no other.
inline Schedule golden_schedule(const GoldenKernel& k, const Workload& w) {
  const Sketch& sketch = (k.target.is_cuda() ? cuda_sketches() : cpu_sketches()).front();
  Trial trial = Trial::replay(k.config);
  return apply_sketch(sketch, {w, k.target, k.threads}, trial);
}

}  // namespace tilewright
