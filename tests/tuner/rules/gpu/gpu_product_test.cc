// Products with matrix instructions in all forms: layouts, im2col, split-K, dynamic sizes.
#include <gmock/gmock.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "ir/ops/spec.h"
#include "runtime/cuda/cubin.h"
#include "runtime/cuda/nvrtc.h"
#include "tests/tuner/edited_kernel.h"
#include "tests/tuner/gpu_check.h"

namespace tilewright {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

struct ProductCase {
  const char *spec, *target, *row;
};

// Sizes that no tile divides, rows at which no 16-byte access may start, both orders of each
// operand, all kinds of convolution windows.
const std::vector<ProductCase>& cases_product() {
  static const std::vector<ProductCase> list = {
      {"matmul:m=37,n=45,k=53,dtype=f16", "cuda:sm_80", "m16n8k16_f32_f16"},
      {"matmul:m=37,n=45,k=53,dtype=f16,trans_a=true", "cuda:sm_80", "m16n8k16_f32_f16"},
      {"matmul:m=40,n=72,k=48,dtype=bf16,trans_a=true,trans_b=true", "cuda:sm_90a",
       "m16n8k16_f32_bf16"},
      {"matmul:m=17,n=70,k=40,dtype=f16,batch=3,trans_a=true,epilogue=[bias,gelu]", "cuda:sm_86",
       "m16n8k16_f32_f16"},
      {"matmul:m=5,n=72,k=64,dtype=f16,trans_b=true", "cuda:sm_80", "m16n8k16_f32_f16"},
      {"matmul:m=40,n=48,k=64,dtype=f16,acc=f16", "cuda:sm_80", "m16n8k16_f16_f16"},
      {"matmul:m=33,n=48,k=72,dtype=i8", "cuda:sm_80", "m16n8k32_s32_s8"},
      {"matmul:m=33,n=45,k=53,dtype=u8,trans_b=true", "cuda:sm_80", "m16n8k32_s32_u8"},
      {"matmul:m=34,n=48,k=64,dtype=i8,trans_a=true,trans_b=true", "cuda:sm_90a",
       "m16n8k32_s32_s8"},
      {"matmul:m=33,n=48,k=72,dtype=f8e4m3,out=bf16,trans_b=true", "cuda:sm_89",
       "m16n8k32_f32_e4m3"},
      {"matmul:m=20,n=40,k=37,dtype=f8e5m2", "cuda:sm_90a", "m16n8k32_f32_e5m2"},
      {"matmul:m=33,n=48,k=40,dtype=f16", "cuda:sm_75", "m16n8k8_f32_f16"},
      {"matmul:m=33,n=48,k=40,dtype=i8,trans_b=true", "cuda:sm_75", "m8n8k16_s32_s8"},
      {"conv2d:n=2,h=9,w=9,ci=16,co=24,kernel=3,pad=1,dtype=f16", "cuda:sm_80", "m16n8k16_f32_f16"},
      {"conv2d:n=2,h=11,w=9,ci=8,co=24,kernel=3,stride=2,dilation=2,pad=2,dtype=bf16,"
       "epilogue=[bias,relu]",
       "cuda:sm_90a", "m16n8k16_f32_bf16"},
      {"conv2d:n=1,h=12,w=12,ci=3,co=20,kernel=7,stride=2,pad=3,dtype=f16", "cuda:sm_80",
       "m16n8k16_f32_f16"},
      {"conv2d:n=2,h=8,w=7,ci=16,co=24,kernel=3,pad=1,layout=nchw,dtype=f16,epilogue=[bias]",
       "cuda:sm_80", "m16n8k16_f32_f16"},
      {"conv2d:n=1,h=8,w=8,ci=16,co=48,kernel=3,groups=2,dtype=f16,epilogue=[bias,relu]",
       "cuda:sm_80", "m16n8k16_f32_f16"},
      {"conv2d:n=1,h=8,w=8,ci=16,co=48,kernel=3,groups=2,layout=nchw,dtype=f16", "cuda:sm_80",
       "m16n8k16_f32_f16"},
      {"conv2d:n=1,h=8,w=8,ci=32,co=40,kernel=3,pad=1,dtype=i8", "cuda:sm_80", "m16n8k32_s32_s8"},
      {"conv1d:n=2,l=20,ci=16,co=24,kernel=3,stride=2,pad=1,dtype=f16", "cuda:sm_80",
       "m16n8k16_f32_f16"},
      {"conv3d:n=1,d=4,h=5,w=5,ci=8,co=24,kernel=3,pad=1,dtype=f16", "cuda:sm_80",
       "m16n8k16_f32_f16"},
      {"grouped_matmul:groups=3,blocks=4,rows=24,n=48,k=40,dtype=f16", "cuda:sm_80",
       "m16n8k16_f32_f16"},
      {"grouped_matmul:groups=2,blocks=3,rows=16,n=40,k=64,dtype=bf16,trans_b=true,epilogue=[silu]",
       "cuda:sm_90a", "m16n8k16_f32_bf16"},
      {"grouped_matmul:groups=2,blocks=3,rows=17,n=40,k=64,dtype=i8,trans_b=true", "cuda:sm_80",
       "m16n8k32_s32_s8"},
      {"conv2d:n=1,h=9,w=9,ci=5,co=6,kernel=3,pad=1", "cuda:sm_80", ""},
      {"conv3d:n=1,d=4,h=5,w=5,ci=4,co=8,kernel=3,pad=1", "cuda:sm_80", ""},
  };
  return list;
}

class GpuProducts : public ::testing::TestWithParam<ProductCase> {};

TEST_P(GpuProducts, AreRightByTheInstructionOfTheirTypes) {
  Workload w = make_workload(parse_spec(GetParam().spec));
  Target target = Target::parse(GetParam().target);
  Schedule first = gpu_schedule(w, target, Trial::first());
  const std::string row = GetParam().row;
  const std::string text = text_of(w, first, target);
  EXPECT_EQ(text.find("tw_mma") != std::string::npos, !row.empty()) << text;
  EXPECT_THAT(text, HasSubstr(row.empty() ? "" : "tw_mma_" + row + "("));
  expect_right_on_gpu(w, first, target);
  for (uint64_t seed : {1, 2}) {
    Trial trial = Trial::random(seed);
    Schedule s = apply_sketch(cuda_sketches().front(), {w, target, 1}, trial);
    SCOPED_TRACE(trial.config());
    expect_right_on_gpu(w, s, target);
  }
}

TEST_P(GpuProducts, CompileToIt) {
  if (!cuda::nvrtc_problem().empty()) GTEST_SKIP() << "NVRTC: " << cuda::nvrtc_problem();
  Workload w = make_workload(parse_spec(GetParam().spec));
  Target target = Target::parse(GetParam().target);
  std::string arch = target.name.substr(target.name.find(':') + 1);
  if (!cuda::nvrtc_accepts(arch)) GTEST_SKIP() << "this NVRTC knows no " << arch;
  CudaSource source = generate_cuda(gpu_schedule(w, target, Trial::first()).module(), target);
  std::string cubin = cuda::compile_to_cubin(source.text, "kernel", arch);
  int matrix = 0;
  for (const CudaLaunch& launch : source.launches) {
    cuda::CubinFacts facts = cuda::cubin_facts(cubin, launch.entry);
    matrix += facts.count("HMMA") + facts.count("IMMA") + facts.count("QMMA");
    EXPECT_EQ(facts.local_accesses(), 0) << "sums stay in registers\n" << source.text;
  }
  EXPECT_EQ(matrix > 0, *GetParam().row != '\0');
}

INSTANTIATE_TEST_SUITE_P(Specs, GpuProducts, ::testing::ValuesIn(cases_product()),
                         [](const auto& info) {
                           std::string name;
                           for (char c : std::string(info.param.spec)) {
                             name += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
                           }
                           return name + "_" + std::string(info.param.target).substr(8);
                         });

// Each operand as two tf32 numbers: as exact as f32, which a single tf32 is not.
TEST(GpuProduct, SplitOperandsAreAsExactAsF32) {
  Target target = Target::parse("cuda:sm_80");
  for (const char* spec : {"matmul:m=37,n=45,k=72,trans_b=true", "matmul:m=20,n=40,k=64,batch=2",
                           "matmul:m=33,n=24,k=53,trans_a=true,epilogue=[bias,relu]"}) {
    SCOPED_TRACE(spec);
    Workload w = make_workload(parse_spec(spec));
    Schedule s = gpu_schedule(w, target, {{".gemv?", "none"}, {".mma", "m16n8k8_f32_tf32x3"}});
    expect_right_on_gpu(w, s, target);
    GpuRun once = run_on_emulator(w, s, target, {}, 1, [](std::string& text) {
      text.insert(0, "#define tw_mma_m16n8k8_f32_tf32x3 tw_mma_m16n8k8_f32_tf32\n");
    });
    EXPECT_EQ(once.checked.verdict, Verdict::Wrong) << once.source.text;
  }
}

// An infinity times an infinity, or times a number that one tf32 holds, whose rest is zero.
TEST(GpuProduct, SplitOperandsKeepInfinities) {
  const Target target = Target::parse("cuda:sm_80");
  const Workload w = make_workload(parse_spec("matmul:m=32,n=40,k=64"));
  const Schedule s = gpu_schedule(w, target, {{".gemv?", "none"}, {".mma", "m16n8k8_f32_tf32x3"}});
  const CudaSource source = generate_cuda(s.module(), target);
  OperandSet operands(operands_of(w, {}), 1);
  HostArray &a = *operands.find("A"), &b = *operands.find("B");
  a.set(3 * 64 + 5, INFINITY);
  b.set(5 * 40 + 7, -INFINITY);
  b.set(5 * 40 + 8, 1);
  EXPECT_TRUE(emulate_program({source, {}}, operands, {}, {}).ok());
  EXPECT_EQ(operands.output().get(3 * 40 + 7), -INFINITY);
  EXPECT_EQ(operands.output().get(3 * 40 + 8), INFINITY);
}

// A plain weight stored by tiles, or in fragment order.
TEST(GpuProduct, PlainWeightsMayBePacked) {
  Target target = Target::parse("cuda:sm_80");
  const std::pair<const char*, const char*> list[] = {
      {"matmul:m=16,n=72,k=160,dtype=f16,trans_b=true,out=f32", "m16n8k16_f32_f16"},
      {"matmul:m=37,n=136,k=96,dtype=bf16,out=f32", "m16n8k16_f32_bf16"},
      {"matmul:m=5,n=64,k=128,dtype=i8,trans_b=true", "m16n8k32_s32_s8"},
      {"matmul:m=40,n=136,k=64,dtype=i8", "m16n8k32_s32_s8"}};
  for (const auto& [spec, row] : list) {
    Workload w = make_workload(parse_spec(spec));
    for (const char* layout : {"tiles", "ldmatrix", "fragments"}) {
      SCOPED_TRACE(std::string(spec) + " " + layout);
      Schedule s =
          gpu_schedule(w, target, {{".gemv?", "none"}, {".B.layout", layout}, {".mma?", row}});
      ASSERT_EQ(s.module().packs.size(), 1u);
      EXPECT_THAT(text_of(w, s, target), HasSubstr("tw_mma_" + std::string(row)));
      expect_right_on_gpu(w, s, target);
    }
  }
}

TEST(GpuProduct, SwizzledRowsMeetNoBankTwice) {
  Target target = Target::parse("cuda:sm_80");
  const std::string half = "64x64x32/32x32", wide = "64x64x64/32x32";
  for (auto [spec, tile] : {std::pair{"matmul:m=64,n=128,k=256,dtype=f16,trans_b=true", half},
                            std::pair{"matmul:m=64,n=128,k=256,dtype=f16,trans_b=true", wide},
                            std::pair{"matmul:m=64,n=128,k=64,dtype=bf16", half},
                            std::pair{"matmul:m=64,n=128,k=64,dtype=f16,trans_a=true", half},
                            std::pair{"matmul:m=64,n=128,k=128,dtype=i8,trans_b=true", wide}}) {
    Workload w = make_workload(parse_spec(spec));
    for (int stages : {1, 3}) {
      Schedule s = gpu_schedule(
          w, target, {{".rows", "swizzled"}, {".tile", tile}, {".stages", stages}, {".group", 1}});
      GpuRun run = run_on_emulator(w, s, target);
      ASSERT_TRUE(run.emulated.ok()) << run.emulated.fault->to_string() << run.source.text;
      EXPECT_EQ(run.checked.verdict, Verdict::Ok) << run.checked.message;
      EXPECT_THAT(run.source.text, HasSubstr("tw_swizzle<"));
      EXPECT_EQ(run.emulated.counters.bank_conflicts(), 0) << spec << run.source.text;
    }
  }
}

// A weight in ldmatrix order has no bank conflicts by itself. It is copied as 16-byte vectors, with
// neither swizzle nor padding.
TEST(GpuProduct, WeightsInTheOrderOfLdmatrixMeetNoBankTwice) {
  Target target = Target::parse("cuda:sm_80");
  for (auto [spec, tile, row] :
       {std::tuple{"matmul:m=64,n=128,k=256,dtype=f16,trans_b=true", "64x64x32/32x32",
                   "m16n8k16_f32_f16"},
        std::tuple{"matmul:m=64,n=128,k=128,dtype=bf16", "64x64x32/32x32", "m16n8k16_f32_bf16"},
        std::tuple{"matmul:m=64,n=128,k=128,dtype=i8", "64x64x64/32x32", "m16n8k32_s32_s8"}}) {
    SCOPED_TRACE(spec);
    Workload w = make_workload(parse_spec(spec));
    Schedule s = gpu_schedule(w, target,
                              {{".gemv?", "none"},
                               {".B.layout", "ldmatrix"},
                               {".mma", row},
                               {".parts?", 1},
                               {".stores", "direct"},
                               {".tile", tile},
                               {".stages", 2},
                               {".rows", "swizzled"}});
    GpuRun run = run_on_emulator(w, s, target);
    ASSERT_TRUE(run.emulated.ok()) << run.emulated.fault->to_string() << run.source.text;
    EXPECT_EQ(run.checked.verdict, Verdict::Ok) << run.checked.message << run.source.text;
    EXPECT_EQ(run.emulated.counters.bank_conflicts(), 0) << run.source.text;
    EXPECT_THAT(run.source.text, HasSubstr("tw_cp_async<16>(B_shared + "));
    EXPECT_THAT(run.source.text, Not(HasSubstr("B_shared + (tw_swizzle")));
    EXPECT_THAT(run.source.text, Not(HasSubstr("_trans(")));
    EXPECT_EQ(run.emulated.counters.load_sectors * 32, run.emulated.counters.load_bytes);
  }
}

// The next 16 bytes of such a row lie elsewhere; kernels that read the adjacent bytes are wrong.
TEST(GpuProduct, MatricesAreReadWhereTheyLie) {
  Target target = Target::parse("cuda:sm_80");
  Workload w = make_workload(parse_spec("matmul:m=64,n=128,k=64,dtype=f16,trans_b=true,out=f32"));
  Schedule s = gpu_schedule(w, target,
                            {{"C.gemv?", "none"},
                             {"C.B.layout", "ldmatrix"},
                             {"C.mma", "m16n8k16_f32_f16"},
                             {".parts?", 1},
                             {"C.tile", "64x64x32/32x32"},
                             {"C.stages", 2},
                             {"C.rows", "padded"}});
  expect_right_on_gpu(w, s, target);
  const GpuRun run = run_edited(w, s, target, "((lane % 16) * 8 +", "((lane % 8) * 8 +");
  EXPECT_NE(outcome_of(run), "ok") << run.source.text;
}

TEST(GpuProduct, PaddedRowsTakeMoreMemoryAndNoSwizzle) {
  Target target = Target::parse("cuda:sm_80");
  Workload w = make_workload(parse_spec("matmul:m=64,n=64,k=64,dtype=f16,trans_b=true"));
  auto with_rows = [&](const char* rows) {
    return generate_cuda(
        gpu_schedule(w, target, {{".rows", rows}, {".tile", "64x64x32/32x32"}, {".stages", 2}})
            .module(),
        target);
  };
  CudaSource padded = with_rows("padded"), swizzled = with_rows("swizzled");
  EXPECT_THAT(padded.text, Not(HasSubstr("tw_swizzle")));
  EXPECT_EQ(swizzled.launches[0].shared_bytes, 2 * 128 * 64);
  EXPECT_EQ(padded.launches[0].shared_bytes, 2 * 128 * 80);
}

// A warp stores at least 32 bytes of each row that it touches, not only the 16 that its lanes hold.
TEST(GpuProduct, ResultsGoThroughSharedMemoryInWholeSectors) {
  Target target = Target::parse("cuda:sm_80");
  for (const char* spec : {"matmul:m=64,n=128,k=64,dtype=f16,trans_b=true,out=f16",
                           "matmul:m=37,n=45,k=53,dtype=bf16,out=bf16,epilogue=[bias,relu]",
                           "matmul:m=40,n=72,k=64,dtype=i8,batch=2"}) {
    Workload w = make_workload(parse_spec(spec));
    expect_right_on_gpu(w, gpu_schedule(w, target, {{".stores", "shared"}, {".group", 1}}), target);
  }
  Workload w = make_workload(parse_spec("matmul:m=64,n=128,k=64,dtype=f16,trans_b=true,out=f16"));
  auto counters = [&](const char* stores) {
    GpuRun run =
        run_on_emulator(w, gpu_schedule(w, target, {{".stores", stores}, {".group", 1}}), target);
    return run.emulated.counters;
  };
  EmulatorCounters direct = counters("direct"), shared = counters("shared");
  EXPECT_EQ(direct.store_sectors * 16, direct.store_bytes);
  EXPECT_EQ(shared.store_sectors * 32, shared.store_bytes);
  EXPECT_EQ(shared.bank_conflicts(), 0);
}

TEST(GpuProduct, BlocksRunInGroupsOfRows) {
  Target target = Target::parse("cuda:sm_80");
  Workload w = make_workload(parse_spec("matmul:m=256,n=128,k=32,dtype=f16,trans_b=true"));
  Schedule s = gpu_schedule(w, target, {{".group", 4}, {".tile", "32x64x32/32x16"}});
  CudaSource source = generate_cuda(s.module(), target);
  ASSERT_EQ(as_int(source.launches[0].grid[0]), 16);
  // Blocks 0 to 3 are the first tile rows of the first column; 4 to 7 those of the second column.
  EXPECT_THAT(source.text, HasSubstr("bx % 4"));
  expect_right_on_gpu(w, s, target);
}

// Split-K: the parts' sums lie in memory between two kernels, and are added in order.
TEST(GpuProduct, LongSumsAreFormedInParts) {
  Target target = Target::parse("cuda:sm_80");
  for (const char* spec : {"matmul:m=20,n=72,k=2048,dtype=f16,trans_b=true,epilogue=[bias,relu]",
                           "matmul:m=20,n=72,k=2048,dtype=i8", "matmul:m=20,n=64,k=1024"}) {
    Workload w = make_workload(parse_spec(spec));
    Schedule s = gpu_schedule(w, target, Trial::first());
    GpuRun run = run_on_emulator(w, s, target);
    ASSERT_TRUE(run.emulated.ok()) << run.emulated.fault->to_string() << run.source.text;
    EXPECT_EQ(run.checked.verdict, Verdict::Ok) << run.checked.message << run.source.text;
    EXPECT_EQ(run.source.launches.size(), 2u) << spec;
    EXPECT_EQ(run.source.scratch.size(), 1u) << spec;
  }
}

// From sm_90 on the second kernel is ready when the first one ends (dependent launch). It waits for
// that end before it reads data that no compiler may treat as constant.
TEST(GpuProduct, TheSecondKernelStartsBeforeTheFirstHasEnded) {
  const char* spec = "matmul:m=20,n=72,k=2048,dtype=f16,trans_b=true,epilogue=[bias,relu]";
  Workload w = make_workload(parse_spec(spec));
  for (const char* name : {"cuda:sm_89", "cuda:sm_90a", "cuda:sm_120"}) {
    SCOPED_TRACE(name);
    const Target target = Target::parse(name);
    const bool overlaps = target.gpu.compute_capability >= 90;
    Schedule s = gpu_schedule(w, target, Trial::first());
    GpuRun run = run_on_emulator(w, s, target);
    ASSERT_TRUE(run.emulated.ok()) << run.emulated.fault->to_string() << run.source.text;
    EXPECT_EQ(run.checked.verdict, Verdict::Ok) << run.checked.message;
    ASSERT_EQ(run.source.launches.size(), 2u);
    EXPECT_FALSE(run.source.launches[0].dependent);
    EXPECT_EQ(run.source.launches[1].dependent, overlaps);
    const std::string& text = run.source.text;
    const size_t second = text.rfind("__global__");
    EXPECT_EQ(text.find("tw_grid_launch_dependents();") < second, overlaps) << text;
    EXPECT_EQ(text.find("tw_grid_wait();") == std::string::npos, !overlaps) << text;
    EXPECT_EQ(text.find("TW_MADE(float)") == std::string::npos, !overlaps) << text;
    if (!overlaps) continue;
    EXPECT_GT(text.find("tw_grid_wait();"), second);
    EXPECT_GT(text.find("TW_MADE(float)"), second) << "inputs of the program are never written";
    const std::string arch = target.name.substr(target.name.find(':') + 1);
    if (!cuda::nvrtc_problem().empty() || !cuda::nvrtc_accepts(arch)) continue;
    const std::string cubin = cuda::compile_to_cubin(text, "kernel", arch);
    for (size_t i = 0; i < 2; ++i) {
      const cuda::CubinFacts facts = cuda::cubin_facts(cubin, run.source.launches[i].entry);
      EXPECT_EQ(facts.count("PREEXIT"), i == 0) << i;
      EXPECT_EQ(facts.count("ACQBULK"), i == 1) << i;
    }
  }
}

TEST(GpuProduct, SumsThatFillTheDeviceStayWhole) {
  Target target = Target::parse("cuda:sm_80");
  Workload w = make_workload(parse_spec("matmul:m=4096,n=4096,k=4096,dtype=f16"));
  Trial trial = Trial::first();
  Schedule s = apply_sketch(cuda_sketches().front(), {w, target, 1}, trial);
  EXPECT_THAT(trial.config(), Not(HasSubstr(".parts")));
}

TEST(GpuProduct, RowsMayBeAsManyAsThereAre) {
  Target target = Target::parse("cuda:sm_80");
  for (const char* spec :
       {"matmul:m=1..70,n=72,k=48,dtype=f16,trans_b=true",
        "matmul:m=1..70,n=40,k=32,dtype=bf16,epilogue=[bias,relu]", "matmul:m=1..70,n=33,k=20"}) {
    Workload w = make_workload(parse_spec(spec));
    Schedule s = gpu_schedule(w, target, Trial::first());
    for (int64_t m : {1, 5, 16, 33, 64, 70}) {
      SCOPED_TRACE(m);
      expect_right_on_gpu(w, s, target, {{"m", m}});
    }
  }
  Workload w = make_workload(parse_spec("matmul:m=1..70,n=72,k=48,dtype=f16,trans_b=true"));
  EXPECT_THAT(text_of(w, gpu_schedule(w, target, Trial::first()), target), HasSubstr("tw_mma_"));
}

// A convolution of one pixel's channels, as whole models have it: the rows of the product are two axes of the map,
// and a function reads the sum with its bias twice.
TEST(GpuProduct, AnEpilogueThatReadsASumOfSeveralAxesTwice) {
  const Workload w = make_workload(parse_spec(
      "expr:expr=\"T0[n, y, x, c] += X0[n, y, x, r] * X1[r, c]; "
      "T1[n, y, x, c] = T0[n, y, x, c] + X2[c]; "
      "Y[n, y, x, c] = T1[n, y, x, c] * max(T1[n, y, x, c], 0)\",dims.n=1,dims.y=3,dims.x=8,"
      "dims.c=16,dims.r=8,shapes.X0=[1,3,8,8],shapes.X1=[8,16],shapes.X2=[16],weights=[X1,X2]"));
  expect_right_on_gpu(w, gpu_schedule(w, ampere(), Trial::first()), ampere());
}

}  // namespace
}  // namespace tilewright
