// Commands on a machine with a GPU: a stand-in for its driver, which knows no kernel of ours.
#include <gmock/gmock.h>

#include "runtime/cuda/nvrtc.h"
#include "tests/cli/support.h"
#include "tests/runtime/cuda/fake_driver.h"

namespace tilewright::cli {
namespace {

using testing::HasSubstr;

class GpuDevice : public Cli {
 protected:
  void SetUp() override {
    Cli::SetUp();
    KernelSource source;
    source.language = SourceLanguage::Cxx;
    source.code = kFakeDriver;
    source.flags = {"-O0"};
    ASSERT_TRUE(write_file_atomic((dir_ / "driver.so").string(), compile(source).object));
  }
  std::string driver() const {
    return "TILEWRIGHT_CUDA_DRIVER='" + (dir_ / "driver.so").string() + "'";
  }
  static constexpr const char* kWords = "--quiet --json --target cuda:sm_80 softmax:m=4,n=64";
};

TEST_F(GpuDevice, TargetsNameIt) {
  for (const Json& t : run("targets --json", driver()).json()["targets"]) {
    if (t["target"] != "cuda:sm_80") continue;
    EXPECT_EQ(t["device"], "Fake GPU");
    EXPECT_EQ(t["runs_here"], true);
  }
  EXPECT_THAT(run("targets", driver()).out, HasSubstr("runs here on Fake GPU"));
}

TEST_F(GpuDevice, AnotherArchitectureIsRefusedByName) {
  Ran ran = run("tune --target cuda:sm_90a softmax:m=4,n=64", driver());
  EXPECT_EQ(ran.code, 4);
  EXPECT_THAT(ran.err, HasSubstr("the GPU of this machine, Fake GPU, is sm_80"));
}

TEST_F(GpuDevice, KernelsThatTheDriverDoesNotTakeAreFailuresWithReasons) {
  if (!cuda::nvrtc_problem().empty()) GTEST_SKIP() << "NVRTC: " << cuda::nvrtc_problem();
  Ran tuned = run(std::string("tune --trials 3 ") + kWords, driver());
  EXPECT_EQ(tuned.code, 3) << tuned.err;
  Json result = tuned.json()["results"][0];
  EXPECT_EQ(result["valid"], 0);
  EXPECT_EQ(result["invalid"]["runtime"], result["trials"]);
  EXPECT_GT(result["trials"], 0);
  EXPECT_THAT(tuned.err, HasSubstr("CUDA_ERROR_NOT_FOUND"));
}

TEST_F(GpuDevice, WhatWasChosenWithoutItIsFoundAndTriedOnIt) {
  if (!cuda::nvrtc_problem().empty()) GTEST_SKIP() << "NVRTC: " << cuda::nvrtc_problem();
  ASSERT_EQ(run(std::string("tune --offline --trials 4 ") + kWords).code, 0);
  EXPECT_EQ(run("best --json --target cuda:sm_80", driver()).json()["results"].size(), 1u);
  Ran replayed = run(std::string("replay ") + kWords, driver());
  EXPECT_EQ(replayed.code, 3) << replayed.err;
  Json result = replayed.json()["results"][0];
  EXPECT_EQ(result["hit"], true);
  EXPECT_EQ(result["predicted"], true);
  EXPECT_THAT(result["fault"], HasSubstr("CUDA_ERROR_NOT_FOUND"));
}

}  // namespace
}  // namespace tilewright::cli
