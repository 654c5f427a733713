// Products whose operands are loaded as TMA tiles, by producer warps or by one thread: from the
// sketch to the machine code.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "codegen/cuda/cuda_roles.h"
#include "codegen/cuda/cuda_tensor_copy.h"
#include "codegen/cuda/instructions/cuda_instruction.h"
#include "codegen/cuda_lowering.h"
#include "ir/ops/spec.h"
#include "runtime/cuda/cubin.h"
#include "runtime/cuda/nvrtc.h"
#include "tests/tuner/edited_kernel.h"
#include "tests/tuner/hopper.h"
#include "tuner/gpu/gpu_model.h"
#include "tuner/measure/gpu_offline_kernel.h"

namespace tilewright {
namespace {

using ::testing::AnyOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

// The sketch of a product with wgmma, this tile and these choices.
Schedule scheduled_tensor_copies(const Workload& w, const Target& target, const std::string& tile,
                                 const Choices& more = {}) {
  Choices choices = {{".copies?", "roles"}, {".stages", 3}, {".stores?", "direct"},
                     {".group?", 1},        {".parts?", 1}, {".cluster?", "1x1"},
                     {".order?", "rows"},   {".tile", tile}};
  choices[".mma"] = wgmma_for(w.inputs.front().buffer->elem);
  return gpu_schedule(w, target, joined_choices(choices, more));
}

std::vector<std::string> ways_to_copy_tensor_copies(const std::string& spec) {
  const Workload w = workload(spec);
  const Choices choices = {{".mma", wgmma_for(w.inputs.front().buffer->elem)}};
  return options_of(gpu_trial(w, hopper(), choices), ".copies");
}

TEST(TensorCopies, AreOfferedWhereMapsDescribeBothOperands) {
  const std::vector<std::string> all = {"roles", "tensor", "cp_async"};
  EXPECT_EQ(ways_to_copy_tensor_copies("matmul:m=128,n=128,k=128,dtype=f16"), all);
  EXPECT_EQ(ways_to_copy_tensor_copies("matmul:m=128,n=128,k=128,dtype=f8e4m3,trans_b=true"), all);
  EXPECT_TRUE(ways_to_copy_tensor_copies("matmul:m=128,n=128,k=132,dtype=f16").empty())
      << "rows of 264 bytes are no multiples of 16";
  EXPECT_TRUE(ways_to_copy_tensor_copies("matmul:m=128,n=128,k=128,dtype=i8").empty())
      << "bytes that run across their terms are transposed as they are copied";
}

TEST(TensorCopies, TypesTilesStagesAndTails) {
  struct Case {
    const char* spec;
    const char* tile;
    nlohmann::json answers;
  };
  for (const Case& c : std::vector<Case>{
           {"matmul:m=128,n=128,k=256,dtype=f16", "128x128x64/64x128", {{".stages", 4}}},
           {"matmul:m=100,n=88,k=200,dtype=f16", "64x64x64/64x64", {}},
           {"matmul:m=130,n=96,k=72,dtype=bf16,trans_b=true", "128x64x64/64x64", {{".pending", 0}}},
           {"matmul:m=128,n=72,k=136,dtype=f16,trans_a=true", "64x32x64/64x32", {{".stages", 2}}},
           {"matmul:m=70,n=64,k=136,dtype=f16,batch=3", "64x64x64/64x64", {}},
           {"matmul:m=70,n=64,k=136,dtype=f16,batch=1", "64x64x64/64x64", {}},
           {"matmul:m=64,n=128,k=272,dtype=f8e4m3,trans_b=true", "64x128x128/64x128", {}},
           {"matmul:m=100,n=64,k=144,dtype=i8,trans_b=true", "64x64x128/64x64", {}}}) {
    for (const char* copies : {"roles", "tensor"}) {
      SCOPED_TRACE(std::string(c.spec) + " by " + copies);
      const Workload w = workload(c.spec);
      nlohmann::json answers = c.answers.is_null() ? nlohmann::json::object() : c.answers;
      answers[".copies"] = copies;
      Schedule s = scheduled_tensor_copies(w, hopper(), c.tile, answers);
      const std::string text = generate_cuda(s.module(), hopper()).text;
      EXPECT_THAT(text, HasSubstr("tw_tensor_load_"));
      EXPECT_THAT(text, Not(HasSubstr("tw_cp_async")));
      expect_right_on_gpu(w, s, hopper());
    }
  }
}

// The sums of a k tile belong to one iteration; a single k tile is a loop, too.
TEST(TensorCopies, BringOperandsOfPromotedSums) {
  for (const char* spec : {"matmul:m=64,n=128,k=400,dtype=f8e4m3,trans_b=true",
                           "matmul:m=130,n=64,k=128,dtype=f8e4m3,trans_b=true"}) {
    for (const char* copies : {"roles", "tensor"}) {
      SCOPED_TRACE(std::string(spec) + " by " + copies);
      const Workload w = workload(spec);
      Schedule s = scheduled_tensor_copies(
          w, hopper(1), "64x64x128/64x64",
          {{".copies", copies}, {".promote", 128}, {".grid", "persistent"}});
      const std::string text = generate_cuda(s.module(), hopper(1)).text;
      EXPECT_THAT(text, HasSubstr("_turn"));
      EXPECT_THAT(text, HasSubstr("_partial["));
      EXPECT_THAT(text, HasSubstr("tw_tensor_load_"));
      expect_right_on_gpu(w, s, hopper(1));
    }
  }
}

TEST(TensorCopies, RunAheadFromTileToTile) {
  for (const char* spec : {"matmul:m=256,n=256,k=200,dtype=f16",
                           "matmul:m=300,n=136,k=72,dtype=f16,epilogue=[bias,relu]"}) {
    for (const char* copies : {"roles", "tensor"}) {
      for (const char* stores : {"direct", "shared"}) {
        SCOPED_TRACE(fmt::format("{} by {}, {}", spec, copies, stores));
        const Workload w = workload(spec);
        Schedule s = scheduled_tensor_copies(
            w, hopper(3), "64x64x64/64x64",
            {{".grid", "persistent"}, {".copies", copies}, {".stores", stores}});
        EXPECT_THAT(generate_cuda(s.module(), hopper(3)).text, HasSubstr("_turn"));
        expect_right_on_gpu(w, s, hopper(3));
      }
    }
  }
}

// Split-K parts are products of TMA tiles, too; a second kernel adds them.
TEST(TensorCopies, SumsMayBeFormedInParts) {
  struct Case {
    const char* spec;
    const char* tile;
    int64_t parts;
    const char* copies;
    bool by_boxes = true;
  };
  for (const Case& c :
       {Case{"matmul:m=128,n=64,k=1024,dtype=f16", "64x64x64/64x64", 4, "roles"},
        {"matmul:m=100,n=72,k=768,dtype=bf16,trans_b=true", "64x64x64/64x64", 3, "roles"},
        {"matmul:m=70,n=64,k=512,dtype=f16,batch=2,epilogue=[bias,relu]", "64x32x64/64x32", 2,
         "tensor"},
        {"matmul:m=64,n=64,k=640,dtype=i8,trans_b=true", "64x64x128/64x64", 2, "roles",
         false}}) {  // parts of k = 320, not divided by tiles of 128
    SCOPED_TRACE(c.spec);
    const Workload w = workload(c.spec);
    Choices choices = {{".vk.parts", c.parts}};
    if (c.by_boxes) choices[".copies"] = c.copies;
    const Schedule s = scheduled_tensor_copies(w, hopper(), c.tile, choices);
    const CudaSource source = generate_cuda(s.module(), hopper());
    EXPECT_EQ(source.launches.size(), 2u) << source.text;
    EXPECT_THAT(source.text, HasSubstr("tw_wgmma_m64n")) << source.text;
    EXPECT_EQ(source.text.find("tw_tensor_load_") != std::string::npos, c.by_boxes);
    expect_right_on_gpu(w, s, hopper());
  }
}

// TMA tiles of results are stored while the next tile is computed.
TEST(TensorCopies, StoreResults) {
  struct Case {
    const char* spec;
    const char* tile;
    const char* grid;
  };
  for (const Case& c :
       {Case{"matmul:m=200,n=192,k=136,dtype=f16", "64x64x64/64x64", "persistent"},
        {"matmul:m=130,n=320,k=72,dtype=bf16,epilogue=[bias,relu]", "128x128x64/64x128",
         "persistent"},
        {"matmul:m=130,n=64,k=72,dtype=f16,out=f32,batch=2", "64x64x64/64x64", "tiles"},
        {"matmul:m=192,n=128,k=640,dtype=f16", "64x64x64/64x64", "stream_k"},
        {"matmul:m=100,n=96,k=80,dtype=f16", "64x32x64/64x32", "tiles"}}) {
    for (const char* copies : {"roles", "tensor"}) {
      SCOPED_TRACE(fmt::format("{} by {}", c.spec, copies));
      const Workload w = workload(c.spec);
      Schedule s = scheduled_tensor_copies(
          w, hopper(4), c.tile, {{".grid", c.grid}, {".copies", copies}, {".stores", "tensor"}});
      EXPECT_THAT(generate_cuda(s.module(), hopper(4)).text, HasSubstr("tw_tensor_store_"));
      expect_right_on_gpu(w, s, hopper(4));
    }
  }
}

// Threads store 8 x 8 matrices to the swizzled rows of the TMA tiles.
TEST(TensorCopies, MatricesAreStoredAsBoxes) {
  struct Case {
    const char* spec;
    const char* tile;
    const char* grid;
  };
  for (const Case& c :
       {Case{"matmul:m=192,n=192,k=136,dtype=f16", "64x64x64/64x64", "persistent"},
        {"matmul:m=256,n=256,k=72,dtype=bf16,epilogue=[bias,relu]", "128x128x64/64x128", "tiles"},
        {"matmul:m=128,n=64,k=72,dtype=f16,batch=2", "64x32x64/64x32", "persistent"}}) {
    SCOPED_TRACE(c.spec);
    const Workload w = workload(c.spec);
    const Schedule s = scheduled_tensor_copies(w, hopper(3), c.tile,
                                               {{".grid", c.grid}, {".stores", "stmatrix_tensor"}});
    const std::string text = generate_cuda(s.module(), hopper(3)).text;
    EXPECT_THAT(text, HasSubstr("tw_tensor_store_"));
    EXPECT_THAT(text, HasSubstr("tw_stmatrix_x4("));
    const GpuRun run = run_on_emulator(w, s, hopper(3));
    ASSERT_TRUE(run.emulated.ok()) << run.emulated.fault->to_string() << text;
    EXPECT_EQ(run.checked.verdict, Verdict::Ok) << run.checked.message;
    EXPECT_EQ(run.emulated.counters.bank_conflicts(), 0) << "rows of a box are swizzled";
    const GpuRun broken = run_on_emulator(w, s, hopper(3), {}, 1, [](std::string& edited) {
      const size_t call = edited.find("tw_stmatrix_x4(");
      edited.insert(edited.find("(", edited.find("tw_swizzle", call)) + 1, "8 ^ ");
    });
    EXPECT_TRUE(!broken.emulated.ok() || broken.checked.verdict == Verdict::Wrong);
  }
}

TEST(TensorCopies, StoresNeedTheirFencesAndWaits) {
  const Workload w = workload("matmul:m=192,n=128,k=72,dtype=f16");
  Schedule s = scheduled_tensor_copies(w, hopper(2), "64x64x64/64x64",
                                       {{".grid", "persistent"}, {".stores", "tensor"}});
  auto without = [&](const std::string& gone) {
    GpuRun run = run_on_emulator(w, s, hopper(2), {}, 1, [&](std::string& text) {
      ASSERT_NE(text.find(gone), std::string::npos) << text;
      for (size_t at = 0; (at = text.find(gone, at)) != std::string::npos;)
        text.erase(at, gone.size());
    });
    return run.emulated.ok() ? std::string("ok")
                             : std::string(fault_name(run.emulated.fault->kind));
  };
  EXPECT_EQ(without("tw_fence_async();"), "missing-fence");
  EXPECT_EQ(without("tw_bulk_wait_read<0>();"), "copy-in-flight");
  EXPECT_EQ(without("tw_bulk_commit();"), "copy-in-flight");
}

TEST(TensorCopies, BlocksMayShareTheTermsOfTiles) {
  const Workload w = workload("matmul:m=192,n=128,k=640,dtype=f16");
  for (const char* copies : {"roles", "tensor"}) {
    SCOPED_TRACE(copies);
    Schedule s = scheduled_tensor_copies(w, hopper(4), "64x64x64/64x64",
                                         {{".grid", "stream_k"}, {".copies", copies}});
    EXPECT_THAT(generate_cuda(s.module(), hopper(4)).text, HasSubstr("_partial"));
    expect_right_on_gpu(w, s, hopper(4));
  }
}

TEST(TensorCopies, RowsMayBeDynamic) {
  const Workload w = workload("matmul:m=1..300,n=64,k=136,dtype=f16");
  Schedule s = scheduled_tensor_copies(w, hopper(2), "64x64x64/64x64", {{".grid", "persistent"}});
  const CudaSource source = generate_cuda(s.module(), hopper(2));
  EXPECT_EQ(tensor_map_at(source.launches[0].tensor_maps[0], source, {77}).dims[1], 77);
  for (int64_t m : {1, 64, 77, 300}) expect_right_on_gpu(w, s, hopper(2), {{"m", m}});
}

// Two consumer warpgroups: setmaxnreg moves registers, and consumers synchronize without producers.
TEST(WarpRoles, SeveralWarpgroupsShareOutTheRegisters) {
  const Workload w = workload("matmul:m=256,n=128,k=200,dtype=f16");
  Schedule s = scheduled_tensor_copies(w, hopper(2), "128x64x64/64x64",
                                       {{".grid", "persistent"}, {".stores", "shared"}});
  const CudaSource source = generate_cuda(s.module(), hopper(2));
  EXPECT_EQ(source.launches[0].block[0], 384);
  EXPECT_THAT(source.text, HasSubstr("__launch_bounds__(384, 1)"));
  EXPECT_THAT(source.text, HasSubstr("tw_registers_raise<240>"));
  EXPECT_THAT(source.text, HasSubstr("tw_registers_lower<24>"));
  EXPECT_THAT(source.text, HasSubstr("tw_barrier_sync(1, 256)"));
  expect_right_on_gpu(w, s, hopper(2));
}

TEST(WarpRoles, BudgetsAreWhatTheThreadsLeave) {
  const GpuFacts& gpu = hopper().gpu;
  EXPECT_EQ(role_budget(128, gpu).producers, 32);
  EXPECT_EQ(role_budget(128, gpu).consumer_registers, 0);
  const RoleBudget two = role_budget(256, gpu), three = role_budget(384, gpu);
  EXPECT_EQ(two.consumer_registers, 240);
  EXPECT_EQ(three.consumer_registers, 160);
  for (const RoleBudget& b : {two, three}) {
    EXPECT_LE(b.consumers * b.consumer_registers + b.producers * b.producer_registers,
              gpu.registers_per_sm);
  }
  EXPECT_TRUE(has_registers_for(two, 168));
  EXPECT_FALSE(has_registers_for(two, 160)) << "warps would wait for ever";
  EXPECT_TRUE(has_registers_for(role_budget(128, gpu), 90));
}

// The same before a kernel runs on a device.
TEST(WarpRoles, KernelsThatWouldWaitForEverAreToldByWhatTheCompilerMade) {
  const Workload w = workload("matmul:m=256,n=128,k=200,dtype=f16");
  const CudaSource source =
      generate_cuda(scheduled_tensor_copies(w, hopper(2), "128x64x64/64x64").module(), hopper(2));
  CudaKernelFacts facts{160, 0, {{"USETMAXREG", 2}}};
  EXPECT_EQ(budget_problem(source, {facts}, hopper().gpu),
            "was compiled to 160 registers for each of 384 threads, fewer than its warps "
            "redistribute: they would wait for ever");
  facts.registers = 168;
  EXPECT_EQ(budget_problem(source, {facts}, hopper().gpu), "");
  EXPECT_EQ(budget_problem(source, {{90, 0, {}}}, hopper().gpu), "") << "none change hands";
}

// The emulator's verdicts on kernels with a missing part.
TEST(WarpRoles, EveryWaitAndArrivalIsNeeded) {
  const Workload w = workload("matmul:m=64,n=64,k=448,dtype=f16");
  Schedule s = scheduled_tensor_copies(w, hopper(), "64x64x64/64x64");
  auto verdict = [&](const std::string& from, const std::string& to) {
    return outcome_of_edited(w, s, hopper(), from, to);
  };
  const std::string waits_for_empty = "tw_mbarrier_wait(barriers + (k_0_1 % 3 + 3)";
  EXPECT_EQ(verdict(waits_for_empty, waits_for_empty), "ok");
  EXPECT_THAT(verdict(waits_for_empty, "(void)(barriers + (k_0_1 % 3 + 3)"),
              AnyOf("race", "copy-in-flight", "bad-barrier", "wgmma-in-flight"));
  EXPECT_EQ(verdict("16384)", "16400)"), "deadlock");
  EXPECT_EQ(verdict("16384)", "8192)"), "copy-in-flight");
  EXPECT_EQ(verdict("tw_mbarrier_fence_init();", ""), "bad-barrier");
  EXPECT_THAT(verdict("tw_mbarrier_wait(barriers + (k_0 % 3)", "(void)(barriers + (k_0 % 3)"),
              AnyOf("copy-in-flight", "uninitialized-read"));
  EXPECT_EQ(verdict("tw_wgmma_wait<1>();", "tw_wgmma_wait<2>();"), "wgmma-in-flight");
}

// The schedule's loop with this annotation.
Loop annotated(const Schedule& s, const char* block, const char* key) {
  for (const Loop& l : s.loops(s.block(block))) {
    if (s.node(l).annotations.count(key) != 0) return l;
  }
  throw std::logic_error(std::string("no loop is annotated ") + key);
}

TEST(TensorCopies, RefuseOtherAnnotations) {
  const Workload w = workload("matmul:m=128,n=128,k=128,dtype=f16");
  auto refusal = [&](const char* key, const Annotation& value) {
    Schedule s = scheduled_tensor_copies(w, hopper(), "64x64x64/64x64", {{".pending", 0}});
    s.annotate(annotated(s, "C_acc", kCopiesKey), key, value);
    return lowering_refusal(s, hopper());
  };
  EXPECT_THAT(refusal(kCopiesKey, std::string("elves")),
              HasSubstr("'copies' of loop 'k_0' must be 'tensor', 'roles' or 'ping_pong'"));
  EXPECT_THAT(refusal("pipeline_stages", int64_t{1}),
              HasSubstr("loop 'k_0' has 'copies'; it needs 'pipeline_stages' of 2 or more"));
  // TMA tiles exist in a pipelined loop only.
  Schedule s = scheduled_tensor_copies(w, hopper(), "64x64x64/64x64", {{".copies", "cp_async"}});
  s.annotate(annotated(s, "C_acc", "pipeline_stages"), kCopiesKey, std::string(kByRoles));
  EXPECT_THAT(lowering_refusal(s, hopper()), HasSubstr("no loops that are marked 'tma'"));
}

TEST(TensorCopies, RefuseMapsThatNoDriverTakes) {
  // B with rows of 264 bytes; and A of bytes across its k, which no TMA tile loads in order.
  Analyzer known;
  auto refusal = [&](int64_t columns, bool turned) {
    const Buffer from = make_buffer("A", ElemType::f16, {Expr(100), Expr(columns)}, Scope::Global);
    const Buffer to = make_buffer("S", ElemType::f16, {Expr(64), Expr(64)}, Scope::Shared);
    Var i("i"), j("j");
    const std::vector<Expr> at = turned ? std::vector<Expr>{j, i} : std::vector<Expr>{i, j};
    Stmt loops = make_for(j, 0, 64, ForKind::Serial, make_store(to, at, load(from, {i, j})));
    loops = make_for(i, 0, 64, ForKind::Serial, loops, {{kInstructionKey, std::string(kTma)}});
    try {
      match_tensor_copy(*loops.as<ForNode>(), known);
    } catch (const LoweringError& e) {
      return std::string(e.what());
    }
    return std::string("was not refused");
  };
  EXPECT_EQ(refusal(128, false), "was not refused");
  EXPECT_THAT(refusal(132, false), HasSubstr("a stride of 264 bytes; it is a multiple of 16"));
  EXPECT_THAT(refusal(128, true), HasSubstr("must lie dense and in the order of the dimensions"));
}

TEST(WarpRoles, CompileToTheInstructionsWithSumsInRegisters) {
  if (!cuda::nvrtc_problem().empty()) GTEST_SKIP() << "NVRTC: " << cuda::nvrtc_problem();
  if (!cuda::nvrtc_accepts("sm_90a")) GTEST_SKIP() << "this NVRTC knows no sm_90a";
  struct Case {
    const char* spec;
    const char* tile;
    const char* mnemonic;
    const char* stores;
  };
  for (const Case& c :
       {Case{"matmul:m=4096,n=4096,k=512,dtype=f16", "128x256x64/64x256", "HGMMA", "direct"},
        {"matmul:m=4096,n=4096,k=512,dtype=bf16,trans_b=true", "256x128x64/128x128", "HGMMA",
         "direct"},
        {"matmul:m=4096,n=4096,k=512,dtype=f8e4m3,trans_b=true", "128x128x128/64x128", "QGMMA",
         "shared"},
        {"matmul:m=4096,n=4096,k=512,dtype=f16", "128x128x64/64x128", "HGMMA", "tensor"},
        {"matmul:m=4096,n=4096,k=512,dtype=f16,out=f16", "128x256x64/64x256", "HGMMA",
         "stmatrix_tensor"},
        {"matmul:m=4096,n=4096,k=512,dtype=i8,trans_b=true", "64x256x128/64x256", "IGMMA",
         "direct"}}) {
    SCOPED_TRACE(c.spec);
    const Workload w = workload(c.spec);
    Schedule s = scheduled_tensor_copies(w, hopper(), c.tile,
                                         {{".grid", "persistent"}, {".stores", c.stores}});
    const CudaSource source = generate_cuda(s.module(), hopper());
    const cuda::CubinFacts facts = cuda::cubin_facts(
        cuda::compile_to_cubin(source.text, "kernel", "sm_90a"), source.launches.at(0).entry);
    EXPECT_GE(facts.count(c.mnemonic), 4) << source.text;
    EXPECT_GE(facts.count("UTMALDG"), 2);
    EXPECT_GE(facts.count("SYNCS"), 4);
    const std::string stores = c.stores;
    EXPECT_EQ(facts.count("UTMASTG") > 0, stores.ends_with("tensor"));
    EXPECT_EQ(facts.count("STSM") > 0, stores.starts_with("stmatrix"));
    EXPECT_EQ(facts.local_accesses(), 0) << source.text;
    EXPECT_EQ(facts.count("LDGSTS"), 0);
    const int64_t threads = source.launches[0].block[0];
    const RoleBudget budget = role_budget(threads > 256 ? 256 : 128, hopper().gpu);
    EXPECT_EQ(budget.threads(), threads);
    EXPECT_EQ(facts.count("USETMAXREG"), budget.consumer_registers > 0 ? 2 : 0);
    EXPECT_LE(facts.registers * threads, hopper().gpu.registers_per_sm);
    EXPECT_TRUE(has_registers_for(budget, facts.registers)) << facts.registers;
  }
}

TEST(TensorCopies, TheModelPrefersThemWhereCopiesTakeInstructions) {
  const Workload w = workload("matmul:m=8192,n=8192,k=8192,dtype=f16");
  auto seconds = [&](const char* copies) {
    GpuEstimate e = estimate_gpu(
        scheduled_tensor_copies(w, hopper(), "128x256x64/64x256", {{".copies", copies}}).program(),
        hopper());
    EXPECT_TRUE(e.fits()) << e.refusal;
    return e.seconds;
  };
  EXPECT_LT(seconds("roles"), seconds("tensor"));
  EXPECT_LT(seconds("tensor"), seconds("cp_async"));
}

}  // namespace
}  // namespace tilewright
