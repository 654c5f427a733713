// Kernels on this machine's GPU, where there is one and NVRTC makes code for it: what scripts/gpu-check
// runs before it measures.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "base/knobs.h"
#include "cli/gpu.h"
#include "cli/gpu_kernel.h"
#include "codegen/codegen.h"
#include "ir/ops/spec.h"
#include "kernel/instructions/tensor_sums.h"
#include "runtime/cuda/nvrtc.h"
#include "runtime/error.h"
#include "runtime/worker/device_bench.h"
#include "runtime/worker/worker_pool.h"
#include "tests/cli/support.h"
#include "tuner/measure/gpu_offline_kernel.h"
#include "tuner/sketch.h"

namespace tilewright::cli {
namespace {

using testing::HasSubstr;

class OnDevice : public testing::Test {
 protected:
  void SetUp() override {
    if (!cuda::nvrtc_problem().empty()) GTEST_SKIP() << "NVRTC: " << cuda::nvrtc_problem();
    for (const std::string& name : Target::names()) {
      Target target = Target::parse(name);
      if (gpu_here().runs(target) && cuda::nvrtc_accepts(architecture_of(target))) target_ = target;
    }
    if (!target_.is_cuda()) GTEST_SKIP() << "no GPU: " << gpu_here().problem;
  }

  MeasureJob job_for(const Workload& w, const GpuKernel& k) const {
    MeasureJob job;
    job.object = k.cubin;
    job.cuda = k.description.to_json();
    job.workload = w.canonical;
    job.dims = largest_sizes(w);
    job.time = false;
    return job;
  }

  // The kernel of a sketch's first answers.
  GpuKernel first_kernel(const Workload& w) const {
    GpuKernel k;
    Trial first = Trial::first();
    Schedule schedule = apply_sketch(cuda_sketches().front(), {w, target_, 1}, first);
    k.description.source = generate_cuda(schedule.module(), target_);
    compile_kernel(k, target_);
    return k;
  }

  Target target_;
};

TEST_F(OnDevice, EveryKindOfKernelIsRight) {
  cuda::DeviceBench bench;
  for (const char* spec :
       {"matmul:m=128,n=256,k=192,dtype=f16", "matmul:m=33,n=48,k=96,dtype=bf16,trans_b=true",
        "matmul:m=1,n=256,k=320,dtype=f16,trans_b=true", "matmul:m=65,n=66,k=67",
        "matmul:m=64,n=64,k=128,dtype=i8", "matmul:m=16..300,n=64,k=64,dtype=f16",
        "matmul:m=32,n=64,k=4096,dtype=f16", "softmax:m=1..64,n=1000", "layer_norm:m=5,n=768",
        "elementwise:shape=1000x33,fn=gelu", "reduce:shape=33x512,axes=1,kind=sum",
        "conv2d:n=1,h=9,w=9,ci=16,co=32,kernel=3,pad=1,dtype=f16",
        "matmul:m=1,n=256,k=256,dtype=f16,trans_b=true,w.dtype=u4,w.group=128,w.scale=f16,w.zero="
        "u4",
        "matmul:m=32,n=256,k=256,dtype=f16,trans_b=true,w.dtype=nf4,w.group=64,w.scale=f16",
        "matmul:m=16,n=128,k=128,dtype=f16,trans_b=true,w.sparse=2:4"}) {
    Workload w = parse_workload(spec);
    GpuKernel untuned = default_gpu_kernel(w, target_);
    compile_kernel(untuned, target_);
    for (const GpuKernel& k : {untuned, first_kernel(w)}) {
      MeasureResult r = bench.measure(job_for(w, k), parse_workload);
      EXPECT_EQ(r.verdict, Verdict::Ok) << spec << ": " << r.message;
    }
  }
}

TEST_F(OnDevice, AGraphComputesWhatTheProgramDoes) {
  Workload w = parse_workload("matmul:m=32,n=64,k=4096,dtype=f16");
  GpuKernel k = first_kernel(w);
  cuda::Device device(0, knob_text(Knob::CudaDriver));
  OperandSet host(operands_of(w, {}), 1);
  Oracle oracle(w, seeded_readers(host.infos(), 1), {},
                narrow_sums(device.facts().compute_capability));
  Reference reference = make_reference(host.output().elem(), host.output().shape(), 400, 1,
                                       [&](int64_t i) { return oracle.at(i); });
  cuda::DeviceOperands operands(device, host);
  ThreadPool pool(1);
  operands.pack(k.description, pool);
  cuda::DeviceProgram program(device, k.cubin, k.description,
                              operands.addresses(k.description.source, {}), {});
  cuda::DeviceGraph graph(device, [&] { program.launch(); });
  for (int turn = 0; turn < 2; ++turn) {
    operands.run_once([&] { graph.launch(); }, HostArray::Poison::First);
    CheckResult check = compare(host.output(), reference);
    EXPECT_EQ(check.verdict, Verdict::Ok) << "turn " << turn << ": " << check.message;
  }
}

// A program of one kernel with this body on the operands X and Y, 64 floats each.
GpuKernel handmade(const Workload& w, const Target& target, const std::string& body) {
  GpuKernel k;
  CudaSource& s = k.description.source;
  s.target = target.name;
  s.text =
      "extern \"C\" __global__ void tw_handmade(const float* X, float* Y) {\n" + body + "\n}\n";
  CudaLaunch l;
  l.entry = "tw_handmade";
  l.grid = {Expr(1), Expr(1), Expr(1)};
  l.block = {64, 1, 1};
  l.buffers = {0, 1};
  for (const OperandInfo& o : operands_of(w, {})) {
    s.params.push_back({o.name, o.elem, {o.shape.begin(), o.shape.end()}, o.role});
  }
  s.launches = {l};
  compile_kernel(k, target);
  return k;
}

TEST_F(OnDevice, WrongKernelsAreFoundOut) {
  Workload w = parse_workload("elementwise:shape=64,fn=relu");
  const std::string right = "  int i = threadIdx.x;\n  Y[i] = X[i] > 0 ? X[i] : 0;";
  // Beside this program, also where the tree has moved.
  const std::string tool =
      std::filesystem::read_symlink("/proc/self/exe").replace_filename("tune-cli");
  WorkerPool pool(WorkerOptions{{tool, "job-worker"}, 0, {}}, 1);
  auto measured = [&](const std::string& body, double timeout = kPatience) {
    MeasureJob job = job_for(w, handmade(w, target_, body));
    pool.submit("measure", to_json(job), timeout);
    std::vector<Completion> done;
    while (done.empty()) done = pool.wait(1);
    const JobResult& r = done.front().result;
    return r.status == JobStatus::Done ? measure_result_from_json(r.result) : failed_measurement(r);
  };
  EXPECT_EQ(measured(right).verdict, Verdict::Ok);
  EXPECT_THAT(measured(right + "\n  if (i == 7) Y[i] += 1;").message, HasSubstr("Y[7]"));
  EXPECT_THAT(measured("  int i = threadIdx.x;\n  if (i != 5) Y[i] = X[i] > 0 ? X[i] : 0;").message,
              HasSubstr("Y[5] was not written"));
  EXPECT_EQ(measured(right + "\n  if (i == 0) Y[64] = 1;").verdict, Verdict::OutOfBounds);
  EXPECT_THAT(measured(right + "\n  if (i == 0) ((float*)X)[3] += 1;").message,
              HasSubstr("the kernel changed its input 'X'"));
  MeasureResult fault = measured("  Y[(1ll << 40) + threadIdx.x] = 1;");
  EXPECT_EQ(fault.verdict, Verdict::Runtime);
  EXPECT_THAT(fault.message, HasSubstr("CUDA_ERROR_ILLEGAL_ADDRESS"));
  EXPECT_EQ(measured("  while (*(volatile float*)Y != 12345.f) {}", 10).verdict, Verdict::Timeout);
  EXPECT_EQ(measured(right).verdict, Verdict::Ok) << "a new worker has a new context";
}

}  // namespace
}  // namespace tilewright::cli
