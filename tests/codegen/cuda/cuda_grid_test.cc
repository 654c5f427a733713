// Kernels with a given number of blocks, and accumulators that blocks share (stream-K).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "codegen/codegen.h"
#include "codegen/cuda_lowering.h"
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

constexpr int64_t kTile = 32;

// Sums over 64 elements of k in tiles of 8 through shared memory; a block has a tile of 32 sums.
struct Summed {
  Schedule s;
  Loop tiles, terms;
};

Summed summed(int64_t rows, int64_t stages, const std::string& expr = "Y[i] += X[i,k] * Z[k]") {
  Schedule s(lower(
      make_workload(parse_spec(fmt::format("expr:expr={},dims.i={},dims.k=64", expr, rows)))));
  Block y = s.block("Y");
  std::vector<Loop> loops = s.loops(y);
  std::vector<Loop> k = s.split(loops[1], {-1, 8});
  std::vector<Loop> i = s.split(loops[0], {-1, kTile});
  s.reorder({i[0], k[0], i[1], k[1]});
  Block copy = s.cache_read(y, "X", Scope::Shared);
  s.compute_at(copy, k[0]);
  Block out = s.cache_write(y, "Y", Scope::Register);
  s.reverse_compute_at(out, i[0]);
  Block init = s.decompose_reduction(y, k[0]);
  std::vector<Loop> own = s.loops(copy);
  std::vector<Loop> parts = s.split(s.fuse({own[2], own[3]}), {-1, kTile, 4});
  s.bind(parts[1], ForKind::ThreadX);
  s.vectorize(parts[2]);
  s.bind(i[1], ForKind::ThreadX);
  s.bind(s.loops(init).back(), ForKind::ThreadX);
  s.bind(s.loops(out).back(), ForKind::ThreadX);
  s.bind(i[0], ForKind::BlockX);
  if (stages > 1) s.annotate(k[0], "pipeline_stages", stages);
  return {std::move(s), i[0], k[0]};
}

Schedule persistent(int64_t rows, int64_t stages, int64_t blocks) {
  Summed made = summed(rows, stages);
  made.s.annotate(made.tiles, kPersistentKey, blocks);
  return made.s;
}

Schedule streamed(int64_t rows, int64_t stages, int64_t blocks) {
  Summed made = summed(rows, stages);
  made.s.annotate(made.tiles, kPersistentKey, blocks);
  made.s.annotate(made.terms, kStreamedKey, int64_t{1});
  return made.s;
}

CudaSource source_of(const Schedule& s) {
  return generate_cuda(s.module(), Target::parse("cuda:sm_80"));
}

std::string refusal_grid(const Schedule& s) {
  try {
    source_of(s);
  } catch (const LoweringError& e) {
    return e.what();
  }
  return "was not refused";
}

// Runs the lowered program in the interpreter, whose threads wait at barriers.
void expect_same_sums_on_gpu(const Schedule& s) {
  NdArrays before = test::arrays_of(s.program(), false);
  interpret(s.program(), before);
  Program lowered = lower_for_cuda(s.program(), Target::parse("cuda:sm_80"));
  NdArrays after = test::arrays_of(s.program(), true);
  interpret(lowered, after);
  const auto &want = before["Y"].data, &got = after["Y"].data;
  ASSERT_EQ(want.size(), got.size());
  for (size_t i = 0; i < want.size(); ++i) {
    ASSERT_NEAR(want[i], got[i], 1e-4) << "element " << i << " of\n" << to_string(lowered);
  }
}

TEST(CudaGrid, PersistentBlocksTakeTilesInTurns) {
  Schedule s = persistent(5 * kTile, 3, 2);
  CudaSource source = source_of(s);
  EXPECT_GOLDEN(source.text);
  EXPECT_EQ(as_int(source.launches.at(0).grid[0]), 2);
  for (int64_t blocks : {1, 2, 3, 4}) {
    for (int64_t stages : {1, 3}) {
      SCOPED_TRACE(fmt::format("{} blocks, {} stages", blocks, stages));
      expect_same_sums_on_gpu(persistent(5 * kTile, stages, blocks));
    }
  }
}

TEST(CudaGrid, MoreBlocksThanTilesAreATileEach) {
  CudaSource source = source_of(persistent(5 * kTile, 3, 5));
  EXPECT_EQ(as_int(source.launches.at(0).grid[0]), 5);
  EXPECT_EQ(source.text, source_of(summed(5 * kTile, 3).s).text);
  EXPECT_EQ(source_of(persistent(5 * kTile, 3, 100)).text, source.text);
}

// 3 blocks for 5 tiles of 8 units: a share of 14 units has at most two tiles in part.
TEST(CudaGrid, BlocksShareTermsEvenly) {
  CudaSource source = source_of(streamed(5 * kTile, 3, 3));
  EXPECT_GOLDEN(source.text);
  ASSERT_EQ(source.launches.size(), 2u);
  EXPECT_EQ(as_int(source.launches[0].grid[0]), 3);
  EXPECT_EQ(as_int(source.launches[1].grid[0]), 5);
  ASSERT_EQ(source.scratch.size(), 1u);
  EXPECT_EQ(as_int(source.scratch[0].elements), 3 * 2 * kTile);
}

TEST(CudaGrid, SharedSumsAreThoseOfOneBlock) {
  for (int64_t tiles : {1, 2, 5, 7}) {
    for (int64_t blocks : {1, 2, 3, 4, 6, 16, 50}) {
      SCOPED_TRACE(fmt::format("{} tiles, {} blocks", tiles, blocks));
      expect_same_sums_on_gpu(streamed(tiles * kTile, blocks % 2 == 0 ? 3 : 1, blocks));
    }
  }
}

// 3 blocks for 7 tiles: one whole tile each, and 4 tiles of which each block gets a third.
TEST(CudaGrid, OnlyTheLastTilesAreShared) {
  CudaSource source = source_of(streamed(7 * kTile, 3, 3));
  ASSERT_EQ(source.launches.size(), 2u);
  EXPECT_EQ(as_int(source.launches[1].grid[0]), 4);
}

TEST(CudaGrid, WhereEachBlockGetsWholeTilesNothingIsShared) {
  CudaSource source = source_of(streamed(6 * kTile, 3, 3));
  EXPECT_EQ(source.launches.size(), 1u);
  EXPECT_TRUE(source.scratch.empty());
  EXPECT_EQ(source.text, source_of(persistent(6 * kTile, 3, 3)).text);
}

TEST(CudaGrid, RefusesWhatItCannotShare) {
  Summed alone = summed(5 * kTile, 3);
  alone.s.annotate(alone.terms, kStreamedKey, int64_t{1});
  EXPECT_THAT(refusal_grid(alone.s),
              HasSubstr("blocks are to share the terms of loop 'k_0': the loop "
                        "over blocks needs 'persistent_blocks'"));
  EXPECT_THAT(refusal_grid(persistent(5 * kTile, 3, 0)),
              HasSubstr("'persistent_blocks' of loop 'i_0' must be a number of 1 or more, on an "
                        "outermost loop over blocks from 0"));
  Summed inner = summed(5 * kTile, 3);
  inner.s.annotate(inner.tiles, kPersistentKey, int64_t{3});
  inner.s.annotate(inner.s.loops(inner.s.block("Y")).back(), kStreamedKey, int64_t{1});
  EXPECT_THAT(refusal_grid(inner.s), HasSubstr("it must stand right under loop 'i_0' over blocks"));
  Summed most = summed(5 * kTile, 3, "Y[i] max= X[i,k] * Z[k]");
  most.s.annotate(most.tiles, kPersistentKey, int64_t{3});
  most.s.annotate(most.terms, kStreamedKey, int64_t{1});
  EXPECT_THAT(refusal_grid(most.s),
              HasSubstr("it must add to one buffer in registers, and do nothing "
                        "else that lasts"));
}

}  // namespace
}  // namespace tilewright
