#include "schedule/primitives/layout/layout.h"

#include "tests/golden.h"
#include "tests/schedule/programs.h"
#include "tests/schedule/rewrite_case.h"

namespace tilewright::test {
namespace {

IndexMap map_layout(const std::string& text) { return IndexMap::parse(text); }

TEST(SetScope, MovesABufferToAnotherMemory) {
  RewriteCase c(kChain);
  c.s.set_scope("T", Scope::Local);
  EXPECT_GOLDEN(c.str());
  c.check();
}

TEST(SetScopeRefuses, ParametersAndUnknownBuffers) {
  RewriteCase c(kChain);
  c.refuses([](Schedule& s) { s.set_scope("A", Scope::Local); }, RefusalKind::BadStructure,
            "'A' is a parameter of the program; only an intermediate buffer has a scope", false);
  c.refuses([](Schedule& s) { s.set_scope("Z", Scope::Local); }, RefusalKind::NotFound,
            "no buffer 'Z'; there are: A, C, T", false);
}

TEST(TransformLayout, PacksColumnsIntoPaddedBlocks) {
  RewriteCase c(kMatmulBias);
  c.s.transform_layout("T", map_layout("(i, j) -> (floordiv(j, 8), i, floormod(j, 8))"));
  EXPECT_GOLDEN(c.str());
  c.check();
}

TEST(TransformLayout, GoesWithGuardedReads) {
  RewriteCase c(kConv);
  c.s.transform_layout("P", map_layout("(h, w, c) -> (c, h, w)"));
  c.s.compute_at({"P"}, {"h_0"});
  c.check();
}

TEST(TransformLayoutRefuses, Parameters) {
  RewriteCase c(kMatmulBias);
  c.refuses([](Schedule& s) { s.transform_layout("B", map_layout("(i, j) -> (j, i)")); },
            RefusalKind::BadStructure,
            "'B' is a parameter of the program; prepack lays out a weight", false);
}

TEST(TransformLayoutRefuses, MapsOfAnotherRankOrWithoutAnInverse) {
  RewriteCase c(kChain);
  c.refuses([](Schedule& s) { s.transform_layout("T", map_layout("(i) -> (i)")); },
            RefusalKind::BadArgument, "the map (i) -> (i) has 1 inputs; buffer 'T' has 2", false);
  c.refuses([](Schedule& s) { s.transform_layout("T", map_layout("(i, j) -> (i)")); },
            RefusalKind::BadArgument, "the map (i, j) -> (i) cannot be inverted on buffer 'T'",
            false);
}

TEST(TransformLayoutRefuses, PredicatedAccesses) {
  RewriteCase c(R"(
program predicated(A: f32[4] input, C: f32[4] output) {
  block root() {
    alloc T: f32[4] global
    for i in 0..4 { block T(v: spatial 4 = i) { T[v] = A[v] } }
    for x in 0..4 { block C(w: spatial 4 = x) { C[w] = (T[w] if (w < 3)) } }
  }
})");
  c.refuses(
      [](Schedule& s) {
        s.transform_layout("T", map_layout("(i) -> (floordiv(i, 2), floormod(i, 2))"));
      },
      RefusalKind::Unsupported, "block 'C' accesses 'T' under a predicate or as a vector");
}

TEST(TransformBlockLayout, MakesTheLoopsOfTheImage) {
  RewriteCase c(kChain);
  c.s.transform_block_layout({"C"}, map_layout("(i, j) -> (floordiv(j, 4), i, floormod(j, 4))"));
  EXPECT_GOLDEN(c.str());
  c.check();
  EXPECT_EQ(c.s.loops({"C"}).size(), 3u);
}

TEST(TransformBlockLayout, LeavesPaddingOut) {
  RewriteCase c(kChain);
  c.s.transform_block_layout({"T"}, map_layout("(i, j) -> (floordiv(i, 4), j, floormod(i, 4))"));
  EXPECT_GOLDEN(c.str());
  c.check();
}

TEST(TransformBlockLayout, FusesIterators) {
  RewriteCase c(kChain);
  c.s.transform_block_layout({"C"}, map_layout("(i, j) -> (i * 12 + j)"));
  EXPECT_EQ(c.s.loops({"C"}).size(), 1u);
  c.check();
}

// A dimension of 1 to 3 has one piece of 4. Its loop must have that extent: with another one it
// would seem to repeat the reduction around it.
TEST(TransformBlockLayout, OnePieceOfAShortDimensionIsOneIteration) {
  RewriteCase c(R"(
program sums(X: f32[n, 6] input, Y: f32[n] output) dims(n: 1..3) {
  block root() {
    for i in 0..n {
      for k in 0..6 {
        block Y(vi: spatial n = i, vk: reduce 6 = k) {
          init { Y[vi] = 0.0f32 }
          Y[vi] = (Y[vi] + X[vi, vk])
        }
      }
    }
  }
})");
  c.s.transform_block_layout({"Y"}, map_layout("(i, k) -> (k, floordiv(i, 4), floormod(i, 4))"));
  EXPECT_TRUE(is_int(c.s.node(Block{"Y"}).iters[1].extent, 1));
  EXPECT_TRUE(same_meaning(c.before, c.s.module(), {{"n", 2}}));
}

// The same for a buffer.
TEST(TransformLayout, OnePieceOfAShortDimensionIsOne) {
  RewriteCase c(R"(
program sums(X: f32[n] input, Y: f32[n] output) dims(n: 1..3) {
  block root() {
    alloc T: f32[n] global
    for i in 0..n { block T(v: spatial n = i) { T[v] = X[v] } }
    for j in 0..n { block Y(w: spatial n = j) { Y[w] = T[w] } }
  }
})");
  c.s.transform_layout("T", map_layout("(i) -> (floordiv(i, 4), floormod(i, 4))"));
  EXPECT_TRUE(is_int(c.s.node(Block{"root"}).allocs[0]->shape[0], 1));
  EXPECT_TRUE(same_meaning(c.before, c.s.module(), {{"n", 2}}));
}

TEST(TransformBlockLayout, TilesAReduction) {
  RewriteCase c(kMatmulBias);
  c.s.transform_block_layout({"T"},
                             map_layout("(i, j, k) -> (i, floordiv(k, 4), j, floormod(k, 4))"));
  EXPECT_TRUE(c.s.node(Block{"T"}).iters[1].kind == IterKind::Reduce);
  EXPECT_TRUE(c.s.node(Block{"T"}).iters[2].kind == IterKind::Spatial);
  c.check();
}

TEST(TransformBlockLayoutRefuses, OtherBlocksUnderItsLoops) {
  RewriteCase c(kChainTiled);
  c.s.compute_at({"T"}, {"i_0"});
  c.refuses([](Schedule& s) { s.transform_block_layout({"C"}, map_layout("(i, j) -> (j, i)")); },
            RefusalKind::BadStructure, "loop 'i_0' holds other blocks beside 'C'");
}

TEST(TransformBlockLayoutRefuses, BlocksThatHoldOthers) {
  RewriteCase c(kChain);
  c.refuses([](Schedule& s) { s.transform_block_layout({"root"}, map_layout("(i) -> (i)")); },
            RefusalKind::BadStructure, "block 'root' holds other blocks; a leaf block is needed");
}

TEST(TransformBlockLayoutRefuses, MapsThatDoNotFit) {
  RewriteCase c(kMatmulBias);
  c.refuses([](Schedule& s) { s.transform_block_layout({"T"}, map_layout("(i, j) -> (j, i)")); },
            RefusalKind::BadArgument, "has 2 inputs; the iterators of block 'T' has 3");
  c.refuses([](Schedule& s) { s.transform_block_layout({"T"}, map_layout("(i, j, k) -> (i, j)")); },
            RefusalKind::BadArgument, "cannot be inverted on the iterators of block 'T'");
  c.refuses(
      [](Schedule& s) {
        s.transform_block_layout({"T"}, map_layout("(i, j, k) -> (i, j * 6 + k)"));
      },
      RefusalKind::BadArgument,
      "output 1 of the map (i, j, k) -> (i, ((j * 6) + k)) mixes spatial");
}

TEST(TransformBlockLayoutRefuses, APredicateOfAnotherMeaning) {
  RewriteCase c(R"(
program part(A: f32[4] input, C: f32[3] output) {
  block root() {
    alloc T: f32[4] global
    for i in 0..4 { block T(v: spatial 4 = i) where (i < 3) { T[v] = A[v] } }
    for x in 0..3 { block C(w: spatial 3 = x) { C[w] = T[w] } }
  }
})");
  c.refuses([](Schedule& s) { s.transform_block_layout({"T"}, map_layout("(i) -> (i)")); },
            RefusalKind::Unsupported,
            "the predicate of block 'T' does not follow from the extents of its iterators");
}

}  // namespace
}  // namespace tilewright::test
