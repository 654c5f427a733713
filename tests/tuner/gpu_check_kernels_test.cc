// The kernels that scripts/gpu-check asks a device about: each config is one of the sketch, and no two
// variants of a constant are the same kernel.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "codegen/codegen.h"
#include "tests/golden.h"
#include "tuner/sketch.h"

namespace tilewright {
namespace {

nlohmann::json kernels_of_gpu_check(const char* file) {
  std::ifstream in(test::source_dir() / "bench" / file);
  return nlohmann::json::parse(in);
}

std::string text_of_gpu_check(const nlohmann::json& kernel, const nlohmann::json& config) {
  const Workload w = parse_workload(kernel.at("spec").get<std::string>());
  const Target target = Target::parse("cuda:sm_90a");
  Trial trial = Trial::replay(config.dump());
  return generate_cuda(apply_sketch(cuda_sketches().front(), {w, target, 1}, trial).module(),
                       target)
      .text;
}

TEST(GpuCheckKernels, RungsOfTheLadderAreKernels) {
  int rungs = 0;
  for (const nlohmann::json& rung : kernels_of_gpu_check("gpu_ladder.json")) {
    SCOPED_TRACE(rung.at("feature").get<std::string>());
    ++rungs;
    EXPECT_FALSE(text_of_gpu_check(rung, rung.at("config")).empty());
  }
  EXPECT_GE(rungs, 14);
}

TEST(GpuCheckKernels, VariantsOfAConstantDiffer) {
  for (const nlohmann::json& constant : kernels_of_gpu_check("gpu_constants.json")) {
    SCOPED_TRACE(constant.at("constant").get<std::string>());
    std::set<std::string> texts;
    for (const nlohmann::json& variant : constant.at("variants")) {
      SCOPED_TRACE(variant.at("name").get<std::string>());
      nlohmann::json config = constant.at("config");
      config.merge_patch(variant.at("config"));  // null: the variant has no such knob
      const std::string macros = variant.value("macros", "");
      EXPECT_TRUE(texts.insert(macros + text_of_gpu_check(constant, config)).second);
    }
    EXPECT_GE(texts.size(), 2u);
  }
}

}  // namespace
}  // namespace tilewright
