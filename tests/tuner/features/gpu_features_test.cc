// The cost model's features of GPU candidates.
#include "tuner/features/gpu_features.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "ir/ops/spec.h"
#include "tests/tuner/choices.h"
#include "tuner/candidate.h"
#include "tuner/features/features.h"
#include "tuner/gpu/gpu_model.h"
#include "tuner/search/search.h"

namespace tilewright {
namespace {

using testing::HasSubstr;

Target h100() { return Target::parse("cuda:sm_90a"); }

const Choices kRoles = {{"C.B.layout", "none"}, {"C.mma", "wgmma_f32_f16"}, {"C.copies", "roles"}};

float feature(const std::vector<float>& row, const std::string& name) {
  const auto& names = gpu_feature_names();
  const auto at = std::find(names.begin(), names.end(), name);
  EXPECT_NE(at, names.end()) << name;
  return at == names.end() ? NAN : row[static_cast<size_t>(at - names.begin())];
}

class GpuFeaturesTest : public testing::Test {
 protected:
  Candidate with(const Choices& choices) {
    auto c = maker_.make(cuda_sketches().front(), trial_with(choices));
    EXPECT_TRUE(c);
    return *c;
  }

  Workload workload_ =
      make_workload(parse_spec("matmul:m=2048,n=2048,k=2048,dtype=f16,out=f32,trans_b=true"));
  Target target_ = h100();
  CandidateMaker maker_{workload_, target_, 1};
};

TEST_F(GpuFeaturesTest, HaveTheirNamesNumberAndAVersionOfTheirOwn) {
  const Candidate c = with({});
  EXPECT_EQ(c.features.size(), gpu_feature_names().size());
  EXPECT_EQ(c.feature_version, kGpuFeatureVersion);
  EXPECT_NE(kGpuFeatureVersion, kFeatureVersion);
  EXPECT_GT(c.predicted_seconds, 0);
  EXPECT_FLOAT_EQ(feature(c.features, "seconds"),
                  static_cast<float>(std::log2(1 + 1e9 * c.predicted_seconds)));
  EXPECT_DOUBLE_EQ(c.predicted_seconds, estimate_gpu(c.module.main, target_).seconds);
}

TEST_F(GpuFeaturesTest, TellPipesBarriersAndWavesApart) {
  const Candidate roles = with(kRoles);
  const Candidate warps = with({{"C.B.layout", "none"}, {"C.mma", "m16n8k16_f32_f16"}});
  ASSERT_THAT(roles.config, HasSubstr("roles"));
  EXPECT_EQ(feature(roles.features, "k0.wgmma"), 1);
  EXPECT_EQ(feature(warps.features, "k0.wgmma"), 0);
  EXPECT_GT(feature(roles.features, "k0.box_bytes"), 10);
  EXPECT_EQ(feature(warps.features, "k0.box_bytes"), 0);
  for (const Candidate* c : {&roles, &warps}) {
    EXPECT_GT(feature(c->features, "k0.barriers"), 1) << c->config;
    EXPECT_GT(feature(c->features, "k0.tensor_share"), 0) << c->config;
    EXPECT_GT(feature(c->features, "k0.waves_filled"), 0) << c->config;
    EXPECT_LE(feature(c->features, "k0.waves_filled"), 1) << c->config;
  }
  EXPECT_LT(feature(roles.features, "k0.instructions"), feature(warps.features, "k0.instructions"));
}

TEST_F(GpuFeaturesTest, WhatDoesNotRunFitsNot) {
  const GpuFeatures none = gpu_features(with(kRoles).module.main, Target::parse("cuda:sm_75"));
  ASSERT_EQ(none.values.size(), gpu_feature_names().size());
  EXPECT_EQ(none.seconds, 0);
  EXPECT_FALSE(none.refusal.empty());
  EXPECT_EQ(feature(none.values, "fits"), 0);
}

// Measured times correct the predictions; without measurements the prediction decides.
TEST_F(GpuFeaturesTest, TheRankerStartsFromWhatIsPredicted) {
  SearchPolicy policy(maker_, {.seed = 3});
  const CostModel untrained;
  double best = INFINITY;  // predicted, among the measured candidates
  for (int i = 0; i < 2; ++i) {
    for (const Candidate& c : policy.propose(12, untrained)) {
      best = std::min(best, c.predicted_seconds);
      policy.tell(outcome_of(c, c.predicted_seconds * 1.3));
    }
  }
  const std::vector<Candidate> next = policy.propose(8, untrained);
  ASSERT_FALSE(next.empty());
  // In the model, most proposals are about as fast as the best so far.
  std::vector<double> relative;
  for (const Candidate& c : next) {
    relative.push_back(c.predicted_seconds > 0 ? best / c.predicted_seconds : 0);
  }
  std::sort(relative.begin(), relative.end());
  EXPECT_GT(relative[relative.size() / 2], 0.5);
}

}  // namespace
}  // namespace tilewright
