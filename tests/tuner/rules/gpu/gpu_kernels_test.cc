// Kernels of the GPU sketches, compared with the oracle in the emulator, and through NVIDIA's
// compiler.
#include <gmock/gmock.h>

#include "ir/ops/spec.h"
#include "runtime/cuda/cubin.h"
#include "runtime/cuda/nvrtc.h"
#include "tests/tuner/gpu_check.h"
#include "tuner/backend.h"

namespace tilewright {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

const std::vector<std::string>& specs() {
  static const std::vector<std::string> list = {
      "elementwise:shape=10x63,fn=relu",
      "elementwise:shape=3x5x7x8,fn=gelu",
      "elementwise:shape=1000,fn=add",
      "elementwise:shape=9x64,fn=silu,dtype=f16",
      "softmax:m=3,n=77",
      "softmax:m=2,n=4100",
      "softmax:m=5,n=20",
      "layer_norm:m=5,n=300",
      "rms_norm:m=4,n=768,dtype=bf16",
      "reduce:shape=33x512,axes=1,kind=sum",
      "reduce:shape=100000,axes=0,kind=max",
      "reduce:shape=64x30,axes=0,kind=sum",
      "reduce:shape=5x7x9,axes=1,kind=mean",
      "norm:b=3,m=20,n=30",
      "gather:rows=20,cols=30,index=7",
      "matmul:m=37,n=45,k=53",
      "matmul:m=64,n=64,k=32,epilogue=[bias,gelu]",
      "matmul:m=33,n=50,k=20,batch=3",
      "matmul:m=33,n=50,k=20,trans_a=true",
      "matmul:m=33,n=50,k=20,trans_b=true",
      "matmul:m=33,n=48,k=40,dtype=f16",
      "matmul:m=33,n=48,k=32,dtype=bf16,epilogue=[bias,relu]",
      "matmul:m=33,n=48,k=32,dtype=i8",
      "matmul:m=70,n=90,k=100,dtype=bf16,batch=2",
      "matmul:m=40,n=72,k=48,dtype=f16,trans_b=true,epilogue=[bias,relu]",
      "matmul:m=33,n=48,k=64,dtype=i8,trans_b=true",
      "matmul:m=1,n=70,k=100",
      "matmul:m=1,n=70,k=300,trans_b=true",
      "conv2d:n=1,h=9,w=9,ci=5,co=6,kernel=3,pad=1",
      "conv2d_transpose:n=1,h=5,w=5,ci=4,co=3,kernel=4,stride=2,pad=1",
      "depthwise_conv2d:n=1,h=9,w=9,c=8,kernel=3,pad=1",
      "attention:heads=2,kv_heads=1,m=33,n=40,d=16,causal=true",
      "gated_mlp:m=33,n=48,k=40",
      "gated_mlp:m=33,n=48,k=64,dtype=f16",
      "gated_mlp:m=17,n=48,k=64,dtype=i8,out=f16",
      R"(expr:expr="T[i,l] += A[i,k] * B[k,l]; R[i,l] = max(T[i,l], 0); C[i,j] += R[i,l] * D[l,j]",)"
      "dims.i=33,dims.k=40,dims.l=48,dims.j=20,dtype=f16",
      R"(expr:expr="T[i,l] += A[i,k] * B[k,l]; R[i,l] = max(T[i,l], 0); C[i,j] += R[i,l] * D[l,j]",)"
      "dims.i=33,dims.k=40,dims.l=48,dims.j=32,dtype=f16,dtypes.R=f16",
  };
  return list;
}

class GpuKernels : public ::testing::TestWithParam<std::string> {};

TEST_P(GpuKernels, AreRightWhateverTheAnswers) {
  Workload w = make_workload(parse_spec(GetParam()));
  Target target = Target::parse("cuda:sm_80");
  expect_right_on_gpu(w, gpu_schedule(w, target, Trial::first()), target);
  for (uint64_t seed : {1, 2}) {
    SCOPED_TRACE(seed);
    expect_right_on_gpu(w, gpu_schedule(w, target, Trial::random(seed)), target);
  }
}

TEST_P(GpuKernels, AreRightWithoutAsynchronousCopies) {
  Workload w = make_workload(parse_spec(GetParam()));
  Target target = Target::parse("cuda:sm_75");
  Schedule s = gpu_schedule(w, target, Trial::random(3));
  EXPECT_THAT(generate_cuda(s.module(), target).text, Not(HasSubstr("tw_cp_async")));
  expect_right_on_gpu(w, s, target);
}

TEST_P(GpuKernels, CompileForEachTarget) {
  if (!cuda::nvrtc_problem().empty()) GTEST_SKIP() << "NVRTC: " << cuda::nvrtc_problem();
  Workload w = make_workload(parse_spec(GetParam()));
  for (const Target& target : cuda_targets()) {
    std::string arch = target.name.substr(target.name.find(':') + 1);
    if (!cuda::nvrtc_accepts(arch)) continue;
    CudaSource source = generate_cuda(gpu_schedule(w, target, Trial::first()).module(), target);
    EXPECT_NO_THROW(cuda::compile_to_cubin(source.text, "kernel", arch)) << source.text;
  }
}

INSTANTIATE_TEST_SUITE_P(Specs, GpuKernels, ::testing::ValuesIn(specs()), name_of_case);

TEST(GpuSketch, ReadsWholeSectorsAndMeetsNoBankTwice) {
  Workload w = make_workload(parse_spec("matmul:m=64,n=64,k=64"));
  Target target = Target::parse("cuda:sm_80");
  GpuRun run = run_on_emulator(w, gpu_schedule(w, target, Trial::first()), target);
  const EmulatorCounters& c = run.emulated.counters;
  EXPECT_EQ(c.bank_conflicts(), 0) << run.source.text;
  EXPECT_EQ(c.load_sectors * 32, c.load_bytes) << "no byte is read in vain";
  EXPECT_GT(c.async_copies, 0);
}

// Row sums: lanes exchange partial results by shuffles; one barrier stands between the warps and
// the total.
TEST(GpuRows, LanesExchangePartialResults) {
  Target target = Target::parse("cuda:sm_80");
  for (const char* spec :
       {"reduce:shape=3x4096,axes=1,kind=sum", "reduce:shape=3x3000,axes=1,kind=max",
        "reduce:shape=3x4096,axes=1,kind=sum,dtype=i32", "softmax:m=3,n=1000"}) {
    Workload w = make_workload(parse_spec(spec));
    Schedule s = gpu_schedule(w, target, Trial::first());
    GpuRun run = run_on_emulator(w, s, target);
    ASSERT_TRUE(run.emulated.ok()) << run.emulated.fault->to_string() << run.source.text;
    EXPECT_EQ(run.checked.verdict, Verdict::Ok) << run.checked.message << run.source.text;
    EXPECT_GT(run.emulated.counters.shuffles, 0) << spec;
  }
  Workload w = make_workload(parse_spec("reduce:shape=3x4096,axes=1,kind=sum"));
  GpuRun run = run_on_emulator(w, gpu_schedule(w, target, Trial::first()), target);
  EXPECT_EQ(run.emulated.counters.block_barriers, 3) << run.source.text;
  EXPECT_EQ(run.emulated.counters.shuffles, 3 * 8 * 5) << "8 warps a row";
}

TEST(GpuTensor, MatrixInstructionsServeTheTypesThatTheyHave) {
  auto text = [](const std::string& spec, const std::string& target) {
    Workload w = make_workload(parse_spec(spec));
    Target t = Target::parse(target);
    return generate_cuda(gpu_schedule(w, t, Trial::first()).module(), t).text;
  };
  const std::string sizes = "matmul:m=64,n=64,k=64,";
  EXPECT_THAT(text(sizes + "dtype=f16", "cuda:sm_80"), HasSubstr("tw_mma_m16n8k16_f32_f16("));
  EXPECT_THAT(text(sizes + "dtype=bf16", "cuda:sm_90a"), HasSubstr("tw_mma_m16n8k16_f32_bf16("));
  EXPECT_THAT(text(sizes + "dtype=i8,trans_b=true", "cuda:sm_80"),
              HasSubstr("tw_mma_m16n8k32_s32_s8("));
  EXPECT_THAT(text(sizes + "dtype=i8", "cuda:sm_80"), HasSubstr("tw_mma_m16n8k32_s32_s8("));
  EXPECT_THAT(text(sizes + "dtype=u8", "cuda:sm_86"), HasSubstr("tw_mma_m16n8k32_s32_u8("));
  EXPECT_THAT(text(sizes + "dtype=f16,acc=f16", "cuda:sm_80"),
              HasSubstr("tw_mma_m16n8k16_f16_f16("));
  const std::string mixed =
      "expr:expr=\"C[i,j] += A[i,k] * B[j,k]\",dims.i=64,dims.j=64,dims.k=64,dtype=u8,dtypes.B=i8";
  EXPECT_THAT(text(mixed, "cuda:sm_80"), HasSubstr("tw_mma_m16n8k32_s32_u8_s8("));
  const std::string f8 = sizes + "dtype=f8e4m3,out=bf16,trans_b=true";
  for (const char* target : {"cuda:sm_89", "cuda:sm_90a", "cuda:sm_120"}) {
    EXPECT_THAT(text(f8, target), HasSubstr("tw_mma_m16n8k32_f32_e4m3(")) << target;
  }
  EXPECT_THAT(text(f8, "cuda:sm_80"), Not(HasSubstr("tw_mma")));
  EXPECT_THAT(text(sizes + "dtype=f32", "cuda:sm_80"), Not(HasSubstr("tw_mma")))
      << "f32 is no tf32";
  EXPECT_THAT(text(sizes + "dtype=f16", "cuda:sm_75"), HasSubstr("tw_mma_m16n8k8_f32_f16("));
  EXPECT_THAT(text(sizes + "dtype=i8", "cuda:sm_75"), HasSubstr("tw_mma_m8n8k16_s32_s8("));
}

TEST(GpuTensor, CompileToTheInstructionsMeant) {
  if (!cuda::nvrtc_problem().empty()) GTEST_SKIP() << "NVRTC: " << cuda::nvrtc_problem();
  Workload w = make_workload(parse_spec("matmul:m=4096,n=4096,k=128,dtype=f16"));
  Target t = Target::parse("cuda:sm_80");
  Trial trial = Trial::first();
  Schedule s = apply_sketch(cuda_sketches().front(), {w, t, 1}, trial);
  EXPECT_THAT(trial.config(), HasSubstr(R"("C_acc.tile":"128x256x32/64x64")"));
  std::string cubin = cuda::compile_to_cubin(generate_cuda(s.module(), t).text, "kernel", "sm_80");
  cuda::CubinFacts facts = cuda::cubin_facts(cubin, "tw_matmul");
  EXPECT_GT(facts.count("HMMA"), 0);
  EXPECT_GT(facts.count("LDSM"), 0);
  EXPECT_GT(facts.count("LDGSTS"), 0);
  EXPECT_EQ(facts.local_accesses(), 0) << "sums stay in registers";
}

TEST(GpuSketch, ADefaultOfAGpuIsItsFirstAnswers) {
  Workload w = make_workload(parse_spec("matmul:m=64,n=64,k=64"));
  Target target = Target::parse("cuda:sm_80");
  Trial nothing = Trial::replay("{}");
  Schedule s = apply_sketch(cuda_default_sketch(), {w, target, 1}, nothing);
  EXPECT_EQ(generate_cuda(s.module(), target).text,
            generate_cuda(gpu_schedule(w, target, Trial::first()).module(), target).text);
  EXPECT_EQ(&Backend::of(Target::parse("generic")).untuned(), &default_sketch());
  EXPECT_EQ(&Backend::of(target).untuned(), &cuda_default_sketch());
  EXPECT_EQ(find_sketch("gpu_tiles"), &cuda_sketches().front());
}

// Keywords of the language and of CUDA, macros, names of the prelude.
TEST(GpuSketch, DimensionsAndTensorsMayHaveAnyName) {
  Workload w = make_workload(
      parse_spec(R"(expr:expr="new[class,linux] += threadIdx[class,while] * tw_ld[while,linux]",)"
                 "dims.class=1..9,dims.linux=33,dims.while=20"));
  for (const char* name : {"cuda:sm_75", "cuda:sm_80"}) {
    const Target target = Target::parse(name);
    Schedule s = gpu_schedule(w, target, Trial::first());
    expect_right_on_gpu(w, s, target, {{"class", 5}});
    const std::string arch = target.name.substr(target.name.find(':') + 1);
    if (!cuda::nvrtc_problem().empty() || !cuda::nvrtc_accepts(arch)) continue;
    const std::string text = generate_cuda(s.module(), target).text;
    EXPECT_NO_THROW(cuda::compile_to_cubin(text, "kernel", arch)) << text;
  }
}

TEST(GpuSketch, AConfigReplays) {
  Workload w = make_workload(parse_spec("matmul:m=100,n=64,k=64"));
  Target target = Target::parse("cuda:sm_90a");
  Trial trial = Trial::random(5);
  Schedule s = apply_sketch(cuda_sketches().front(), {w, target, 1}, trial);
  Schedule again = gpu_schedule(w, target, Trial::replay(trial.config()));
  EXPECT_EQ(s.trace().str(), again.trace().str());
}

// Large workloads get large tiles; small ones get small tiles that reach more SMs.
TEST(GpuSketch, TheFirstTileFitsTheWork) {
  Target target = Target::parse("cuda:sm_80");
  auto config = [&](const std::string& spec) {
    Workload w = make_workload(parse_spec(spec));
    Trial trial = Trial::first();
    apply_sketch(cuda_sketches().front(), {w, target, 1}, trial);
    return trial.config();
  };
  EXPECT_THAT(config("matmul:m=4096,n=4096,k=64"), HasSubstr(R"("C.tile":"128x128x16/8x8")"));
  EXPECT_THAT(config("matmul:m=64,n=64,k=64"), HasSubstr(R"("C.tile":"32x32x32/4x4")"));
}

}  // namespace
}  // namespace tilewright
