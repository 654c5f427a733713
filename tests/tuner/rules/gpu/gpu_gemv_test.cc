// GEMV: products of a matrix and few vectors on GPUs, in every thread shape.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "codegen/cuda_lowering.h"
#include "ir/ops/spec.h"
#include "runtime/cuda/cubin.h"
#include "runtime/cuda/nvrtc.h"
#include "tests/tuner/gpu_check.h"
#include "tuner/gpu/gpu_model.h"

namespace tilewright {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

const Target& sm_80() {
  static const Target target = Target::parse("cuda:sm_80");
  return target;
}

Choices choices_of_gemv(const std::string& shape) { return plain_with({{".gemv", shape}}); }

Schedule with_shape_gemv(const Workload& w, const Target& target, const std::string& shape) {
  return gpu_schedule(w, target, choices_of_gemv(shape));
}

// Shapes for the weight in its original layout.
std::vector<std::string> shapes_of(const Workload& w, const Target& target) {
  std::vector<std::string> shapes =
      options_of(gpu_trial(w, target, {{".layout?", "none"}}), ".gemv");
  std::erase(shapes, "none");
  return shapes;
}

struct GemvCase {
  const char* spec;
  const char* loads;  // loads of the matrix in the kernel's text
  friend void PrintTo(const GemvCase& c, std::ostream* out) { *out << c.spec; }
};

const GemvCase kGemvCases[] = {
    {"matmul:m=1,n=64,k=512,dtype=f16,trans_b=true", "tw_ld<8>(B"},
    {"matmul:m=3,n=40,k=264,dtype=bf16,trans_b=true,epilogue=[bias,gelu]", "tw_ld<8>(B"},
    {"matmul:m=2,n=37,k=300,trans_b=true", "tw_ld<4>(B"},
    {"matmul:m=16,n=64,k=512,dtype=f16,trans_b=true,batch=2", "tw_ld<8>(B"},
    {"matmul:m=1,n=64,k=1024,dtype=i8,trans_b=true", "tw_ld<16>(B"},
    {"matmul:m=1,n=32,k=520,dtype=u8,trans_b=true", "tw_ld<8>(B"},
    {"matmul:m=4,n=64,k=1040,dtype=f8e4m3,out=bf16,trans_b=true", "tw_ld<16>(B"},
    {"matmul:m=1,n=64,k=2048,w.dtype=u4,w.group=32,w.zero=u4,trans_b=true", "tw_ld<16>(B"},
    {"matmul:m=2,n=64,k=2048,w.dtype=nf4,w.group=64,trans_b=true", "tw_ld<16>(B"},
    {"matmul:m=1,n=256,k=96,dtype=f16", "tw_ld<8>(B"},
    {"matmul:m=3,n=128,k=70,dtype=bf16,epilogue=[bias,relu]", "tw_ld<8>(B"},
    {"matmul:m=4,n=64,k=64,batch=2", "tw_ld<4>(B"},
    {"matmul:m=1,n=128,k=192,dtype=i8", "tw_ld<16>(B"},
    {"matmul:m=2,n=128,k=192,w.dtype=i4,w.group=32", "tw_ld<16>(B"},
    {"matmul:m=70,n=1,k=512,dtype=f16", "tw_ld<8>(A"},
    {"matmul:m=64,n=5,k=96,dtype=f16,trans_a=true", "tw_ld<8>(A"},
};

class GpuGemv : public ::testing::TestWithParam<GemvCase> {};

// The first, middle and last shape.
TEST_P(GpuGemv, IsRightInItsShapes) {
  Workload w = make_workload(parse_spec(GetParam().spec));
  std::vector<std::string> shapes = shapes_of(w, sm_80());
  ASSERT_FALSE(shapes.empty());
  for (const std::string& shape : {shapes.front(), shapes[shapes.size() / 2], shapes.back()}) {
    SCOPED_TRACE(shape);
    Schedule s = with_shape_gemv(w, sm_80(), shape);
    expect_right_on_gpu(w, s, sm_80());
    EXPECT_THAT(generate_cuda(s.module(), sm_80()).text, HasSubstr(GetParam().loads));
  }
}

TEST_P(GpuGemv, CompilesWithoutSpills) {
  if (!cuda::nvrtc_problem().empty()) GTEST_SKIP() << "NVRTC: " << cuda::nvrtc_problem();
  Workload w = make_workload(parse_spec(GetParam().spec));
  for (const char* arch : {"sm_75", "sm_90a"}) {
    if (!cuda::nvrtc_accepts(arch)) continue;
    Target target = Target::parse(std::string("cuda:") + arch);
    ASSERT_FALSE(shapes_of(w, target).empty());
    CudaSource source =
        generate_cuda(with_shape_gemv(w, target, shapes_of(w, target).front()).module(), target);
    std::string cubin = cuda::compile_to_cubin(source.text, "kernel", arch);
    EXPECT_EQ(cuda::cubin_facts(cubin, source.launches.at(0).entry).local_accesses(), 0)
        << source.text;
  }
}

INSTANTIATE_TEST_SUITE_P(Specs, GpuGemv, ::testing::ValuesIn(kGemvCases), [](const auto& info) {
  std::string name;
  for (char c : std::string(info.param.spec)) {
    name += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  }
  return name;
});

TEST(GpuGemvForm, ReadsTheMatrixOnceAndStoresEachResultOnce) {
  Workload w = make_workload(parse_spec("matmul:m=1,n=64,k=2048,dtype=f16,trans_b=true"));
  for (const char* shape : {"8x1/4", "2x4/2", "1x4/1"}) {
    GpuRun run = run_on_emulator(w, with_shape_gemv(w, sm_80(), shape), sm_80());
    ASSERT_TRUE(run.emulated.ok()) << run.emulated.fault->to_string() << run.source.text;
    const EmulatorCounters& c = run.emulated.counters;
    EXPECT_EQ(c.load_sectors * 32, c.load_bytes) << "no byte is read in vain";
    const int64_t rows = std::string(shape).back() - '0';
    EXPECT_EQ(c.load_bytes, 64 * 2048 * 2 + 64 * 2048 * 2 / rows)
        << "the vector comes with each warp's rows";
    EXPECT_EQ(c.store_bytes, 64 * 2);
    EXPECT_EQ(c.shuffles, 5 * 64 * (shape[2] - '0'));
  }
}

TEST(GpuGemvForm, BytesAreMultipliedByFour) {
  auto text = [](const std::string& spec) {
    Workload w = make_workload(parse_spec(spec));
    return generate_cuda(gpu_schedule(w, sm_80(), Trial::first()).module(), sm_80()).text;
  };
  EXPECT_THAT(text("matmul:m=1,n=64,k=1024,dtype=i8,trans_b=true"), HasSubstr("tw_dp4a((int)"));
  EXPECT_THAT(text("matmul:m=1,n=64,k=1024,dtype=u8,trans_b=true"),
              HasSubstr("tw_dp4a((unsigned)"));
  EXPECT_THAT(text("matmul:m=1,n=64,k=1000,dtype=i8,trans_b=true"), Not(HasSubstr("tw_dp4a(")))
      << "a tile hangs over the end";
  const std::string mixed =
      "expr:expr=\"C[i,j] += A[i,k] * B[j,k]\",dims.i=2,dims.j=64,dims.k=1024,dtype=i8,dtypes.B=u8";
  EXPECT_THAT(text(mixed), HasSubstr("tw_dp4a((unsigned)tw_word_at(B"));
  expect_right_on_gpu(make_workload(parse_spec(mixed)),
                      gpu_schedule(make_workload(parse_spec(mixed)), sm_80(), Trial::first()),
                      sm_80());
}

TEST(GpuGemvForm, IsTheFirstAnswerForVectorsAndNotForMatrices) {
  auto first = [](const std::string& spec, const char* target = "cuda:sm_90a") {
    return choice_of(gpu_trial(make_workload(parse_spec(spec)), Target::parse(target)), ".gemv");
  };
  EXPECT_EQ(first("matmul:m=1,n=16384,k=16384,dtype=f16,trans_b=true"), "8x1/4");
  EXPECT_EQ(first("matmul:m=1,n=4096,k=14336,dtype=f16,trans_b=true"), "4x2/4");
  EXPECT_EQ(first("matmul:m=16,n=4096,k=4096,dtype=f16,trans_b=true"), "none");
  EXPECT_EQ(first("matmul:m=17,n=4096,k=4096,dtype=f16,trans_b=true"), "not asked");
  EXPECT_EQ(first("matmul:m=1,n=64,k=64,dtype=f16,trans_b=true"), "not asked")
      << "little to take turns at";
  EXPECT_EQ(first("matmul:m=1,n=4097,k=4096,dtype=f16"), "not asked") << "rows that begin anywhere";
}

// In the model, the kernel is bound by memory, and beats a thread block per row.
TEST(GpuGemvForm, IsBoundByMemory) {
  Target target = Target::parse("cuda:sm_90a");
  Workload w = make_workload(parse_spec("matmul:m=1,n=16384,k=16384,dtype=f16,trans_b=true"));
  GpuEstimate rows = estimate_gpu(with_shape_gemv(w, target, "8x1/4").program(), target);
  ASSERT_TRUE(rows.fits()) << rows.refusal;
  EXPECT_EQ(rows.kernels.at(0).bound_by, GpuLimit::Dram);
  EXPECT_LT(rows.kernels.at(0).of(GpuLimit::Issue), 0.5 * rows.kernels.at(0).of(GpuLimit::Dram));
  GpuEstimate one = estimate_gpu(with_shape_gemv(w, target, "none").program(), target);
  ASSERT_TRUE(one.fits()) << one.refusal;
  EXPECT_LT(rows.seconds, one.seconds);
}

// A lane's loop over one element is no loop of its own: random choices used to read past the list.
TEST(GpuGemv, OddReductionsTakeOtherShapes) {
  for (const char* spec : {"matmul:m=1,n=64,k=33,dtype=f16,trans_b=true",
                           "attention:heads=2,m=20,n=33,d=16,dtype=f16"}) {
    const Workload w = make_workload(parse_spec(spec));
    for (uint64_t seed = 0; seed < 40; ++seed) {
      Trial trial = Trial::random(seed);
      EXPECT_NO_THROW(apply_sketch(cuda_sketches().front(), {w, sm_80(), 1}, trial)) << seed;
    }
  }
}

}  // namespace
}  // namespace tilewright
