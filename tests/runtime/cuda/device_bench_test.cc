// CUDA programs proved and timed through a stand-in for the driver.
#include "runtime/cuda/device_bench.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "codegen/cuda_description.h"
#include "ir/ops/spec.h"
#include "runtime/error.h"
#include "tests/runtime/cuda/fake_driver.h"
#include "tests/runtime/support.h"

namespace tilewright {
namespace {

using test::error_of;
using test::ScopedEnv;
using testing::HasSubstr;

constexpr const char* kSpec = "elementwise:shape=64,fn=relu";

class DeviceBench : public FakeDevice {
 protected:
  static MeasureJob job() {
    CudaDescription d;
    d.source.target = "cuda:sm_80";
    d.source.params = {{"X", ElemType::f32, {64}, ParamRole::Input},
                       {"Y", ElemType::f32, {64}, ParamRole::Output}};
    CudaLaunch l;
    l.entry = "tw_relu";
    l.buffers = {0, 1};
    l.grid = {Expr(1), Expr(1), Expr(1)};
    l.block = {64, 1, 1};
    d.source.launches = {l};
    MeasureJob j;
    j.object = "image";
    j.cuda = d.to_json();
    j.workload = parse_workload(kSpec).canonical;
    j.seed = 3;
    return j;
  }

  MeasureResult measure(const std::string& how, const MeasureJob& job) {
    ScopedEnv driver("TILEWRIGHT_CUDA_DRIVER", path.c_str());
    ScopedEnv kernel("FAKE_CUDA_KERNEL", how.c_str());
    cuda::DeviceBench bench;
    return bench.measure(job, parse_workload);
  }
};

TEST_F(DeviceBench, ARightKernelIsTimedByTheDevice) {
  MeasureResult r = measure("right", job());
  EXPECT_EQ(r.verdict, Verdict::Ok) << r.message;
  EXPECT_EQ(r.compared, 64);
  EXPECT_NEAR(r.timing.median, 1.5e-3, 1e-9) << "the events' time, not the clock's";
  EXPECT_EQ(r.timing.cache, CacheState::Cold) << "L2 is flushed between runs";
}

TEST_F(DeviceBench, WhatIsWrongIsFoundOut) {
  MeasureResult r = measure("wrong", job());
  EXPECT_EQ(r.verdict, Verdict::Wrong);
  EXPECT_EQ(r.wrong_index, 7);
  EXPECT_TRUE(r.timing.samples.empty());
  r = measure("partial", job());
  EXPECT_EQ(r.verdict, Verdict::Wrong);
  EXPECT_THAT(r.message, HasSubstr("[5] was not written"));
  r = measure("beside", job());
  EXPECT_EQ(r.verdict, Verdict::OutOfBounds);
  EXPECT_THAT(r.message, HasSubstr("the kernel writes beside its output"));
}

TEST_F(DeviceBench, AFaultIsAVerdict) {
  MeasureResult r = measure("fault", job());
  EXPECT_EQ(r.verdict, Verdict::Runtime);
  EXPECT_THAT(r.message, HasSubstr("running the kernel: CUDA_ERROR_ILLEGAL_ADDRESS"));
}

TEST_F(DeviceBench, AKernelThatDoesNotFitItsWorkloadIsAVerdict) {
  MeasureJob j = job();
  j.workload = parse_workload("gather:rows=4,cols=4,index=4").canonical;
  CudaDescription d = CudaDescription::from_json(j.cuda);
  d.source.params[0].name = "no operand";
  j.cuda = d.to_json();
  MeasureResult r = measure("right", j);
  EXPECT_EQ(r.verdict, Verdict::Runtime);
  EXPECT_THAT(r.message, HasSubstr("kernel parameter 'no operand' is no operand"));
}

TEST_F(DeviceBench, WithoutAGpuNoCandidateIsBlamed) {
  ScopedEnv none("FAKE_CUDA_NO_DEVICE", "1");
  EXPECT_THAT(error_of<ToolchainError>([&] { measure("right", job()); }),
              HasSubstr("no GPU: the CUDA driver does not start"));
}

TEST_F(DeviceBench, JobsTravelAsJson) {
  MeasureJob j = job();
  MeasureJob back = measure_job_from_json(to_json(j));
  EXPECT_EQ(back.cuda, j.cuda);
  EXPECT_EQ(back.object, j.object);
  BuildJob build;
  build.source.code = "text";
  build.cuda_architecture = "sm_80";
  EXPECT_EQ(build_job_from_json(to_json(build)).cuda_architecture, "sm_80");
}

TEST_F(DeviceBench, FactsAreToldWithoutOpeningTheDevice) {
  ScopedEnv fail("FAKE_CUDA_FAIL", "cuCtxSetCurrent");
  EXPECT_EQ(cuda::device_facts(0, path).name, "Fake GPU");
}

}  // namespace
}  // namespace tilewright
