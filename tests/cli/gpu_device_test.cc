// Commands on a machine with a GPU: a stand-in for its driver, which knows no kernel of ours.
#include <gmock/gmock.h>

#include "cli/kernel_worker.h"
#include "runtime/cuda/nvrtc.h"
#include "runtime/worker/worker_pool.h"
#include "tests/cli/fake_gpu.h"
#include "tests/cli/support.h"

namespace tilewright::cli {
namespace {

using testing::HasSubstr;

class GpuDevice : public FakeGpu {
 protected:
  static constexpr const char* kWords = "--quiet --json --target cuda:sm_80 softmax:m=4,n=64";
};

TEST_F(GpuDevice, TargetsNameIt) {
  const Json targets = run("targets --json", driver()).json()["targets"];
  int found = 0;
  for (const Json& t : targets) {
    if (t["target"] != "cuda:sm_80") continue;
    ++found;
    EXPECT_EQ(t["device"], "Fake GPU");
    EXPECT_EQ(t["runs_here"], true);
  }
  EXPECT_EQ(found, 1);
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

// One kernel touches what is not its own, the next never ends, then there are right ones: each fault
// takes its worker along and nothing else.
TEST_F(GpuDevice, AWorkerThatLosesItsDeviceDiesAlone) {
  using test::ScopedEnv;
  fs::path script = dir_ / "script";
  std::ofstream(script) << "fh";
  ScopedEnv driver("TILEWRIGHT_CUDA_DRIVER", (dir_ / "driver.so").c_str());
  ScopedEnv faults("FAKE_CUDA_SCRIPT", script.c_str());
  WorkerPool pool(WorkerOptions{{TILEWRIGHT_BINARY_DIR "/tune-cli", "job-worker"}, 0, {}}, 1);
  Workload w = parse_workload("elementwise:shape=64,fn=relu");
  CommonOptions options;
  options.target = "cuda:sm_80";
  Lookup lookup(options);
  auto measured = [&](double timeout) {
    pool.submit("measure", to_json(measure_job(w, artifact(w, "tw_relu"), lookup)), timeout);
    std::vector<Completion> done;
    while (done.empty()) done = pool.wait(1);
    const JobResult& r = done.front().result;
    return r.status == JobStatus::Done ? measure_result_from_json(r.result) : failed_measurement(r);
  };
  MeasureResult fault = measured(kPatience);
  EXPECT_EQ(fault.verdict, Verdict::Runtime);
  EXPECT_THAT(fault.message, HasSubstr("CUDA_ERROR_ILLEGAL_ADDRESS"));
  EXPECT_EQ(measured(1).verdict, Verdict::Timeout);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(measured(kPatience).verdict, Verdict::Ok);
  EXPECT_EQ(read(script), "..");
}

// The stand-in's clock gives every kernel the same time, so that one range is all there is to learn.
TEST_F(GpuDevice, ARangeOfSizesIsMeasuredAtSeveralOfThem) {
  if (!cuda::nvrtc_problem().empty()) GTEST_SKIP() << "NVRTC: " << cuda::nvrtc_problem();
  const std::string spec = "--target cuda:sm_80 'elementwise:shape=[1..64],fn=relu'";
  const std::string known = driver() + " FAKE_CUDA_ANY=1 FAKE_CUDA_ROWS=1";
  Ran tuned = run("tune --json --quiet --trials 4 --one-order " + spec, known);
  ASSERT_EQ(tuned.code, 0) << tuned.err;
  Json dispatch = tuned.json()["results"][0]["dispatch"];
  EXPECT_EQ(dispatch["predicted"], false);
  EXPECT_EQ(dispatch["one_order"], true);
  ASSERT_EQ(dispatch["ranges"].size(), 1u) << dispatch.dump();
  EXPECT_EQ(dispatch["ranges"][0]["last"], 64);
  EXPECT_GE(dispatch["points"].size(), 19u);
  for (const Json& point : dispatch["points"]) EXPECT_NEAR(point["seconds"], 1.5e-3, 1e-9);
  const Json best = run("best --json " + spec, known).json()["results"][0];
  EXPECT_EQ(best["dispatch"]["ranges"][0]["record"], dispatch["ranges"][0]["record"]);
  const Json replayed = run("replay --json --dim d0=9 " + spec, known).json()["results"][0];
  EXPECT_EQ(replayed["checked"], true) << replayed.dump();
  EXPECT_EQ(replayed["range"]["last"], 64);
  const Json timed = run("bench --json --dim d0=9 " + spec, known).json()["results"][0];
  EXPECT_NEAR(timed["default_seconds"], 1.5e-3, 1e-9) << "timed at this size: " << timed.dump();
  using namespace database;
  Store store = Store::open(dir_ / "tilewright.db", Mode::ReadOnly);
  for (const Record& r : store.records({.verdict = database::Verdict::Valid}).records) {
    EXPECT_EQ(r.points.size(), 4u) << "timed at each tuned size but the largest";
  }
}

TEST_F(GpuDevice, TheTunerGoesOnAfterAFault) {
  if (!cuda::nvrtc_problem().empty()) GTEST_SKIP() << "NVRTC: " << cuda::nvrtc_problem();
  std::ofstream(dir_ / "script") << "f";
  Ran tuned = run("tune --json --quiet --trials 4 --target cuda:sm_80 elementwise:shape=64,fn=relu",
                  driver() + " FAKE_CUDA_ANY=1 FAKE_CUDA_SCRIPT=script");
  ASSERT_EQ(tuned.code, 0) << tuned.err;
  Json result = tuned.json()["results"][0];
  EXPECT_EQ(result["invalid"]["runtime"], 1);
  EXPECT_GT(result["valid"], 0);
  EXPECT_NEAR(result["best"]["seconds"], 1.5e-3, 1e-9) << "the events' time";
  using namespace database;
  Store store = Store::open(dir_ / "tilewright.db", Mode::ReadOnly);
  for (const Record& r : store.records().records) {
    EXPECT_EQ(r.target.chip, "Fake GPU");
    EXPECT_THAT(r.driver_version, HasSubstr("CUDA 13.0"));
  }
  Json run_arguments = Json::parse(store.runs()[0].args);
  EXPECT_EQ(run_arguments["device"]["name"], "Fake GPU");
  EXPECT_EQ(run_arguments["device"]["clock_mhz"], 1410);
}

}  // namespace
}  // namespace tilewright::cli
