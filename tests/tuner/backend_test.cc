// Answers that differ between the two kinds of target.
#include "tuner/backend.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ir/ops/spec.h"
#include "runtime/worker/jobs.h"
#include "tuner/features/features.h"
#include "tuner/features/gpu_features.h"
#include "tuner/measure/measurer.h"

namespace tilewright {
namespace {

using ::testing::HasSubstr;

TEST(Backend, EachTargetHasOne) {
  for (const std::string& name : Target::names()) {
    const Target target = Target::parse(name);
    const bool is_gpu = name.starts_with("cuda:");
    EXPECT_EQ(&Backend::of(target), is_gpu ? &cuda_backend() : &cpu_backend()) << name;
    EXPECT_EQ(target.has_threads, !is_gpu) << name;
  }
}

TEST(Backend, BothPredictTimes) {
  const Workload w = make_workload(parse_spec("matmul:m=64,n=64,k=64"));
  for (const char* name : {"avx2", "cuda:sm_80"}) {
    SCOPED_TRACE(name);
    const Target target = Target::parse(name);
    const Backend& backend = Backend::of(target);
    Trial none = Trial::first();
    const Schedule s = apply_sketch(backend.untuned(), {w, target, 1}, none);
    const Estimate e = backend.estimate(s.program(), target, 1);
    EXPECT_GT(e.seconds, 0);
    const bool is_gpu = &backend == &cuda_backend();
    EXPECT_EQ(backend.only_predicts(), is_gpu);
    EXPECT_EQ(e.features.size(), (is_gpu ? gpu_feature_names() : feature_names()).size());
  }
  EXPECT_NE(cpu_backend().feature_version(), cuda_backend().feature_version());
}

TEST(Backend, GeneratesItsLanguage) {
  const Workload w = make_workload(parse_spec("matmul:m=64,n=64,k=64"));
  auto generated = [&](const char* name) {
    const Target target = Target::parse(name);
    Trial none = Trial::first();
    const Schedule s = apply_sketch(Backend::of(target).untuned(), {w, target, 1}, none);
    Measurement m;
    Backend::of(target).generate(s.module(), target, m);
    return m;
  };
  const Measurement cpu = generated("generic"), gpu = generated("cuda:sm_80");
  EXPECT_EQ(cpu.cuda, "");
  EXPECT_THAT(cpu.source.code, HasSubstr(cpu.source.description.main.symbol));
  EXPECT_THAT(gpu.source.code, HasSubstr("__global__"));
  BuildJob job;
  cuda_backend().complete(job, gpu, Target::parse("cuda:sm_80"));
  EXPECT_EQ(job.cuda_architecture, "sm_80");
  Measurement stored;
  cuda_backend().describe(gpu.cuda, stored);
  EXPECT_EQ(stored.cuda, gpu.cuda);
}

// A GPU's driver reserves more memory than any limit, and asks for system calls of its own.
TEST(Backend, WorkersOfCpusAreLimited) {
  const MeasureOptions options;
  EXPECT_EQ(cpu_backend().memory_limit(options), options.memory_limit);
  EXPECT_EQ(cuda_backend().memory_limit(options), 0);
  EXPECT_TRUE(cpu_backend().is_confined());
  EXPECT_FALSE(cuda_backend().is_confined());
  EXPECT_TRUE(cpu_backend().processor().has_value());
  EXPECT_FALSE(cuda_backend().processor().has_value());
}

}  // namespace
}  // namespace tilewright
