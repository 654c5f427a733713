// Weights of few bits on GPUs, in the emulator against the oracle; and through NVIDIA's compiler.
#include <gmock/gmock.h>

#include "ir/ops/spec.h"
#include "runtime/cuda/cubin.h"
#include "runtime/cuda/nvrtc.h"
#include "tests/tuner/gpu_check.h"

namespace tilewright {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// Every stored type, read code by code: by products of f32.
const std::vector<std::string>& plain_specs() {
  static const std::vector<std::string> list = {
      "matmul:m=5,n=48,k=64,w.dtype=i8",
      "matmul:m=5,n=48,k=64,w.dtype=u8,w.zero=u8",
      "matmul:m=5,n=48,k=64,w.dtype=i4,w.group=32",
      "matmul:m=5,n=48,k=64,w.dtype=u4,w.group=16,w.zero=u4",
      "matmul:m=5,n=48,k=64,w.dtype=i2,w.group=32,w.scale=bf16",
      "matmul:m=5,n=48,k=64,w.dtype=u2,w.group=32,w.zero=u2,w.scale=f16",
      "matmul:m=5,n=48,k=64,w.dtype=i1,w.group=64",
      "matmul:m=5,n=48,k=64,w.dtype=nf4,w.group=64",
      "matmul:m=5,n=48,k=64,w.dtype=f4e2m1,w.group=32,w.scale=e8m0",
      "matmul:m=5,n=48,k=64,w.dtype=f4e2m1,w.group=16,w.scale=f8e4m3",
      "matmul:m=5,n=48,k=64,w.dtype=f8e4m3,w.group=-1",
      "matmul:m=5,n=48,k=64,w.dtype=f8e5m2,w.scale=none",
      "matmul:m=3,n=33,k=29,w.dtype=u4,w.group=8,w.zero=f16",
      "matmul:m=1,n=37,k=50,w.dtype=i4,w.group=16,w.scale=f16",
      "matmul:m=1,n=37,k=192,w.dtype=i4,w.group=16,trans_b=true",
      "matmul:m=3,n=21,k=23,w.dtype=u2,w.group=7,w.zero=u4",
      "matmul:m=3,n=19,k=11,w.dtype=i1,trans_b=true",
      "matmul:m=4,n=18,k=12,batch=3,w.dtype=i4,w.group=5,trans_a=true",
      "matmul:m=3,n=40,k=30,w.dtype=i4,w.group=10,epilogue=[bias,relu]",
      "matmul:m=5,n=33,k=40,dtype=f64,w.dtype=i4,w.group=8",
      "matmul:m=5,n=33,k=40,dtype=u8,w.dtype=u4,w.zero=u4,w.group=8",
      "conv2d:n=1,h=6,w=6,ci=5,co=18,kernel=3,pad=1,w.dtype=i4,w.group=9",
      "depthwise_conv2d:n=1,h=6,w=6,c=20,kernel=3,w.dtype=i8",
      "matmul:m=5,n=48,k=64,w.sparse=2:4",
      "matmul:m=5,n=33,k=45,w.dtype=u4,w.group=8,w.zero=u4,w.sparse=4:8",
  };
  return list;
}

// Those that matrix instructions take from registers.
const std::vector<std::string>& packed_specs() {
  static const std::vector<std::string> list = {
      "matmul:m=1,n=64,k=256,dtype=f16,trans_b=true,w.dtype=u4,w.group=128,w.scale=f16,w.zero=u4",
      "matmul:m=1,n=40,k=300,dtype=f16,w.dtype=u4,w.group=32,w.scale=f16,w.zero=u4",
      "matmul:m=5,n=70,k=128,dtype=f16,trans_b=true,w.dtype=i2,w.group=-1,w.scale=f16",
      "matmul:m=17,n=48,k=64,dtype=f16,w.dtype=i4,w.group=16,w.scale=f32",
      "matmul:m=40,n=72,k=96,dtype=f16,w.dtype=u2,w.group=32,w.zero=u2",
      "matmul:m=9,n=40,k=128,dtype=f16,w.dtype=i1,w.group=64,w.scale=bf16",
      "matmul:m=9,n=40,k=128,dtype=bf16,w.dtype=i1,w.group=64",
      "matmul:m=9,n=40,k=128,dtype=bf16,w.dtype=u4,w.group=64,w.zero=u4,w.scale=bf16",
      "matmul:m=7,n=33,k=70,dtype=bf16,w.dtype=i2,w.group=-1",
      "matmul:m=7,n=40,k=64,dtype=f16,w.dtype=f4e2m1,w.group=32,w.scale=e8m0",
      "matmul:m=7,n=40,k=64,dtype=bf16,w.dtype=f4e2m1,w.group=16,w.scale=f8e4m3",
      "matmul:m=7,n=40,k=64,dtype=f16,w.dtype=f8e4m3,w.group=-1",
      "matmul:m=7,n=40,k=64,dtype=bf16,w.dtype=f8e4m3,w.group=32",
      "matmul:m=7,n=40,k=64,dtype=f16,w.dtype=f8e5m2,w.scale=none",
      "matmul:m=7,n=40,k=64,dtype=f16,w.dtype=i8,w.group=32",
      "matmul:m=7,n=40,k=64,dtype=f16,w.dtype=u8,w.group=32,w.zero=u8",
      "matmul:m=7,n=40,k=64,dtype=bf16,w.dtype=i8,w.group=32",
      "matmul:m=7,n=40,k=96,dtype=i8,w.dtype=i4",
      "matmul:m=7,n=40,k=96,dtype=i8,w.dtype=i2,trans_b=true",
      "matmul:m=7,n=40,k=128,dtype=i8,w.dtype=i1",
      "matmul:m=7,n=40,k=96,dtype=i8,acc=f32,w.dtype=i4,w.group=32",
      "matmul:m=7,n=40,k=96,dtype=i8,w.dtype=u4,w.zero=u4,w.group=32",
      "matmul:m=7,n=40,k=96,dtype=i8,acc=f32,w.dtype=i8,w.group=-1",
      "matmul:m=3,n=48,k=64,dtype=f16,a.dtype=i8,w.dtype=i4,w.group=32,w.scale=f16",
      "matmul:m=20,n=40,k=64,dtype=f16,w.dtype=i4,w.group=32,epilogue=[bias,gelu]",
      "matmul:m=16,n=48,k=128,dtype=f16,trans_b=true,w.dtype=i4,w.group=64,w.scale=f16,"
      "w.sparse=2:4",
  };
  return list;
}

std::string name_of_case(const ::testing::TestParamInfo<std::string>& info) {
  std::string name;
  for (char c : info.param) name += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  return name;
}

std::string first_text(const std::string& spec, const Target& target) {
  Workload w = make_workload(parse_spec(spec));
  return generate_cuda(gpu_schedule(w, target, Trial::first()).module(), target).text;
}

class GpuLowBit : public ::testing::TestWithParam<std::string> {};

TEST_P(GpuLowBit, IsRightWhateverTheAnswers) {
  Workload w = make_workload(parse_spec(GetParam()));
  Target target = Target::parse("cuda:sm_80");
  expect_right_on_gpu(w, gpu_schedule(w, target, Trial::first()), target);
  for (uint64_t seed : {1, 2}) {
    SCOPED_TRACE(seed);
    expect_right_on_gpu(w, gpu_schedule(w, target, Trial::random(seed)), target);
  }
}

TEST_P(GpuLowBit, CompilesForEachTarget) {
  if (!cuda::nvrtc_problem().empty()) GTEST_SKIP() << "NVRTC: " << cuda::nvrtc_problem();
  Workload w = make_workload(parse_spec(GetParam()));
  for (const char* name : {"cuda:sm_75", "cuda:sm_90a"}) {
    Target target = Target::parse(name);
    std::string arch = target.name.substr(target.name.find(':') + 1);
    if (!cuda::nvrtc_accepts(arch)) continue;
    CudaSource source = generate_cuda(gpu_schedule(w, target, Trial::first()).module(), target);
    EXPECT_NO_THROW(cuda::compile_to_cubin(source.text, "kernel", arch)) << source.text;
  }
}

INSTANTIATE_TEST_SUITE_P(Plain, GpuLowBit, ::testing::ValuesIn(plain_specs()), name_of_case);
INSTANTIATE_TEST_SUITE_P(Packed, GpuLowBit, ::testing::ValuesIn(packed_specs()), name_of_case);

class GpuPacked : public ::testing::TestWithParam<std::string> {};

TEST_P(GpuPacked, GoesToMatrixInstructionsThroughRegisters) {
  std::string text = first_text(GetParam(), Target::parse("cuda:sm_80"));
  EXPECT_THAT(text, HasSubstr("tw_mma_"));
  EXPECT_THAT(text, HasSubstr("tw_word_at(")) << "codes are taken out of words";
}

INSTANTIATE_TEST_SUITE_P(All, GpuPacked, ::testing::ValuesIn(packed_specs()), name_of_case);

}  // namespace
}  // namespace tilewright
