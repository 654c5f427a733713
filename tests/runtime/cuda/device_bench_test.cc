// CUDA programs checked and timed through a stand-in for the driver.
#include "runtime/worker/device_bench.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ir/ops/spec.h"
#include "kernel/cuda_description.h"
#include "runtime/check/weight_packing.h"
#include "runtime/error.h"
#include "tests/runtime/cuda/fake_driver.h"
#include "tests/runtime/support.h"

namespace tilewright {
namespace {

using test::error_of;
using test::ScopedEnv;
using testing::HasSubstr;

constexpr const char* kDeviceBenchSpec = "elementwise:shape=64,fn=relu";

class DeviceBench : public FakeDevice {
 protected:
  static MeasureJob job() {
    MeasureJob j;
    j.object = "image";
    j.cuda = fake_relu().to_json();
    j.workload = parse_workload(kDeviceBenchSpec).canonical;
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
  MeasureJob j = job();
  j.samples = 8;
  MeasureResult r = measure("right", j);
  EXPECT_EQ(r.verdict, Verdict::Ok) << r.message;
  EXPECT_EQ(r.compared, 3 * 64) << "every element, before and after timing and of hard values";
  EXPECT_GT(r.check_seconds, 0);
  EXPECT_GT(r.timing_seconds, 0);
  EXPECT_NEAR(r.timing.median, 1.5e-3, 1e-9) << "the events' time, not the clock's";
  EXPECT_EQ(r.timing.cache, CacheState::Cold) << "L2 is flushed between runs";
}

// The kernel for up to 64 elements, as many as its third argument says.
MeasureJob ranged_job(MeasureJob j) {
  const Workload w = parse_workload("elementwise:shape=[8..64],fn=relu");
  CudaDescription d = CudaDescription::from_json(j.cuda);
  d.source.dims = w.dims;
  for (KernelParam& p : d.source.params) p.shape = {KernelExtent::dimension(0)};
  j.cuda = d.to_json();
  j.workload = w.canonical;
  j.dims = largest_sizes(w);
  return j;
}

TEST_F(DeviceBench, AKernelIsTimedAtFurtherSizesAndItsRowsCompared) {
  ScopedEnv rows("FAKE_CUDA_ROWS", "1");
  MeasureJob j = ranged_job(job());
  MeasureResult r = measure("right", j);
  ASSERT_EQ(r.verdict, Verdict::Ok) << r.message;
  EXPECT_GE(r.compared, 64 + 8 + 27 + 63) << "checked at other sizes, too";
  EXPECT_TRUE(r.at_points.empty());
  j.time = j.check = false;
  for (int64_t size : {8, 20, 64}) j.points.push_back({.dims = {{"d0", size}}});
  r = measure("right", j);
  ASSERT_EQ(r.verdict, Verdict::Ok) << r.message;
  ASSERT_EQ(r.at_points.size(), 3u);
  for (double seconds : r.at_points) EXPECT_NEAR(seconds, 1.5e-3, 1e-9);
  EXPECT_EQ(r.rows_identity, "") << "nobody asked";
  j.compare_rows = true;
  const std::string identity = measure("right", j).rows_identity;
  EXPECT_EQ(identity.size(), 16u);
  EXPECT_EQ(measure("right", j).rows_identity, identity);
  EXPECT_EQ(measure("packed", j).rows_identity, "") << "which element it reads depends on the size";
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

TEST_F(DeviceBench, OrdinaryValuesAndOneCallAreNotAll) {
  MeasureResult r = measure("above", job());
  EXPECT_EQ(r.verdict, Verdict::Wrong);
  EXPECT_THAT(r.message, HasSubstr("should be"));
  EXPECT_THAT(r.message, HasSubstr(", on hard values"));
  EXPECT_TRUE(r.timing.samples.empty());
  r = measure("lazy", job());
  EXPECT_EQ(r.verdict, Verdict::Wrong);
  EXPECT_EQ(r.message, "Y[0] was not written, after it was timed");
  MeasureJob ranged = ranged_job(job());
  ranged.time = false;
  ScopedEnv rows("FAKE_CUDA_ROWS", "1");
  EXPECT_GE(measure("right", ranged).compared, 2 * 64 + 8 + 27 + 63);
}

// What candidates share is made outside of any candidate's time.
TEST_F(DeviceBench, SharedOperandsArePreparedFirst) {
  ScopedEnv driver("TILEWRIGHT_CUDA_DRIVER", path.c_str());
  cuda::DeviceBench bench;
  MeasureJob j = job();
  j.cuda.clear();
  bench.prepare(j, parse_workload);
  ScopedEnv kernel("FAKE_CUDA_KERNEL", "right");
  EXPECT_EQ(bench.measure(job(), parse_workload).verdict, Verdict::Ok);
}

TEST_F(DeviceBench, AKernelThatWritesIntoItsInputIsFoundOutAndTheInputRestored) {
  ScopedEnv driver("TILEWRIGHT_CUDA_DRIVER", path.c_str());
  cuda::DeviceBench bench;
  ScopedEnv kernel("FAKE_CUDA_KERNEL", "input");
  MeasureResult r = bench.measure(job(), parse_workload);
  EXPECT_EQ(r.verdict, Verdict::Wrong);
  EXPECT_EQ(r.message, "the kernel changed its input 'X'");
  ScopedEnv next("FAKE_CUDA_KERNEL", "right");
  EXPECT_EQ(bench.measure(job(), parse_workload).verdict, Verdict::Ok);
}

// The same operator on an input that a packing function lays out in reverse order.
MeasureJob packed_job(MeasureJob j, bool compiled) {
  CudaDescription d = CudaDescription::from_json(j.cuda);
  d.source.params[0].name = "X_packed";
  KernelSource& packing = d.source.packing;
  packing.code = test::kPrelude +
                 "int32_t tw_main(void* const* a, const int64_t* d, const tw_context* c) {\n"
                 "  (void)a; (void)d; (void)c;\n  return 0;\n}\n"
                 "int32_t tw_pack_0(void* const* a, const int64_t* d, const tw_context* c) {\n"
                 "  (void)d; (void)c;\n"
                 "  for (int i = 0; i < 64; ++i) ((float*)a[1])[i] = ((float*)a[0])[63 - i];\n"
                 "  return 0;\n}\n";
  packing.description.main.symbol = "tw_main";
  packing.description.packs = {{"tw_pack_0", {test::param("X", {64}), d.source.params[0]}}};
  if (compiled) d.packing = compile_packing(packing);
  j.cuda = d.to_json();
  return j;
}

TEST_F(DeviceBench, WeightsArePackedWithoutACompiler) {
  MeasureJob compiled = packed_job(job(), true), source = packed_job(job(), false);
  EXPECT_EQ(measure("right", compiled).verdict, Verdict::Wrong) << "it reads them in order";
  {
    ScopedEnv none("TILEWRIGHT_CC", "/no/such/cc");
    MeasureResult r = measure("packed", compiled);
    EXPECT_EQ(r.verdict, Verdict::Ok) << r.message;
    EXPECT_GT(r.pack_seconds, 0);
    EXPECT_THAT(error_of<ToolchainError>([&] { measure("packed", source); }),
                HasSubstr("/no/such/cc"));
  }
  EXPECT_EQ(measure("packed", source).verdict, Verdict::Ok) << "compiled here";
  CudaDescription d = CudaDescription::from_json(compiled.cuda);
  d.packing.processor = "another";
  compiled.cuda = d.to_json();
  EXPECT_EQ(measure("packed", compiled).verdict, Verdict::Ok) << "compiled anew for this processor";
}

TEST_F(DeviceBench, PackingThatDoesNotFitTheWorkloadIsAVerdict) {
  MeasureJob j = packed_job(job(), true);
  CudaDescription d = CudaDescription::from_json(j.cuda);
  d.source.packing.description.packs[0].params[0].shape = {32};
  j.cuda = d.to_json();
  MeasureResult r = measure("packed", j);
  EXPECT_EQ(r.verdict, Verdict::Runtime);
  EXPECT_EQ(r.message, "packing function 'tw_pack_0' reads 'X' as f32[32], the operand is f32[64]");
  d.source.packing.description.packs[0].params[0].name = "W";
  j.cuda = d.to_json();
  EXPECT_EQ(measure("packed", j).message,
            "packing function 'tw_pack_0' reads 'W', which is no operand");
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
  EXPECT_THAT(r.message,
              HasSubstr("kernel parameter 'no operand' is no operand of the workload, and nothing "
                        "packs it"));
}

TEST_F(DeviceBench, WithoutAGpuNoCandidateIsBlamed) {
  ScopedEnv none("FAKE_CUDA_NO_DEVICE", "1");
  EXPECT_THAT(error_of<ToolchainError>([&] { measure("right", job()); }),
              HasSubstr("no GPU: the CUDA driver does not start"));
}

// A program captured once and started as a graph.
TEST_F(DeviceBench, AGraphComputesWhatTheProgramDoes) {
  MeasureJob j = job();
  CudaDescription description = CudaDescription::from_json(j.cuda);
  cuda::Device device(0, path);
  OperandSet host(operands_of(parse_workload(kDeviceBenchSpec), {}), 3);
  cuda::DeviceOperands operands(device, host);
  cuda::DeviceProgram program(device, j.object, description,
                              operands.addresses(description.source, {}), {});
  operands.run_once(program, HostArray::Poison::First);
  std::vector<double> right;
  for (int64_t i = 0; i < 64; ++i) right.push_back(host.output().get(i));
  cuda::DeviceGraph graph(device, [&] { program.launch(); });
  operands.run_once([&] { graph.launch(); }, HostArray::Poison::First);
  for (int64_t i = 0; i < 64; ++i) ASSERT_EQ(host.output().get(i), right[static_cast<size_t>(i)]);
  EXPECT_THAT(error_of<DeviceError>(
                  [&] { cuda::DeviceGraph(device, [&] { device.wait("waiting in a capture"); }); }),
              HasSubstr("waiting in a capture: CUDA_ERROR"));
  device.wait("the stream is of use again");
  ScopedEnv fail("FAKE_CUDA_FAIL", "cuGraphInstantiateWithFlags");
  EXPECT_THAT(error_of<DeviceError>([&] { cuda::DeviceGraph(device, [&] { program.launch(); }); }),
              HasSubstr("making a graph: CUDA_ERROR"));
}

TEST_F(DeviceBench, JobsTravelAsJson) {
  MeasureJob j = job();
  MeasureJob back = measure_job_from_json(to_json(j));
  EXPECT_EQ(back.cuda, j.cuda);
  EXPECT_EQ(back.object, j.object);
  BuildJob build;
  build.source.code = "text";
  build.cuda_architecture = "sm_80";
  build.packing = CudaDescription::from_json(packed_job(job(), false).cuda).source.packing;
  BuildJob built = build_job_from_json(to_json(build));
  EXPECT_EQ(built.cuda_architecture, "sm_80");
  EXPECT_EQ(built.packing.code, build.packing.code);
  EXPECT_EQ(built.packing.description.packs.size(), 1u);
  BuildResult result;
  result.packing_object = "object";
  EXPECT_EQ(build_result_from_json(to_json(result)).packing_object, "object");
}

TEST_F(DeviceBench, FactsAreToldWithoutOpeningTheDevice) {
  ScopedEnv fail("FAKE_CUDA_FAIL", "cuCtxSetCurrent");
  EXPECT_EQ(cuda::device_facts(0, path).name, "Fake GPU");
}

}  // namespace
}  // namespace tilewright
