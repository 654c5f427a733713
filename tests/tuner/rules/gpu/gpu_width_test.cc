// Each operator and each pair of types on each target. The untuned kernel must be right in the
// emulator, and NVIDIA's compiler must take it without spills.
#include <gmock/gmock.h>

#include <set>

#include "ir/ops/spec.h"
#include "runtime/cuda/cubin.h"
#include "runtime/cuda/nvrtc.h"
#include "tests/tuner/gpu_check.h"

namespace tilewright {
namespace {

constexpr const char* kWidthTargets[] = {"sm_75",  "sm_80",  "sm_86", "sm_89",
                                         "sm_90a", "sm_100", "sm_120"};

class GpuWidth : public ::testing::TestWithParam<const char*> {
 protected:
  Workload workload_ = make_workload(parse_spec(GetParam()));

  // With NVRTC's name of the architecture.
  void for_each_target(const std::function<void(const Target&, const std::string&)>& fn) {
    for (const char* arch : kWidthTargets) {
      SCOPED_TRACE(arch);
      fn(Target::parse(std::string("cuda:") + arch), arch);
    }
  }
};

// A text that several targets share runs once.
TEST_P(GpuWidth, IsRightForEachTarget) {
  std::set<std::string> seen;
  for_each_target([&](const Target& target, const std::string&) {
    Schedule s = gpu_schedule(workload_, target, Trial::first());
    if (seen.insert(generate_cuda(s.module(), target).text).second) {
      expect_right_on_gpu(workload_, s, target);
    }
  });
}

TEST_P(GpuWidth, CompilesForEachTarget) {
  if (!cuda::nvrtc_problem().empty()) GTEST_SKIP() << "NVRTC: " << cuda::nvrtc_problem();
  for_each_target([&](const Target& target, const std::string& arch) {
    if (!cuda::nvrtc_accepts(arch)) return;
    Schedule s = gpu_schedule(workload_, target, Trial::first());
    CudaSource source = generate_cuda(s.module(), target);
    const std::string cubin = cuda::compile_to_cubin(source.text, "kernel", arch);
    for (const CudaLaunch& l : source.launches) {
      EXPECT_EQ(cuda::cubin_facts(cubin, l.entry).local_accesses(), 0) << source.text;
    }
  });
}

// Activations beside weights of each type that is multiplied exactly or by a table. There are one
// row and several, and operators that are not matrix products.
INSTANTIATE_TEST_SUITE_P(
    Specs, GpuWidth,
    ::testing::Values(
        "matmul:m=20,n=40,k=64,dtype=f16", "matmul:m=20,n=40,k=64,dtype=bf16,batch=2",
        "matmul:m=20,n=40,k=64,dtype=i8,trans_b=true",
        "matmul:m=20,n=40,k=64,dtype=f8e4m3,out=f16,trans_b=true",
        "matmul:m=1,n=64,k=512,dtype=f16,trans_b=true",
        "matmul:m=20,n=64,k=128,dtype=f16,w.dtype=u4,w.group=64,w.zero=u4",
        "matmul:m=20,n=64,k=128,dtype=bf16,w.dtype=i2,w.group=-1,w.scale=bf16",
        "matmul:m=20,n=64,k=128,dtype=f16,w.dtype=nf4,w.group=64,w.scale=f16",
        "matmul:m=20,n=64,k=128,dtype=bf16,w.dtype=f4e2m1,w.group=32,w.scale=e8m0",
        "matmul:m=20,n=64,k=128,dtype=f16,w.dtype=f8e4m3,w.group=64",
        "matmul:m=20,n=64,k=128,dtype=f16,w.dtype=u1,w.group=64,w.scale=f16",
        "matmul:m=20,n=64,k=128,dtype=i8,w.dtype=u2", "matmul:m=20,n=64,k=128,dtype=i4,w.dtype=i2",
        "matmul:m=20,n=64,k=128,dtype=f16,w.sparse=2:4",
        "conv2d:n=1,h=8,w=8,ci=16,co=24,kernel=3,pad=1,dtype=f16,epilogue=[bias,relu]",
        "elementwise:shape=9x64,fn=silu,dtype=f16", "softmax:m=3,n=300,dtype=f16",
        "rms_norm:m=3,n=256,dtype=bf16", "reduce:shape=33x128,axes=1,kind=sum",
        "gather:rows=20,cols=32,index=7"),
    [](const auto& info) {
      std::string name;
      for (char c : std::string(info.param)) {
        name += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
      }
      return name;
    });

}  // namespace
}  // namespace tilewright
