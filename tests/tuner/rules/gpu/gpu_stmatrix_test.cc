// Epilogues that store results to shared memory by stmatrix.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "codegen/cuda/instructions/cuda_instruction.h"
#include "codegen/cuda_lowering.h"
#include "ir/ops/spec.h"
#include "runtime/cuda/cubin.h"
#include "runtime/cuda/nvrtc.h"
#include "tests/tuner/gpu_check.h"
#include "tests/tuner/hopper.h"
#include "tuner/gpu/gpu_work.h"

namespace tilewright {
namespace {

using ::testing::HasSubstr;

Schedule stored(const Workload& w, const char* stores, const char* rows,
                const Target& target = hopper()) {
  const bool bytes = w.inputs.front().buffer->elem == ElemType::f8e4m3;
  return gpu_schedule(w, target,
                      {{".tile", bytes ? "64x64x64/32x32" : "64x64x32/32x32"},
                       {".stages", 2},
                       {".stores", stores},
                       {".rows", rows}});
}

TEST(GpuStmatrix, ResultsOf16BitsGoThroughIt) {
  for (const char* spec : {"matmul:m=64,n=128,k=64,dtype=f16,trans_b=true,out=f16",
                           "matmul:m=128,n=64,k=53,dtype=bf16,out=bf16,epilogue=[bias,relu]",
                           "matmul:m=64,n=192,k=32,dtype=f16,out=bf16,batch=2,trans_a=true",
                           "matmul:m=64,n=64,k=64,dtype=f8e4m3,out=bf16,trans_b=true"}) {
    for (const char* rows : {"swizzled", "padded"}) {
      SCOPED_TRACE(std::string(spec) + " " + rows);
      Workload w = make_workload(parse_spec(spec));
      Schedule s = stored(w, "stmatrix", rows);
      EXPECT_THAT(generate_cuda(s.module(), hopper()).text, HasSubstr("tw_stmatrix_x4("));
      expect_right_on_gpu(w, s, hopper());
    }
  }
  Workload halves = make_workload(parse_spec("matmul:m=64,n=64,k=64,dtype=f16,acc=f16"));
  expect_right_on_gpu(halves, stored(halves, "stmatrix", "swizzled"), hopper());
}

// Four matrices per instruction; each row covers its own eighth of the banks.
TEST(GpuStmatrix, TakesFewerInstructionsAndNoBankTwice) {
  Workload w = make_workload(parse_spec("matmul:m=64,n=128,k=64,dtype=f16,trans_b=true,out=f16"));
  auto run = [&](const char* stores) {
    GpuRun run = run_on_emulator(w, stored(w, stores, "swizzled"), hopper());
    EXPECT_TRUE(run.emulated.ok());
    return run.emulated.counters;
  };
  EmulatorCounters elements = run("shared"), matrices = run("stmatrix");
  EXPECT_EQ(elements.stmatrix, 0);
  EXPECT_EQ(matrices.stmatrix, 64 * 128 / (4 * 64));
  EXPECT_LT(matrices.shared_stores, elements.shared_stores);
  EXPECT_EQ(matrices.bank_conflicts(), 0);
  EXPECT_EQ(matrices.store_sectors, elements.store_sectors);
}

TEST(GpuStmatrix, TheModelCountsItsPasses) {
  Workload w = make_workload(parse_spec("matmul:m=64,n=128,k=64,dtype=f16,trans_b=true,out=f16"));
  Schedule s = stored(w, "stmatrix", "padded");
  EmulatorCounters c = run_on_emulator(w, s, hopper()).emulated.counters;
  auto works = gpu_work_of(lower_for_cuda(s.program(), hopper()), hopper());
  ASSERT_EQ(works.size(), 1u);
  EXPECT_NEAR(works[0].shared_passes * static_cast<double>(works[0].blocks),
              static_cast<double>(c.shared_passes), 0.25 * static_cast<double>(c.shared_passes));
}

// A lane that addresses another row, or transposes a matrix, gives a wrong result.
TEST(GpuStmatrix, AWrongMapIsSeen) {
  Workload w = make_workload(parse_spec("matmul:m=64,n=64,k=64,dtype=f16,trans_b=true,out=f16"));
  Schedule s = stored(w, "stmatrix", "padded");
  auto verdict = [&](const std::string& from, const std::string& to) {
    GpuRun run = run_on_emulator(w, s, hopper(), {}, 1, [&](std::string& text) {
      size_t call = text.find("tw_stmatrix_x4("), at = text.find(from, call);
      ASSERT_NE(call, std::string::npos) << text;
      ASSERT_NE(at, std::string::npos) << text;
      text.replace(at, from.size(), to);
    });
    return run.emulated.ok() ? run.checked.verdict : Verdict::Wrong;
  };
  EXPECT_EQ(verdict("tw_stmatrix_x4(", "tw_stmatrix_x4("), Verdict::Ok);
  EXPECT_EQ(verdict("tw_stmatrix_x4(", "tw_stmatrix_x4_trans("), Verdict::Wrong);
  EXPECT_EQ(verdict("tx % 8", "tx / 4 % 8"), Verdict::Wrong);
}

std::vector<std::string> ways_of_stmatrix(const std::string& spec, const Target& target) {
  return options_of(gpu_trial(make_workload(parse_spec(spec)), target), ".stores");
}

TEST(GpuStmatrix, IsOfferedWhereTheTargetHasItAndElementsFit) {
  using ::testing::Contains;
  using ::testing::Not;
  const std::string f16 = "matmul:m=64,n=64,k=64,dtype=f16";
  EXPECT_THAT(ways_of_stmatrix(f16, hopper()), Contains("stmatrix"));
  EXPECT_THAT(ways_of_stmatrix(f16, Target::parse("cuda:sm_120")), Contains("stmatrix"));
  EXPECT_THAT(ways_of_stmatrix(f16, Target::parse("cuda:sm_89")), Not(Contains("stmatrix")));
  EXPECT_THAT(ways_of_stmatrix(f16 + ",out=f32", hopper()), Not(Contains("stmatrix")));
  EXPECT_THAT(ways_of_stmatrix("matmul:m=63,n=64,k=64,dtype=f16", hopper()),
              Not(Contains("stmatrix")))
      << "what hangs over is not stored";
}

TEST(GpuStmatrix, CompilesToTheInstruction) {
  if (!cuda::nvrtc_problem().empty()) GTEST_SKIP() << "NVRTC: " << cuda::nvrtc_problem();
  Workload w = make_workload(parse_spec("matmul:m=512,n=512,k=128,dtype=f16,trans_b=true,out=f16"));
  for (const char* name : {"cuda:sm_90a", "cuda:sm_100", "cuda:sm_120"}) {
    Target target = Target::parse(name);
    const std::string arch = target.name.substr(target.name.find(':') + 1);
    if (!cuda::nvrtc_accepts(arch)) continue;
    SCOPED_TRACE(name);
    for (const char* rows : {"swizzled", "padded"}) {
      CudaSource source = generate_cuda(stored(w, "stmatrix", rows, target).module(), target);
      cuda::CubinFacts facts = cuda::cubin_facts(
          cuda::compile_to_cubin(source.text, "kernel", arch), source.launches.at(0).entry);
      EXPECT_GT(facts.count("STSM"), 0) << source.text;
      EXPECT_EQ(facts.local_accesses(), 0) << source.text;
    }
  }
}

// The annotation on loops of another form.
TEST(GpuStmatrix, RefusesWhatIsNoMatrixOfElementsOf16Bits) {
  Workload w = make_workload(parse_spec("matmul:m=64,n=64,k=64,dtype=f16,trans_b=true,out=f16"));
  Schedule direct = stored(w, "direct", "padded");
  Block result = direct.block("C");
  direct.annotate(direct.loops(result).end()[-2], kInstructionKey, std::string(kStmatrix));
  EXPECT_THAT(lowering_refusal(direct, hopper()),
              HasSubstr("it must be loops over two or four matrices, in one over threads, around a "
                        "vectorized store of two elements of 16 bits to shared memory, on no "
                        "condition"));
  EXPECT_THAT(lowering_refusal(stored(w, "stmatrix", "padded"), Target::parse("cuda:sm_80")),
              HasSubstr("is marked as stmatrix, which cuda:sm_80 does not have"));
}

}  // namespace
}  // namespace tilewright
