// Lowering to GPU kernels, and their printed text.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "codegen/codegen.h"
#include "codegen/cuda/instructions/cuda_instruction.h"
#include "codegen/cuda_lowering.h"
#include "emulator/emulator.h"
#include "ir/interpreter/interpreter.h"
#include "ir/ops/spec.h"
#include "ir/text/printer.h"
#include "schedule/schedule.h"
#include "tests/codegen/support.h"
#include "tests/golden.h"

namespace tilewright {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

Target sm_80() { return Target::parse("cuda:sm_80"); }

Schedule scheduled(const std::string& spec) {
  return Schedule(lower(make_workload(parse_spec(spec))));
}

std::string text_of(const Schedule& s, const std::string& target = "cuda:sm_80") {
  return generate_cuda(s.module(), Target::parse(target)).text;
}

// The message with which code generation refuses.
std::string refusal_cuda(const Module& module, const Target& target = sm_80()) {
  try {
    generate_cuda(module, target);
  } catch (const LoweringError& e) {
    return e.what();
  }
  return "was not refused";
}
std::string refusal_cuda(const Schedule& s) { return refusal_cuda(s.module()); }

// Runs the lowered program in the interpreter, whose threads wait at barriers.
void expect_same_meaning_on_gpu(const Schedule& s) {
  NdArrays before = test::arrays_of(s.program(), false);
  interpret(s.program(), before);
  Program lowered = lower_for_cuda(s.program(), sm_80());
  NdArrays after = test::arrays_of(s.program(), true);
  interpret(lowered, after);
  for (const Param& p : s.program().params) {
    if (p.role != ParamRole::Output) continue;
    const auto &want = before[p.buffer->name].data, &got = after[p.buffer->name].data;
    ASSERT_EQ(want.size(), got.size());
    for (size_t i = 0; i < want.size(); ++i) {
      ASSERT_NEAR(want[i], got[i], 1e-4) << "element " << i << " of\n" << to_string(lowered);
    }
  }
}

int count(const std::string& text, const std::string& part) {
  int found = 0;
  for (size_t at = 0; (at = text.find(part, at)) != std::string::npos; ++at) ++found;
  return found;
}

Schedule relu(int64_t vector) {
  Schedule s = scheduled("elementwise:shape=1000,fn=relu");
  std::vector<Loop> parts = s.split(s.loops(s.block("Y"))[0], {-1, 64, vector});
  s.bind(parts[0], ForKind::BlockX);
  s.bind(parts[1], ForKind::ThreadX);
  s.vectorize(parts[2]);
  return s;
}

TEST(CudaText, OfAnElementwiseKernel) {
  EXPECT_GOLDEN(text_of(relu(4)));
  expect_same_meaning_on_gpu(relu(4));
}

TEST(CudaText, LaunchesSayTheGridAndWhatIsGiven) {
  CudaSource source = generate_cuda(relu(4).module(), sm_80());
  ASSERT_EQ(source.launches.size(), 1u);
  const CudaLaunch& launch = source.launches[0];
  EXPECT_EQ(launch.entry, "tw_elementwise");
  EXPECT_EQ(as_int(launch.grid[0]), 4);
  EXPECT_EQ(launch.block, (std::array<int, 3>{64, 1, 1}));
  EXPECT_EQ(launch.buffers, (std::vector<int>{0, 1}));
  EXPECT_EQ(launch.shared_bytes, 0);
}

// A row through shared memory: each thread reads an element that another thread wrote.
Schedule reversed() {
  Schedule s = scheduled("expr:expr=Y[i,j] = X[i,63-j] * 2,dims.i=5,dims.j=64");
  Block copy = s.cache_read(s.block("Y"), "X", Scope::Shared);
  std::vector<Loop> loops = s.loops(s.block("Y"));
  s.compute_at(copy, loops[0]);
  s.bind(s.loops(copy).back(), ForKind::ThreadX);
  s.bind(loops[1], ForKind::ThreadX);
  s.bind(loops[0], ForKind::BlockX);
  return s;
}

TEST(CudaText, ThreadsThatExchangeValuesWaitOnce) {
  std::string text = text_of(reversed());
  EXPECT_GOLDEN(text);
  EXPECT_EQ(count(text, "__syncthreads()"), 1) << text;
  expect_same_meaning_on_gpu(reversed());
}

// Rows of 256 elements through shared memory by 64 threads, four elements each. The elements of a
// pass are side by side, or those of a thread are.
Schedule reversed_in_passes(bool side_by_side) {
  Schedule s = scheduled("expr:expr=Y[i,j] = X[i,255-j] * 2,dims.i=5,dims.j=256");
  Block copy = s.cache_read(s.block("Y"), "X", Scope::Shared);
  s.compute_at(copy, s.loops(s.block("Y"))[0]);
  for (const Block& b : {copy, s.block("Y")}) {
    std::vector<Loop> parts =
        side_by_side ? s.split(s.loops(b).back(), {4, 64}) : s.split(s.loops(b).back(), {64, 4});
    const Loop pass = parts[side_by_side ? 0 : 1], threads = parts[side_by_side ? 1 : 0];
    s.reorder({pass, threads});
    s.bind(threads, ForKind::ThreadX);
  }
  s.bind(s.loops(s.block("Y"))[0], ForKind::BlockX);
  return s;
}

// Passes that write separate elements do not wait for each other.
TEST(CudaText, PassesOfOneTileNeedNoBarrierBetweenThem) {
  for (bool side_by_side : {true, false}) {
    const std::string text = text_of(reversed_in_passes(side_by_side));
    EXPECT_EQ(count(text, "__syncthreads()"), 1) << text;
    expect_same_meaning_on_gpu(reversed_in_passes(side_by_side));
  }
}

// Half of the columns of 16 rows: a pass is 4 rows, of which each thread has an element. The rows lie
// apart in the result, so threads are no digits of its index.
TEST(CudaText, PassesOfRowsOfAWiderResultNeedNoBarrierBetweenThem) {
  Schedule s = scheduled("expr:expr=Y[i,j] = X[i,63-j] * 2,dims.i=16,dims.j=64");
  const std::vector<Loop> loops = s.loops(s.block("Y"));
  const std::vector<Loop> halves = s.split(loops[1], {2, 32});
  s.reorder({halves[0], loops[0]});
  s.bind(halves[0], ForKind::BlockX);
  Block copy = s.cache_read(s.block("Y"), "X", Scope::Shared);
  s.compute_at(copy, halves[0]);
  for (const Block& b : {copy, s.block("Y")}) {
    std::vector<Loop> inner = s.loops(b);
    const Loop all = s.fuse({inner[inner.size() - 2], inner.back()});
    s.bind(s.split(all, {4, 128})[1], ForKind::ThreadX);
  }
  const std::string text = text_of(s);
  EXPECT_EQ(count(text, "__syncthreads()"), 1) << text;
  EXPECT_GT(text.rfind("for (", text.find(" Y[")), text.find("__syncthreads()")) << text;
  expect_same_meaning_on_gpu(s);
}

// Each pass writes the elements that the one before it wrote: sums are read and written.
TEST(CudaText, PassesOverTheSameElementsWaitForEachOther) {
  Schedule s = scheduled("expr:expr=Y[i] += X[j,i],dims.i=64,dims.j=4");
  const std::vector<Loop> loops = s.loops(s.block("Y"));
  s.reorder({loops[1], loops[0]});
  s.bind(s.loops(s.block("Y")).back(), ForKind::ThreadX);
  EXPECT_GE(count(text_of(s), "__syncthreads()"), 1) << text_of(s);
}

// Without the pass the emulator sees the race.
TEST(CudaText, WithoutItsBarriersAKernelRaces) {
  LoweringOptions options;
  options.without = {"insert_barriers"};
  CudaSource source = generate_cuda(reversed().module(), sm_80(), options);
  std::vector<float> x(320, 1), y(320);
  EmulatedLaunch launch;
  launch.entry = source.launches[0].entry;
  launch.grid = {5, 1, 1};
  launch.block = source.launches[0].block;
  launch.shared_bytes = source.launches[0].shared_bytes;
  launch.arguments = {EmulatedLaunch::Buffer{0}, EmulatedLaunch::Buffer{1}};
  EmulatorResult result =
      emulate(source.text, {launch}, {{"X", x.data(), 1280}, {"Y", y.data(), 1280, false}});
  ASSERT_FALSE(result.ok());
  EXPECT_TRUE(result.fault->kind == FaultKind::Race ||
              result.fault->kind == FaultKind::UninitializedRead)
      << result.fault->to_string();
}

// Sums over k in tiles of 8 through shared memory, in a ring of `stages` tiles.
Schedule staged(int64_t stages) {
  Schedule s = scheduled("expr:expr=Y[i] += X[i,k] * Z[k],dims.i=64,dims.k=64");
  Block y = s.block("Y");
  std::vector<Loop> loops = s.loops(y);
  std::vector<Loop> k = s.split(loops[1], {-1, 8});
  std::vector<Loop> i = s.split(loops[0], {-1, 32});
  s.reorder({i[0], k[0], i[1], k[1]});
  Block copy = s.cache_read(y, "X", Scope::Shared);
  s.compute_at(copy, k[0]);
  Block out = s.cache_write(y, "Y", Scope::Register);
  s.reverse_compute_at(out, i[0]);
  Block init = s.decompose_reduction(y, k[0]);
  std::vector<Loop> own = s.loops(copy);
  std::vector<Loop> parts = s.split(s.fuse({own[2], own[3]}), {-1, 32, 4});
  s.bind(parts[1], ForKind::ThreadX);
  s.vectorize(parts[2]);
  s.bind(i[1], ForKind::ThreadX);
  s.bind(s.loops(init).back(), ForKind::ThreadX);
  s.bind(s.loops(out).back(), ForKind::ThreadX);
  s.bind(i[0], ForKind::BlockX);
  if (stages > 0) s.annotate(k[0], "pipeline_stages", stages);
  return s;
}

TEST(CudaPipeline, CopiesRunAheadInARing) {
  std::string text = text_of(staged(3));
  EXPECT_GOLDEN(text);
  EXPECT_EQ(count(text, "__syncthreads()"), 1) << "one an iteration\n" << text;
  EXPECT_THAT(text, HasSubstr("tw_cp_async_wait<1>()"));
  expect_same_meaning_on_gpu(staged(3));
  expect_same_meaning_on_gpu(staged(2));
}

TEST(CudaPipeline, WithoutItTheTileIsWaitedForTwice) {
  std::string text = text_of(staged(0));
  EXPECT_EQ(count(text, "__syncthreads()"), 2) << "before and behind the copy\n" << text;
  EXPECT_THAT(text, Not(HasSubstr("tw_cp_async")));
  EXPECT_EQ(text_of(staged(1)), text) << "one stage is none";
  expect_same_meaning_on_gpu(staged(0));
}

TEST(CudaPipeline, TargetsWithoutAsynchronousCopiesStore) {
  std::string text = text_of(staged(3), "cuda:sm_75");
  EXPECT_THAT(text, Not(HasSubstr("tw_cp_async")));
  EXPECT_THAT(text, HasSubstr("tw_st<4>(X_shared"));
}

TEST(CudaPipeline, RefusesLoopsThatCopyNothing) {
  Schedule s = scheduled("expr:expr=Y[i] += X[i,k],dims.i=64,dims.k=64");
  s.annotate(s.loops(s.block("Y"))[1], "pipeline_stages", 3);
  EXPECT_THAT(refusal_cuda(s),
              HasSubstr("loop 'k' is to be pipelined, but no iteration of it begins "
                        "with copies from global to shared memory"));
  EXPECT_THAT(refusal_cuda(staged(9)),
              HasSubstr("'pipeline_stages' of loop 'k_0' must be a number from "
                        "1 to 8"));
}

TEST(CudaRefusals, NameWhatDoesNotFit) {
  Schedule s = scheduled("elementwise:shape=4096,fn=relu");
  s.bind(s.loops(s.block("Y"))[0], ForKind::ThreadX);
  EXPECT_THAT(refusal_cuda(s),
              HasSubstr("a kernel has blocks of 4096 threads; cuda:sm_80 has at most "
                        "1024"));

  Schedule threads = scheduled("elementwise:shape=32,fn=relu");
  threads.parallel(threads.loops(threads.block("Y"))[0]);
  EXPECT_THAT(refusal_cuda(threads),
              HasSubstr("loop 'i0' is parallel, which no GPU kernel is made of"));

  Schedule global = scheduled("elementwise:shape=8x32,fn=relu");
  Block copy = global.cache_read(global.block("Y"), "X", Scope::Global);
  Loop row = global.loops(global.block("Y"))[0];
  global.compute_at(copy, row);
  global.bind(row, ForKind::BlockX);
  EXPECT_THAT(refusal_cuda(global),
              HasSubstr("buffer 'X_global' lives inside a kernel; its scope must "
                        "be shared, local or register, not global"));

  Schedule between = scheduled("elementwise:shape=8x32,fn=relu");
  between.cache_read(between.block("Y"), "X", Scope::Shared);
  EXPECT_THAT(refusal_cuda(between), HasSubstr("buffer 'X_shared' of scope shared passes from one "
                                               "kernel to another; its scope must be global"));
}

TEST(CudaRefusals, SharedMemoryIsThatOfTheTarget) {
  Schedule s = scheduled("elementwise:shape=2x20000,fn=relu");
  Block copy = s.cache_read(s.block("Y"), "X", Scope::Shared);
  std::vector<Loop> loops = s.loops(s.block("Y"));
  s.compute_at(copy, loops[0]);
  s.bind(loops[0], ForKind::BlockX);
  EXPECT_EQ(refusal_cuda(s.module(), Target::parse("cuda:sm_80")), "was not refused");
  EXPECT_THAT(refusal_cuda(s.module(), Target::parse("cuda:sm_75")),
              HasSubstr("a kernel needs 80000 bytes of shared memory with 'X_shared'; a block of "
                        "cuda:sm_75 has at most 65536"));
}

TEST(CudaRefusals, LoopsThatAreNoMatrixInstruction) {
  Schedule s = scheduled("matmul:m=16,n=8,k=16,dtype=f16");
  Loop i = s.loops(s.block("C_acc"))[0];
  s.annotate(i, kInstructionKey, std::string("m16n8k16_f32_f16"));
  EXPECT_THAT(refusal_cuda(s),
              HasSubstr("loop 'i' is marked as mma 'm16n8k16_f32_f16', but stands in no "
                        "loop over warps"));
  auto marked = [&](const std::string& row) {
    Schedule t = scheduled("matmul:m=32,n=8,k=16,dtype=f16");
    Block c = t.block("C_acc");
    std::vector<Loop> loops = t.loops(c);
    std::vector<Loop> rows = t.split(loops[0], {2, 16});
    t.annotate(rows[1], kInstructionKey, row);
    t.bind(rows[0], ForKind::Warp);
    return refusal_cuda(t);
  };
  EXPECT_THAT(marked("m1n1k1"), HasSubstr("is marked as mma 'm1n1k1': there is no such row"));
  EXPECT_THAT(marked("m16n8k256_s32_b1_xor"),
              HasSubstr("only rows that sum products (of single bits: by 'and'), with one, two or "
                        "four registers an operand, are printed"));
  EXPECT_THAT(marked("m16n8k16_f32_f16"),
              HasSubstr("it must be three to five loops around one store"));
}

TEST(CudaRefusals, LoopsOverLanesAndRowsOfSharedMemory) {
  Schedule lanes = scheduled("elementwise:shape=8x32,fn=relu");
  lanes.annotate(lanes.loops(lanes.block("Y"))[1], kInstructionKey, std::string(kShuffle));
  EXPECT_THAT(refusal_cuda(lanes),
              HasSubstr("is marked as one over lanes; it must have 32 iterations of "
                        "one reduction, in a loop over warps"));
  Schedule rows = relu(4);
  rows.annotate(rows.loops(rows.block("Y"))[0], kSharedRowsKey, std::string("folded"));
  EXPECT_THAT(refusal_cuda(rows), HasSubstr("'shared_rows' of loop 'bx' is 'folded'; it may be "
                                            "'swizzled'"));
}

TEST(CudaRefusals, LoopsThatAreNoDotProductOfBytes) {
  auto marked = [](const std::string& spec, Scope scope, int64_t terms) {
    Schedule s = scheduled(spec);
    Block c = s.block("C");
    std::vector<Loop> k = s.split(s.loops(c).back(), {-1, terms});
    s.decompose_reduction(c, k[0]);
    for (const char* operand : {"A", "B"}) s.compute_at(s.cache_read(c, operand, scope), k[0]);
    s.annotate(k[1], kInstructionKey, std::string(kDp4a));
    s.bind(s.loops(c)[0], ForKind::BlockX);
    return refusal_cuda(s);
  };
  const std::string bytes = "matmul:m=2,n=2,k=8,dtype=i8,trans_b=true";
  const std::string shape =
      "loop 'k_1' is marked as a dot product of bytes: it must have four iterations, each of which "
      "adds a product of two bytes in registers";
  EXPECT_EQ(marked(bytes, Scope::Register, 2), shape);
  EXPECT_EQ(marked("matmul:m=2,n=2,k=8,trans_b=true", Scope::Register, 4), shape);
  EXPECT_EQ(marked("matmul:m=2,n=2,k=8,dtype=i8", Scope::Shared, 4), shape);
}

// Threads that write neighbours within a byte would lose each other's.
TEST(CudaRefusals, CodesThatShareAByteAreWrittenTogether) {
  Schedule s = scheduled("matmul:m=8,n=8,k=8,w.dtype=u4,w.group=8");
  s.cache_read(s.block("B_value"), "B", Scope::Global);
  EXPECT_THAT(refusal_cuda(s),
              HasSubstr("elements of 'B_global' share bytes that several threads would "
                        "write; copy whole bytes at once"));
}

}  // namespace
}  // namespace tilewright
