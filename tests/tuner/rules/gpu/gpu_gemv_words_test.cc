// GEMV with few-bit weights on GPUs: threads unpack packed 32-bit registers of codes.
#include <gmock/gmock.h>

#include <algorithm>

#include <nlohmann/json.hpp>

#include "ir/arith/simplify.h"
#include "ir/ops/spec.h"
#include "runtime/cuda/cubin.h"
#include "runtime/cuda/nvrtc.h"
#include "tests/tuner/a100.h"
#include "tests/tuner/edited_kernel.h"
#include "tests/tuner/gpu_check.h"
#include "tuner/gpu/gpu_model.h"
#include "tuner/rules/gpu/gpu_packed_layout.h"

namespace tilewright {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

struct GemvWordsCase {
  const char* spec;
  const char* loads;     // loads of codes
  const char* decoding;  // decoding of a register
  friend void PrintTo(const GemvWordsCase& c, std::ostream* out) { *out << c.spec; }
};

// Each stored type and each activation type, with groups of all kinds. k may not fill a turn of the
// threads, and the weight has both orders.
const GemvWordsCase kGemvWordsCases[] = {
    {"matmul:m=1,n=64,k=2048,dtype=f16,trans_b=true,w.dtype=u4,w.group=128,w.scale=f16,w.zero=u4",
     "tw_ld<16>(B_packed", "tw_f16x2_u4("},
    {"matmul:m=2,n=40,k=2048,dtype=f16,w.dtype=u4,w.group=32,w.scale=f16,w.zero=u4",
     "tw_ld<16>(B_packed", "tw_f16x2_u4("},
    {"matmul:m=1,n=24,k=1000,dtype=bf16,w.dtype=i4,w.group=16,w.scale=bf16", "tw_ld<8>(B_packed",
     "tw_f16x2_i4("},
    {"matmul:m=3,n=36,k=4096,trans_b=true,w.dtype=i4,w.group=-1,epilogue=[bias,relu]",
     "tw_ld<8>(B_packed", "tw_f16x2_i4("},
    {"matmul:m=1,n=32,k=4160,dtype=f16,w.dtype=i2,w.group=64,w.scale=f16", "tw_ld<8>(B_packed",
     "tw_f16x2_i2("},
    {"matmul:m=5,n=24,k=1024,dtype=bf16,w.dtype=u2,w.group=64,w.zero=u2", "tw_ld<4>(B_packed",
     "tw_f16x2_u2("},
    {"matmul:m=1,n=16,k=8192,dtype=f16,w.dtype=i1,w.group=128,w.scale=bf16", "tw_ld<16>(B_packed",
     "tw_f16x2_i1("},
    {"matmul:m=2,n=32,k=2048,dtype=f16,w.dtype=f4e2m1,w.group=32,w.scale=e8m0",
     "tw_ld<16>(B_packed", "tw_f16x2_f4e2m1("},
    {"matmul:m=1,n=32,k=1024,dtype=bf16,w.dtype=f4e2m1,w.group=16,w.scale=f8e4m3",
     "tw_ld<8>(B_packed", "tw_f16x2_f4e2m1("},
    {"matmul:m=4,n=32,k=1024,dtype=bf16,trans_b=true,w.dtype=f8e4m3,w.group=32",
     "tw_ld<16>(B_packed", "tw_f16x2_f8e4m3("},
    {"matmul:m=1,n=32,k=1024,dtype=f16,w.dtype=f8e5m2,w.scale=none", "tw_ld<16>(B_packed",
     "tw_f16x2_f8e5m2("},
    {"matmul:m=1,n=32,k=1024,dtype=f16,w.dtype=i8,w.group=32", "tw_ld<16>(B_packed",
     "tw_f16x2_i8("},
    {"matmul:m=16,n=24,k=1024,dtype=f16,w.dtype=u8,w.group=64,w.zero=u8", "tw_ld<8>(B_packed",
     "tw_f16x2_u8("},
    {"matmul:m=1,n=32,k=2048,dtype=f16,trans_b=true,w.dtype=nf4,w.group=64,w.scale=f16",
     "tw_ld<16>(B_packed", "tw_nf4("},
    {"matmul:m=1,n=32,k=2048,dtype=i8,w.dtype=i4", "tw_ld<16>(B_packed", "tw_i8x4_i4("},
    {"matmul:m=3,n=32,k=4000,dtype=i8,w.dtype=i2,trans_b=true", "tw_ld<16>(B_packed",
     "tw_i8x4_i2("},
    {"matmul:m=1,n=32,k=2048,dtype=i8,acc=f32,w.dtype=u4,w.zero=u4,w.group=64,w.scale=f16",
     "tw_ld<16>(B_packed", "tw_i8x4_u4("},
    {"matmul:m=2,n=32,k=2048,dtype=u8,acc=f32,w.dtype=i2,w.group=-1", "tw_ld<8>(B_packed",
     "tw_i8x4_i2("},
    {"matmul:m=1,n=32,k=2048,dtype=f16,a.dtype=i8,w.dtype=i4,w.group=32,w.scale=f16",
     "tw_ld<16>(B_packed", "tw_i8x4_i4("},
    // Stacks of matrices.
    {"matmul:m=1,n=32,k=2048,batch=3,dtype=f16,w.dtype=u4,w.group=128,w.scale=f16,w.zero=u4",
     "tw_ld<16>(B_packed", "tw_f16x2_u4("},
    {"matmul:m=2,n=24,k=2000,batch=2,dtype=i8,trans_b=true,w.dtype=i4", "tw_ld<16>(B_packed",
     "tw_i8x4_i4("},
    // Fractional zero points.
    {"matmul:m=1,n=64,k=2048,dtype=f16,w.dtype=u4,w.group=128,w.scale=f16,w.zero=f16",
     "tw_ld<16>(B_packed", "tw_f16x2_u4("},
    {"matmul:m=3,n=24,k=2000,batch=2,dtype=bf16,trans_b=true,w.dtype=u2,w.group=80,w.zero=f16",
     "tw_ld<", "tw_f16x2_u2("},
    {"matmul:m=2,n=24,k=1024,dtype=i8,acc=f32,w.dtype=i8,w.group=-1,w.zero=f16",
     "tw_ld<16>(B_packed", "tw_f16x2_i8("},
    // Offsets.
    {"matmul:m=1,n=64,k=2048,dtype=f16,trans_b=true,w.dtype=u4,w.group=32,w.scale=f16,w.offset=f16",
     "tw_ld<16>(B_packed", "tw_f16x2_u4("},
    {"matmul:m=3,n=24,k=2000,batch=2,dtype=bf16,w.dtype=u2,w.group=80,w.offset=f32", "tw_ld<",
     "tw_f16x2_u2("},
    {"matmul:m=1,n=32,k=2048,dtype=f16,a.dtype=i8,w.dtype=u4,w.group=32,w.offset=f32", "tw_ld<",
     "tw_f16x2_u4("},
    {"matmul:m=2,n=24,k=1024,w.dtype=i8,w.group=-1,w.offset=f32", "tw_ld<", "tw_f16x2_i8("},
    // A dynamic number of vectors.
    {"matmul:m=1..20,n=24,k=2048,dtype=f16,w.dtype=u4,w.group=128,w.scale=f16,w.zero=u4", "tw_ld<",
     "tw_f16x2_u4("},
    {"matmul:m=1..9,n=24,k=2000,dtype=i8,w.dtype=i4,trans_b=true", "tw_ld<", "tw_i8x4_i4("},
    {"matmul:m=2..9,n=24,k=2048,dtype=f16,w.dtype=i4,w.group=64,w.zero=f16", "tw_ld<",
     "tw_f16x2_i4("},
    {"matmul:m=2..9,n=24,k=2048,dtype=f16,w.dtype=u4,w.group=64,w.offset=f16", "tw_ld<",
     "tw_f16x2_u4("},
};

// Thread shapes for packed words.
std::vector<std::string> shapes_of_words(const Workload& w, const Target& target) {
  return options_of(gpu_trial(w, target, {{".layout", "words"}}), ".gemv");
}

Schedule with_shape_gemv_words(const Workload& w, const Target& target, const std::string& shape) {
  return gpu_schedule(w, target, {{".layout", "words"}, {".gemv", shape}});
}

// In the first shape.
Schedule with_words(const Workload& w, const Target& target) {
  return gpu_schedule(w, target, {{".layout", "words"}});
}

class GpuGemvWords : public ::testing::TestWithParam<GemvWordsCase> {};

TEST_P(GpuGemvWords, AreRightInTheirShapes) {
  Workload w = make_workload(parse_spec(GetParam().spec));
  std::vector<std::string> shapes = shapes_of_words(w, a100());
  ASSERT_FALSE(shapes.empty());
  for (const std::string& shape : {shapes.front(), shapes[shapes.size() / 2], shapes.back()}) {
    SCOPED_TRACE(shape);
    Schedule s = with_shape_gemv_words(w, a100(), shape);
    for (bool most : {true, false}) {
      std::map<std::string, int64_t> dims;
      for (const DimVar& d : w.dims) dims[d.var.name()] = most ? d.max : d.min;
      if (most || !dims.empty()) expect_right_on_gpu(w, s, a100(), dims);
    }
    const std::string text = generate_cuda(s.module(), a100()).text;
    EXPECT_THAT(text, HasSubstr(GetParam().loads));
    EXPECT_THAT(text, HasSubstr(GetParam().decoding));
    const bool bytes = std::string(GetParam().decoding).starts_with("tw_i8x4");
    EXPECT_EQ(text.find("tw_dp4a(") != std::string::npos, bytes) << text;
    EXPECT_THAT(text, Not(HasSubstr("tw_mma_")));
  }
}

TEST_P(GpuGemvWords, CompileWithoutSpills) {
  if (!cuda::nvrtc_problem().empty()) GTEST_SKIP() << "NVRTC: " << cuda::nvrtc_problem();
  Workload w = make_workload(parse_spec(GetParam().spec));
  for (const char* arch : {"sm_75", "sm_80", "sm_90a"}) {
    if (!cuda::nvrtc_accepts(arch)) continue;
    Target target = Target::parse(std::string("cuda:") + arch);
    CudaSource source = generate_cuda(with_words(w, target).module(), target);
    std::string cubin = cuda::compile_to_cubin(source.text, "kernel", arch);
    EXPECT_EQ(cuda::cubin_facts(cubin, source.launches.back().entry).local_accesses(), 0)
        << arch << source.text;
  }
}

INSTANTIATE_TEST_SUITE_P(Specs, GpuGemvWords, ::testing::ValuesIn(kGemvWordsCases),
                         [](const auto& info) {
                           std::string name;
                           for (char c : std::string(info.param.spec)) {
                             name += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
                           }
                           return name;
                         });

// A register's codes are as far apart as its elements; registers follow each other.
TEST(GpuGemvWordsForm, OneIndexMapPutsCodesInTheirPlaces) {
  auto places = [](const IndexMap& map, int64_t count) {
    std::vector<int64_t> list;
    for (int64_t k = 0; k < count; ++k) {
      list.push_back(*as_int(simplify(map.apply({Expr(k), Expr(5)})[2])));
    }
    return list;
  };
  using ::testing::ElementsAre;
  EXPECT_THAT(places(word_map(ElemType::u4, ElemType::f16, 32, 2, 1, 0), 9),
              ElementsAre(0, 4, 1, 5, 2, 6, 3, 7, 8));
  EXPECT_THAT(places(word_map(ElemType::i4, ElemType::i8, 32, 2, 1, 0), 9),
              ElementsAre(0, 2, 4, 6, 1, 3, 5, 7, 8));
  EXPECT_THAT(places(word_map(ElemType::f8e4m3, ElemType::f16, 16, 2, 1, 0), 5),
              ElementsAre(0, 2, 1, 3, 4));
}

TEST(GpuGemvWordsForm, EveryCodeIsReadOnceInWholeSectors) {
  Workload w = make_workload(parse_spec(
      "matmul:m=1,n=64,k=4096,dtype=f16,trans_b=true,w.dtype=u4,w.group=-1,w.scale=f16"));
  GpuRun run = run_on_emulator(w, with_shape_gemv_words(w, a100(), "4x1/4/32"), a100());
  ASSERT_TRUE(run.emulated.ok()) << run.emulated.fault->to_string() << run.source.text;
  const EmulatorCounters& c = run.emulated.counters;
  const int64_t codes = 64 * 4096 / 2, vectors = 64 / 4 * 4096 * 2;
  EXPECT_GE(c.load_bytes, codes + vectors);
  EXPECT_LE(c.load_bytes, codes + vectors + 64 * 32 * 2) << "and few scales";
  // Each 16 bytes of a lane's 64 of the vector are half a sector; L1 has the other half.
  EXPECT_LE(c.load_sectors * 32, codes + 2 * vectors + 64 * 32);
  EXPECT_EQ(c.store_bytes, 64 * 2);
}

// 64 codes of each of four columns per turn of a thread, four at a time (dp4a).
TEST(GpuGemvWordsForm, BytesAreMultipliedByFour) {
  if (!cuda::nvrtc_problem().empty()) GTEST_SKIP() << "NVRTC: " << cuda::nvrtc_problem();
  Workload w =
      make_workload(parse_spec("matmul:m=1,n=4096,k=4096,trans_b=true,dtype=i8,w.dtype=i2"));
  CudaSource source = generate_cuda(with_shape_gemv_words(w, a100(), "4x1/4/64").module(), a100());
  cuda::CubinFacts facts = cuda::cubin_facts(cuda::compile_to_cubin(source.text, "kernel", "sm_80"),
                                             source.launches.back().entry);
  EXPECT_GT(facts.count("IDP"), 0);
  EXPECT_EQ(facts.count("IDP") % (4 * 64 / 4), 0);
  EXPECT_EQ(facts.local_accesses(), 0) << source.text;
}

TEST(GpuGemvWordsForm, AreOfferedToFewRowsAlone) {
  auto offered = [](const std::string& spec) {
    Workload w = make_workload(parse_spec(spec));
    const std::vector<std::string> layouts = options_of(gpu_trial(w, a100()), ".layout");
    return std::find(layouts.begin(), layouts.end(), "words") != layouts.end();
  };
  const std::string weight = ",n=64,k=4096,dtype=f16,w.dtype=u4,w.group=128,w.scale=f16";
  EXPECT_TRUE(offered("matmul:m=1" + weight));
  EXPECT_TRUE(offered("matmul:m=16" + weight));
  EXPECT_FALSE(offered("matmul:m=17" + weight));
  EXPECT_TRUE(offered("matmul:m=1..4096" + weight)) << "so many rows as there will be";
  EXPECT_TRUE(offered("matmul:m=1" + weight + ",batch=3"));
  EXPECT_TRUE(offered("matmul:m=1" + weight + ",w.zero=f16")) << "taken off in f32";
  EXPECT_TRUE(offered("matmul:m=1" + weight + ",w.offset=f16")) << "added in f32";
  EXPECT_FALSE(offered("matmul:m=4" + weight + ",trans_a=true"));
  EXPECT_FALSE(offered("matmul:m=1,n=64,k=100,dtype=f16,w.dtype=u4,w.group=50"));
}

// A block takes a fixed number of vectors at a time; the last block may have fewer.
TEST(GpuGemvWordsForm, VectorsThatALaunchCountsAreRightInAllNumbers) {
  Workload w = make_workload(parse_spec(
      "matmul:m=1..19,n=16,k=1024,dtype=f16,trans_b=true,w.dtype=u4,w.group=64,w.scale=f16"));
  for (int64_t few : {1, 4, 16}) {
    Schedule s = gpu_schedule(w, a100(), {{".layout", "words"}, {".gemv.vectors", few}});
    for (int64_t m : {1, 3, 16, 19}) {
      SCOPED_TRACE(std::to_string(few) + " of " + std::to_string(m));
      expect_right_on_gpu(w, s, a100(), {{"m", m}});
    }
  }
}

// In the model, reading a turn's codes in one piece beats reading code by code.
TEST(GpuGemvWordsForm, TheModelPrefersThemToSingleCodes) {
  Workload w = make_workload(parse_spec(
      "matmul:m=1,n=8192,k=8192,dtype=i8,trans_b=true,acc=f32,w.dtype=i4,w.group=128,w.scale=f16"));
  GpuEstimate good = estimate_gpu(with_words(w, a100()).program(), a100());
  ASSERT_TRUE(good.fits()) << good.refusal;
  GpuEstimate single = estimate_gpu(
      gpu_schedule(w, a100(), {{".layout", "none"}, {".gemv", "8x1/4"}}).program(), a100());
  ASSERT_TRUE(single.fits()) << single.refusal;
  EXPECT_LT(1.1 * good.seconds, single.seconds);
}

// Kernels with errors in reading packed words; each is rejected.
TEST(GpuGemvWordsMutants, AreRejected) {
  Workload w = make_workload(
      parse_spec("matmul:m=2,n=32,k=2048,dtype=f16,w.dtype=u4,w.group=64,w.scale=f16,w.zero=u4"));
  Schedule s = with_words(w, a100());
  expect_right_on_gpu(w, s, a100());
  const std::pair<const char*, const char*> mutants[] = {
      {"", "#define tw_f16x2_u4(w, s, z) (tw_f16x2_u4)(w, (s) ^ 4, z)\n"},
      {"", "#define tw_f16x2_u4(w, s, z) (tw_f16x2_u4)(w, s, 0)\n"},
      {"tw_ld<16>(B_packed + (", "tw_ld<16>(B_packed + (16 ^ "},
      {"B_scale_packed[", "B_scale_packed[1 ^ "},
      {"distance = 16", "distance = 8"}};
  for (const auto& [from, to] : mutants) {
    const GpuRun run = run_edited(w, s, a100(), from, to);
    EXPECT_NE(outcome_of(run), "ok") << to << "\n" << run.source.text;
  }
}

}  // namespace
}  // namespace tilewright
