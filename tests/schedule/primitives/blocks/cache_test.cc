#include "schedule/primitives/blocks/cache.h"

#include "ir/arith/index_map.h"
#include "tests/golden.h"
#include "tests/schedule/programs.h"
#include "tests/schedule/rewrite_case.h"

namespace tilewright::test {
namespace {

// Only the four elements in the middle of T are stored.
constexpr const char* kPartlyStored = R"(
program part(A: f32[4] input, C: f32[4] output) {
  block root() {
    alloc T: f32[8] global
    for i in 0..4 { block T(v: spatial 4 = i) { T[v + 2] = A[v] } }
    for x in 0..4 { block C(w: spatial 4 = x) { C[w] = T[w + 2] } }
  }
})";

TEST(CacheRead, CopiesAParameter) {
  RewriteCase c(kChain);
  Block copy = c.s.cache_read({"T"}, "A", Scope::Local);
  EXPECT_EQ(copy.name, "A_local");
  EXPECT_GOLDEN(c.str());
  c.check();
}

TEST(CacheRead, StandsBetweenAWriterAndTheReader) {
  RewriteCase c(kChainTiled);
  c.s.cache_read({"C"}, "T", Scope::Shared);
  EXPECT_GOLDEN(c.str());
  c.check();
}

TEST(CacheRead, CopiesWhatOneIterationReadsUnderASharedLoop) {
  RewriteCase c(kConv);
  c.s.compute_at({"P"}, {"h_0"});
  c.s.cache_read({"Y"}, "P", Scope::Local);
  EXPECT_GOLDEN(c.str());
  c.check();
}

// The second loop begins where the first one says, so what must hold at its beginning is told of the first one, too.
constexpr const char* kBand = R"(
program band(A: f32[16] input, N: i32[4] input, C: f32[4] output) {
  block root() {
    for i in 0..4 {
      for s in max(i - 1, 0)..max(i - 1, 0)+(4 - max(i - 1, 0)) {
        for k in 0..4 {
          block C(v: spatial 4 = i, r: reduce 16 = s * 4 + k) where s * 4 + k < cast<index>(N[0]) {
            init { C[v] = 0.0f32 }
            C[v] = C[v] + A[r]
          }
        }
      }
    }
  }
})";

TEST(CacheRead, LoopsThatBeginWhereOthersSayLeaveNoCondition) {
  RewriteCase c(kBand);
  c.s.cache_read({"C"}, "A", Scope::Shared);
  EXPECT_GOLDEN(c.str());
}

TEST(CacheRead, MovesIntoItsReadersLoops) {
  RewriteCase c(kMatmulBias);
  Block a = c.s.cache_read({"T"}, "A", Scope::Local);
  Block b = c.s.cache_read({"T"}, "B", Scope::Local);
  c.s.compute_at(a, {"k_0"});
  c.s.compute_at(b, {"k_0"});
  EXPECT_EQ(c.s.loops(a).size(), 5u);
  EXPECT_GOLDEN(c.str());
  c.check();
}

TEST(CacheRead, GivesEachCopyAName) {
  RewriteCase c(kSoftmax);
  EXPECT_EQ(c.s.cache_read({"S"}, "E", Scope::Local).name, "E_local");
  EXPECT_EQ(c.s.cache_read({"Y"}, "E", Scope::Local).name, "E_local_1");
  EXPECT_EQ(c.s.cache_read({"Y"}, "E_local_1", Scope::Register).name, "E_local_1_register");
  c.check();
}

TEST(CacheRead, CopiesOnlyWhatIsStored) {
  RewriteCase c(kPartlyStored);
  Block copy = c.s.cache_read({"C"}, "T", Scope::Local);
  EXPECT_EQ(*as_int(c.s.node(c.s.loops(copy)[0]).extent), 4);
  c.check();
}

TEST(CacheRead, CopiesAPackedWeightWithItsPadding) {
  RewriteCase c(kMatmulBias);
  c.s.prepack("B", IndexMap::parse("(k, j) -> (floordiv(j, 8), k, floormod(j, 8))"));
  Block copy = c.s.cache_read({"T"}, "B_packed", Scope::Local);
  c.s.compute_at(copy, {"k_0"});
  EXPECT_EQ(c.s.loops(copy).size(), 6u);
  c.check();
}

// The layout of T is rounded up from 20 columns to 24; no block stores the last 4.
TEST(CacheRead, CopiesALayoutWithItsPadding) {
  RewriteCase c(kMatmulBias);
  c.s.transform_layout("T", IndexMap::parse("(i, j) -> (floordiv(j, 8), i, floormod(j, 8))"));
  Block copy = c.s.cache_read({"C"}, "T", Scope::Local);
  EXPECT_EQ(*as_int(c.s.node(c.s.loops(copy)[2]).extent), 8);
  c.check();
}

TEST(CacheWrite, CopiesALayoutWithItsPadding) {
  RewriteCase c(kMatmulBias);
  c.s.transform_layout("T", IndexMap::parse("(i, j) -> (floordiv(j, 8), i, floormod(j, 8))"));
  Block copy = c.s.cache_write({"T"}, "T", Scope::Local);
  EXPECT_EQ(*as_int(c.s.node(c.s.loops(copy)[2]).extent), 8);
  c.check();
}

TEST(CacheReadRefuses, ABufferThatIsNotRead) {
  RewriteCase c(kMatmulBias);
  c.refuses([](Schedule& s) { s.cache_read({"C"}, "A", Scope::Local); }, RefusalKind::NotFound,
            "block 'C' does not read 'A'; it reads: T, bias");
}

TEST(CacheReadRefuses, ABlockThatHoldsOthers) {
  RewriteCase c(kChain);
  c.refuses([](Schedule& s) { s.cache_read({"root"}, "A", Scope::Local); },
            RefusalKind::BadStructure, "block 'root' holds other blocks; a leaf block is needed");
}

TEST(CacheReadRefuses, TheBlocksOwnResult) {
  RewriteCase c(kMatmulBias);
  c.refuses([](Schedule& s) { s.cache_read({"T"}, "T", Scope::Local); }, RefusalKind::Dependence,
            "block 'T' also writes 'T'; a copy would not see that");
}

TEST(CacheReadRefuses, AWriterBehindTheBlock) {
  RewriteCase c(R"(
program order(A: f32[4] input, C: f32[4] output, D: f32[4] output) {
  block root() {
    alloc T: f32[4] global
    for i in 0..4 { block T(v: spatial 4 = i) { T[v] = A[v] } }
    for x in 0..4 { block C(w: spatial 4 = x) { C[w] = T[w] } }
    for j in 0..4 { block U(u: spatial 4 = j) { T[u] = A[u] + 1.0f32 } }
    for y in 0..4 { block D(z: spatial 4 = y) { D[z] = T[z] } }
  }
})");
  c.refuses([](Schedule& s) { s.cache_read({"C"}, "T", Scope::Local); }, RefusalKind::Dependence,
            "block 'U' writes 'T' behind block 'C'");
}

TEST(CacheWrite, AccumulatesInACopy) {
  RewriteCase c(kMatmulBias);
  Block copy = c.s.cache_write({"T"}, "T", Scope::Register);
  EXPECT_EQ(copy.name, "T_register");
  EXPECT_GOLDEN(c.str());
  c.check();
  c.s.reverse_compute_at(copy, {"j_0"});
  EXPECT_GOLDEN_PART(c.str(), "moved");
  c.check();
}

TEST(CacheWrite, StandsBeforeTheReadersThatShareALoop) {
  RewriteCase c(kMatmulBias);
  c.s.reverse_compute_at({"C"}, {"j_0"});
  c.s.cache_write({"T"}, "T", Scope::Register);
  EXPECT_GOLDEN(c.str());
  c.check();
}

TEST(CacheWrite, CopiesOnlyWhatTheBlockStores) {
  RewriteCase c(kPartlyStored);
  Block copy = c.s.cache_write({"T"}, "T", Scope::Local);
  EXPECT_EQ(*as_int(c.s.node(c.s.loops(copy)[0]).extent), 4);
  c.check();
}

TEST(CacheWriteRefuses, ABufferThatIsNotWritten) {
  RewriteCase c(kChain);
  c.refuses([](Schedule& s) { s.cache_write({"C"}, "T", Scope::Local); }, RefusalKind::NotFound,
            "block 'C' does not write 'T'; it writes: C");
}

TEST(CacheWriteRefuses, ASecondWriter) {
  RewriteCase c(R"(
program twice(A: f32[4] input, C: f32[4] output) {
  block root() {
    for i in 0..4 { block C_init(v: spatial 4 = i) { C[v] = 0.0f32 } }
    for j in 0..4 { block C(u: spatial 4 = j) { C[u] = C[u] + A[u] } }
  }
})");
  c.refuses([](Schedule& s) { s.cache_write({"C"}, "C", Scope::Local); }, RefusalKind::Dependence,
            "block 'C_init' also writes 'C'; the copy must have one writer");
}

TEST(CacheWriteRefuses, HolesBeforeAReader) {
  RewriteCase c(R"(
program strided(A: f32[8] input, C: f32[8] output) {
  block root() {
    alloc T: f32[8] global
    for i_1 in 0..4 {
      for i_0 in 0..2 { block T(v: spatial 8 = i_0 * 4 + i_1) { T[v] = A[v] + 1.0f32 } }
      for x in 0..2 { block C(w: spatial 8 = x * 4 + i_1) { C[w] = T[w] } }
    }
  }
})");
  c.refuses([](Schedule& s) { s.cache_write({"T"}, "T", Scope::Local); }, RefusalKind::Unsupported,
            "block 'T' stores a region of 'T' before its readers that is no box without holes");
}

}  // namespace
}  // namespace tilewright::test
