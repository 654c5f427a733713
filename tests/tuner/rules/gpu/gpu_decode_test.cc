// Decoding on a GPU: dynamic sizes, and one query per head with its own keys. In the emulator,
// compared with the oracle.
#include <gmock/gmock.h>

#include <map>
#include <string>
#include <vector>

#include "ir/ops/spec.h"
#include "runtime/cuda/cubin.h"
#include "runtime/cuda/nvrtc.h"
#include "tests/tuner/gpu_check.h"
#include "tuner/gpu/gpu_model.h"

namespace tilewright {
namespace {

using ::testing::HasSubstr;
using Dims = std::map<std::string, int64_t>;

struct DecodeCase {
  const char* spec;
  const char* target;
  Choices choices;
  std::vector<Dims> points;
  size_t launches = 1;
};

class GpuDecode : public ::testing::TestWithParam<DecodeCase> {};

TEST_P(GpuDecode, IsRightAtEverySize) {
  const DecodeCase& p = GetParam();
  const Workload w = make_workload(parse_spec(p.spec));
  const Target target = Target::parse(p.target);
  const Schedule s = gpu_schedule(w, target, plain_with(p.choices));
  EXPECT_EQ(generate_cuda(s.module(), target).launches.size(), p.launches);
  for (const Dims& dims : p.points) {
    std::string at;
    for (const auto& [name, size] : dims) at += name + "=" + std::to_string(size) + " ";
    SCOPED_TRACE(at);
    expect_right_on_gpu(w, s, target, dims);
  }
}

const Choices kMma = {{"S_max.softmax", "online_mma"},
                      {"S_max.tile", "32x32/16"},
                      {"S_max.rows", "registers"},
                      {"S_max.stages", 2}};
const Choices kFew = {{"S_max.softmax", "online_mma"},
                      {"S_max.tile", "16x32/16"},
                      {"S_max.rows", "shared"},
                      {"S_max.stages", 2}};
const Choices kFewInParts = {{"S_max.softmax", "online_mma"},
                             {"S_max.tile", "16x32/16"},
                             {"S_max.rows", "registers"},
                             {"S_max.stages", 2},
                             {"S_max.parts", 3}};

INSTANTIATE_TEST_SUITE_P(
    Sizes, GpuDecode,
    ::testing::Values(
        DecodeCase{"attention:batch=1..3,heads=2,m=1..40,n=40..80,d=32,causal=true,lengths=both,"
                   "dtype=f16",
                   "cuda:sm_80",
                   kMma,
                   {{{"batch", 2}, {"m", 1}, {"n", 47}},
                    {{"batch", 1}, {"m", 33}, {"n", 80}},
                    {{"batch", 3}, {"m", 40}, {"n", 40}}}},
        DecodeCase{
            "attention:batch=1..4,heads=16,kv_heads=2,m=1,n=1..288,d=32,lengths=keys,page=16,"
            "pages=30,dtype=bf16",
            "cuda:sm_80",
            kFewInParts,
            {{{"batch", 4}, {"n", 1}}, {{"batch", 3}, {"n", 97}}, {{"batch", 1}, {"n", 288}}},
            2},
        DecodeCase{"attention:batch=2,heads=2,m=1..40,n=40..80,d=16,causal=true",
                   "cuda:sm_80",
                   {{"S_max.softmax", "online"}, {"S_max.tile", "16x64"}},
                   {{{"m", 1}, {"n", 47}}, {{"m", 40}, {"n", 80}}}},
        // Keys and values are TMA tiles with dynamic strides.
        DecodeCase{"attention:batch=1..2,heads=2,m=1..70,n=70..90,d=24,dv=32,causal=true,dtype=f16",
                   "cuda:sm_90a",
                   {{"S_max.softmax", "online_wgmma"},
                    {"S_max.tile", "64x32/64"},
                    {"S_max.copies", "roles"},
                    {"S_max.stages", 2}},
                   {{{"batch", 2}, {"m", 1}, {"n", 71}}, {{"batch", 1}, {"m", 70}, {"n", 90}}}}));

INSTANTIATE_TEST_SUITE_P(
    OwnKeys, GpuDecode,
    ::testing::Values(
        DecodeCase{"attention:batch=2,heads=3,m=1,n=70,d=32,dtype=f16", "cuda:sm_80", kFew, {{}}},
        DecodeCase{"attention:m=1,n=70,d=32,dtype=bf16", "cuda:sm_80", kFew, {{}}},
        DecodeCase{
            "attention:batch=1..3,heads=3,m=1,n=20..190,d=24,dv=32,lengths=keys,page=6,pages=50,"
            "dtype=f16",
            "cuda:sm_80",
            kFewInParts,
            {{{"batch", 3}, {"n", 20}}, {{"batch", 1}, {"n", 190}}},
            2}));

// Each single error in a kernel shows.
TEST(GpuDecodeBroken, IsSeen) {
  const Workload w = make_workload(
      parse_spec("attention:batch=1..3,heads=2,m=1,n=20..190,d=32,lengths=keys,dtype=f16"));
  const Target target = Target::parse("cuda:sm_80");
  const Schedule s = gpu_schedule(w, target, plain_with(kFewInParts));
  auto is_seen = [&](const std::string& from, const std::string& to) {
    GpuRun run =
        run_on_emulator(w, s, target, {{"batch", 3}, {"n", 100}}, 1, [&](std::string& text) {
          ASSERT_THAT(text, HasSubstr(from));
          for (size_t at = text.find(from); at != std::string::npos;
               at = text.find(from, at + to.size())) {
            text.replace(at, from.size(), to);
          }
        });
    return !run.emulated.ok() || run.checked.verdict != Verdict::Ok;
  };
  EXPECT_FALSE(is_seen("(int)(N[", "(int)(N["));
  EXPECT_TRUE(is_seen("(int)(N[", "1 + (int)(N["));
  // Parts as long as all keys.
  EXPECT_TRUE(is_seen("(n + 95)", "(n + 191)"));
  EXPECT_TRUE(is_seen("tw_cp_async_wait<0>();", ""));
}

// A tile is smaller than the maximum of a dynamic size, so that its loops have constant extents.
// Tiles are ordered by length only if their number is static.
TEST(GpuDecodeSketch, FirstAnswersAreLegalWhateverALaunchTells) {
  struct DecodeCase {
    const char *spec, *target;
  };
  for (const DecodeCase& c :
       {DecodeCase{"attention:heads=4,m=1..8,n=1..32,d=16", "cuda:sm_80"},
        {"attention:batch=2,heads=4,m=1..16,n=64,d=16", "cuda:sm_80"},
        {"attention:heads=4,m=1..40,n=8..40,d=16", "cuda:sm_80"},
        {"attention:m=1..3,n=3..9,d=16,dtype=f16,causal=true", "cuda:sm_90a"},
        {"attention:heads=8,m=128..1024,n=1024,d=64,dtype=f16,causal=true", "cuda:sm_90a"},
        {"attention:heads=8,m=256,n=128..1024,d=64,dtype=f16", "cuda:sm_90a"}}) {
    SCOPED_TRACE(c.spec);
    const Target target = Target::parse(c.target);
    const Workload w = make_workload(parse_spec(c.spec));
    Trial first = Trial::first();
    const Schedule s = apply_sketch(cuda_sketches().front(), {w, target, 1}, first);
    EXPECT_NO_THROW(generate_cuda(s.module(), target)) << first.config();
    EXPECT_THAT(first.config(), Not(HasSubstr("S_max.order")));
  }
}

// One kernel comes first, for dynamic sizes and for any sharing of keys. In the model, fewer
// sequences and keys take less time.
TEST(GpuDecodeSketch, OneKernelComesFirst) {
  const Target target = Target::parse("cuda:sm_90a");
  const std::string spec =
      "attention:batch=1..8,heads=32,kv_heads=32,m=1,n=256..4096,d=128,lengths=keys,page=16,"
      "pages=2048,dtype=bf16";
  EXPECT_THAT(gpu_trial(make_workload(parse_spec(spec)), target).config(),
              HasSubstr(R"("S_max.softmax":"online_mma")"));
  const Workload w = make_workload(parse_spec(spec));
  const Program p = gpu_schedule(w, target, Trial::first()).program();
  const std::vector<GpuEstimate> at =
      estimate_gpu_at(p, target, {{{"batch", 1}}, {{"n", 512}}, {}});
  ASSERT_EQ(at.size(), 3u);
  for (const GpuEstimate& e : at) EXPECT_TRUE(e.fits()) << e.refusal;
  EXPECT_LT(at[0].seconds, at[2].seconds);
  EXPECT_LT(at[1].kernels[0].dram_bytes, at[2].kernels[0].dram_bytes);
}

// The sum of a padded row is scaled by its own maximum, which its threads hold. Each thread has two
// values, eight rows apart, and none from another thread's row.
TEST(GpuDecodeSketch, RowsInThePaddingKeepTheirOwnValues) {
  const Workload w = make_workload(parse_spec("attention:heads=2,m=1,n=64,d=32,dtype=f16"));
  const Target target = Target::parse("cuda:sm_80");
  const std::string text =
      generate_cuda(gpu_schedule(w, target, plain_with(kFew)).module(), target).text;
  EXPECT_THAT(text, HasSubstr("float S_max_shift[9];"));
}

// Dynamic rows are those of one head.
TEST(GpuDecodeSketch, DynamicQueriesOfSharedKeysAreApart) {
  const Workload w =
      make_workload(parse_spec("attention:heads=8,kv_heads=2,m=1..64,n=256,d=64,dtype=f16"));
  const Trial first = gpu_trial(w, Target::parse("cuda:sm_80"));
  EXPECT_THAT(first.config(), HasSubstr(R"("S_max.softmax":"online_mma")"));
  EXPECT_EQ(first.config().find("S_max.heads"), std::string::npos);
}

TEST(GpuDecodeCompiled, OneQueryOfOwnKeysSpillsNothing) {
  if (!cuda::nvrtc_problem().empty()) GTEST_SKIP() << "NVRTC: " << cuda::nvrtc_problem();
  const Workload w = make_workload(parse_spec(
      "attention:batch=1..8,heads=32,m=1,n=1..4096,d=128,lengths=keys,page=16,pages=2048,"
      "dtype=bf16"));
  for (const char* arch : {"sm_80", "sm_90a"}) {
    if (!cuda::nvrtc_accepts(arch)) continue;
    SCOPED_TRACE(arch);
    const Target target = Target::parse(std::string("cuda:") + arch);
    CudaSource source = generate_cuda(gpu_schedule(w, target, Trial::first()).module(), target);
    cuda::CubinFacts facts = cuda::cubin_facts(cuda::compile_to_cubin(source.text, "kernel", arch),
                                               source.launches.at(0).entry);
    EXPECT_GE(facts.count("HMMA"), 32) << source.text;
    EXPECT_EQ(facts.local_accesses(), 0) << source.text;
    EXPECT_EQ(facts.stack_bytes, 0);
  }
}

}  // namespace
}  // namespace tilewright
