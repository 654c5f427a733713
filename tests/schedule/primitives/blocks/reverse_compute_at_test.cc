#include "tests/golden.h"
#include "tests/schedule/programs.h"
#include "tests/schedule/rewrite_case.h"

namespace tilewright::test {
namespace {

TEST(ReverseComputeAt, MovesAnEpilogueUnderATileOfTheMatmul) {
  RewriteCase c(kMatmulBias);
  c.s.reverse_compute_at({"C"}, {"j_0"});
  EXPECT_GOLDEN(c.str());
  c.check();
}

TEST(ReverseComputeAt, MovesACachesCopy) {
  RewriteCase c(kMatmulBias);
  c.s.reverse_compute_at({"C"}, {"j_0"});
  Block copy = c.s.cache_write({"C"}, "C", Scope::Local);
  c.s.reverse_compute_at(copy, {"j_0"});
  EXPECT_EQ(c.s.loops(copy).size(), 4u);
  c.check();
}

TEST(ReverseComputeAt, MovesAReductionThatRunsInFull) {
  RewriteCase c(kSoftmax);
  c.s.reverse_compute_at({"S"}, {"i_1"});
  EXPECT_GOLDEN(c.str());
  c.check();
}

TEST(ReverseComputeAt, ReadsProducersOfOuterLoops) {
  // Y reads S, which one iteration of i_1 completes. It also reads E, of which an inner loop stores
  // one element per iteration.
  RewriteCase c(kSoftmax);
  c.s.reverse_compute_at({"S"}, {"i_1"});
  c.s.reverse_compute_at({"Y"}, {"i_1"});
  c.s.compute_at({"M"}, {"i_1"});
  EXPECT_GOLDEN(c.str());
  c.check();
}

TEST(ReverseComputeAt, AllowsProducersThatAreCompleteBefore) {
  RewriteCase c(R"(
program two(A: f32[8] input, C: f32[8] output) {
  block root() {
    alloc T: f32[8] global
    alloc U: f32[8] global
    for i in 0..8 { block T(v: spatial 8 = i) { T[v] = A[v] + 1.0f32 } }
    for j in 0..8 { block U(u: spatial 8 = j) { U[u] = A[u] * 2.0f32 } }
    for x in 0..8 { block C(w: spatial 8 = x) { C[w] = T[7 - w] + U[w] } }
  }
})");
  c.s.reverse_compute_at({"C"}, {"j"});
  c.check();
}

TEST(ReverseComputeAt, FollowsPackedLayouts) {
  RewriteCase c(R"(
program packed(A: f32[4, 16] input, C: f32[4, 16] output) {
  block root() {
    alloc T: f32[2, 4, 8] global
    for j_0 in 0..2 { for i in 0..4 { for j_1 in 0..8 {
      block T(vi: spatial 4 = i, vj: spatial 16 = j_0 * 8 + j_1) {
        T[floordiv(vj, 8), vi, floormod(vj, 8)] = A[vi, vj] + 1.0f32
      }
    } } }
    for x in 0..4 { for y in 0..16 {
      block C(wi: spatial 4 = x, wj: spatial 16 = y) {
        C[wi, wj] = T[floordiv(wj, 8), wi, floormod(wj, 8)]
      }
    } }
  }
})");
  c.s.reverse_compute_at({"C"}, {"j_0"});
  EXPECT_EQ(*as_int(c.s.node(c.s.loops({"C"})[2]).extent), 8);
  c.check();
}

TEST(ReverseComputeAtRefuses, ALoopAroundAReduction) {
  RewriteCase c(kMatmulBias);
  for (const char* loop : {"k_0", "i_1", "k_1"}) {
    c.refuses([&](Schedule& s) { s.reverse_compute_at({"C"}, {loop}); }, RefusalKind::Dependence,
              "carries the reduction of block 'T', whose result is not complete inside it");
  }
}

TEST(ReverseComputeAtRefuses, NoProducerUnderTheLoop) {
  RewriteCase c(kSoftmax);
  c.refuses([](Schedule& s) { s.reverse_compute_at({"Y"}, {"i"}); }, RefusalKind::Dependence,
            "producer 'E' of block 'Y' stands neither under loop 'i' nor before it");
  RewriteCase before(R"(
program two(A: f32[8] input, C: f32[8] output, D: f32[8] output) {
  block root() {
    alloc T: f32[8] global
    for i in 0..8 { block T(v: spatial 8 = i) { T[v] = A[v] + 1.0f32 } }
    for j in 0..8 { block D(u: spatial 8 = j) { D[u] = A[u] } }
    for x in 0..8 { block C(w: spatial 8 = x) { C[w] = T[w] } }
  }
})");
  before.refuses([](Schedule& s) { s.reverse_compute_at({"C"}, {"j"}); }, RefusalKind::BadStructure,
                 "no producer of block 'C' stands under loop 'j'");
}

TEST(ReverseComputeAtRefuses, ElementsThatOtherIterationsStore) {
  RewriteCase c(R"(
program stencil(A: f32[10] input, C: f32[8] output) {
  block root() {
    alloc T: f32[10] global
    for i in 0..10 { block T(v: spatial 10 = i) { T[v] = A[v] + 1.0f32 } }
    for x in 0..8 { block C(w: spatial 8 = x) { C[w] = T[w] + T[w + 2] } }
  }
})");
  c.refuses([](Schedule& s) { s.reverse_compute_at({"C"}, {"i"}); }, RefusalKind::Dependence,
            "no part of block 'C' can be computed from what one iteration of loop 'i' stores");
}

// The initial value of the sums is a read as well: of S, of which an iteration of r stores one
// element.
TEST(ReverseComputeAtRefuses, AnInitThatReadsWhatOtherIterationsStore) {
  RewriteCase c(R"(
program p(A: f32[4, 3] input, B: f32[4] input, C: f32[4, 4] output) {
  block root() {
    alloc T: f32[4, 3] global
    alloc S: f32[4] global
    for r in 0..4 {
      for k in 0..3 { block T(tr: spatial 4 = r, tk: spatial 3 = k) { T[tr, tk] = A[tr, tk] + 1.0f32 } }
      block S(v: spatial 4 = r) { S[v] = B[v] * 2.0f32 }
    }
    for i in 0..4 { for j in 0..4 { for l in 0..3 {
      block C(vi: spatial 4 = i, vj: spatial 4 = j, vl: reduce 3 = l) {
        init { C[vi, vj] = S[vj] }
        C[vi, vj] = C[vi, vj] + T[vi, vl]
      }
    }}}
  }
})");
  c.refuses([](Schedule& s) { s.reverse_compute_at({"C"}, {"r"}); }, RefusalKind::Dependence,
            "block 'C'");
}

TEST(ReverseComputeAtRefuses, AnIndexThatCannotBeInverted) {
  RewriteCase c(R"(
program gather(A: f32[8] input, C: f32[4] output) {
  block root() {
    alloc T: f32[8] global
    for i in 0..8 { block T(v: spatial 8 = i) { T[v] = A[v] + 1.0f32 } }
    for x in 0..4 { block C(w: spatial 4 = x) { C[w] = T[w * 2] } }
  }
})");
  c.refuses([](Schedule& s) { s.reverse_compute_at({"C"}, {"i"}); }, RefusalKind::Dependence,
            "block 'C' reads dimension 0 of 'T' where other iterations of loop 'i' store it");
}

TEST(ReverseComputeAtRefuses, AGuardedReadOutside) {
  // Iteration 0 of C reads no element of T, so no iteration of `i` could run it.
  RewriteCase c(R"(
program shift(A: f32[8] input, C: f32[8] output) {
  block root() {
    alloc T: f32[8] global
    for i in 0..8 { block T(v: spatial 8 = i) { T[v] = A[v] + 1.0f32 } }
    for x in 0..8 { block C(w: spatial 8 = x) { C[w] = select((1 <= w), T[w - 1], 0.0f32) } }
  }
})");
  c.refuses([](Schedule& s) { s.reverse_compute_at({"C"}, {"i"}); }, RefusalKind::Dependence,
            "block 'C' reads dimension 0 of 'T' where other iterations of loop 'i' store it");
}

TEST(ReverseComputeAtRefuses, TwoReadsThatMeetOnlyOnTheDiagonal) {
  RewriteCase c(R"(
program outer(A: f32[8] input, C: f32[8, 8] output) {
  block root() {
    alloc T: f32[8] global
    for i in 0..8 { block T(v: spatial 8 = i) { T[v] = A[v] + 1.0f32 } }
    for x in 0..8 { for y in 0..8 {
      block C(wx: spatial 8 = x, wy: spatial 8 = y) { C[wx, wy] = T[wx] * T[wy] }
    } }
  }
})");
  c.refuses([](Schedule& s) { s.reverse_compute_at({"C"}, {"i"}); }, RefusalKind::Dependence,
            "no part of block 'C' can be computed from what one iteration of loop 'i' stores");
}

TEST(ReverseComputeAtRefuses, RegionsWithHoles) {
  RewriteCase c(R"(
program strided(A: f32[8] input, C: f32[8] output) {
  block root() {
    alloc T: f32[8] global
    for i_1 in 0..4 { for i_0 in 0..2 {
      block T(v: spatial 8 = i_0 * 4 + i_1) { T[v] = A[v] + 1.0f32 }
    } }
    for x in 0..8 { block C(w: spatial 8 = x) { C[w] = T[w] } }
  }
})");
  c.refuses([](Schedule& s) { s.reverse_compute_at({"C"}, {"i_1"}); }, RefusalKind::Unsupported,
            "block 'T' stores a region of 'T' in one iteration of loop 'i_1' that is no box "
            "without holes");
}

TEST(ReverseComputeAtRefuses, RegionsThatAnInnerPredicateCuts) {
  // The inner split covers 6 values of which 5 run, so an iteration of i_0 stores 10 elements, not
  // 12.
  RewriteCase c(R"(
program cut(A: f32[16] input, C: f32[16] output) {
  block root() {
    alloc T: f32[16] global
    for i_0 in 0..2 { for i_1 in 0..2 { for i_2 in 0..3 { for i_3 in 0..2 {
      block T(v: spatial 16 = i_0 * 10 + i_1 * 6 + i_2 * 2 + i_3) where (i_0 * 10 + i_1 * 6 + i_2 * 2 + i_3 < 16 && i_1 * 3 + i_2 < 5) {
        T[v] = A[v] + 1.0f32
      }
    } } } }
    for x in 0..16 { block C(w: spatial 16 = x) { C[w] = T[w] } }
  }
})");
  c.refuses([](Schedule& s) { s.reverse_compute_at({"C"}, {"i_0"}); }, RefusalKind::Unsupported,
            "block 'T' stores a region of 'T' in one iteration of loop 'i_0' that is no box "
            "without holes");
}

TEST(ReverseComputeAtRefuses, PartOfAReduction) {
  RewriteCase c(kSoftmax);
  c.refuses([](Schedule& s) { s.reverse_compute_at({"S"}, {"j"}); }, RefusalKind::Dependence,
            "reduce iterator 'sk' of block 'S' cannot run in full inside loop 'j'");
}

TEST(ReverseComputeAtRefuses, ABlockUnderTheLoop) {
  RewriteCase c(kMatmulBias);
  c.refuses([](Schedule& s) { s.reverse_compute_at({"C"}, {"j"}); }, RefusalKind::BadStructure,
            "block 'C' already stands under loop 'j'");
}

TEST(ReverseComputeAtRefuses, DifferentPartsOfTwoProducers) {
  RewriteCase c(R"(
program parts(A: f32[8] input, C: f32[8] output) {
  block root() {
    alloc T: f32[8] global
    for i in 0..4 {
      block T(v: spatial 4 = i) { T[v] = A[v] }
      block U(u: spatial 4 = i) { T[u + 4] = A[u] }
    }
    for x in 0..8 { block C(w: spatial 8 = x) { C[w] = T[w] } }
  }
})");
  c.refuses([](Schedule& s) { s.reverse_compute_at({"C"}, {"i"}); }, RefusalKind::Unsupported,
            "blocks 'T' and 'U' store different parts of 'T' in one iteration");
}

}  // namespace
}  // namespace tilewright::test
