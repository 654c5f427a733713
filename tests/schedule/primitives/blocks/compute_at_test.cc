#include "schedule/primitives/blocks/compute_at.h"

#include "tests/golden.h"
#include "tests/schedule/programs.h"
#include "tests/schedule/rewrite_case.h"

namespace tilewright::test {
namespace {

TEST(ComputeAt, MovesAProducerUnderATileOfItsConsumer) {
  RewriteCase c(kChainTiled);
  c.s.compute_at({"T"}, {"i_0"});
  EXPECT_GOLDEN(c.str());
  c.check();
  // One loop per iterator below the target, whatever the sizes.
  std::vector<Loop> loops = c.s.loops({"T"});
  ASSERT_EQ(loops.size(), 3u);
  EXPECT_EQ(loops[0].name, "i_0");
}

TEST(ComputeAt, MovesFurtherInAgain) {
  RewriteCase c(kChainTiled);
  c.s.compute_at({"T"}, {"i_0"});
  c.s.compute_at({"T"}, {"j_1"});
  EXPECT_EQ(c.s.loops({"T"}).size(), 5u);
  c.check();
}

TEST(ComputeAt, ComputesTheHaloOfAPaddedConvolution) {
  RewriteCase c(kConv);
  c.s.compute_at({"P"}, {"h_0"});
  EXPECT_GOLDEN(c.str());
  c.check();
}

TEST(ComputeAt, MovesAReductionWithAllItsIterations) {
  RewriteCase c(kSoftmax);
  c.s.compute_at({"M"}, {"i_1"});
  c.s.compute_at({"S"}, {"i_3"});
  EXPECT_GOLDEN(c.str());
  c.check();
}

TEST(ComputeAt, StandsBeforeItsFirstConsumerInTheLoop) {
  RewriteCase c(kSoftmax);
  c.s.compute_at({"S"}, {"i_3"});
  c.s.compute_at({"E"}, {"i_3"});
  c.s.compute_at({"M"}, {"i_3"});
  EXPECT_GOLDEN(c.str());
  c.check();
}

TEST(ComputeAt, RunsTheWholeExtentWhereTheIndexIsNotInverted) {
  RewriteCase c(R"(
program flat(A: f32[4, 6] input, C: f32[24] output) {
  block root() {
    alloc T: f32[24] global
    for i in 0..4 { for j in 0..6 {
      block T(vi: spatial 4 = i, vj: spatial 6 = j) { T[vi * 6 + vj] = A[vi, vj] }
    } }
    for x in 0..24 { block C(v: spatial 24 = x) { C[v] = T[v] + 1.0f32 } }
  }
})");
  c.s.compute_at({"T"}, {"x"});
  EXPECT_EQ(*as_int(c.s.node(c.s.loops({"T"})[1]).extent), 4);
  c.check();
}

TEST(ComputeAt, FollowsPackedLayouts) {
  RewriteCase c(R"(
program packed(A: f32[4, 20] input, C: f32[4, 20] output) {
  block root() {
    alloc T: f32[3, 4, 8] global
    for i in 0..4 { for j in 0..20 {
      block T(vi: spatial 4 = i, vj: spatial 20 = j) {
        T[floordiv(vj, 8), vi, floormod(vj, 8)] = A[vi, vj] + 1.0f32
      }
    } }
    for j_0 in 0..3 { for i_1 in 0..4 { for j_1 in 0..8 {
      block C(wi: spatial 4 = i_1, wj: spatial 20 = j_0 * 8 + j_1) where (j_0 * 8 + j_1 < 20) {
        C[wi, wj] = T[floordiv(wj, 8), wi, floormod(wj, 8)]
      }
    } } }
  }
})");
  c.s.compute_at({"T"}, {"j_0"});
  // A column block of eight, not the whole row.
  EXPECT_EQ(*as_int(c.s.node(c.s.loops({"T"})[2]).extent), 8);
  c.check();
}

TEST(ComputeAt, RecomputesWhatSeveralStridedIterationsNeed) {
  RewriteCase c(R"(
program stride(A: f32[17] input, C: f32[8] output) {
  block root() {
    alloc T: f32[17] global
    for i in 0..17 { block T(v: spatial 17 = i) { T[v] = A[v] + 1.0f32 } }
    for x in 0..8 { for r in 0..3 {
      block C(w: spatial 8 = x, k: reduce 3 = r) {
        init { C[w] = 0.0f32 }
        C[w] = C[w] + T[w * 2 + k]
      }
    } }
  }
})");
  c.s.compute_at({"T"}, {"x"});
  EXPECT_EQ(*as_int(c.s.node(c.s.loops({"T"})[1]).extent), 3);
  c.check();
}

TEST(ComputeAt, DropsThePredicatesThatFuseAndSplitLeft) {
  RewriteCase c(R"(
program fused(A: f32[5, 6] input, C: f32[5, 6] output) {
  block root() {
    alloc T: f32[5, 6] global
    for f_0 in 0..4 { for f_1 in 0..8 {
      block T(vi: spatial 5 = floordiv(f_0 * 8 + f_1, 6), vj: spatial 6 = floormod(f_0 * 8 + f_1, 6)) where (f_0 * 8 + f_1 < 30) {
        T[vi, vj] = A[vi, vj] + 1.0f32
      }
    } }
    for i in 0..5 { for j in 0..6 {
      block C(wi: spatial 5 = i, wj: spatial 6 = j) { C[wi, wj] = T[wi, wj] * 2.0f32 }
    } }
  }
})");
  c.s.compute_at({"T"}, {"i"});
  EXPECT_FALSE(c.s.node(Block{"T"}).predicate.defined());
  c.check();
}

TEST(ComputeAtRefuses, UnknownNames) {
  RewriteCase c(kChain);
  c.refuses([](Schedule& s) { s.compute_at({"nope"}, {"i_1"}); }, RefusalKind::NotFound,
            "no block 'nope'; there are: root, T, C", false);
  c.refuses([](Schedule& s) { s.compute_at({"T"}, {"nope"}); }, RefusalKind::NotFound,
            "no loop 'nope'; there are: i, j, i_1, j_1", false);
}

TEST(ComputeAtRefuses, ABlockThatHoldsOthers) {
  RewriteCase c(kChain);
  c.refuses([](Schedule& s) { s.compute_at({"root"}, {"i"}); }, RefusalKind::BadStructure,
            "block 'root' holds other blocks");
}

TEST(ComputeAtRefuses, ALoopAroundTheBlock) {
  RewriteCase c(kChain);
  c.refuses([](Schedule& s) { s.compute_at({"T"}, {"i"}); }, RefusalKind::BadStructure,
            "block 'T' already stands under loop 'i'");
}

TEST(ComputeAtRefuses, ALoopOfAnotherScope) {
  RewriteCase c(R"(
program nested(A: f32[4] input, C: f32[4] output) {
  block root() {
    alloc T: f32[4] global
    for i in 0..4 { block T(v: spatial 4 = i) { T[v] = A[v] + 1.0f32 } }
    block inner() {
      for x in 0..4 { block C(w: spatial 4 = x) { C[w] = T[w] } }
    }
  }
})");
  c.refuses([](Schedule& s) { s.compute_at({"T"}, {"x"}); }, RefusalKind::BadStructure,
            "loop 'x' is not in the scope of block 'T'");
}

TEST(ComputeAtRefuses, AVectorizedLoop) {
  RewriteCase c(R"(
program vectors(A: f32[4] input, C: f32[4] output) {
  block root() {
    alloc T: f32[4] global
    for i in 0..4 { block T(v: spatial 4 = i) { T[v] = A[v] + 1.0f32 } }
    for x in 0..4 vectorized { block C(w: spatial 4 = x) { C[w] = T[w] } }
  }
})");
  c.refuses([](Schedule& s) { s.compute_at({"T"}, {"x"}); }, RefusalKind::BadStructure,
            "block 'T' cannot move under the vectorized loop 'x'");
}

TEST(ComputeAtRefuses, ASecondWriter) {
  RewriteCase c(R"(
program twice(A: f32[4] input, C: f32[4] output) {
  block root() {
    alloc T: f32[4] global
    for i in 0..4 { block T_init(v: spatial 4 = i) { T[v] = 0.0f32 } }
    for j in 0..4 { block T(u: spatial 4 = j) { T[u] = T[u] + A[u] } }
    for x in 0..4 { block C(w: spatial 4 = x) { C[w] = T[w] } }
  }
})");
  c.refuses([](Schedule& s) { s.compute_at({"T"}, {"x"}); }, RefusalKind::Dependence,
            "block 'T_init' also writes 'T', the buffer of block 'T'");
}

TEST(ComputeAtRefuses, ABlockOfTwoBuffers) {
  RewriteCase c(R"(
program pair(A: f32[4] input, C: f32[4] output) {
  block root() {
    alloc T: f32[4] global
    alloc U: f32[4] global
    for i in 0..4 { block T(v: spatial 4 = i) { T[v] = A[v] U[v] = A[v] } }
    for x in 0..4 { block C(w: spatial 4 = x) { C[w] = T[w] + U[w] } }
  }
})");
  c.refuses([](Schedule& s) { s.compute_at({"T"}, {"x"}); }, RefusalKind::Unsupported,
            "block 'T' writes 2 buffers; one is supported");
}

TEST(ComputeAtRefuses, APredicateOfAnotherMeaning) {
  RewriteCase c(R"(
program part(A: f32[4] input, C: f32[4] output) {
  block root() {
    alloc T: f32[4] global
    for i in 0..4 { block T(v: spatial 4 = i) where (i < 3) { T[v] = A[v] } }
    for x in 0..3 { block C(w: spatial 3 = x) { C[w] = T[w] } }
  }
})");
  c.refuses([](Schedule& s) { s.compute_at({"T"}, {"x"}); }, RefusalKind::Unsupported,
            "the predicate of block 'T' does not follow from the extents of its iterators");
}

// T is under the loop over x too and holds only one element there, so what U reads must not grow.
TEST(ComputeAtRefuses, AConsumerThatReadsLessThanABox) {
  RewriteCase c(R"(
program cut(A: f32[4] input, C: f32[4, 2, 4] output) {
  block root() {
    alloc T: f32[4] global
    alloc U: f32[4] global
    for x in 0..4 {
      block T(v: spatial 4 = x) { T[v] = A[v] }
      block U(u: spatial 4 = x) { U[u] = T[u] + 1.0f32 }
      for y in 0..2 {
        for z in 0..5 {
          block C(wx: spatial 4 = x, wy: spatial 2 = y, wz: spatial 4 = floordiv(z + x, 2)) where (z + x < 7) {
            C[wx, wy, wz] = U[wx]
          }
        }
      }
    }
  }
})");
  c.refuses([](Schedule& s) { s.compute_at({"U"}, {"y"}); }, RefusalKind::Unsupported,
            "the predicate of consumer 'C' cuts what it reads of 'U' to less than a box");
}

TEST(ComputeAtRefuses, AnOutputBlock) {
  RewriteCase c(kChain);
  c.refuses([](Schedule& s) { s.compute_at({"C"}, {"i"}); }, RefusalKind::Dependence,
            "block 'C' writes the output 'C'");
}

TEST(ComputeAtRefuses, ABlockThatNoneReads) {
  RewriteCase c(R"(
program dead(A: f32[4] input, C: f32[4] output) {
  block root() {
    alloc T: f32[4] global
    for i in 0..4 { block T(v: spatial 4 = i) { T[v] = A[v] } }
    for x in 0..4 { block C(w: spatial 4 = x) { C[w] = A[w] } }
  }
})");
  c.refuses([](Schedule& s) { s.compute_at({"T"}, {"x"}); }, RefusalKind::BadStructure,
            "no block reads 'T', which block 'T' writes");
}

TEST(ComputeAtRefuses, AConsumerElsewhere) {
  RewriteCase c(kSoftmax);
  c.refuses([](Schedule& s) { s.compute_at({"E"}, {"i_2"}); }, RefusalKind::Dependence,
            "consumer 'Y' of block 'E' does not stand under loop 'i_2'");
}

}  // namespace
}  // namespace tilewright::test
