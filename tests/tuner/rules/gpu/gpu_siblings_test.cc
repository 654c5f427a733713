// Dual GEMM: products of one operand in one kernel (a gated feed-forward layer), from the sketch to
// machine code.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "runtime/cuda/cubin.h"
#include "runtime/cuda/nvrtc.h"
#include "tests/tuner/gpu_check.h"
#include "tests/tuner/hopper.h"

namespace tilewright {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

TEST(GpuSiblings, AreJoinedWhereOneBlockReadsAllResults) {
  auto asked = [](const std::string& spec) {
    return options_of(gpu_trial(workload(spec), ampere()), "C_gate.products");
  };
  EXPECT_THAT(asked("gated_mlp:m=64,n=64,k=64,dtype=f16"), ElementsAre("joined", "apart"));
  EXPECT_THAT(asked("gated_mlp:m=16,n=64,k=64,dtype=f16"), ElementsAre("apart", "joined"))
      << "few rows are bound by the weights";
  EXPECT_THAT(asked("gated_mlp:m=64,n=64,k=64"), ElementsAre("apart", "joined"))
      << "f32 takes three products a product";
  EXPECT_THAT(asked("gated_mlp:m=1,n=64,k=64,dtype=f16"), IsEmpty());
  const std::string sizes = ",dims.i=64,dims.j=64,dims.k=64,dtype=f16";
  auto of_expr = [&](const std::string& expr) {
    return options_of(gpu_trial(workload("expr:expr=\"" + expr + "\"" + sizes), ampere()),
                      "P.products");
  };
  const std::string products = "P[i,j] += A[i,k] * B[k,j]; Q[i,j] += A[i,k] * D[k,j]; ";
  EXPECT_THAT(of_expr(products + "C[i,j] = P[i,j] - Q[i,j]"), ElementsAre("joined", "apart"));
  const std::string turned = products + "C[i,j] = P[i,j] - Q[j,i]";
  EXPECT_THAT(of_expr(turned), IsEmpty());
  const Workload apart = workload("expr:expr=\"" + turned + "\"" + sizes);
  expect_right_on_gpu(apart, gpu_schedule(apart, ampere(), Trial::first()), ampere());
  EXPECT_THAT(of_expr("P[i,j] += A[i,k] * B[k,j]; Q[i,j] += E[i,k] * D[k,j]; "
                      "C[i,j] = P[i,j] - Q[i,j]"),
              IsEmpty())
      << "another operand";
}

TEST(GpuSiblings, OneKernelReadsATileOfAOnce) {
  const Workload w = workload("gated_mlp:m=96,n=128,k=128,dtype=f16");
  const Schedule s = gpu_schedule(w, ampere(), {{".tile", "32x64x32/32x16"}, {".stages", 3}});
  const CudaSource source = generate_cuda(s.module(), ampere());
  EXPECT_EQ(source.launches.size(), 1u);
  EXPECT_THAT(source.text, HasSubstr("A_shared"));
  EXPECT_THAT(source.text, Not(HasSubstr("A_shared_1"))) << "one copy of A for both products";
  expect_right_on_gpu(w, s, ampere());
}

TEST(GpuSiblings, TypesTailsStoresAndMoreProducts) {
  struct Case {
    const char* spec;
    Choices choices;
  };
  for (const Case& c :
       {Case{"gated_mlp:m=33,n=48,k=40,dtype=bf16,act=gelu", {{".stages", 2}}},
        {"gated_mlp:m=64,n=64,k=64,dtype=f16,trans_b=true", {{".stores", "shared"}}},
        {"gated_mlp:m=1..90,n=64,k=64,dtype=f16", {{".rows", "padded"}}},
        {"gated_mlp:m=32,n=64,k=64", {{".products", "joined"}}},
        {R"(expr:expr="P[i,j] += A[i,k] * B[k,j]; Q[i,j] += A[i,k] * D[k,j]; )"
         R"(R[i,j] += A[i,k] * E[k,j]; C[i,j] = P[i,j] * Q[i,j] + R[i,j]",)"
         "dims.i=40,dims.j=72,dims.k=64,dtype=f16",
         {{".stages", 2}}}}) {
    SCOPED_TRACE(c.spec);
    const Workload w = workload(c.spec);
    const Schedule s = gpu_schedule(w, ampere(), c.choices);
    EXPECT_EQ(generate_cuda(s.module(), ampere()).launches.size(), 1u);
    std::map<std::string, int64_t> dims;
    if (!w.dims.empty()) dims = {{"m", 70}};
    expect_right_on_gpu(w, s, ampere(), dims);
  }
}

TEST(GpuSiblings, ByWarpgroups) {
  struct Case {
    const char* spec;
    Choices choices;
  };
  const std::string way = "wgmma_f32_f16";
  for (const Case& c :
       {Case{"gated_mlp:m=128,n=128,k=256,dtype=f16",
             {{".mma", way},
              {".tile", "128x128x64/64x128"},
              {".copies", "cp_async"},
              {".stages", 3},
              {".pending", 1}}},
        {"gated_mlp:m=128,n=256,k=256,dtype=f16,trans_b=true",
         {{".mma", way},
          {".tile", "128x128x64/64x128"},
          {".copies", "roles"},
          {".stages", 3},
          {".stores", "stmatrix_tensor"},
          {".cluster", "1x2"}}},
        {"gated_mlp:m=100,n=72,k=136,dtype=f16",
         {{".mma", way}, {".tile", "64x64x64/64x64"}, {".copies", "tensor"}, {".stages", 2}}},
        {"gated_mlp:m=16,n=128,k=128,dtype=f16",
         {{".products", "joined"},
          {".mma", way + "_turned"},
          {".tile", "16x128/16"},
          {".copies", "roles"},
          {".store", "shared"}}},
        {"gated_mlp:m=24,n=64,k=128,dtype=f16",
         {{".mma", way + "_turned"}, {".copies", "cp_async"}, {".store", "direct"}}}}) {
    SCOPED_TRACE(c.spec);
    const Workload w = workload(c.spec);
    const Schedule s = gpu_schedule(w, hopper(), c.choices);
    const CudaSource source = generate_cuda(s.module(), hopper());
    EXPECT_EQ(source.launches.size(), 1u);
    EXPECT_EQ(count_of(source.text, "tw_wgmma_commit();"), 2u) << "a group for each product";
    expect_right_on_gpu(w, s, hopper());
  }
}

// Both products' wgmma groups are in flight after the loop; each one's accumulators are held until
// they finish.
TEST(GpuSiblings, AllGroupsInFlightAreWaitedFor) {
  const Workload w = workload("gated_mlp:m=64,n=64,k=256,dtype=f16");
  const Schedule s = gpu_schedule(w, hopper(),
                                  {{".mma", "wgmma_f32_f16"},
                                   {".tile", "64x64x64/64x64"},
                                   {".copies", "cp_async"},
                                   {".stages", 3},
                                   {".pending", 1}});
  const std::string text = text_of(s);
  EXPECT_EQ(count_of(text, "tw_wgmma_wait<1>();"), 2u);
  EXPECT_EQ(count_of(text, "tw_wgmma_hold(*(float"), 2u);
  GpuRun run = run_on_emulator(w, s, hopper(), {}, 1, [&](std::string& edited) {
    for (size_t at; (at = edited.find("tw_wgmma_wait<0>();")) != std::string::npos;) {
      edited.replace(at, 19, "");
    }
  });
  ASSERT_FALSE(run.emulated.ok());
  EXPECT_EQ(std::string(fault_name(run.emulated.fault->kind)), "wgmma-in-flight");
}

TEST(GpuSiblings, CompileWithSumsInRegisters) {
  if (!cuda::nvrtc_problem().empty()) GTEST_SKIP() << "NVRTC: " << cuda::nvrtc_problem();
  struct Case {
    const char *architecture, *mnemonic;
    Choices choices;
  };
  for (const Case& c : {Case{"sm_80", "HMMA", {{".tile", "128x128x32/64x32"}, {".stages", 3}}},
                        {"sm_90a",
                         "HGMMA",
                         {{".mma", "wgmma_f32_f16"},
                          {".tile", "128x128x64/64x128"},
                          {".copies", "roles"},
                          {".stages", 4},
                          {".stores", "stmatrix_tensor"}}},
                        {"sm_90a",
                         "HGMMA",
                         {{".mma", "wgmma_f32_f16"},
                          {".tile", "128x128x64/64x128"},
                          {".copies", "cp_async"},
                          {".stages", 3},
                          {".pending", 1}}}}) {
    SCOPED_TRACE(c.choices.dump());
    if (!cuda::nvrtc_accepts(c.architecture)) continue;
    const Target target = Target::parse(std::string("cuda:") + c.architecture);
    const Workload w = workload("gated_mlp:m=4096,n=4096,k=4096,dtype=f16");
    const CudaSource source = generate_cuda(gpu_schedule(w, target, c.choices).module(), target);
    cuda::CubinFacts facts = cuda::cubin_facts(
        cuda::compile_to_cubin(source.text, "kernel", c.architecture), source.launches.at(0).entry);
    EXPECT_GE(facts.count(c.mnemonic), 8) << source.text;
    EXPECT_EQ(facts.local_accesses(), 0) << source.text;
  }
}

}  // namespace
}  // namespace tilewright
