#include "schedule/primitives/blocks/inline.h"

#include "tests/golden.h"
#include "tests/schedule/programs.h"
#include "tests/schedule/rewrite_case.h"

namespace tilewright::test {
namespace {

TEST(ComputeInline, PutsAProducerIntoItsConsumer) {
  RewriteCase c(kChainTiled);
  c.s.compute_inline({"T"});
  EXPECT_GOLDEN(c.str());
  c.check();
}

TEST(ComputeInline, PutsAPaddedInputIntoAConvolution) {
  RewriteCase c(kConv);
  c.s.compute_inline({"P"});
  EXPECT_GOLDEN(c.str());
  c.check();
}

TEST(ComputeInline, ServesSeveralConsumers) {
  RewriteCase c(kSoftmax);
  c.s.compute_inline({"E"});
  EXPECT_EQ(c.s.blocks().size(), 3u);
  c.check();
}

TEST(ComputeInline, ProvesBoundsOfTheConsumer) {
  // The middle of the padded row: the select is decided.
  RewriteCase c(R"(
program middle(A: f32[8] input, C: f32[8] output) {
  block root() {
    alloc T: f32[10] global
    for i in 0..10 { block T(v: spatial 10 = i) { T[v] = select((1 <= v) && (v < 9), A[v - 1], 0.0f32) } }
    for x in 0..8 { block C(w: spatial 8 = x) { C[w] = T[w + 1] } }
  }
})");
  c.s.compute_inline({"T"});
  EXPECT_TRUE(c.s.node(Block{"C"}).body.as<StoreNode>()->value.as<LoadNode>());
  c.check();
}

TEST(ComputeInline, AllowsUnitDimensionsAndTransposes) {
  RewriteCase c(R"(
program unit(A: f32[4, 5] input, C: f32[5, 4] output) {
  block root() {
    alloc T: f32[1, 5, 4] global
    for i in 0..4 { for j in 0..5 {
      block T(vi: spatial 4 = i, vj: spatial 5 = j) { T[0, vj, vi] = A[vi, vj] }
    } }
    for x in 0..5 { for y in 0..4 {
      block C(wx: spatial 5 = x, wy: spatial 4 = y) { C[wx, wy] = T[0, wx, wy] }
    } }
  }
})");
  c.s.compute_inline({"T"});
  c.check();
}

TEST(ComputeInlineRefuses, Reductions) {
  RewriteCase c(kSoftmax);
  c.refuses([](Schedule& s) { s.compute_inline({"S"}); }, RefusalKind::BadStructure,
            "block 'S' is a reduction, which cannot be inlined");
}

TEST(ComputeInlineRefuses, Outputs) {
  RewriteCase c(kChain);
  c.refuses([](Schedule& s) { s.compute_inline({"C"}); }, RefusalKind::BadStructure,
            "'C' is a parameter of the program; its values are needed outside");
}

TEST(ComputeInlineRefuses, BlocksThatHoldOthers) {
  RewriteCase c(kChain);
  c.refuses([](Schedule& s) { s.compute_inline({"root"}); }, RefusalKind::BadStructure,
            "block 'root' holds other blocks; a leaf block is needed");
}

TEST(ComputeInlineRefuses, OtherBodies) {
  RewriteCase c(R"(
program guarded(A: f32[4] input, C: f32[4] output) {
  block root() {
    alloc T: f32[4] global
    for i in 0..4 { block T(v: spatial 4 = i) { T[v] = 0.0f32 T[v] = A[v] } }
    for x in 0..4 { block C(w: spatial 4 = x) { C[w] = T[w] } }
  }
})");
  c.refuses([](Schedule& s) { s.compute_inline({"T"}); }, RefusalKind::Unsupported,
            "the body of block 'T' is not one unconditional store");
}

TEST(ComputeInlineRefuses, IndicesThatAreNotIterators) {
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
  c.refuses([](Schedule& s) { s.compute_inline({"T"}); }, RefusalKind::Unsupported,
            "block 'T' writes 'T' at indices that are not its iterators, each once");
}

TEST(ComputeInlineRefuses, APredicateOfAnotherMeaning) {
  RewriteCase c(R"(
program part(A: f32[4] input, C: f32[3] output) {
  block root() {
    alloc T: f32[4] global
    for i in 0..4 { block T(v: spatial 4 = i) where (i < 3) { T[v] = A[v] } }
    for x in 0..3 { block C(w: spatial 3 = x) { C[w] = T[w] } }
  }
})");
  c.refuses([](Schedule& s) { s.compute_inline({"T"}); }, RefusalKind::Unsupported,
            "the predicate of block 'T' does not follow from the extents of its iterators");
}

TEST(ComputeInlineRefuses, OtherWritersAndOwnReads) {
  RewriteCase c(R"(
program twice(A: f32[4] input, C: f32[4] output) {
  block root() {
    alloc T: f32[4] global
    for i in 0..4 { block T(v: spatial 4 = i) { T[v] = A[v] } }
    for j in 0..4 { block U(u: spatial 4 = j) { T[u] = T[u] + A[u] } }
    for x in 0..4 { block C(w: spatial 4 = x) { C[w] = T[w] } }
  }
})");
  c.refuses([](Schedule& s) { s.compute_inline({"T"}); }, RefusalKind::Dependence,
            "block 'U' also writes 'T', the buffer of block 'T'");
  c.refuses([](Schedule& s) { s.compute_inline({"U"}); }, RefusalKind::Dependence,
            "block 'U' reads the buffer 'T' that it writes");
}

TEST(ComputeInlineRefuses, ABlockThatNoneReads) {
  RewriteCase c(R"(
program dead(A: f32[4] input, C: f32[4] output) {
  block root() {
    alloc T: f32[4] global
    for i in 0..4 { block T(v: spatial 4 = i) { T[v] = A[v] } }
    for x in 0..4 { block C(w: spatial 4 = x) { C[w] = A[w] } }
  }
})");
  c.refuses([](Schedule& s) { s.compute_inline({"T"}); }, RefusalKind::BadStructure,
            "no block reads 'T', which block 'T' writes");
}

TEST(ComputeInlineRefuses, PredicatedReads) {
  RewriteCase c(R"(
program predicated(A: f32[4] input, C: f32[4] output) {
  block root() {
    alloc T: f32[4] global
    for i in 0..4 { block T(v: spatial 4 = i) { T[v] = A[v] } }
    for x in 0..4 { block C(w: spatial 4 = x) { C[w] = (T[w] if (w < 3)) } }
  }
})");
  c.refuses([](Schedule& s) { s.compute_inline({"T"}); }, RefusalKind::Unsupported,
            "block 'C' reads 'T' under a predicate");
}

TEST(ReverseComputeInline, PutsAConsumerIntoItsProducer) {
  RewriteCase c(kChain);
  c.s.reverse_compute_inline({"C"});
  EXPECT_GOLDEN(c.str());
  c.check();
}

TEST(ReverseComputeInline, KeepsTheProducersLoopsAndPredicate) {
  RewriteCase c(R"(
program tiles(A: f32[10] input, bias: f32[10] input, C: f32[10] output) {
  block root() {
    alloc T: f32[10] global
    for i_0 in 0..3 { for i_1 in 0..4 {
      block T(v: spatial 10 = i_0 * 4 + i_1) where (i_0 * 4 + i_1 < 10) { T[v] = A[v] + 1.0f32 }
    } }
    for x in 0..10 { block C(w: spatial 10 = x) { C[w] = max(T[w], 0.0f32) + T[w] * bias[w] } }
  }
})");
  c.s.reverse_compute_inline({"C"});
  EXPECT_EQ(c.s.loops({"T"}).size(), 2u);
  c.check();
}

TEST(ReverseComputeInline, ReadsWhatIsStoredBefore) {
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
  c.s.reverse_compute_inline({"C"});
  EXPECT_EQ(c.s.blocks().size(), 2u);
  c.check();
}

TEST(ReverseComputeInlineRefuses, ReductionProducers) {
  RewriteCase c(kMatmulBias);
  c.refuses([](Schedule& s) { s.reverse_compute_inline({"C"}); }, RefusalKind::Unsupported,
            "producer 'T' is a reduction; move block 'C' with reverse_compute_at instead");
}

TEST(ReverseComputeInlineRefuses, BlocksWithNoProducer) {
  RewriteCase c(kChain);
  c.refuses([](Schedule& s) { s.reverse_compute_inline({"T"}); }, RefusalKind::BadStructure,
            "block 'T' reads no intermediate buffer");
}

TEST(ReverseComputeInlineRefuses, OtherReaders) {
  RewriteCase c(R"(
program readers(A: f32[8] input, C: f32[8] output, D: f32[8] output) {
  block root() {
    alloc T: f32[8] global
    for i in 0..8 { block T(v: spatial 8 = i) { T[v] = A[v] + 1.0f32 } }
    for x in 0..8 { block C(w: spatial 8 = x) { C[w] = T[w] } }
    for y in 0..8 { block D(z: spatial 8 = y) { D[z] = T[z] } }
  }
})");
  c.refuses([](Schedule& s) { s.reverse_compute_inline({"C"}); }, RefusalKind::Dependence,
            "block 'D' also reads 'T'");
}

TEST(ReverseComputeInlineRefuses, OutputsOfTheProducer) {
  RewriteCase c(R"(
program outputs(A: f32[8] input, T: f32[8] output, C: f32[8] output) {
  block root() {
    for i in 0..8 { block T(v: spatial 8 = i) { T[v] = A[v] + 1.0f32 } }
    for x in 0..8 { block C(w: spatial 8 = x) { C[w] = T[w] } }
  }
})");
  c.refuses([](Schedule& s) { s.reverse_compute_inline({"C"}); }, RefusalKind::BadStructure,
            "'T' is a parameter of the program; its values are needed outside");
}

TEST(ReverseComputeInlineRefuses, ReadsElsewhere) {
  const char* text = R"(
program reads(A: f32[8] input, C: f32[8] output) {
  block root() {
    alloc T: f32[8] global
    for i in 0..8 { block T(v: spatial 8 = i) { T[v] = A[v] + 1.0f32 } }
    for x in 0..8 { block C(w: spatial 8 = x) { C[w] = T[7 - w] } }
  }
})";
  RewriteCase c(text);
  c.refuses([](Schedule& s) { s.reverse_compute_inline({"C"}); }, RefusalKind::Unsupported,
            "block 'C' reads 'T' at indices that are not its iterators, each once");
}

TEST(ReverseComputeInlineRefuses, ReadsInTwoOrders) {
  RewriteCase c(R"(
program orders(A: f32[4, 4] input, C: f32[4, 4] output) {
  block root() {
    alloc T: f32[4, 4] global
    for i in 0..4 { for j in 0..4 {
      block T(vi: spatial 4 = i, vj: spatial 4 = j) { T[vi, vj] = A[vi, vj] }
    } }
    for x in 0..4 { for y in 0..4 {
      block C(wx: spatial 4 = x, wy: spatial 4 = y) { C[wx, wy] = T[wx, wy] + T[wy, wx] }
    } }
  }
})");
  c.refuses([](Schedule& s) { s.reverse_compute_inline({"C"}); }, RefusalKind::Unsupported,
            "block 'C' reads 'T' at different indices");
}

TEST(ReverseComputeInlineRefuses, PartOfTheProducersBuffer) {
  RewriteCase c(R"(
program part(A: f32[8] input, C: f32[6] output) {
  block root() {
    alloc T: f32[8] global
    for i in 0..8 { block T(v: spatial 8 = i) { T[v] = A[v] + 1.0f32 } }
    for x in 0..6 { block C(w: spatial 6 = x) { C[w] = T[w] } }
  }
})");
  c.refuses([](Schedule& s) { s.reverse_compute_inline({"C"}); }, RefusalKind::Unsupported,
            "block 'C' does not iterate over all of dimension 0 of 'T'");
}

TEST(ReverseComputeInlineRefuses, OtherReadsOfTheSameLoop) {
  RewriteCase c(R"(
program shared(A: f32[8] input, C: f32[8] output) {
  block root() {
    alloc T: f32[8] global
    alloc U: f32[8] global
    for i in 0..8 {
      block T(v: spatial 8 = i) { T[v] = A[v] + 1.0f32 }
      block U(u: spatial 8 = i) { U[u] = A[u] * 2.0f32 }
    }
    for x in 0..8 { block C(w: spatial 8 = x) { C[w] = T[7 - w] + U[w] } }
  }
})");
  c.refuses([](Schedule& s) { s.reverse_compute_inline({"C"}); }, RefusalKind::Dependence,
            "block 'T', which block 'C' also reads, shares loop 'i' with producer 'U'");
}

}  // namespace
}  // namespace tilewright::test
