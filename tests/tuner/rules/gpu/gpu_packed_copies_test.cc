// Packed and sparse weights of wgmma products, loaded by 1-D bulk copies beside the TMA tiles of
// the activations.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "codegen/cuda/cuda_tensor_copy.h"
#include "codegen/cuda/instructions/cuda_instruction.h"
#include "ir/ops/spec.h"
#include "runtime/cuda/cubin.h"
#include "runtime/cuda/nvrtc.h"
#include "tests/tuner/edited_kernel.h"
#include "tests/tuner/hopper.h"
#include "tuner/gpu/gpu_model.h"

namespace tilewright {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Not;

// The trial of a product with wgmma, these choices, and the first options otherwise.
Choices packed_copies_choices(const Workload& w, const Target& target, const Choices& more) {
  Choices choices = {{".B.layout?", "fragments"}, {".B.sparse?", "halves"}, {".cluster?", "1x1"}};
  const std::vector<std::string> ways = options_of(gpu_trial(w, target, choices), ".mma");
  if (!ways.empty()) choices[".mma"] = ways.back();
  return joined_choices(choices, more);
}

Schedule scheduled_packed_copies(const Workload& w, const nlohmann::json& answers,
                                 const Target& target = hopper()) {
  return gpu_schedule(w, target, packed_copies_choices(w, target, answers));
}

std::vector<std::string> ways_to_copy_packed_copies(const std::string& spec) {
  const Workload w = workload(spec);
  return options_of(gpu_trial(w, hopper(), packed_copies_choices(w, hopper(), {})), ".copies");
}

const char* const kPackedCopiesU4 =
    "matmul:m=16,n=64,k=512,dtype=f16,trans_b=true,w.dtype=u4,w.group=128,w.scale=f16,w.zero=u4";

TEST(PackedCopies, AreOfferedWhereAMapDescribesTheActivations) {
  const std::vector<std::string> all = {"roles", "tensor", "cp_async"};
  EXPECT_EQ(ways_to_copy_packed_copies(kPackedCopiesU4), all);
  EXPECT_EQ(ways_to_copy_packed_copies("matmul:m=64,n=128,k=256,dtype=f16,w.sparse=2:4"), all);
  EXPECT_TRUE(ways_to_copy_packed_copies("matmul:m=64,n=128,k=132,dtype=f16,w.dtype=u4").empty())
      << "rows of 264 bytes are no multiples of 16";
}

TEST(PackedCopies, ByThreadsNeedNoBarriers) {
  const std::string text = text_of(gpu_schedule(workload(kPackedCopiesU4), hopper(),
                                                {{".B.layout", "fragments"},
                                                 {".mma", "wgmma_f32_f16"},
                                                 {".tile", "16x64/16"},
                                                 {".copies", "cp_async"}}));
  EXPECT_THAT(text, HasSubstr("tw_cp_async"));
  EXPECT_THAT(text, Not(HasSubstr("tw_bulk_load")));
}

struct CopiesCase {
  const char* spec;
  nlohmann::json answers;
};

class PackedCopiesKernel : public ::testing::TestWithParam<CopiesCase> {};

TEST_P(PackedCopiesKernel, IsRight) {
  const CopiesCase& c = GetParam();
  const Workload w = workload(c.spec);
  for (const char* copies : {"roles", "tensor"}) {
    SCOPED_TRACE(fmt::format("{} by {}", c.spec, copies));
    nlohmann::json answers = c.answers;
    answers[".copies"] = copies;
    const Schedule s = scheduled_packed_copies(w, answers);
    const std::string text = text_of(s);
    EXPECT_THAT(text, HasSubstr(w.weight->sparse() ? "tw_wgmma_sp_m64n" : "tw_wgmma_m64n"));
    EXPECT_THAT(text, HasSubstr("tw_bulk_load(B_"));
    EXPECT_THAT(text, HasSubstr("tw_tensor_load_"));
    EXPECT_THAT(text, Not(HasSubstr("tw_cp_async")));
    expect_right_on_gpu(w, s, hopper());
  }
}

INSTANTIATE_TEST_SUITE_P(
    Every, PackedCopiesKernel,
    ::testing::Values(
        CopiesCase{kPackedCopiesU4, {{".tile", "16x64/16"}, {".k", 128}, {".stages", 3}}},
        // The k of two tiles under one scale; scales that threads read themselves.
        CopiesCase{kPackedCopiesU4, {{".tile", "16x64/16"}, {".k", 64}, {".stages", 4}}},
        CopiesCase{kPackedCopiesU4, {{".tile", "16x64/16"}, {".k", 128}, {".scales", "direct"}}},
        CopiesCase{"matmul:m=32,n=128,k=512,dtype=f16,w.dtype=i2,w.scale=f16",
                   {{".tile", "32x128/16"}, {".k", 128}}},
        CopiesCase{"matmul:m=16,n=64,k=256,dtype=f16,trans_b=true,w.dtype=nf4,w.group=128,"
                   "w.scale=f16",
                   {{".tile", "16x64/16"}, {".k", 64}}},
        CopiesCase{"matmul:m=16,n=64,k=128,dtype=bf16,w.dtype=f4e2m1,w.group=32,w.scale=e8m0",
                   {{".tile", "16x64/16"}}},
        CopiesCase{"matmul:m=16,n=64,k=128,dtype=f16,w.dtype=f4e2m1,w.group=16,w.scale=f8e4m3",
                   {{".tile", "16x64/16"}}},
        CopiesCase{"matmul:m=24,n=64,k=384,dtype=f8e4m3,acc=f32,w.dtype=f8e4m3,w.group=128,"
                   "out=bf16",
                   {{".tile", "24x64/16"}}},
        CopiesCase{"matmul:m=48,n=64,k=256,dtype=i8,w.dtype=i4", {{".tile", "48x64/16"}}},
        // Partial tiles along rows, columns and k.
        CopiesCase{"matmul:m=37,n=72,k=200,dtype=f16,w.dtype=u4,w.group=64,w.zero=u4",
                   {{".tile", "48x64/16"}}},
        // Kept elements of a pattern and their metadata; codes of kept elements.
        CopiesCase{"matmul:m=16,n=64,k=256,dtype=f16,trans_b=true,w.sparse=2:4",
                   {{".tile", "16x64/16"}, {".k", 128}}},
        CopiesCase{"matmul:m=24,n=128,k=320,dtype=i8,w.sparse=1:4", {{".tile", "24x128/16"}}},
        CopiesCase{"matmul:m=37,n=72,k=200,dtype=bf16,w.sparse=2:4", {{".tile", "48x64/16"}}},
        CopiesCase{"matmul:m=16,n=64,k=256,dtype=f16,w.dtype=u4,w.group=128,w.scale=f16,"
                   "w.zero=u4,w.sparse=2:4",
                   {{".tile", "16x64/16"}, {".k", 128}}}),
    [](const ::testing::TestParamInfo<CopiesCase>& info) { return std::to_string(info.index); });

TEST(PackedCopies, RowsMayBeDynamic) {
  const Workload w =
      workload("matmul:m=1..80,n=64,k=128,dtype=f16,trans_b=true,w.dtype=u4,w.group=64");
  const Schedule s = scheduled_packed_copies(w, {{".tile", "32x64/16"}, {".copies", "roles"}});
  for (int64_t m : {1, 33, 80}) expect_right_on_gpu(w, s, hopper(), {{"m", m}});
}

// Producers run ahead from tile to tile, and from share to share.
TEST(PackedCopies, BlocksTakeTilesInTurnOrShareThem) {
  for (const char* spec :
       {"matmul:m=20,n=200,k=256,dtype=f16,w.dtype=u4,w.group=64,w.scale=f16,w.zero=u4",
        "matmul:m=20,n=200,k=256,dtype=f16,w.sparse=2:4"}) {
    for (const char* grid : {"persistent", "stream_k"}) {
      SCOPED_TRACE(fmt::format("{} {}", spec, grid));
      const Workload w = workload(spec);
      const Schedule s = scheduled_packed_copies(w,
                                                 {{".tile", "16x64/16"},
                                                  {".k", 64},
                                                  {".copies", "roles"},
                                                  {".stages", 3},
                                                  {".grid", grid},
                                                  {".blocks", 1}},
                                                 hopper(3));
      EXPECT_THAT(text_of(s, hopper(3)), HasSubstr("tw_bulk_load(B_"));
      expect_right_on_gpu(w, s, hopper(3));
    }
  }
}

// Blocks of neighbouring columns multicast halves of the activations' TMA tiles; each block loads
// its own codes.
TEST(PackedCopies, ClustersShareTheActivations) {
  struct Case {
    const char* spec;
    const char* tile;
    const char* grid;
  };
  for (const Case& c :
       {Case{"matmul:m=16,n=256,k=256,dtype=f16,trans_b=true,w.dtype=u4,w.group=128,w.scale=f16,"
             "w.zero=u4",
             "16x64/16", "tiles"},
        Case{"matmul:m=40,n=256,k=200,dtype=bf16,w.dtype=i4,w.group=64,w.scale=bf16", "16x64/16",
             "persistent"},
        Case{"matmul:m=16,n=128,k=256,dtype=f16,w.sparse=2:4", "16x64/16", "tiles"}}) {
    SCOPED_TRACE(c.spec);
    const Workload w = workload(c.spec);
    const bool is_persistent = std::string(c.grid) == "persistent";
    Choices choices = {{".tile", c.tile}, {".k", 64},          {".copies", "roles"},
                       {".stages", 3},    {".cluster", "1x2"}, {".grid?", "tiles"}};
    if (is_persistent) choices.update({{".grid", "persistent"}, {".blocks", 1}});
    const Schedule s = scheduled_packed_copies(w, choices, hopper(4));
    const std::string text = text_of(s, hopper(4));
    EXPECT_EQ(text.find("_turn") != std::string::npos, is_persistent);
    EXPECT_THAT(text, HasSubstr("tw_tensor_multicast_2d(A_"));
    EXPECT_THAT(text, HasSubstr("tw_bulk_load(B_"));
    expect_right_on_gpu(w, s, hopper(4));
  }
}

// The emulator's verdicts on kernels with a missing part.
TEST(PackedCopies, EveryByteWaitAndArrivalIsNeeded) {
  const Workload w = workload(kPackedCopiesU4);
  const Schedule s = scheduled_packed_copies(
      w, {{".tile", "16x64/16"}, {".k", 128}, {".copies", "roles"}, {".stages", 2}});
  auto verdict = [&](const std::string& from, const std::string& to, uint64_t seed = 1) {
    return outcome_of_edited(w, s, hopper(), from, to, Places::First, seed);
  };
  // Bytes of a stage: 2 x 2048 of activations, 4096 of codes, 32 of zero points, 128 of scales.
  const std::string bytes = "8352)";
  EXPECT_EQ(verdict(bytes, bytes), "ok");
  EXPECT_EQ(verdict(bytes, "8368)"), "deadlock");
  EXPECT_THAT(verdict(bytes, "8336)"), AnyOf("bad-barrier", "copy-in-flight"));
  EXPECT_EQ(verdict(", 4096, barriers", ", 4104, barriers"), "bad-copy");
  EXPECT_EQ(verdict("tw_bulk_load(B_zero_shared", "(void)sizeof(B_zero_shared"), "deadlock");
  EXPECT_THAT(verdict("tw_mbarrier_wait(barriers + (k_1_0_1 % 2 + 2)",
                      "(void)(barriers + (k_1_0_1 % 2 + 2)"),
              AnyOf("race", "copy-in-flight", "bad-barrier", "wgmma-in-flight"));
  // Lanes read codes, scales and zero points on their own; the first lane arrives for its warp.
  bool raced = false;
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    raced |= verdict("__syncwarp();\n", "\n", seed) != "ok";
  }
  EXPECT_TRUE(raced);
  // A copy overwrites what they have read, and no barrier orders it after their reads.
  EXPECT_EQ(verdict("tw_fence_async();", "", 1), "missing-fence");
  const Schedule in_turns = scheduled_packed_copies(
      w, {{".tile", "16x64/16"}, {".k", 128}, {".copies", "tensor"}, {".stages", 2}});
  EXPECT_EQ(outcome_of_edited(w, in_turns, hopper(), "tw_fence_async();", "", Places::All),
            "missing-fence");
}

// The refusal of a loop nest over these elements.
std::string refusal(ElemType elem, int64_t tile, int64_t step, const Expr& cond = {}) {
  Analyzer known;
  const Buffer from = make_buffer("B", elem, {Expr(64), Expr(4096)}, Scope::Global);
  const Buffer to = make_buffer("S", elem, {Expr(tile)}, Scope::Shared);
  Var block("block"), x("x");
  known.bind(block, Interval{0, 63});
  Expr value = load(from, {block, x * Expr(step)});
  if (cond.defined()) value = select(x < cond, value, make_float(elem, 0));
  const Stmt loop = make_for(x, 0, tile, ForKind::Serial, make_store(to, {x}, value),
                             {{kInstructionKey, std::string(kTma)}});
  try {
    const TensorCopy copy = match_tensor_copy(*loop.as<ForNode>(), known);
    return fmt::format("{} elements, {} bytes", copy.stretch, copy.bytes());
  } catch (const LoweringError& e) {
    return e.what();
  }
}

TEST(PackedCopies, RefuseWhatIsNoStretchOfBytes) {
  EXPECT_EQ(refusal(ElemType::u4, 2048, 1), "2048 elements, 1024 bytes");
  EXPECT_EQ(refusal(ElemType::f16, 64, 1), "64 elements, 128 bytes");
  EXPECT_THAT(
      refusal(ElemType::u4, 48, 1),
      AllOf(HasSubstr("those of a part of a byte are described as u8"),
            HasSubstr("nor do bytes lie side by side: 48 elements of 'B' lie side by side "
                      "in both memories, 192 bits; bulk copies move multiples of 16 bytes")));
  EXPECT_THAT(refusal(ElemType::u4, 2048, 2), HasSubstr("1 elements of 'B' lie side by side"));
  EXPECT_THAT(refusal(ElemType::f16, 2048, 1, Expr(100)),
              HasSubstr("zeros where a condition does not hold are not copied"));
}

TEST(PackedCopies, CompileToBulkCopiesWithoutSpills) {
  if (!cuda::nvrtc_problem().empty()) GTEST_SKIP() << "NVRTC: " << cuda::nvrtc_problem();
  if (!cuda::nvrtc_accepts("sm_90a")) GTEST_SKIP() << "this NVRTC knows no sm_90a";
  const std::string u4 =
      "n=4096,k=4096,dtype=f16,trans_b=true,w.dtype=u4,w.group=128,w.scale=f16,w.zero=u4";
  for (const auto& [spec, tile, mnemonic, bulk] :
       {std::tuple{"matmul:m=16," + u4, "16x64/16", "HGMMA", 3},
        std::tuple{"matmul:m=4096," + u4, "128x128/16", "HGMMA", 3},
        std::tuple{std::string("matmul:m=64,n=4096,k=4096,dtype=f8e4m3,acc=f32,w.dtype=f8e4m3,"
                               "w.group=128,out=bf16"),
                   "64x128/16", "QGMMA", 2},
        std::tuple{std::string("matmul:m=256,n=4096,k=4096,dtype=f16,trans_b=true,w.sparse=2:4"),
                   "128x128/16", "HGMMA.SP", 2}}) {
    SCOPED_TRACE(spec);
    const CudaSource source =
        generate_cuda(scheduled_packed_copies(workload(spec), {{".tile", tile},
                                                               {".copies", "roles"},
                                                               {".store", "direct"},
                                                               {".stages", 3},
                                                               {".grid?", "tiles"}})
                          .module(),
                      hopper());
    const cuda::CubinFacts facts = cuda::cubin_facts(
        cuda::compile_to_cubin(source.text, "kernel", "sm_90a"), source.launches.at(0).entry);
    EXPECT_GE(facts.count(mnemonic), 2) << source.text;
    EXPECT_EQ(facts.count("UBLKCP"), bulk) << source.text;
    EXPECT_GT(facts.count("UTMALDG"), 0);
    EXPECT_EQ(facts.count("LDGSTS"), 0);
    EXPECT_EQ(facts.local_accesses(), 0) << source.text;
  }
}

TEST(PackedCopies, TheModelPrefersWarpsThatCopyAhead) {
  const std::string product = "matmul:m=4096,n=16384,k=4096,dtype=f16,trans_b=true,";
  for (const auto& [weight, tile, stages] :
       {std::tuple{"w.dtype=u4,w.group=128,w.scale=f16", "128x128/16", 4},
        std::tuple{"w.sparse=2:4", "256x128/16", 4}}) {
    const std::string spec = product + weight;
    SCOPED_TRACE(spec);
    const Workload w = workload(spec);
    auto seconds = [&](const char* copies) {
      GpuEstimate e = estimate_gpu(scheduled_packed_copies(w, {{".tile", tile},
                                                               {".copies", copies},
                                                               {".k", 64},
                                                               {".stages", stages},
                                                               {".store", "direct"},
                                                               {".order", "rows"},
                                                               {".group", 1},
                                                               {".grid?", "tiles"}})
                                       .program(),
                                   hopper());
      EXPECT_TRUE(e.fits()) << e.refusal;
      return e.seconds;
    };
    EXPECT_LT(seconds("roles"), seconds("tensor"));
    EXPECT_LT(seconds("tensor"), seconds("cp_async"));
  }
}

}  // namespace
}  // namespace tilewright
