// The targets that there are, and those of them that a processor runs.
#include "kernel/target.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tilewright {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const std::set<std::string> kAvx2 = {"avx", "avx2", "f16c", "fma"};
const std::set<std::string> kAvx512 = {"avx",      "avx2",     "f16c",     "fma",     "avx512f",
                                       "avx512bw", "avx512cd", "avx512dq", "avx512vl"};

// The message of the TargetError that `fn` throws, and whether the target is a known one.
template <class Fn>
std::pair<std::string, bool> refusal_target(Fn&& fn) {
  try {
    fn();
  } catch (const TargetError& e) {
    return {e.what(), e.is_known()};
  }
  return {"was not refused", false};
}

TEST(Target, TheWidestIsTheOneWhoseFeaturesAreAllThere) {
  EXPECT_EQ(Target::widest(kAvx512).name, "avx512");
  EXPECT_EQ(Target::widest(kAvx2).name, "avx2");
  EXPECT_EQ(Target::widest({"avx", "avx2", "fma"}).name, "generic");
  EXPECT_EQ(Target::widest({}).name, "generic");
  for (const std::string& feature : kAvx512) {
    std::set<std::string> fewer = kAvx512;
    fewer.erase(feature);
    EXPECT_NE(Target::widest(fewer).name, "avx512") << "without " << feature;
  }
}

TEST(Target, MissingFeaturesAreThoseOfItsCodeAndOfTheCompilersFlags) {
  EXPECT_THAT(Target::parse("avx512").missing_features(kAvx2),
              ElementsAre("avx512bw", "avx512cd", "avx512dq", "avx512f", "avx512vl"));
  EXPECT_THAT(Target::parse("avx2").missing_features(kAvx512), IsEmpty());
  EXPECT_THAT(Target::parse("generic").missing_features({}), IsEmpty());
  EXPECT_THAT(Target::parse("native").missing_features(), IsEmpty());
}

TEST(Target, OneThatThisMachineDoesNotRunIsRefusedWithWhatIsMissing) {
  Target future = Target::parse("generic");
  future.name = "future";
  future.features = {"avx1024"};
  auto [message, known] = refusal_target([&] { future.require_here(); });
  EXPECT_THAT(message, HasSubstr("target 'future' do not run on this machine, which lacks avx1024; "
                                 "the widest that does is "));
  EXPECT_TRUE(known);
  EXPECT_NO_THROW(Target::parse("native").require_here());
}

TEST(Target, ListsItsNamesWhenAskedForAnother) {
  for (const char* name :
       {"sse9", "cuda:", "cuda:sm_", "cuda:sm_x", "cuda:sm_90b", "cuda:sm_9a0"}) {
    auto [message, known] = refusal_target([&] { Target::parse(name); });
    EXPECT_EQ(message, std::string("there is no target '") + name +
                           "'; the targets are native, avx512, avx2, generic, cuda:sm_75, "
                           "cuda:sm_80, cuda:sm_86, cuda:sm_89, cuda:sm_90a, cuda:sm_100, "
                           "cuda:sm_120, and by the data sheets of further chips cuda:h100");
    EXPECT_FALSE(known);
  }
}

TEST(Target, AnArchitectureOfWhichNothingIsKnownIsRefused) {
  for (const char* name : {"cuda:sm_70", "cuda:sm_90"}) {
    auto [message, known] = refusal_target([&] { Target::parse(name); });
    EXPECT_THAT(message, HasSubstr(std::string("'") + name +
                                   "': nothing is known of this architecture; the targets are "));
    EXPECT_TRUE(known);
  }
}

TEST(Target, ThoseOfCudaSayWhatAGpuHasAndDoNotRunHere) {
  for (const char* name : {"cuda:sm_75", "cuda:sm_80", "cuda:sm_86", "cuda:sm_89", "cuda:sm_90a",
                           "cuda:sm_100", "cuda:sm_120"}) {
    Target t = Target::parse(name);
    EXPECT_TRUE(t.is_cuda());
    EXPECT_EQ(t.name, name);
    EXPECT_EQ(t.f32_lanes(), 4) << "16 bytes an access";
    EXPECT_EQ(name, "cuda:sm_" + std::to_string(t.gpu.compute_capability) +
                        (t.gpu.compute_capability == 90 ? "a" : ""));
    EXPECT_LE(t.gpu.shared_per_block, t.gpu.shared_per_sm);
    EXPECT_GE(t.gpu.threads_per_sm, t.gpu.threads_per_block);
    EXPECT_GT(t.gpu.tensor_f16, t.gpu.f32);
    EXPECT_EQ(t.gpu.has_async_copy(), t.gpu.tensor_tf32 > 0) << "both came with sm_80";
    auto [message, known] = refusal_target([&] { t.require_here(); });
    EXPECT_THAT(message, HasSubstr(std::string("kernels of target '") + name +
                                   "' do not run here: this build runs kernels on CPUs"));
    EXPECT_TRUE(known);
  }
  EXPECT_FALSE(Target::parse("generic").is_cuda());
}

TEST(Target, AFurtherChipIsItsArchitectureByAnotherDataSheet) {
  const Target h200 = Target::parse("cuda:sm_90a"), h100 = Target::parse("cuda:h100");
  EXPECT_EQ(h100.name, h200.name) << "the same code";
  EXPECT_EQ(h200.gpu.model, "H200 SXM");
  EXPECT_EQ(h100.gpu.model, "H100 SXM");
  EXPECT_LT(h100.gpu.bandwidth, h200.gpu.bandwidth);
  EXPECT_LT(h100.l2_bytes, h200.l2_bytes);
  EXPECT_EQ(h100.gpu.tensor_f16, h200.gpu.tensor_f16);
}

TEST(Target, ADevicesNameChoosesItsDataSheet) {
  const Target target = Target::parse("cuda:sm_90a");
  EXPECT_EQ(data_sheet(target, "NVIDIA H100 80GB HBM3").model, "H100 SXM");
  EXPECT_EQ(data_sheet(target, "NVIDIA H200").model, "H200 SXM");
  EXPECT_EQ(data_sheet(target, "a chip of tomorrow").model, "H200 SXM");
  EXPECT_EQ(data_sheet(Target::parse("cuda:sm_80"), "NVIDIA H100 80GB HBM3").model,
            "A100 SXM4 80GB");
}

}  // namespace
}  // namespace tilewright
