// reindex: operands in the order of a block's iterators.
#include "ir/interpreter/interpreter.h"
#include "tests/golden.h"
#include "tests/schedule/rewrite_case.h"

namespace tilewright::test {
namespace {

constexpr char kWindow[] = R"(
program p(X: f32[9, 4] input, W: f32[3, 4] weight, Y: f32[4] output) {
  block root() {
    for o in 0..4 { for r in 0..3 { for c in 0..4 {
      block Y(vo: spatial 4 = o, vr: reduce 3 = r, vc: reduce 4 = c) {
        init { Y[vo] = 0.0f32 }
        Y[vo] = Y[vo] + X[vo * 2 + vr, vc] * W[vr, vc]
      }
    }}}
  }
})";

// C[j, i] += A[i, k] * B[k, j], whose result is read later.
constexpr char kTransposed[] = R"(
program p(A: f32[4, 6] input, B: f32[6, 5] weight, D: f32[5, 4] output) {
  block root() {
    alloc C: f32[5, 4] global
    for i in 0..4 { for j in 0..5 { for k in 0..6 {
      block C(vi: spatial 4 = i, vj: spatial 5 = j, vk: reduce 6 = k) {
        init { C[vj, vi] = 0.0f32 }
        C[vj, vi] = C[vj, vi] + A[vi, vk] * B[vk, vj]
      }
    }}}
    for x in 0..5 { for y in 0..4 {
      block D(vx: spatial 5 = x, vy: spatial 4 = y) { D[vx, vy] = C[vx, vy] + 1.0f32 }
    }}
  }
})";

TEST(Reindex, GathersAWindow) {
  RewriteCase c(kWindow);
  EXPECT_EQ(c.s.reindex({"Y"}, "X"), Block{"X_reindex"});
  EXPECT_GOLDEN(c.str());
  c.check();
}

TEST(Reindex, ComputesTheResultInTheOrderOfTheIterators) {
  RewriteCase c(kTransposed);
  EXPECT_EQ(c.s.reindex({"C"}, "C"), Block{"C_reindex"});
  EXPECT_GOLDEN(c.str());
  c.check();
  c.s.compute_inline({"C_reindex"});
  c.check();
}

TEST(Reindex, AWeightCanBeReindexedAtLoad) {
  RewriteCase c(kTransposed);
  c.s.reindex({"C"}, "B");
  c.s.precompute({"B_reindex"});
  EXPECT_EQ(c.s.module().packs.size(), 1u);
  c.check();
}

TEST(Reindex, RefusesWhatItDoesNotFind) {
  RewriteCase c(kWindow);
  c.refuses([](Schedule& s) { s.reindex({"Y"}, "Z"); }, RefusalKind::NotFound,
            "block 'Y' does not access 'Z'");
}

TEST(Reindex, RefusesSeveralPlaces) {
  RewriteCase c(R"(
program p(A: f32[9] input, Y: f32[4] output) {
  block root() {
    for o in 0..4 { block Y(vo: spatial 4 = o) { Y[vo] = A[vo] + A[vo + 4] }}
  }
})");
  c.refuses([](Schedule& s) { s.reindex({"Y"}, "A"); }, RefusalKind::Unsupported,
            "block 'Y' accesses 'A' at several places, or under a predicate");
}

TEST(Reindex, RefusesPlacesOutsideTheBuffer) {
  RewriteCase c(R"(
program p(A: f32[4] input, Y: f32[6] output) {
  block root() {
    for o in 0..6 {
      block Y(vo: spatial 6 = o) { Y[vo] = select(vo < 4, A[vo], 0.0f32) }
    }
  }
})");
  c.refuses([](Schedule& s) { s.reindex({"Y"}, "A"); }, RefusalKind::Unsupported,
            "dimension 0 of 'A' is read at vo, which is not known to lie within its extent");
}

// A copy that reads no more than the block does may read at indices from memory.
TEST(Reindex, CopiesWhatIsReadAtLookedUpPlaces) {
  RewriteCase c(R"(
program p(A: f32[8] input, R: u8[4] input, B: f32[4, 3] input, Y: f32[3] output) {
  block root() {
    for j in 0..3 {
      for k in 0..4 {
        block Y(vj: spatial 3 = j, vk: reduce 4 = k) {
          init { Y[vj] = 0.0f32 }
          Y[vj] = Y[vj] + A[vk * 2 + cast<index>(R[vk])] * B[vk, vj]
        }
      }
    }
  }
})");
  c.s.reindex({"Y"}, "A");
  EXPECT_TRUE(replays(c.before, c.s));
  NdArrays want = {{"A", NdArray::random(ElemType::f32, {8}, 1)},
                   {"R", NdArray::zeros(ElemType::u8, {4})},
                   {"B", NdArray::random(ElemType::f32, {4, 3}, 2)}};
  want.at("R").data = {0, 1, 1, 0};
  NdArrays got = want;
  interpret(c.before, want);
  interpret(c.s.program(), got);
  EXPECT_EQ(got.at("Y").data, want.at("Y").data);
}

TEST(Reindex, RefusesAResultThatIsBegunElsewhere) {
  RewriteCase c(R"(
program p(A: f32[4] input, Y: f32[4] output) {
  block root() {
    for i in 0..4 { block zero(vi: spatial 4 = i) { Y[vi] = 0.0f32 }}
    for o in 0..4 { block Y(vo: spatial 4 = o) { Y[vo] = Y[vo] + A[vo] }}
  }
})");
  c.refuses([](Schedule& s) { s.reindex({"Y"}, "Y"); }, RefusalKind::Dependence,
            "block 'zero' also writes 'Y'");
  RewriteCase begun(R"(
program p(A: f32[4] input, Y: f32[4] output) {
  block root() {
    for o in 0..4 { block Y(vo: spatial 4 = o) { Y[vo] = Y[vo] + A[vo] }}
  }
})");
  begun.refuses([](Schedule& s) { s.reindex({"Y"}, "Y"); }, RefusalKind::BadStructure,
                "block 'Y' updates 'Y', whose init stands elsewhere");
  RewriteCase scheduled(kWindow);
  scheduled.s.split({"o"}, {2, 2});
  scheduled.refuses([](Schedule& s) { s.reindex({"Y"}, "X"); }, RefusalKind::BadStructure,
                    "reindex its operands before it is scheduled");
}

TEST(Reindex, RefusesElementsThatIterationsShare) {
  RewriteCase c(R"(
program p(A: f32[8] input, Y: f32[4] output) {
  block root() {
    for o in 0..8 { block Y(vo: spatial 8 = o) { Y[floordiv(vo, 2)] = A[vo] }}
  }
})");
  c.refuses([](Schedule& s) { s.reindex({"Y"}, "Y"); }, RefusalKind::Unsupported,
            "iterations of block 'Y' may write the same element of 'Y'");
}

}  // namespace
}  // namespace tilewright::test
